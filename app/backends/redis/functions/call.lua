-- Call: runs an operation with the words of a command. The library registers this function.
--
-- keys: the keys of the streams, of one slot; then a key that never exists (see client.py).
-- args: the name of the operation; its arguments by name (MessagePack); of each stream the two
--   parts of its side keys (see keys.py); words.

-- What Redis says where a hash has something else than the number that the gateway keeps there.
local NO_NUMBER = 'is not an integer'

-- What the failure of an operation stands for: if another client has put something under a key that
-- the gateway would not keep there, the fault that names the key.
local function explained(call, failure)
  local text = type(failure) == 'table' and failure.err or failure
  if string.find(text, 'WRONGTYPE', 1, true) then
    for _, stream in ipairs(call.streams) do
      named[stream.key] = string.sub(stream.key, 1, 3) == 'hg:' and 'hash' or 'stream'
    end
    for key, type_name in pairs(named) do
      local wrong = mismatch(key, type_name)
      if wrong then
        return wrong
      end
    end
  elseif string.find(text, NO_NUMBER, 1, true) then
    return fault('WrongType', call.side('*'), text)
  end
  return type(failure) == 'string' and { err = 'ERR ' .. failure } or failure
end

local function run(keys, args)
  local streams = {}
  for at = 1, #keys - 1 do
    streams[at] = { key = keys[at], side = side_of(args[2 * at + 1], args[2 * at + 2]) }
  end
  local call = streams[1]
  call.streams, call.args = streams, cmsgpack.unpack(args[2])
  call.words, call.first_word = args, 2 * #keys + 1
  named = {}
  local is_done, reply = pcall(operations[args[1]], call)
  if is_done and not (type(reply) == 'table' and reply.err) then
    return reply
  end
  return explained(call, reply)
end
