-- Prelude: what all operations share.
--
-- An operation is a function in `operations`. It gets a call:
--   call.key     the key of the stream
--   call.side    call.side(kind) and call.side(kind, group) return side keys, in the same slot
--   call.args    its arguments by name: the fields of the request, if it carries out one
--   call.words, call.first_word   words, and the place of the first that is an argument
--   call.settled_count   how many entries it has settled so far; nil: none
--   call.streams   what has `key` and `side`: the call, and others if it is about several streams
-- It returns integers, strings and arrays of them, or returns or raises `fault(name, fact, ...)`.

local operations = {}

-- A whole number as text.
local function decimal(number)
  return string.format('%.0f', number)
end

-- An error reply "HG <name> <fact> ...", each fact escaped as in URLs.
local function fault(name, ...)
  local words = { 'HG', name }
  for _, fact in ipairs({ ... }) do
    local text = type(fact) == 'number' and decimal(fact) or fact
    words[#words + 1] = string.gsub(text, '[^%w%.:_-]', function(byte)
      return string.format('%%%02X', string.byte(byte))
    end)
  end
  return { err = table.concat(words, ' ') }
end

-- What is under each kind of side key.
local TYPES = {
  meta = 'hash', writers = 'hash', writer_times = 'zset', producers = 'zset', keys = 'hash',
  key_times = 'zset', claims = 'stream', outbox = 'stream', relayed = 'hash', redriven = 'string',
  renamed = 'string', changed = 'string', group = 'hash', released = 'zset', errors = 'hash',
  oldest = 'string', walk = 'hash', scheduled = 'hash', schedule_names = 'zset',
  schedule_wakes = 'zset', schedule_runner = 'string', rate = 'string', keyed = 'zset',
  taken = 'zset', held = 'zset', ready = 'zset', turn_walk = 'string', turning = 'set', later = 'zset',
  due = 'zset', deadlines = 'zset', expiring = 'zset', attributes = 'hash',
}

-- The side keys that this call has named, and the types that they should have.
local named = {}

-- A function that returns side keys, of the two parts that all side keys of a stream have.
local function side_of(head, tail)
  return function(kind, name)
    local key = head .. kind .. tail
    key = name and key .. ':' .. name or key
    named[key] = TYPES[kind]
    return key
  end
end

-- Raise a fault.
local function raise(name, ...)
  error(fault(name, ...))
end

-- The fault if another client has put something of another type under a key; else nil.
local function mismatch(key, type_name)
  local found = redis.call('TYPE', key).ok
  if found == type_name or found == 'none' then
    return nil
  end
  return fault('WrongType', key, 'it is a ' .. found .. ', and no ' .. type_name)
end

