-- Dumps: a stream as one value, as DUMP, RESTORE and COPY have it; how much memory it takes.

do
  -- Reply: the payload of the stream.
  operations.DumpStream = function(call)
    require_info(call)
    if redis.call('MEMORY', 'USAGE', call.key) > call.args.size_bytes_max then
      return fault('StreamTooLarge', call.args.size_bytes_max)
    end
    return redis.call('DUMP', call.key)
  end

  -- Make the stream of a payload, which is a word, and in which `RELEASED` owns what nobody owns:
  -- `released` has the `group` and the `ids` of these entries.
  operations.RestoreStream = function(call)
    if stream_info(call) and not call.args.replace then
      return fault('StreamExists')
    end
    local payload, at_ms = call.words[call.first_word], call.args.expires_at_ms
    local options = at_ms and { 'REPLACE', 'ABSTTL' } or { 'REPLACE' }
    local expiry = at_ms or call.args.ttl_ms or 0
    redis.call('RESTORE', call.key, expiry, payload, unpack(options))
    streams.drop_side_keys(call)
    if redis.call('EXISTS', call.key) == 0 then
      return 1  -- its time is over
    end
    streams.begin(call)
    streams.expire_alike(call, call.side('meta'))
    for _, each in ipairs(call.args.released) do
      local released = call.side('released', each.group)
      groups.mark(call, each.group)
      for _, id in ipairs(each.ids) do
        redis.call('ZADD', released, 0, id)
      end
      streams.expire_alike(call, released)
    end
    return 1
  end

  -- The kinds of side keys that a copy of a stream does not have: what was done with the stream.
  local NOT_COPIED = {
    writers = true, writer_times = true, claims = true, relayed = true, oldest = true,
    rate = true, scheduled = true,
  }

  -- Copy the stream to the second one. Reply: whether its name was free or given up.
  operations.CopyStream = function(call)
    require_info(call)
    local target = call.streams[2]
    local is_there = stream_info(target)  -- an error if it is something else
    if target.key == call.key or (is_there and not call.args.replace) then
      return 0
    end
    streams.check_reach(call)
    local names = streams.side_names(call)
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
    redis.call('HDEL', target.side('meta'), 'closed_at_ms')
    streams.expire_alike(target, target.side('meta'))
    return 1
  end

  -- Reply: how many bytes of memory the stream takes.
  operations.MeasureStream = function(call)
    require_info(call)
    local samples = call.args.samples
    return redis.call('MEMORY', 'USAGE', call.key, unpack(samples and { 'SAMPLES', samples } or {}))
  end
end
