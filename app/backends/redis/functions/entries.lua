-- Entries: append and read.

-- Append one entry.
-- args: 1 if the stream may be created, names and values.
-- Returns the ids.
operations.add = function(call)
  if call.args[1] == '0' and redis.call('EXISTS', call.key) == 0 then
    return fault('StreamNotFound')
  end
  return { redis.call('XADD', call.key, '*', unpack(call.args, 2)) }
end
