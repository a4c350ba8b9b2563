-- Streams: describe, create, change, close, delete; and the side keys that go with them.

local streams = {}

-- These are described in timing.lua and attributes.lua, and used here.
local timing, attributes = {}, {}

-- The kinds of side keys of a stream and of a group. `outbox` is missing: what is in it has left
-- the stream, and is still to be relayed.
local KINDS = {
  'meta', 'writers', 'writer_times', 'producers', 'claims', 'relayed', 'scheduled', 'turning',
  'due', 'deadlines', 'expiring', 'attributes',
}
local GROUP_KINDS = {
  'group', 'released', 'errors', 'oldest', 'rate', 'keyed', 'taken', 'held', 'ready', 'turn_walk',
  'later',
}
local PRODUCER_KINDS = { 'keys', 'key_times' }

-- The kinds that expire by themselves.
local EXPIRES = {
  producers = true, keys = true, key_times = true, claims = true, oldest = true, rate = true,
}

-- Before the name of a group, in a field of `meta`: the group has side keys.
local GROUP_MARK = 'group:'

-- Keys removed by one command. Lua has room for about 8,000 arguments.
local KEYS_AT_ONCE = 1000

do
  -- The side keys that a stream may have, as pairs of a kind and the name of a group or producer.
  function streams.side_names(call)
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

  -- Remove all side keys of a stream: it is gone, or about to go.
  function streams.drop_side_keys(call)
    local names = streams.side_names(call)
    for first = 1, #names, KEYS_AT_ONCE do
      local keys = {}
      for at = first, math.min(first + KEYS_AT_ONCE - 1, #names) do
        keys[#keys + 1] = call.side(unpack(names[at]))
      end
      redis.call('UNLINK', unpack(keys))
    end
  end

  -- Let a side key that was just created expire when its stream does.
  function streams.expire_alike(call, side_key)
    local at_ms = redis.call('PEXPIRETIME', call.key)
    if at_ms > 0 then
      redis.call('PEXPIREAT', side_key, decimal(at_ms))
    end
  end

  -- Put something under a side key, which may be new: a command, and its words behind the key.
  function streams.put(call, side_key, command, ...)
    local is_new = redis.call('EXISTS', side_key) == 0
    redis.call(command, side_key, ...)
    if is_new then
      streams.expire_alike(call, side_key)
    end
  end

  -- Begin a stream that does not exist: nothing is left of an earlier one. An `epoch` of nil is a
  -- new one.
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
    local known, is_stale = streams.known(call, last_id, 'epoch', 'closed_at_ms', unpack(CONFIG))
    local trimmed, epoch = known[1] or MIN_ID, known[2] or false
    if is_kept and not epoch then
      if is_stale then
        streams.drop_side_keys(call)
      end
      epoch = now_us()
      redis.call('HSET', call.side('meta'), 'epoch', epoch)
      streams.expire_alike(call, call.side('meta'))
    end
    local config = settings.config_of(known, 3)
    return {
      epoch, settings.in_order(CONFIG, config), info.length, info['radix-tree-keys'],
      info['recorded-first-entry-id'], last_id, info['max-deleted-entry-id'], trimmed,
      info['entries-added'], info.groups, known[3] or false, timing.count(call),
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
    attributes.check(call, asked.attributes)
    streams.begin(call, asked.epoch)
    streams.create_empty(call)
    attributes.change(call, asked.attributes)
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

  -- How long a stream is to live while it is touched.
  local TOUCHED_MS = 86400000

  -- Change the stream without an effect, so that the server tells all gateways of it.
  local function touch(call)
    local at_ms = redis.call('PEXPIRETIME', call.key)
    if at_ms > 0 then
      redis.call('PEXPIREAT', call.key, decimal(at_ms))
    else
      redis.call('PEXPIRE', call.key, TOUCHED_MS)
      redis.call('PERSIST', call.key)
    end
  end

  -- Close the stream, if it is open, and wake whoever reads it: a change of `meta` would not.
  -- at_ms: when that was, if it was elsewhere; nil: now.
  -- Returns the epoch, and when the stream was closed.
  function streams.close(call, at_ms)
    local present, meta = described(call, true), call.side('meta')
    at_ms = at_ms or decimal(now_ms())
    if redis.call('HSETNX', meta, 'closed_at_ms', at_ms) == 1 then
      touch(call)
    end
    return present[1], redis.call('HGET', meta, 'closed_at_ms')
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

  -- Raise a fault if a policy of a group names a stream out of `reach` of the new name. Prefixes
  -- are looked for by their lengths, as there may be many of them.
  function streams.check_reach(call)
    local reach = call.args.reach
    if not reach then
      return
    end
    local names, prefixes, lengths = { [call.args.to] = true }, {}, {}
    for _, name in ipairs(reach.names) do
      names[name] = true
    end
    for _, prefix in ipairs(reach.prefixes) do
      prefixes[prefix], lengths[#prefix] = true, true
    end
    for _, pair in ipairs(streams.side_names(call)) do
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
          raise('OutOfReach', name)
        end
      end
    end
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
      decimal(info['entries-added']), decimal(redis.call('PEXPIRETIME', call.key)),
      present[11] or '',
    }, '/')
  end

  -- Reply with the revision of the stream, whether it exists or not.
  operations.revision = revision

  -- Change a side key that is watched unless the stream has this `revision`: EXEC then does
  -- nothing.
  operations.if_unchanged = function(call)
    local is_stream, present = pcall(revision, call)
    if not is_stream or present ~= call.args.revision then
      redis.call('SET', call.side('changed'), '')
      redis.call('DEL', call.side('changed'))
    end
    return 1
  end
end
