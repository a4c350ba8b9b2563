-- Entries: append, close, delete.

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

  -- Read drafts from words, as an entry may have many fields.
  --
  -- They are written as: what their ids are, how many there are, and for each the id (or `ms-*`, or
  -- '*'), the number of its names and values, and these. What the ids are: '*' if the server gives
  -- all of them, '<' if all are given and each is above the one before it, '' otherwise.
  -- Returns for each draft its id, where its fields begin, and where they end; and the place behind
  -- all of them.
  function appends.read_drafts(words, at)
    local drafts = { ids = words[at] }
    local count = tonumber(words[at + 1])
    at = at + 2
    for index = 1, count do
      local last = at + 1 + tonumber(words[at + 1])
      drafts[index] = { words[at], at + 2, last }
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
    local time_ms = decimal(now_ms())
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
  function appends.append_all(key, words, drafts)
    local ids = {}
    for index, draft in ipairs(drafts) do
      ids[index] = redis.pcall('XADD', key, draft[1], unpack(words, draft[2], draft[3]))
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
    if not info and not may_create then
      return fault('StreamNotFound')
    end
    local last_id = info and info['last-generated-id'] or MIN_ID
    local _, refusal = id_of(wanted, last_id, decimal(now_ms()), 0)
    return refusal
  end

  -- Append one entry: the words from `first` on are its id (or `ms-*`, or '*'), names and values.
  -- Returns the id, or an error.
  function appends.append(call, may_create, words, first)
    local config, closed_at_ms = settings.of_stream(call)
    if closed_at_ms and redis.call('EXISTS', call.key) == 1 then
      return fault('ClosedToAppends')
    end
    local id = redis.pcall('XADD', call.key, 'NOMKSTREAM', unpack(words, first))
    if not id then
      if not may_create then
        return fault('StreamNotFound')
      end
      streams.begin(call)
      return redis.call('XADD', call.key, unpack(words, first))
    end
    if type(id) == 'table' then
      return refusal_of(call, may_create, words[first]) or id
    end
    if words[first] ~= '*' then
      timing.forget(call, { id })
    end
    trims.retain(call, config, 1)
    return id
  end

  -- Append one entry, as most appends do: the words. Reply: the id.
  operations.append = function(call)
    return appends.append(call, call.args.create_stream, call.words, call.first_word)
  end

  -- Append entries, all or none, and then trim. The drafts are words. The stream may have
  -- `producers_max` producers of keys.
  -- Reply: whether it is a repeat, the first id and the number of entries, or, if the server did
  -- not give all ids, whether it is a repeat and all ids.
  operations.Add = function(call)
    local asked, given = call.args, call.args.idempotent
    local may_create, expected, to = asked.create_stream, asked.expected_last_id, asked.trim
    local drafts = appends.read_drafts(call.words, call.first_word)
    -- Of a single entry whose id the server gives, nothing has to be known before.
    local change = asked.attributes
    local is_single = #drafts == 1 and drafts.ids == '*' and not expected and not change
    local info = not is_single and stream_info(call) or nil
    local exists = info or is_single and redis.call('EXISTS', call.key) == 1
    if not exists and not may_create then
      return fault('StreamNotFound')
    end
    local key, config, closed_at_ms = nil, {}, nil
    if exists then
      config, closed_at_ms = settings.of_stream(call)
    end
    if given then
      key = idempotency.key(call, given.producer, given.key, config)
    end
    local made = exists and key and idempotency.made(key)
    if made then
      if given.digest ~= '' and given.digest ~= made.digest then
        return fault('IdempotencyMismatch', given.key)
      end
      redis.call('HINCRBY', call.side('meta'), 'keys_repeated', 1)
      return { 1, made.first_id, tonumber(made.count) }
    end
    if exists and asked.is_new then
      return fault('StreamExists')
    end
    if closed_at_ms then
      return fault('ClosedToAppends')
    end
    local last_id = info and info['last-generated-id'] or MIN_ID
    if expected and expected ~= last_id then
      return fault('LastIdMismatch', expected, last_id)
    end
    attributes.check(call, change, info)
    local refusal = not is_single and appends.settle_ids(drafts, last_id)
    if not refusal and exists and #asked.timings > 0 then
      refusal = timing.refusal(call, #asked.timings, asked.timed_max)
    end
    if refusal then
      return refusal
    end
    if not exists then
      streams.begin(call)
      if #drafts == 0 then
        streams.create_empty(call)
      end
    elseif key and not idempotency.has_room(call, key, asked.producers_max) then
      return fault('LimitReached', 'producers in this stream', asked.producers_max)
    end
    if #drafts == 0 then
      attributes.change(call, change)
      return { 0, '', 0 }
    end
    if exists and to and to.references == 'delete' then
      trims.groups_of(call)  -- which fails before anything is done if it has to
    end
    local ids = appends.append_all(call.key, call.words, drafts)
    if ids.err then
      return refusal_of(call, may_create, '*') or ids
    end
    timing.put(call, drafts, ids, asked.timings)
    attributes.change(call, change)
    if key then
      idempotency.remember(call, key, ids[1], #ids, given.digest)
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

  -- Append the last entries, if there are any, as `Add` does, and close the stream.
  -- Reply: what `Add` replies, the epoch, and when the stream was closed.
  operations.CloseStream = function(call)
    local added, expected = { 0, '', 0 }, call.args.expected_last_id
    if call.args.is_new or call.words[call.first_word + 1] ~= '0' then
      added = operations.Add(call)
      if added.err then
        return added
      end
    else
      local info = require_info(call)
      local _, closed_at_ms = settings.of_stream(call)
      if expected and not closed_at_ms and expected ~= info['last-generated-id'] then
        return fault('LastIdMismatch', expected, info['last-generated-id'])
      end
      attributes.check(call, call.args.attributes, info)
      attributes.change(call, call.args.attributes)
    end
    return { added, streams.close(call, call.args.closed_at_ms) }
  end

  -- Reply: for each id `deleted`, `not_found` or `referenced`; fewer than there are ids if the rest
  -- is left to another call.
  operations.Delete = function(call)
    require_stream(call)
    local references = call.args.references
    local groups = references == 'keep' and {} or trims.groups_of(call)
    local outcomes, ids = {}, {}
    for at = 1, math.min(#call.args.ids, trims.ids_at_once(call, groups)) do
      local id = call.args.ids[at]
      ids[#ids + 1] = id
      -- Redis looks at references first, so an id without an entry can be referenced.
      if references == 'acked' and trims.is_referenced(call, groups, id) then
        outcomes[#outcomes + 1] = 'referenced'
      else
        local count = redis.call('XDEL', call.key, id)
        outcomes[#outcomes + 1] = count == 1 and 'deleted' or 'not_found'
      end
    end
    turns.deleted(call, ids)
    timing.forget(call, ids)
    if references == 'delete' and #ids > 0 then
      trims.purge(call, groups, ids)
    end
    return outcomes
  end
end
