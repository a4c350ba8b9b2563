-- Dumps: a stream as one value, as DUMP and RESTORE have it; how much memory it takes.

do
  -- Reply with the payload of the stream. Arguments: how many bytes of memory it may take.
  operations.dump = function(call)
    if not stream_info(call) then
      return fault('StreamNotFound')
    end
    if redis.call('MEMORY', 'USAGE', call.key) > tonumber(call.args[1]) then
      return fault('StreamTooLarge', call.args[1])
    end
    return redis.call('DUMP', call.key)
  end

  -- Put the stream of a payload in the place of what is there. Reply: whether it is there now.
  local function restore(call, payload, ttl_ms, at_ms)
    if at_ms ~= '' then
      redis.call('RESTORE', call.key, at_ms, payload, 'REPLACE', 'ABSTTL')
    else
      redis.call('RESTORE', call.key, ttl_ms == '' and 0 or ttl_ms, payload, 'REPLACE')
    end
    streams.drop_side_keys(call)
    return redis.call('EXISTS', call.key) == 1
  end

  -- Make the stream of a payload, in which `RELEASED` owns what nobody owns. Arguments: the payload,
  -- whether a stream that exists is deleted (1), in how many milliseconds it expires ('' is never)
  -- or when ('' is never); then for each group with entries that nobody owns its name, how many
  -- there are, and their ids.
  operations.restore = function(call)
    local args = call.args
    if stream_info(call) and args[2] ~= '1' then
      return fault('StreamExists')
    end
    if not restore(call, args[1], args[3], args[4]) then
      return 1  -- its time is over
    end
    streams.begin(call)
    streams.expire_alike(call, call.side('meta'))
    local at = 5
    while at <= #args do
      local group, last = args[at], at + 1 + tonumber(args[at + 1])
      groups.mark(call, group)
      for place = at + 2, last do
        redis.call('ZADD', call.side('released', group), 0, args[place])
      end
      streams.expire_alike(call, call.side('released', group))
      at = last + 1
    end
    return 1
  end

  -- Reply with how many bytes of memory the stream takes. Arguments: how many values to look at
  -- ('' is as many as the server does by itself).
  operations.measure = function(call)
    if not stream_info(call) then
      return fault('StreamNotFound')
    end
    if call.args[1] == '' then
      return redis.call('MEMORY', 'USAGE', call.key)
    end
    return redis.call('MEMORY', 'USAGE', call.key, 'SAMPLES', call.args[1])
  end
end
