-- Attributes: small values with names beside a stream, in a hash. What they take stands in `meta`.
-- The table is declared in streams.lua.

do
  -- What an attribute takes, besides its name and its value.
  local ATTRIBUTE_BYTES = 180

  local function bytes_of(name, value)
    return value and ATTRIBUTE_BYTES + #name + #value or 0
  end

  -- Whether an earlier stream of this name has left what is there: another client has deleted it.
  -- info: of the stream.
  local function is_stale(call, info)
    return select(2, streams.known(call, info['last-generated-id']))
  end

  -- Raise a fault if attributes are not as a change expects them, or would be too many.
  -- change: nil if nothing is to change.
  -- info: of the stream; nil if there is none.
  function attributes.check(call, change, info)
    if not change then
      return
    end
    if info and is_stale(call, info) then
      streams.drop_side_keys(call)
    end
    local key = call.side('attributes')
    check_types(call, { 'attributes', 'meta' })
    local function there(name)
      return info and redis.call('HGET', key, name)
    end
    for at = 1, #change.expected, 2 do
      if there(change.expected[at]) ~= change.expected[at + 1] then
        raise('StreamsChanged')
      end
    end
    for _, name in ipairs(change.absent) do
      if there(name) then
        raise('StreamsChanged')
      end
    end
    local before_count = info and redis.call('HLEN', key) or 0
    local size = info and tonumber(meta_of(call, 'attributes_bytes')[1] or 0) or 0
    local count, more = before_count, 0
    for at = 1, #change.values, 2 do
      local name, value = change.values[at], change.values[at + 1]
      local before = there(name)
      count = count + (before and 0 or 1)
      more = more + bytes_of(name, value) - bytes_of(name, before)
    end
    for _, name in ipairs(change.gone) do
      local before = there(name)
      count = count - (before and 1 or 0)
      more = more - bytes_of(name, before)
    end
    if count > before_count and count > change.count_max then
      raise('LimitReached', 'attributes of this stream', change.count_max)
    end
    if more > 0 and size + more > change.bytes_max then
      raise('LimitReached', 'bytes of attributes of this stream', change.bytes_max)
    end
    change.more = more
  end

  -- Change attributes of a stream that exists by now. `check` was called before.
  function attributes.change(call, change)
    if not change or #change.values + #change.gone == 0 then
      return
    end
    local key, meta = call.side('attributes'), call.side('meta')
    for at = 1, #change.values, 2 do
      redis.call('HSET', key, change.values[at], change.values[at + 1])
    end
    for _, name in ipairs(change.gone) do
      redis.call('HDEL', key, name)
    end
    redis.call('HINCRBY', meta, 'attributes_bytes', decimal(change.more))
    streams.expire_alike(call, key)
    streams.expire_alike(call, meta)
  end

  -- Reply: names and values in turn. Without `names`, all.
  operations.GetAttributes = function(call)
    if is_stale(call, require_info(call)) then
      return {}
    end
    local key, names = call.side('attributes'), call.args.names
    if not names then
      return redis.call('HGETALL', key)
    end
    local found = {}
    for _, name in ipairs(names) do
      local value = redis.call('HGET', key, name)
      if value then
        found[#found + 1], found[#found + 2] = name, value
      end
    end
    return found
  end

  operations.ChangeAttributes = function(call)
    local change, info = call.args.change, require_info(call)
    attributes.check(call, change, info)
    attributes.change(call, change)
    return 1
  end
end
