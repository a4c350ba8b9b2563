-- Streams: describe, create, change, rename, delete; and the side keys that go with them.

local streams = {}

-- The kinds of side keys of a stream and of a group. `outbox` is missing: what is in it has left
-- the stream, and is still to be relayed.
local KINDS = { 'meta', 'writers', 'writer_times', 'producers', 'claims', 'relayed' }
local GROUP_KINDS = { 'group', 'released', 'errors', 'oldest' }
local PRODUCER_KINDS = { 'keys', 'key_times' }

-- The kinds that expire by themselves.
local EXPIRES = { producers = true, keys = true, key_times = true, claims = true, oldest = true }

-- Before the name of a group, in a field of `meta`: the group has side keys.
local GROUP_MARK = 'group:'

-- How long a new name is kept for housekeeping.
local RENAMED_KEPT_MS = 86400000

-- Keys removed, or renamed, by one command. Lua has room for about 8,000 arguments.
local KEYS_AT_ONCE = 1000

do
  -- The side keys that a stream may have, as pairs of a kind and the name of a group or producer.
  local function side_names(call)
    local names = {}
    for _, kind in ipairs(KINDS) do
      names[#names + 1] = { kind }
    end
    for _, field in ipairs(redis.call('HKEYS', call.side('meta'))) do
      if string.sub(field, 1, #GROUP_MARK) == GROUP_MARK then
        for _, kind in ipairs(GROUP_KINDS) do
          names[#names + 1] = { kind, string.sub(field, #GROUP_MARK + 1) }
        end
      end
    end
    for _, producer in ipairs(redis.call('ZRANGE', call.side('producers'), 0, -1)) do
      for _, kind in ipairs(PRODUCER_KINDS) do
        names[#names + 1] = { kind, producer }
      end
    end
    return names
  end

  -- Note that a group has side keys, so that they go with the stream.
  function streams.note_group(call, group)
    redis.call('HSET', call.side('meta'), GROUP_MARK .. group, '')
  end

  -- Remove all side keys of a stream: it is gone, or about to go.
  function streams.drop_side_keys(call)
    local names = side_names(call)
    for first = 1, #names, KEYS_AT_ONCE do
      local keys = {}
      for at = first, math.min(first + KEYS_AT_ONCE - 1, #names) do
        keys[#keys + 1] = call.side(unpack(names[at]))
      end
      redis.call('UNLINK', unpack(keys))
    end
  end

  -- Let the side keys expire when the stream does, or never.
  local function expire_side_keys(call)
    local at_ms = redis.call('PEXPIRETIME', call.key)
    for _, pair in ipairs(side_names(call)) do
      local kind, name = unpack(pair)
      if not EXPIRES[kind] then
        if at_ms > 0 then
          redis.call('PEXPIREAT', call.side(kind, name), string.format('%.0f', at_ms))
        else
          redis.call('PERSIST', call.side(kind, name))
        end
      end
    end
  end

  -- Let a side key that was just created expire when its stream does.
  function streams.expire_alike(call, side_key)
    local at_ms = redis.call('PEXPIRETIME', call.key)
    if at_ms > 0 then
      redis.call('PEXPIREAT', side_key, string.format('%.0f', at_ms))
    end
  end

  -- Begin a stream that does not exist: nothing is left of an earlier one. An `epoch` of nil is a new
  -- one.
  function streams.begin(call, epoch)
    streams.drop_side_keys(call)
    redis.call('HSET', call.side('meta'), 'epoch', epoch or now_us())
  end

  -- Create a stream without entries.
  function streams.create_empty(call)
    redis.call('XGROUP', 'CREATE', call.key, 'new', '0-0', 'MKSTREAM')
    redis.call('XGROUP', 'DESTROY', call.key, 'new')
  end

  -- What `meta` has in some fields. If the last id of the stream is below what was trimmed, another
  -- client has deleted the stream and created it again: then nothing is known.
  function streams.known(call, last_id, ...)
    local known = meta_of(call, 'trimmed', ...)
    if known[1] and compare_ids(last_id, known[1]) < 0 then
      return {}, true
    end
    return known, false
  end

  -- Describe a stream; nil if there is none. With `is_kept`, side keys of an earlier stream are
  -- dropped, and a stream without an epoch gets one.
  local function described(call, is_kept)
    local info = stream_info(call)
    if not info then
      return nil
    end
    local last_id = info['last-generated-id']
    local known, is_stale = streams.known(call, last_id, 'epoch', unpack(CONFIG))
    local trimmed, epoch = known[1] or MIN_ID, known[2] or false
    if is_kept and not epoch then
      if is_stale then
        streams.drop_side_keys(call)
      end
      epoch = now_us()
      redis.call('HSET', call.side('meta'), 'epoch', epoch)
      streams.expire_alike(call, call.side('meta'))
    end
    local config = settings.config_of(known, 2)
    return {
      epoch, settings.in_order(CONFIG, config), info.length, info['radix-tree-keys'],
      info['recorded-first-entry-id'], last_id, info['max-deleted-entry-id'], trimmed,
      info['entries-added'], info.groups,
    }, config
  end

  -- Describe the stream. The epoch is nil if it has none yet.
  operations.describe = function(call)
    return described(call, false) or fault('StreamNotFound')
  end

  -- The same; a stream that has no epoch yet gets one.
  operations.identify = function(call)
    return described(call, true) or fault('StreamNotFound')
  end

  -- Reply: whether the stream is new, and its description.
  operations.CreateStream = function(call)
    local asked = call.args
    local present, config = described(call, true)
    if present then
      local _, changed = settings.patched(CONFIG, config, asked.config)
      if next(changed) then
        return fault('StreamExists')
      end
      return { 0, present }
    end
    streams.begin(call, asked.epoch)
    streams.create_empty(call)
    local _, changed = settings.patched(CONFIG, {}, asked.config)
    settings.keep(call.side('meta'), changed)
    return { 1, (described(call, true)) }
  end

  -- The retention takes effect with `retain`. Reply: the description.
  operations.UpdateStream = function(call)
    check_types(call, { 'producers' })
    local present, before = described(call, true)
    if not present then
      return fault('StreamNotFound')
    end
    local after, changed = settings.patched(CONFIG, before, call.args.config)
    settings.keep(call.side('meta'), changed)
    local window_ms, keys_max = idempotency.bounds(before)
    local window_ms_after, keys_max_after = idempotency.bounds(after)
    if window_ms ~= window_ms_after or keys_max ~= keys_max_after then
      idempotency.forget_all(call)
    end
    return (described(call, true))
  end

  -- Reply: whether the stream existed.
  operations.DeleteStream = function(call)
    local wrong = mismatch(call.key, 'stream')
    if wrong then
      return wrong
    end
    streams.drop_side_keys(call)
    return redis.call('UNLINK', call.key)
  end

  -- The error if a policy of a group names a stream out of reach; nil if none does. It is looked for
  -- by the lengths of the prefixes, as there may be many of them.
  -- asked: `to` is the new name of the stream; `reach` has the names and prefixes of the streams that
  --   policies may name there, nil: all.
  local function out_of_reach(call, asked)
    if not asked.reach then
      return nil
    end
    local names, prefixes, lengths = { [asked.to] = true }, {}, {}
    for _, name in ipairs(asked.reach.names) do
      names[name] = true
    end
    for _, prefix in ipairs(asked.reach.prefixes) do
      prefixes[prefix], lengths[#prefix] = true, true
    end
    for _, pair in ipairs(side_names(call)) do
      local kind, group = unpack(pair)
      local named = kind == 'group'
        and redis.call('HGET', call.side(kind, group), 'dead_letter_stream')
      if named and named ~= '' then
        local name = string.sub(named, 2)
        local is_allowed = names[name]
        for length in pairs(lengths) do
          is_allowed = is_allowed or prefixes[string.sub(name, 1, length)]
        end
        if not is_allowed then
          return fault('OutOfReach', name)
        end
      end
    end
    return nil
  end

  -- Rename the stream to the second one. If housekeeping may know the old name, it finds the new one
  -- in `renamed`. Reply: whether the name was free or given up.
  operations.RenameStream = function(call)
    if not stream_info(call) then
      return fault('StreamNotFound')
    end
    local target = call.streams[2]
    if stream_info(target) and not call.args.replace then
      return 0
    end
    if target.key == call.key then
      return 1
    end
    local refusal = out_of_reach(call, call.args)
    if refusal then
      return refusal
    end
    local names = side_names(call)
    streams.drop_side_keys(target)
    local is_governed = redis.call('HGET', call.side('meta'), 'max_age_ms') ~= false
    for _, pair in ipairs(names) do
      local kind, name = unpack(pair)
      if redis.call('EXISTS', call.side(kind, name)) == 1 then
        redis.call('RENAME', call.side(kind, name), target.side(kind, name))
        is_governed = is_governed or kind == 'group'
      end
    end
    redis.call('RENAME', call.key, target.key)
    if is_governed then
      redis.call('SET', call.side('renamed'), target.key, 'PX', RENAMED_KEPT_MS)
    end
    return 1
  end

  -- The kinds of side keys that a copy of a stream does not have: what was done with the stream.
  local NOT_COPIED = {
    writers = true, writer_times = true, claims = true, relayed = true, oldest = true,
  }

  -- Copy the stream to the second one. Reply: whether its name was free or given up.
  operations.CopyStream = function(call)
    if not stream_info(call) then
      return fault('StreamNotFound')
    end
    local target = call.streams[2]
    local is_there = stream_info(target)  -- an error if it is something else
    if target.key == call.key or (is_there and not call.args.replace) then
      return 0
    end
    local refusal = out_of_reach(call, call.args)
    if refusal then
      return refusal
    end
    local names = side_names(call)
    streams.begin(target)
    redis.call('COPY', call.key, target.key, 'REPLACE')
    local epoch = redis.call('HGET', target.side('meta'), 'epoch')
    for _, pair in ipairs(names) do
      local kind, name = unpack(pair)
      if not NOT_COPIED[kind] then
        redis.call('COPY', call.side(kind, name), target.side(kind, name), 'REPLACE')
      end
    end
    redis.call('HSET', target.side('meta'), 'epoch', epoch)
    streams.expire_alike(target, target.side('meta'))
    return 1
  end

  -- Reply: whether the time was set.
  operations.ExpireStream = function(call)
    local asked = call.args
    if not stream_info(call) then
      return fault('StreamNotFound')
    end
    side_names(call)  -- which fails if it cannot be known what expires with the stream
    local words = { 'PEXPIRE', call.key, asked.ttl_ms }
    if asked.at_ms then
      words = { 'PEXPIREAT', call.key, asked.at_ms }
    end
    if asked.if_none then
      words[#words + 1] = 'NX'
    else
      words[#words + 1] = asked.if_set and 'XX' or nil
      words[#words + 1] = asked.if_later and 'GT' or asked.if_earlier and 'LT' or nil
    end
    local is_set = redis.call(unpack(words))
    if is_set == 1 then
      if redis.call('EXISTS', call.key) == 0 then
        streams.drop_side_keys(call)
      else
        expire_side_keys(call)
      end
    end
    return is_set
  end

  -- Reply: whether the stream had an expiry.
  operations.PersistStream = function(call)
    if not stream_info(call) then
      return fault('StreamNotFound')
    end
    side_names(call)
    local is_removed = redis.call('PERSIST', call.key)
    if is_removed == 1 then
      expire_side_keys(call)
    end
    return is_removed
  end

  operations.SetCounters = function(call)
    local last_id, added, deleted =
      call.args.last_id, call.args.entries_added, call.args.max_deleted_id
    local info = stream_info(call)
    if not info then
      return fault('StreamNotFound')
    end
    if compare_ids(last_id, info['max-deleted-entry-id']) < 0 then
      return fault('CounterTooLow', 'last_id', 'max_deleted_id')
    end
    local newest = info['last-entry']
    if newest and compare_ids(last_id, newest[1]) < 0 then
      return fault('CounterTooLow', 'last_id', 'newest')
    end
    if added and info.length > tonumber(added) then
      return fault('CounterTooLow', 'entries_added', 'length')
    end
    if compare_ids(last_id, deleted) < 0 then
      return fault('CounterTooLow', 'last_id', 'max_deleted_id')
    end
    local known = streams.known(call, info['last-generated-id'])
    if known[1] and compare_ids(last_id, known[1]) < 0 then
      redis.call('HSET', call.side('meta'), 'trimmed', last_id)
    end
    if deleted == MIN_ID then
      deleted = info['max-deleted-entry-id']
    end
    redis.call(
      'XSETID', call.key, last_id,
      'ENTRIESADDED', added or string.format('%.0f', info['entries-added']), 'MAXDELETEDID', deleted
    )
    return 1
  end

  -- What tells a stream from what it was before: its epoch, and facts of which one changes with
  -- every change of its entries. Counters grow, so no later state has all of them again.
  local function revision(call)
    local present = described(call, true)
    if not present then
      return ''
    end
    local epoch, info = present[1], stream_info(call)
    local newest = info['last-entry']
    return table.concat({
      epoch, info.length, newest and newest[1] or '', info['recorded-first-entry-id'],
      info['last-generated-id'], info['max-deleted-entry-id'],
      string.format('%.0f', info['entries-added']),
      string.format('%.0f', redis.call('PEXPIRETIME', call.key)),
    }, '/')
  end

  -- Reply with the revision of the stream, whether it exists or not.
  operations.revision = function(call)
    return revision(call)
  end

  -- Change a side key that is watched unless the stream has this `revision`: EXEC then does nothing.
  operations.if_unchanged = function(call)
    local is_stream, present = pcall(revision, call)
    if not is_stream or present ~= call.args.revision then
      redis.call('SET', call.side('changed'), '')
      redis.call('DEL', call.side('changed'))
    end
    return 1
  end
end
