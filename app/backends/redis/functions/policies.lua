-- Policies: what a group does by itself with entries that fail, and how dead letters come back.
--
-- A dead letter leaves the pending entries in the same step in which it is put into the stream
-- `outbox`, beside its stream. A gateway relays it to the dead letter stream, which may be in
-- another slot. A record of the outbox has the fields
--   to      the name of the dead letter stream
--   fields  names and values of the dead letter (MessagePack, an array of strings)
--
-- An operation by which entries become dead letters has the name of its stream in the argument
-- `stream`.

local policies = {}

do
  -- The names of the fields that a dead letter has after the fields of the entry.
  local ORIGIN = { '_stream', '_id', '_group', '_deliveries', '_reason' }

  -- The name of the last field of a dead letter whose last error is known.
  local ERROR = '_error'

  -- Dead letters that one operation makes, and pending entries that it looks at for them.
  local DEAD_MAX, LOOKED_AT_MAX = 50, 500

  -- Names and values of an entry that a function can append. Lua has room for about 8,000 words.
  local PARTS_MAX = 7900

  -- How long it is remembered which dead letters were relayed or sent back.
  local REMEMBERED_MS = 86400000

  -- The policy of a group without one.
  policies.NONE = { delays = {}, is_spent = function() return false end }

  -- The policy of a group. For operations that change the state.
  -- A stream is not its own dead letter stream, whatever the policy says: it may have got that name
  -- later.
  function policies.of(call, group)
    local kept = groups.kept(call, group)
    if not next(kept) then
      return policies.NONE
    end
    local policy = {
      claim_idle_ms = tonumber(kept.claim_idle_ms),
      max_pending = tonumber(kept.max_pending),
      paused_until_ms = tonumber(kept.paused_until_ms),
      rate_per_s = tonumber(kept.rate_per_s),
      rate_burst = tonumber(kept.rate_burst or kept.rate_per_s),
      filters = kept.filters,
      has_turns = kept.has_turns ~= nil,
      on_expiry = kept.on_expiry == '1',
      key_field = kept.key_field and string.sub(kept.key_field, 2),
      key_pending_max = tonumber(kept.key_pending_max or 1),
      key_ahead_max = tonumber(kept.key_ahead_max or 10000),
      delays = {},
    }
    for delay_ms in string.gmatch(kept.backoff_ms or '', '%d+') do
      policy.delays[#policy.delays + 1] = tonumber(delay_ms)
    end
    local dead_letters = kept.dead_letter_stream and string.sub(kept.dead_letter_stream, 2)
    if kept.max_deliveries and dead_letters ~= call.args.stream then
      policy.max_deliveries, policy.dead_letters = kept.max_deliveries, dead_letters
    end
    -- Whether an entry with this delivery count is not delivered again.
    function policy.is_spent(count)
      local most = policy.max_deliveries
      return most ~= nil and compare_numbers(count, most) >= 0
    end
    return policy
  end

  -- How long an entry is delayed that has failed after so many deliveries, in ms.
  function policies.delay_ms(policy, count)
    local delays = policy.delays
    if #delays == 0 then
      return 0
    end
    return delays[math.min(math.max(tonumber(count), 1), #delays)]
  end

  -- How far ahead of now the rate of a group is used, in ms: see `engine/state/pace.py`.
  local function used_ms(call, group)
    local used = tonumber(redis.call('GET', call.side('rate', group)) or 0) or 0
    return math.max(used - now_ms(), 0)
  end

  -- How many entries a policy lets be delivered now; nil: any number. And in how many ms it is one
  -- or more, if it is none.
  function policies.allowance(call, group, policy)
    local paused_ms = policy.paused_until_ms and policy.paused_until_ms - now_ms() or 0
    if not policy.rate_per_s then
      return paused_ms > 0 and 0 or nil, paused_ms
    end
    local gap_ms = 1000 / policy.rate_per_s
    local left_ms = policy.rate_burst * gap_ms - used_ms(call, group)
    if paused_ms > 0 or left_ms < gap_ms - 1e-6 then
      return 0, math.ceil(math.max(paused_ms, gap_ms - left_ms, 1))
    end
    return math.floor(left_ms / gap_ms + 1e-6), 0
  end

  -- Note that so many entries were delivered.
  function policies.use_rate(call, group, policy, count)
    if policy.rate_per_s and count > 0 then
      local ahead_ms = used_ms(call, group) + count * 1000 / policy.rate_per_s
      redis.call(
        'SET', call.side('rate', group), string.format('%.3f', now_ms() + ahead_ms),
        'PX', decimal(math.ceil(ahead_ms))
      )
    end
  end

  -- Whether an entry was a dead letter of this group before, and came back to its stream. It would
  -- circulate and grow. `fields` are names and values in turn.
  local function was_dead_before(fields, stream, group)
    local last = #fields
    while last >= 2 * #ORIGIN do
      last = fields[last - 1] == ERROR and last - 2 or last
      local first = last - 2 * #ORIGIN
      for at, name in ipairs(ORIGIN) do
        if first < 0 or fields[first + 2 * at - 1] ~= name then
          return false
        end
      end
      if fields[first + 2] == stream and fields[first + 6] == group then
        return true
      end
      last = first
    end
    return false
  end

  -- Make a dead letter of a pending entry, unless it was one before. One that is gone from the
  -- stream only stops being pending.
  -- reason: nil if it was delivered too often.
  -- count: how often it was delivered, where its row has been given another count since.
  -- Reply: whether the entry is pending no more.
  function policies.dead_letter(call, group, policy, row, reason, count)
    local entry = entry_at(call, row.id)
    if entry then
      local fields, stream = entry[2], call.args.stream
      if #fields > PARTS_MAX - 2 * #ORIGIN - 2 or was_dead_before(fields, stream, group) then
        return false
      end
      local is_fatal = row.count == COUNT_MAX
      count = is_fatal and (count or COUNT_MAX) or row.count
      local values = {
        stream, row.id, group, count == COUNT_MAX and '' or count,
        is_fatal and 'fatal' or reason or 'max_deliveries',
      }
      for at, name in ipairs(ORIGIN) do
        fields[#fields + 1], fields[#fields + 2] = name, values[at]
      end
      local text = pending.error_of(call, group, row.id)
      if text then
        fields[#fields + 1], fields[#fields + 2] = ERROR, text
      end
      local packed = cmsgpack.pack(fields)
      redis.call('XADD', call.side('outbox'), '*', 'to', policy.dead_letters, 'fields', packed)
    end
    pending.settle(call, group, { row.id })
    return true
  end

  -- Settle a pending entry whose deadline is over. It becomes a dead letter if the policy says so.
  function policies.expire(call, group, policy, row)
    local becomes_dead = policy.on_expiry and policy.dead_letters
    if not (becomes_dead and policies.dead_letter(call, group, policy, row, 'expired')) then
      pending.settle(call, group, { row.id })
    end
  end

  -- Make dead letters of entries that were delivered too often, and settle expired ones.
  -- rows: pending entries that nobody owns or that are idle for long enough.
  -- Reply: how many were made.
  local function dead_letters(call, group, policy, rows)
    local count, looked_at = 0, 0
    for _, row in ipairs(rows) do
      if looked_at == DEAD_MAX then
        break
      end
      if policy.is_spent(row.count) then
        looked_at = looked_at + 1
        if policies.dead_letter(call, group, policy, row) then
          count = count + 1
        end
      elseif timing.is_over(call, row.id) then
        looked_at, count = looked_at + 1, count + 1
        policies.expire(call, group, policy, row)
      end
    end
    return count
  end

  -- Settle what may be delivered now, and was delivered too often or is expired.
  -- idle_ms: an entry that a consumer owns may be delivered after this idle time, or that of the
  --   policy if it is shorter; nil: that of the policy counts.
  -- Reply: how many were made.
  function policies.dead_letters_before(call, group, policy, idle_ms)
    if not policy.max_deliveries and not timing.exists(call) then
      return 0
    end
    local count = dead_letters(call, group, policy, pending.due(call, group, LOOKED_AT_MAX))
    if policy.claim_idle_ms and (not idle_ms or policy.claim_idle_ms < idle_ms) then
      idle_ms = policy.claim_idle_ms
    end
    if not idle_ms then
      return count
    end
    local idle = pending.search(call, group, idle_ms, nil, LOOKED_AT_MAX)
    return count + dead_letters(call, group, policy, idle)
  end

  -- How many dead letters wait to be relayed.
  function policies.outbox_count(call)
    return redis.call('XLEN', call.side('outbox'))
  end

  -- Make dead letters as time passes.
  -- Reply: whether there may be more; whether the policy acts as time passes.
  operations.dead_letters = function(call)
    local group = call.args.group
    if groups.missing(call, group) then
      return { 0, 0 }
    end
    groups.check(call, group)
    local kept = groups.kept(call, group)
    if not (kept.max_deliveries or kept.consumer_ttl_ms or timing.exists(call)) then
      return { 0, 0 }
    end
    local count = policies.dead_letters_before(call, group, policies.of(call, group))
    return { count < DEAD_MAX and 0 or 1, 1 }
  end

  -- Settle entries that nobody holds and whose deadline is over, in all groups.
  -- Reply: whether there may be more; whether entries have times.
  operations.expire = function(call)
    if redis.call('EXISTS', call.key) == 0 or not timing.exists(call) then
      return { 0, 0 }
    end
    local infos = trims.groups_of(call)
    local limit = math.max(math.floor(LOOKED_AT_MAX / math.max(#infos, 1)), 1)
    limit = math.min(limit, DEAD_MAX)
    local ids = redis.call(
      'ZRANGEBYSCORE', call.side('expiring'), '-inf', decimal(now_ms()), 'LIMIT', 0, limit
    )
    for _, info in ipairs(#ids > 0 and infos or {}) do
      groups.check(call, info.name)
      local policy = policies.of(call, info.name)
      for _, id in ipairs(ids) do
        local row = pending.row(call, info.name, id)
        if row and not row.owner then
          policies.expire(call, info.name, policy, row)
        end
      end
    end
    if #ids > 0 then
      redis.call('ZREM', call.side('expiring'), unpack(ids))
    end
    return { #ids > 0 and 1 or 0, 1 }
  end

  -- The names and values of a dead letter (MessagePack); nil if they cannot be those of an entry.
  local function fields_of_dead_letter(packed)
    local is_read, fields = pcall(cmsgpack.unpack, packed)
    if not is_read or type(fields) ~= 'table' or #fields == 0 or #fields % 2 == 1
      or #fields > PARTS_MAX then
      return nil
    end
    for _, part in ipairs(fields) do
      if type(part) ~= 'string' then
        return nil
      end
    end
    return fields
  end

  -- Append dead letters to this stream: pairs of an id in the outbox of another stream, which has
  -- the key `source`, and the packed fields. Those that were appended before are skipped: they come
  -- in the order of the outbox. Reply: how many are none.
  operations.relay = function(call)
    local source, key = call.args.source, call.side('relayed')
    local relayed = redis.call('HGET', key, source) or MIN_ID
    if not is_id(relayed) then
      return fault('WrongType', key, 'it has no ids')
    end
    local foreign_count = 0
    for _, dead_letter in ipairs(call.args.dead_letters) do
      local id, fields = dead_letter[1], fields_of_dead_letter(dead_letter[2])
      if not fields then
        foreign_count = foreign_count + 1
      elseif compare_ids(id, relayed) > 0 then
        local appended = appends.append(call, true, { '*', unpack(fields) }, 1)
        if type(appended) == 'table' then
          return appended
        end
        relayed = id
        redis.call('HSET', key, source, relayed)
      end
    end
    redis.call('PEXPIRE', key, REMEMBERED_MS)
    return foreign_count
  end

  -- Send dead letters back to this stream: each with its `id` in the stream that has the key
  -- `source`, its `origin`, which is its id here, and `fields`.
  -- Reply: for each whether it was released, and its id here.
  -- An entry that is gone is appended as a new one. A repeat changes nothing.
  operations.redrive = function(call)
    local group, source = groups.require(call), call.args.source
    groups.check(call, group, true)
    local policy, reply = policies.of(call, group), {}
    for _, dead_letter in ipairs(call.args.dead_letters) do
      local id = dead_letter.origin
      local key = call.side('redriven', group .. ':' .. source .. ':' .. dead_letter.id)
      local known, entry = redis.call('GET', key), entry_at(call, id)
      local is_released = entry and not timing.is_over(call, id)
      if known then
        is_released, id = string.sub(known, 1, 1) == '1', string.sub(known, 2)
      elseif is_released then
        local key = policy.key_field and turns.key_in(policy, entry[2])
        if key and not pending.row(call, group, id) then
          pending.hold(call, group, id, key)
        else
          pending.release(call, group, { { id, '0' } })
        end
      else
        id = appends.append(call, false, { '*', unpack(dead_letter.fields) }, 1)
        if type(id) == 'table' then
          return id
        end
      end
      local flag = is_released and 1 or 0
      redis.call('SET', key, flag .. id, 'PX', REMEMBERED_MS)
      reply[#reply + 1] = { flag, id }
    end
    return reply
  end

  -- The dead letter stream of a group. Reply: its name; nil: there is none.
  operations.dead_letter_stream = function(call)
    local key = call.side('group', groups.require(call))
    local name = redis.call('HGET', key, 'dead_letter_stream')
    return name and string.sub(name, 2)
  end
end
