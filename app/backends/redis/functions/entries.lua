-- Entries: append.

local appends = {}

do
  -- The id that an append gives to an entry.
  --
  -- wanted: an id, `ms-*`, or '*'.
  -- last_id: the id before it.
  -- Returns the id, or nil and the fault.
  local function id_of(wanted, last_id, time_ms, index)
    local last_ms = split_id(last_id)
    if wanted == '*' and compare_numbers(time_ms, last_ms) > 0 then
      return time_ms .. '-0'
    end
    if wanted == MIN_ID then
      return nil, fault('IdNotGreater', wanted, last_id, index)
    end
    if last_id == MAX_ID then
      return nil, fault('IdsExhausted')
    end
    if wanted == '*' then  -- the clock has not advanced, so the sequence goes on
      return next_id(last_id)
    end
    local id = wanted
    local ms = string.match(wanted, '^(%d+)-%*$')
    if ms then
      id = ms .. '-0'
      local next_in_turn = next_id(last_id)
      if ms == last_ms and split_id(next_in_turn) == ms then
        id = next_in_turn
      end
    end
    if compare_ids(id, last_id) <= 0 then
      return nil, fault('IdNotGreater', wanted, last_id, index)
    end
    return id
  end

  -- Read drafts from the arguments of a call.
  --
  -- They are written as: what their ids are, how many there are, and for each the id (or `ms-*`, or
  -- '*'), the number of its names and values, and these. What the ids are: '*' if the server gives
  -- all of them, '<' if all are given and each is above the one before it, '' otherwise.
  -- Returns for each draft its id, where its fields begin, and where they end; and the place behind
  -- all of them.
  function appends.read_drafts(args, at)
    local drafts = { ids = args[at] }
    local count = tonumber(args[at + 1])
    at = at + 2
    for index = 1, count do
      local last = at + 1 + tonumber(args[at + 1])
      drafts[index] = { args[at], at + 2, last }
      at = last + 1
    end
    return drafts, at
  end

  -- Give each draft its id, or return the fault of the first that can have none.
  function appends.settle_ids(drafts, last_id)
    local last_ms, last_seq = split_id(last_id)
    if drafts.ids == '*' and last_ms ~= U64_MAX and #last_seq < #U64_MAX - 1 then
      return nil  -- the server gives them, and has as many: each id follows the one before it
    end
    if drafts.ids == '<' and compare_ids(drafts[1][1], last_id) > 0 then
      return nil
    end
    local time_ms = string.format('%.0f', now_ms())
    for index, draft in ipairs(drafts) do
      local id, refusal = id_of(draft[1], last_id, time_ms, index - 1)
      if not id then
        return refusal
      end
      draft[1], last_id = id, id
    end
    return nil
  end

  -- Append drafts whose ids are settled. Returns the ids, or the error of the first draft if its id
  -- is not settled.
  function appends.append_all(key, args, drafts)
    local ids = {}
    for index, draft in ipairs(drafts) do
      ids[index] = redis.pcall('XADD', key, draft[1], unpack(args, draft[2], draft[3]))
      if type(ids[index]) == 'table' then
        return ids[index]
      end
      local following = drafts[index + 1]
      if following and following[1] == '*' then  -- the clock of the server may go on meanwhile
        following[1] = string.match(ids[index], '^%d+') .. '-*'
      end
    end
    return ids
  end

  -- Why the server refused to append an entry, or nil if it was not because of the id.
  local function refusal_of(call, may_create, wanted)
    local info = stream_info(call)
    if not info and may_create ~= '1' then
      return fault('StreamNotFound')
    end
    local last_id = info and info['last-generated-id'] or MIN_ID
    local _, refusal = id_of(wanted, last_id, string.format('%.0f', now_ms()), 0)
    return refusal
  end

  -- Append one entry, as most appends do. Arguments: '1' if the stream may be created, the id (or
  -- `ms-*`, or '*'), names and values. Reply: the id.
  operations.append = function(call)
    local may_create, wanted = call.args[1], call.args[2]
    local config = settings.of_stream(call)
    local id = redis.pcall('XADD', call.key, 'NOMKSTREAM', unpack(call.args, 2))
    if not id then
      if may_create ~= '1' then
        return fault('StreamNotFound')
      end
      streams.begin(call)
      return redis.call('XADD', call.key, unpack(call.args, 2))
    end
    if type(id) == 'table' then
      return refusal_of(call, may_create, wanted) or id
    end
    trims.retain(call, config, 1)
    return id
  end

  -- Append entries, all or none, and then trim.
  --
  -- Arguments: '1' if the stream may be created; the last id that it must have, or ''; the trim
  -- ('1', or '' for none, and five words; see `trims.read`); '1' for an idempotent append, or '',
  -- then producer, key, digest, window in ms and keys of a producer where the stream does not say,
  -- producers at most; the drafts.
  -- Reply: whether it is a repeat, the first id and the number of entries, or, if the server did not
  -- give all ids, whether it is a repeat and all ids.
  operations.add = function(call)
    local args = call.args
    local may_create, expected, is_keyed = args[1] == '1', args[2], args[9] == '1'
    local drafts = appends.read_drafts(args, 16)
    -- Of a single entry whose id the server gives, nothing has to be known before.
    local is_single = #drafts == 1 and drafts.ids == '*' and expected == ''
    local info = not is_single and stream_info(call) or nil
    local exists = info or is_single and redis.call('EXISTS', call.key) == 1
    if not exists and not may_create then
      return fault('StreamNotFound')
    end
    local key, config = nil, exists and settings.of_stream(call) or {}
    if is_keyed then
      key = idempotency.key(call, args[10], args[11], config, { args[13], args[14] })
    end
    local made = exists and key and idempotency.made(key)
    if made then
      if args[12] ~= '' and args[12] ~= made.digest then
        return fault('IdempotencyMismatch', args[11])
      end
      idempotency.count_repeat(call)
      return { 1, made.first_id, tonumber(made.count) }
    end
    local last_id = info and info['last-generated-id'] or MIN_ID
    if expected ~= '' and expected ~= last_id then
      return fault('LastIdMismatch', expected, last_id)
    end
    local refusal = not is_single and appends.settle_ids(drafts, last_id)
    if refusal then
      return refusal
    end
    if not exists then
      streams.begin(call)
      if #drafts == 0 then
        streams.create_empty(call)
      end
    elseif key and not idempotency.has_room(call, key, tonumber(args[15])) then
      return fault('LimitReached', 'producers in this stream', args[15])
    end
    if #drafts == 0 then
      return { 0, '', 0 }
    end
    local to = args[3] == '1' and trims.read(args, 4)
    if to and to.references == 'delete' then
      trims.groups_of(call)  -- which fails before anything is done if it has to
    end
    local ids = appends.append_all(call.key, args, drafts)
    if ids.err then
      return refusal_of(call, args[1], '*') or ids
    end
    if key then
      idempotency.remember(call, key, ids[1], #ids, args[12])
    end
    if to then
      trims.part(call, to, 0, MIN_ID, #ids)
    end
    trims.retain(call, config, #ids)
    if drafts.ids == '*' then
      return { 0, ids[1], #ids }
    end
    return { 0, ids }
  end
end
