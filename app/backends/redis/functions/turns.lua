-- Turns: the order among pending entries of the same key, as `engine/state/turns.py` says.
--
-- Four sorted sets of a group have what is pending and has a key:
--   keyed  an id and its key, in the order of ids
--   taken  a key and the id of an entry that has its turn
--   held   a key and the id of an entry behind it. Nobody gets it: in `released` it is never due
--   ready  keys that have room and held entries, by the time of the first of these
-- and one more has what is delayed before it waits, and nobody waits for:
--   later  an id, by the time at which it is due
-- An id is written with 20 digits for each of its numbers, and a key behind its length, so that texts
-- are in order. The set `turning` of a stream has the names of its groups with turns.
--
-- Another client may acknowledge or delete an entry past the gateway. So who has a turn is looked at
-- again when another entry would have to wait for it, and for some held entries with every read.

local turns = {}

-- These are described in pending.lua and groups.lua, and used here.
local pending, groups = {}, {}

do
  -- The time at which a held entry is due: never.
  local HELD_SCORE = '4611686018427387904'
  turns.NEVER = HELD_SCORE

  -- Members of a set that one call looks at, at most, where any number may be concerned.
  local LOOKED_AT_MAX = 500

  -- Bytes of a key that are kept; of a longer one a digest is.
  local KEY_BYTES_MAX = 64

  -- Held entries whose key is looked at again with every read.
  local CHECKED = 2

  local DIGITS = 41  -- of an id

  local function padded(id)
    local ms, seq = split_id(id)
    return string.rep('0', 20 - #ms) .. ms .. '-' .. string.rep('0', 20 - #seq) .. seq
  end

  local function plain(text)
    local ms, seq = split_id(text)
    ms, seq = string.gsub(ms, '^0+', ''), string.gsub(seq, '^0+', '')
    return (ms == '' and '0' or ms) .. '-' .. (seq == '' and '0' or seq)
  end

  local function prefix(key)
    return #key .. ':' .. key
  end

  -- The member for an entry in a set that is in the order of keys.
  local function member_of(key, id)
    return prefix(key) .. padded(id)
  end

  -- The key in such a member.
  local function key_in_member(member)
    return string.match(member, '^%d+:(.*)' .. string.rep('.', DIGITS) .. '$')
  end

  -- The members of a set that are of a key, from the first on.
  local function of_key(call, kind, group, key, limit)
    local first = prefix(key)
    local members = redis.call(
      'ZRANGEBYLEX', call.side(kind, group), '[' .. first, '(' .. first .. ':', 'LIMIT', 0, limit
    )
    local ids = {}
    for at, member in ipairs(members) do
      ids[at] = string.sub(member, #first + 1)
    end
    return ids
  end

  local function taken_count(call, group, key)
    local first = prefix(key)
    return redis.call(
      'ZLEXCOUNT', call.side('taken', group), '[' .. first, '(' .. first .. ':'
    )
  end

  -- Whether entries of the group have keys.
  local function exist(call, group)
    return redis.call('EXISTS', call.side('keyed', group)) == 1
  end

  -- How many entries of a key have their turn at once; nil: any number.
  function turns.at_once(call, group)
    call.at_once = call.at_once or {}
    if call.at_once[group] == nil then
      local rules = redis.call('HMGET', call.side('group', group), 'key_field', 'key_pending_max')
      call.at_once[group] = rules[1] and tonumber(rules[2] or 1) or false
    end
    return call.at_once[group] or nil
  end

  -- Note whether a key has room and held entries.
  local function check(call, group, key)
    local at_once = turns.at_once(call, group)
    local head = of_key(call, 'held', group, key, 1)[1]
    if head and (not at_once or taken_count(call, group, key) < at_once) then
      local ms = split_id(plain(head))
      if redis.call('ZADD', call.side('ready', group), ms, prefix(key)) == 1 then
        groups.wake(call, group)
      end
    else
      redis.call('ZREM', call.side('ready', group), prefix(key))
    end
  end

  -- The key of a pending entry; nil if it has none.
  local function key_of(call, group, id)
    local first = padded(id)
    local member = redis.call(
      'ZRANGEBYLEX', call.side('keyed', group), '[' .. first, '[' .. first .. '\255', 'LIMIT', 0, 1
    )[1]
    return member and string.sub(member, DIGITS + 1)
  end

  -- Note the key of an entry, and put the entry into the set of a kind.
  local function note(call, kind, group, id, key, score, member)
    streams.put(call, call.side('keyed', group), 'ZADD', 0, padded(id) .. key)
    streams.put(call, call.side(kind, group), 'ZADD', score or 0, member or member_of(key, id))
    if redis.call('SADD', call.side('turning'), group) == 1 then
      streams.expire_alike(call, call.side('turning'))
      redis.call('HSET', call.side('group', group), 'has_turns', 1)
    end
  end

  -- Give a turn to an entry that is delivered for the first time.
  function turns.take(call, group, id, key)
    if not key_of(call, group, id) then
      note(call, 'taken', group, id, key)
    end
  end

  -- Hold an entry back, which is pending without an owner.
  -- due_ms: it is delayed until then; nil: it waits for its turn at once.
  function turns.hold(call, group, id, key, due_ms)
    streams.put(call, call.side('released', group), 'ZADD', HELD_SCORE, id)
    if due_ms then
      return note(call, 'later', group, id, key, decimal(due_ms), id)
    end
    note(call, 'held', group, id, key)
    check(call, group, key)
  end

  local function join(call, group, id, key)
    if redis.call('ZREM', call.side('later', group), id) == 1 then
      note(call, 'held', group, id, key)
      check(call, group, key)
    end
  end

  -- Let entries that are due wait for their turn. Reply: whether there may be more.
  function turns.join(call, group)
    local later, now = call.side('later', group), decimal(now_ms())
    local ids = redis.call('ZRANGEBYSCORE', later, '-inf', now, 'LIMIT', 0, LOOKED_AT_MAX)
    for _, id in ipairs(ids) do
      local key = key_of(call, group, id)
      if key then
        join(call, group, id, key)
      else
        redis.call('ZREM', later, id)
      end
    end
    return #ids == LOOKED_AT_MAX
  end

  -- In how many ms the next delayed entry is due; nil if none is.
  function turns.next_due_in(call, group)
    local first = redis.call('ZRANGE', call.side('later', group), 0, 0, 'WITHSCORES')
    return first[2] and math.max(tonumber(first[2]) - now_ms(), 0) or nil
  end

  -- In how many ms a delayed entry is due; nil if it is not delayed.
  function turns.due_in(call, group, id)
    local due_ms = redis.call('ZSCORE', call.side('later', group), id)
    return due_ms and math.max(tonumber(due_ms) - now_ms(), 0) or nil
  end

  -- Whether a score in `released` is that of a held entry.
  function turns.is_held(score)
    return tonumber(score) >= tonumber(HELD_SCORE)
  end

  -- Give a held entry its turn; nothing happens if it is not held.
  function turns.begin(call, group, id)
    local key = exist(call, group) and key_of(call, group, id)
    if key then
      join(call, group, id, key)
    end
    if key and redis.call('ZREM', call.side('held', group), member_of(key, id)) == 1 then
      redis.call('ZADD', call.side('taken', group), 0, member_of(key, id))
      check(call, group, key)
    end
  end

  local function finish(call, group, id, key)
    local member = member_of(key, id)
    redis.call('ZREM', call.side('keyed', group), padded(id) .. key)
    redis.call('ZREM', call.side('taken', group), member)
    redis.call('ZREM', call.side('held', group), member)
    redis.call('ZREM', call.side('later', group), id)
    check(call, group, key)
  end

  -- Forget entries that are not pending any more.
  function turns.finish(call, group, ids)
    if not exist(call, group) then
      return
    end
    for _, id in ipairs(ids) do
      local key = key_of(call, group, id)
      if key then
        finish(call, group, id, key)
      end
    end
  end

  -- End the turn of an entry that is gone from the stream. One that is held is pending no more.
  local function drop(call, group, id, key)
    if redis.call('ZSCORE', call.side('held', group), member_of(key, id))
      or redis.call('ZSCORE', call.side('later', group), id) then
      pending.settle(call, group, { id })
    else
      finish(call, group, id, key)
    end
  end

  -- End the turns of entries that were deleted.
  function turns.deleted(call, ids)
    for _, group in ipairs(redis.call('SMEMBERS', call.side('turning'))) do
      for _, id in ipairs(ids) do
        local key = key_of(call, group, id)
        if key then
          drop(call, group, id, key)
        end
      end
    end
  end

  -- End the turns of a key that are over without the gateway's doing. A call looks at a bounded number
  -- of entries; the others are looked at by those to come.
  local function recheck(call, group, key)
    local left = call.rechecks_left or LOOKED_AT_MAX
    local ids = of_key(call, 'taken', group, key, left)
    call.rechecks_left = left - #ids
    for _, text in ipairs(ids) do
      local id = plain(text)
      if #redis.call('XPENDING', call.key, group, id, id, 1) == 0 or not entry_at(call, id) then
        drop(call, group, id, key)
      end
    end
    check(call, group, key)
  end

  -- End the turns of entries that were trimmed, look again at some keys, and at all of them in turn
  -- after the policy was changed.
  -- Reply: whether there is more to look at.
  function turns.tidy(call, group)
    local first = redis.call('XRANGE', call.key, '-', '+', 'COUNT', 1)[1]
    local gone = redis.call(
      'ZRANGEBYLEX', call.side('keyed', group), '-', first and '(' .. padded(first[1]) or '+',
      'LIMIT', 0, LOOKED_AT_MAX
    )
    for _, member in ipairs(gone) do
      drop(call, group, plain(string.sub(member, 1, DIGITS)), string.sub(member, DIGITS + 1))
    end
    for _, member in ipairs(redis.call('ZRANDMEMBER', call.side('held', group), CHECKED)) do
      recheck(call, group, key_in_member(member))
    end
    local place = redis.call('GET', call.side('turn_walk', group))
    if not place then
      return #gone == LOOKED_AT_MAX
    end
    local page = redis.call(
      'ZRANGEBYLEX', call.side('held', group), '(' .. place, '+', 'LIMIT', 0, LOOKED_AT_MAX
    )
    for _, member in ipairs(page) do
      check(call, group, key_in_member(member))
    end
    if #page < LOOKED_AT_MAX then
      redis.call('DEL', call.side('turn_walk', group))
      return false
    end
    redis.call('SET', call.side('turn_walk', group), page[#page], 'KEEPTTL')
    return true
  end

  -- Look at all keys again, as another number of turns holds.
  function turns.change(call, group)
    call.at_once = nil
    if exist(call, group) then
      local key = call.side('turn_walk', group)
      redis.call('SET', key, '\0')
      streams.expire_alike(call, key)
    end
  end

  -- Held entries whose turn has come, at most so many, by id.
  function turns.ready(call, group, limit)
    local ids, at_once = {}, turns.at_once(call, group)
    for _, text in ipairs(redis.call('ZRANGE', call.side('ready', group), 0, limit - 1)) do
      local key = string.match(text, '^%d+:(.*)$')
      -- There may be no room, if the bound was lowered and the key not looked at since.
      local room = at_once and math.max(at_once - taken_count(call, group, key), 0) or limit
      for _, id in ipairs(of_key(call, 'held', group, key, math.min(room, limit))) do
        ids[#ids + 1] = id
      end
      if #ids > LOOKED_AT_MAX then
        break
      end
    end
    table.sort(ids)
    for at, text in ipairs(ids) do
      ids[at] = at <= limit and plain(text) or nil
    end
    return ids
  end

  -- The first entry whose turn a held entry waits for; nil if it is not held.
  function turns.before(call, group, id)
    local key = exist(call, group) and key_of(call, group, id)
    if not key or not redis.call('ZSCORE', call.side('held', group), member_of(key, id)) then
      return nil
    end
    local first = of_key(call, 'taken', group, key, 1)[1]
    return first and plain(first)
  end

  -- The key among the fields of an entry, or its digest if it is long; nil if there is none.
  function turns.key_in(policy, fields)
    local key
    for at = 1, #fields, 2 do
      key = fields[at] == policy.key_field and fields[at + 1] or key
    end
    return key and (#key <= KEY_BYTES_MAX and key or redis.sha1hex(key))
  end

  -- Tells which new entries of a read may be delivered: a function of an id and the fields of an
  -- entry. It replies 'deliver', 'hold', 'pass' or 'stop', and the key.
  -- takes_turns: what is delivered is pending, and so has the turn of its key.
  function turns.gate(call, group, policy, takes_turns)
    local left = policy.key_ahead_max - redis.call('ZCARD', call.side('held', group))
    local room, behind = {}, {}  -- by key: the turns that are free; whether the read holds some

    local function has_turn(key)
      if not room[key] then
        local is_held = #of_key(call, 'held', group, key, 1) > 0
        room[key] = is_held and 0 or policy.key_pending_max - taken_count(call, group, key)
      end
      return not behind[key] and room[key] > 0
    end

    return function(id, fields)
      local key = turns.key_in(policy, fields)
      if not key then
        return 'deliver'
      end
      if not room[key] and not has_turn(key) then
        recheck(call, group, key)
        room[key] = nil
      end
      if has_turn(key) then
        room[key] = room[key] - (takes_turns and 1 or 0)
        return 'deliver', key
      end
      if #redis.call('XPENDING', call.key, group, id, id, 1) > 0 then
        return 'pass'  -- the position was set back: it is pending already
      end
      if left <= 0 then
        return 'stop'
      end
      left, behind[key] = left - 1, true
      return 'hold', key
    end
  end
end
