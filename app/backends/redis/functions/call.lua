-- Call: runs an operation with the words of a command. The library registers this function.
--
-- keys: the key of the stream, or of several streams of one slot; then a key that never exists (see
-- client.py).
-- args: the name of the operation, the two parts of side keys (see keys.py), its arguments.

-- What Redis says where a hash has something else than the number that the gateway keeps there.
local NO_NUMBER = 'is not an integer'

-- What the failure of an operation stands for: if another client has put something under a key that
-- the gateway would not keep there, the fault that names the key.
local function explained(call, failure)
  local text = type(failure) == 'table' and failure.err or failure
  if string.find(text, 'WRONGTYPE', 1, true) then
    for _, key in ipairs(call.keys) do
      named[key] = string.sub(key, 1, 3) == 'hg:' and 'hash' or 'stream'
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
  local head, tail = args[2], args[3]
  keys[#keys] = nil
  local call = { key = keys[1], keys = keys, args = {} }
  for at = 4, #args do
    call.args[at - 3] = args[at]
  end
  call.side = side_of(head, tail)
  named = {}
  local is_done, reply = pcall(operations[args[1]], call)
  if is_done and not (type(reply) == 'table' and reply.err) then
    return reply
  end
  return explained(call, reply)
end