-- Raise a fault if side keys have other types. What changes the state looks before it begins, as a
-- step that fails undoes none of those before it.
-- kinds: of side keys of the stream.
-- name, its_kinds: of a group or a producer, and the kinds of its side keys.
local function check_types(call, kinds, name, its_kinds)
  local keys = {}
  for _, kind in ipairs(kinds) do
    keys[#keys + 1] = call.side(kind)
  end
  for _, kind in ipairs(its_kinds or {}) do
    keys[#keys + 1] = call.side(kind, name)
  end
  if redis.call('EXISTS', unpack(keys)) == 0 then
    return
  end
  for _, key in ipairs(keys) do
    local wrong = mismatch(key, named[key])
    if wrong then
      error(wrong)
    end
  end
end

-- The present time of the server: unix time in milliseconds, and in microseconds as a string.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function now_us()
  local time = redis.call('TIME')
  return time[1] .. string.format('%06d', tonumber(time[2]))
end

-- How many bytes the names and values of an entry have together.
local function size_of(fields)
  local size = 0
  for _, part in ipairs(fields) do
    size = size + #part
  end
  return size
end

-- Numbers in decimal, as text. Lua's own numbers are exact up to 2^53 only.

-- Compare two numbers: negative, zero or positive as the first is less, equal or greater.
local function compare_numbers(left, right)
  if #left ~= #right then
    return #left - #right
  end
  if left == right then
    return 0
  end
  return left < right and -1 or 1
end

local U64_MAX = '18446744073709551615'
local MIN_ID = '0-0'
local MAX_ID = U64_MAX .. '-' .. U64_MAX

-- The two numbers of an id, as text.
local function split_id(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return ms, seq
end

-- Compare two ids: negative, zero or positive as the first is less, equal or greater.
local function compare_ids(left, right)
  local left_ms, left_seq = split_id(left)
  local right_ms, right_seq = split_id(right)
  local order = compare_numbers(left_ms, right_ms)
  return order ~= 0 and order or compare_numbers(left_seq, right_seq)
end

-- A number plus 1 or -1. `last` is the digit at which the one before it changes, too, and `first`
-- the digit that comes in its place.
local function stepped(text, step, last, first)
  if #text < 16 then
    return decimal(tonumber(text) + step)
  end
  local digits = { string.byte('0' .. text, 1, -1) }
  local at = #digits
  while digits[at] == string.byte(last) do
    digits[at], at = string.byte(first), at - 1
  end
  digits[at] = digits[at] + step
  return (string.gsub(string.char(unpack(digits)), '^0+(%d)', '%1'))
end

-- A number plus one; nil if it is the greatest.
local function next_number(text)
  return text ~= U64_MAX and stepped(text, 1, '9', '0') or nil
end

-- A number minus one; nil if it is zero.
local function previous_number(text)
  return text ~= '0' and stepped(text, -1, '0', '9') or nil
end

-- The id after an id; nil if there is none.
local function next_id(id)
  local ms, seq = split_id(id)
  local next_seq = next_number(seq)
  if next_seq then
    return ms .. '-' .. next_seq
  end
  local next_ms = next_number(ms)
  return next_ms and next_ms .. '-0'
end

-- The lowest bound of a range above an id.
local function above(id)
  return id == MIN_ID and '-' or '(' .. id
end

-- Whether a text is an id.
local function is_id(text)
  local ms, seq = split_id(text)
  return ms ~= nil and compare_numbers(ms, U64_MAX) <= 0 and compare_numbers(seq, U64_MAX) <= 0
end

-- Whether a text is a number that the gateway would write.
local function is_number(text)
  return #text < 20 and string.find(text, '^%d+$') ~= nil
end

-- What the text of a field of a hash has to satisfy, if it is not that of a setting.
local CHECKS = {
  epoch = is_number, trimmed = is_id, keys_added = is_number, keys_repeated = is_number,
  closed_at_ms = is_number, attributes_bytes = is_number, next = is_id, oldest_ms = is_number, not_before_ms = is_number,
}

-- What the text of a setting has to satisfy, by its form: FORMS in settings.lua.
local FORM_CHECKS = {
  number = is_number,
  ['list of numbers'] = function(text)
    return string.gsub(text .. ',', '%d+,', '') == ''
  end,
  ['list of filters'] = function(text)
    return (pcall(cjson.decode, text))
  end,
}

-- What the text of a field has to satisfy; nil: any text is right.
local function check_of(field)
  return CHECKS[field] or FORM_CHECKS[FORMS[field]]
end

-- Fields of a hash as the gateway has written them. Another client may have put in something else:
-- then a fault is raised.
local function fields_of(key, fields)
  local values = redis.call('HMGET', key, unpack(fields))
  for at, field in ipairs(fields) do
    local check = check_of(field)
    if values[at] and check and not check(values[at]) then
      raise('WrongType', key, field .. ' is not what it has to be')
    end
  end
  return values
end

-- What `meta` has in some fields.
local function meta_of(call, ...)
  return fields_of(call.side('meta'), { ... })
end

-- The reply of a command that answers names and values in turn, as a table.
local function by_name(pairs_in_turn)
  local facts = {}
  for at = 1, #pairs_in_turn, 2 do
    facts[pairs_in_turn[at]] = pairs_in_turn[at + 1]
  end
  return facts
end

-- Raise a fault if there is no stream.
local function require_stream(call)
  if redis.call('EXISTS', call.key) == 0 then
    raise('StreamNotFound')
  end
end

-- The entry of the stream with an id; nil if there is none.
local function entry_at(call, id)
  return redis.call('XRANGE', call.key, id, id)[1]
end

-- Whether the stream has entries above an id.
local function has_entries_above(call, id)
  local first = next_id(id)
  return first ~= nil and #redis.call('XRANGE', call.key, first, '+', 'COUNT', 1) > 0
end

-- What XINFO STREAM says of the stream, as a table; nil if there is no stream.
local function stream_info(call)
  local info = redis.pcall('XINFO', 'STREAM', call.key)
  if info.err then
    if string.find(info.err, 'no such key', 1, true) then
      return nil
    end
    error(info)
  end
  return by_name(info)
end

-- The same; a fault is raised if there is no stream.
local function require_info(call)
  return stream_info(call) or raise('StreamNotFound')
end
