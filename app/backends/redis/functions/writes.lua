-- Writes: batches of writers, which are appended once.

do
  -- A writer that has committed nothing for 90 days is forgotten, and so are those beyond the
  -- newest 10,000; so many at a time.
  local SILENT_MS_MAX = 90 * 86400000
  local WRITERS_MAX = 10000
  local FORGOTTEN_AT_ONCE = 100

  -- The last batch of a writer that a hash has in a field, and when (unix ms), both as text; nil if
  -- there is none.
  local function read_commit(key, field)
    local text = redis.call('HGET', key, field)
    if not text then
      return nil
    end
    return string.match(text, '^(%d+) (%d+)$')
  end

  -- Remember that a writer has committed a batch.
  local function note_commit(call, writer, batch, at_ms)
    local writers, times = call.side('writers'), call.side('writer_times')
    redis.call('HSET', writers, writer, string.format('%s %.0f', batch, at_ms))
    redis.call('ZADD', times, decimal(at_ms), writer)
    streams.expire_alike(call, writers)
    streams.expire_alike(call, times)
    for _ = 1, FORGOTTEN_AT_ONCE do
      local oldest = redis.call('ZRANGE', times, 0, 0, 'WITHSCORES')
      local is_old = tonumber(oldest[2]) < at_ms - SILENT_MS_MAX
      if not is_old and redis.call('ZCARD', times) <= WRITERS_MAX then
        return
      end
      redis.call('ZREM', times, oldest[1])
      redis.call('HDEL', writers, oldest[1])
    end
  end

  -- Append a batch of a writer to streams of one slot, all or none, and remember the batch. The
  -- words are the drafts for each stream.
  -- Reply: for each stream the number of entries, the first id and the last id; nil if the writer
  -- has committed this batch or a later one.
  -- Faults have the place of the stream, from 0, as their last fact.
  operations.CommitBatch = function(call)
    local writer, batch, parts = call.args.writer, call.args.batch, call.streams
    local at = call.first_word
    for _, part in ipairs(parts) do
      part.drafts, at = appends.read_drafts(call.words, at)
      part.timings = {}
      part.info = stream_info(part)
      check_types(part, { 'meta', 'writers', 'writer_times' })
      part.config, part.closed_at_ms = settings.of_stream(part)
      local last_batch = part.info and read_commit(part.side('writers'), writer)
      if last_batch and compare_numbers(batch, last_batch) <= 0 then
        return false
      end
    end
    for _, each in ipairs(call.args.timings) do
      table.insert(parts[each.stream].timings, each)
    end
    for place, part in ipairs(parts) do
      if part.info and part.closed_at_ms then
        return fault('ClosedToAppends', place - 1)
      end
      if not part.info and not call.args.create_streams then
        return fault('StreamNotFound', place - 1)
      end
      local last_id = part.info and part.info['last-generated-id'] or MIN_ID
      local refusal = appends.settle_ids(part.drafts, last_id)
      if not refusal and #part.timings > 0 then
        refusal = timing.refusal(part, #part.timings, call.args.timed_max)
      end
      if refusal then
        return { err = refusal.err .. ' ' .. (place - 1) }
      end
    end
    local at_ms = now_ms()
    local reply = {}
    for at, part in ipairs(parts) do
      if not part.info then
        streams.begin(part)
      end
      local ids = appends.append_all(part.key, call.words, part.drafts)
      timing.put(part, part.drafts, ids, part.timings)
      note_commit(part, writer, batch, at_ms)
      trims.retain(part, part.config, #ids)
      reply[at] = { #ids, ids[1], ids[#ids] }
    end
    return reply
  end

  -- Write again what is remembered of a writer, so that the answer to a repeat waits until its last
  -- batch is durable: a server waits only for what came over the same connection.
  operations.confirm_commit = function(call)
    local writers, writer = call.side('writers'), call.args.writer
    local text = redis.call('HGET', writers, writer)
    if text then
      redis.call('HSET', writers, writer, text)
    end
    return 0
  end

  -- The last batch that a writer has committed to the stream. Reply: the batch, and when (unix ms),
  -- as text; nil if it is not known.
  operations.last_commit = function(call)
    if redis.call('EXISTS', call.key) == 0 then
      return false
    end
    local batch, at_ms = read_commit(call.side('writers'), call.args.writer)
    return batch and { batch, at_ms } or false
  end

  -- What follows is about the hash of a writer, which is the key of the call: `last` is the last
  -- batch that is known to be committed. For each stream of a batch that is about to be committed,
  -- there is a field with the batch and the stream.

  -- Note the streams of a batch.
  operations.begin_commit = function(call)
    for _, stream in ipairs(call.args.streams) do
      redis.call('HSET', call.key, call.args.batch .. ':' .. stream, stream)
    end
    return redis.call('PEXPIRE', call.key, SILENT_MS_MAX)
  end

  -- Note that a batch for some streams is committed.
  operations.end_commit = function(call)
    local batch = call.args.batch
    local last_batch = read_commit(call.key, 'last')
    if not last_batch or compare_numbers(batch, last_batch) > 0 then
      redis.call('HSET', call.key, 'last', string.format('%s %.0f', batch, now_ms()))
    end
    for _, stream in ipairs(call.args.streams) do
      redis.call('HDEL', call.key, batch .. ':' .. stream)
    end
    return redis.call('PEXPIRE', call.key, SILENT_MS_MAX)
  end

  -- What is known of the last batch. Reply: the batch and when it was committed, or nothing; the
  -- streams that may know of a later one.
  operations.look_up_commit = function(call)
    local batch, at_ms = read_commit(call.key, 'last')
    local names = {}
    local fields = redis.call('HGETALL', call.key)
    for at = 1, #fields, 2 do
      if fields[at] ~= 'last' then
        names[#names + 1] = fields[at + 1]
      end
    end
    return { batch and { batch, at_ms } or {}, names }
  end
end
