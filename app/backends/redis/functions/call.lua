-- Call: runs an operation with the words of a command. The library registers this function.
--
-- keys: the key of the stream, or of several streams of one slot; then a key that never exists (see
-- client.py).
-- args: the name of the operation, the two parts of side keys (see keys.py), its arguments.
local function run(keys, args)
  local head, tail = args[2], args[3]
  keys[#keys] = nil
  local call = { key = keys[1], keys = keys, args = {} }
  for at = 4, #args do
    call.args[at - 3] = args[at]
  end
  call.side = side_of(head, tail)
  return operations[args[1]](call)
end
