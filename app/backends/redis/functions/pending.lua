-- Pending: the entries of a group that are delivered and not acknowledged, and those of them that
-- nobody owns.
--
-- The server has an owner for every pending entry. An entry that nobody owns has the owner
-- `RELEASED`, and is in the sorted set `released` with the unix time (ms) before which no reader
-- gets it. A client that knows nothing of this set may acknowledge or claim such an entry. So a
-- member of the set counts only while `RELEASED` owns the entry.
--
-- The hash `errors` has the last error of entries that were given back with one, by id. A client
-- that knows nothing of it may acknowledge such an entry. So a field counts only while its entry is
-- pending.
--
-- A row describes one pending entry:
--   id, owner (nil: nobody), idle (ms), count (of deliveries, as text)

local RELEASED = '\0released'

-- The greatest delivery count. Its entry failed for good.
local COUNT_MAX = '9223372036854775807'

do
  -- Words of one command. Lua has room for about 8,000.
  local WORDS_MAX = 1000

  -- About how many pending entries one search walks over. Each one takes 0.1 to 0.3 us. More are
  -- searched in parts, one in each call, with a pause between them.
  local SEARCHED_MAX, PART_PAUSE_MS, WALK_KEPT_MS = 20000, 50, 60000

  -- The oldest delivery of a group is remembered for so long, once for each part of a search.
  -- Another client that makes an entry look older than it is (XCLAIM IDLE) may have to wait for
  -- this time.
  local OLDEST_KEPT_MS = 1000

  -- Rows looked at in one step of a search, and steps of one search for the oldest delivery.
  local STEP_ROWS, STEPS_MAX = 128, 8

  -- Up to so many consumers, it is quicker to list what each one holds than to count the entries of
  -- one; and so many entries are counted at most.
  local LISTED_HOLDERS_MAX, COUNTED_MAX = 64, 1001

  -- Above so many consumers a search does not look at each one by itself.
  local SEARCHED_HOLDERS_MAX = 200

  -- A delivery count as text. Lua's numbers are exact up to 2^53. A count that another client has
  -- made exceed the greatest one arrives as a negative number.
  local function count_text(count)
    if count < 0 or count >= 2 ^ 63 then
      return COUNT_MAX
    end
    return decimal(count)
  end

  -- Errors kept of one group, as many as the embedded engine keeps.
  local ERRORS_MAX = 10000

  local function row_of(reply)
    local owner = reply[2]
    return {
      id = reply[1],
      owner = owner ~= RELEASED and owner or nil,
      idle = reply[3],
      count = count_text(reply[4]),
    }
  end

  -- The rows that a command replies with.
  local function asked(words)
    local rows = redis.call(unpack(words))
    for at = 1, #rows do
      rows[at] = row_of(rows[at])
    end
    return rows
  end

  -- The count after one more delivery, and after one less.
  function pending.one_more(count)
    return count == COUNT_MAX and count or next_number(count)
  end

  function pending.one_less(count)
    return previous_number(count) or '0'
  end

  -- The row of an entry; nil if it is not pending, or if this is no id.
  function pending.row(call, group, id)
    if not is_id(id) then
      return nil
    end
    local reply = redis.call('XPENDING', call.key, group, id, id, 1)[1]
    return reply and row_of(reply)
  end

  -- Rows in order of their ids, from `first` to `last`, at most `limit`.
  -- consumer: only of this one; nil: of all.
  function pending.rows(call, group, first, last, limit, consumer)
    return asked({ 'XPENDING', call.key, group, first, last, limit, consumer })
  end

  -- Rows that are idle for at least `idle_ms`.
  function pending.idle_rows(call, group, idle_ms, first, last, limit, consumer)
    local least = decimal(math.min(idle_ms, 2 ^ 53))
    return asked({ 'XPENDING', call.key, group, 'IDLE', least, first, last, limit, consumer })
  end

  -- The ids among `ids` that a consumer owns, as a table; an id that is missing may be owned too.
  -- The ids of one read are neighbours among the entries of its consumer, so one command often
  -- tells of all.
  function pending.owned_among(call, group, consumer, ids)
    local owned = {}
    if #ids > 2 and consumer ~= RELEASED then
      local rows = redis.call('XPENDING', call.key, group, ids[1], ids[#ids], #ids + 8, consumer)
      for at = 1, #rows do
        owned[rows[at][1]] = true
      end
    end
    return owned
  end

  -- Remove entries from the pending ones. Reply: how many were pending.
  function pending.settle(call, group, ids)
    local count = 0
    for first = 1, #ids, WORDS_MAX do
      local last = math.min(first + WORDS_MAX - 1, #ids)
      count = count + redis.call('XACK', call.key, group, unpack(ids, first, last))
      redis.call('ZREM', call.side('released', group), unpack(ids, first, last))
      redis.call('HDEL', call.side('errors', group), unpack(ids, first, last))
    end
    turns.finish(call, group, ids)
    call.settled_count = (call.settled_count or 0) + count
    if count > 0 then
      groups.wake_at_end(call, group)
    end
    return count
  end

  -- Keep the error of an entry that was given back. If there are too many, another one goes.
  function pending.note_error(call, group, id, text)
    local key = call.side('errors', group)
    if redis.call('HLEN', key) >= ERRORS_MAX then
      redis.call('HDEL', key, redis.call('HRANDFIELD', key))
    end
    streams.put(call, key, 'HSET', id, text)
  end

  -- The last error of an entry; false if there is none.
  function pending.error_of(call, group, id)
    return redis.call('HGET', call.side('errors', group), id)
  end

  -- Forget the errors of entries that are no longer pending.
  function pending.forget_errors(call, group)
    local key = call.side('errors', group)
    for _, id in ipairs(redis.call('HKEYS', key)) do
      if not pending.row(call, group, id) then
        redis.call('HDEL', key, id)
      end
    end
  end

  -- Make an entry a consumer's, whether it is pending or not. Without `at` its idle time begins
  -- now.
  -- count: its delivery count from now on.
  -- at: { 'IDLE' or 'TIME', ms }
  -- Reply: its id; nothing if the entry is gone from the stream.
  local function give(call, group, consumer, id, count, at)
    local clock, ms = unpack(at or { 'IDLE', 0 })
    return redis.call(
      'XCLAIM', call.key, group, consumer, 0, id, clock, ms, 'RETRYCOUNT', count, 'FORCE', 'JUSTID'
    )
  end

  -- Give a pending entry to a consumer, as `give`.
  function pending.assign(call, group, consumer, row, count, at)
    give(call, group, consumer, row.id, count, at)
    if not row.owner then
      redis.call('ZREM', call.side('released', group), row.id)
      turns.begin(call, group, row.id)
    end
  end

  -- Note that new entries are a consumer's: some may have been pending without an owner.
  function pending.owned(call, group, entries)
    for _, entry in ipairs(entries) do
      if redis.call('ZREM', call.side('released', group), entry[1]) == 1 then
        turns.begin(call, group, entry[1])
      end
    end
  end

  -- Set the delivery counts of entries that a consumer has read again. The server counts such a read
  -- itself, but does not tell its replicas.
  -- ids_by_count: arrays of ids, by the delivery count from now on.
  function pending.count_deliveries(call, group, consumer, ids_by_count)
    for count, ids in pairs(ids_by_count) do
      for first = 1, #ids, WORDS_MAX do
        local last = math.min(first + WORDS_MAX - 1, #ids)
        local words = { 'XCLAIM', call.key, group, consumer, 0, unpack(ids, first, last) }
        for _, word in ipairs({ 'IDLE', 0, 'RETRYCOUNT', count, 'JUSTID' }) do
          words[#words + 1] = word
        end
        redis.call(unpack(words))
      end
    end
  end

  -- Make entries nobody's. An entry that is gone from the stream stops being pending.
  -- entries: arrays of the id, the delivery count from now on, and in how many ms a reader may
  --   get it.
  -- An entry that is not pending becomes so.
  function pending.release(call, group, entries)
    if #entries == 0 then
      return
    end
    groups.mark(call, group)
    local key = call.side('released', group)
    local is_new = redis.call('EXISTS', key) == 0
    local time_us = tonumber(now_us())
    for _, entry in ipairs(entries) do
      local id, count, delay_ms = entry[1], entry[2], entry[3]
      if #give(call, group, RELEASED, id, count) > 0 then
        turns.begin(call, group, id)
        -- A microsecond for each of the call, so that they come back in the order of release.
        call.released_count = (call.released_count or 0) + 1
        local due_ms = (time_us + call.released_count) / 1000 + (delay_ms or 0)
        redis.call('ZADD', key, string.format('%.3f', due_ms), id)
      else
        redis.call('ZREM', key, id)
        redis.call('HDEL', call.side('errors', group), id)
      end
    end
    if is_new then
      streams.expire_alike(call, key)
    end
  end

  -- Make an entry pending that nobody gets before its turn comes.
  -- due_ms: it is delayed until then; nil: it waits for its turn at once.
  function pending.hold(call, group, id, key, due_ms)
    groups.mark(call, group)
    give(call, group, RELEASED, id, 0)
    turns.hold(call, group, id, key, due_ms)
  end

  -- Rows of entries that nobody owns and that a reader may get now: the first ones by the time from
  -- which a reader may get them. Members of the set that do not count are removed.
  function pending.due(call, group, limit)
    local key = call.side('released', group)
    local rows, skipped = {}, 0
    while #rows < limit do
      local high = '(' .. decimal(now_ms() + 1)
      local ids =
        redis.call('ZRANGEBYSCORE', key, '-inf', high, 'LIMIT', #rows, limit - #rows)
      for _, id in ipairs(ids) do
        local row = pending.row(call, group, id)
        if row and not row.owner then
          rows[#rows + 1] = row
        else
          redis.call('ZREM', key, id)
          skipped = skipped + 1
        end
      end
      if #ids == 0 or skipped == 0 then
        break
      end
      skipped = 0
    end
    return rows
  end

  -- How many entries that nobody owns are not due yet, about.
  function pending.delayed_count(call, group)
    local low, high = decimal(now_ms() + 1), '(' .. turns.NEVER
    local rested = redis.call('ZCOUNT', call.side('released', group), low, high)
    return rested + redis.call('ZCARD', call.side('later', group))
  end

  -- In how many ms a reader may get the next entry that is delayed; nil if none is.
  function pending.next_due_in(call, group, has_turns)
    local time_ms = now_ms()
    local first = redis.call(
      'ZRANGEBYSCORE', call.side('released', group), decimal(time_ms + 1), '+inf', 'WITHSCORES',
      'LIMIT', 0, 1
    )
    local is_due = first[2] and not turns.is_held(first[2])
    local due_in = is_due and math.floor(tonumber(first[2])) - time_ms or nil
    local later_in = has_turns and turns.next_due_in(call, group) or nil
    return due_in and later_in and math.min(due_in, later_in) or due_in or later_in
  end

  -- In how many ms a reader may get an entry that nobody owns; 0 is now, nil is after another one.
  function pending.due_in(call, group, row)
    local due_ms = redis.call('ZSCORE', call.side('released', group), row.id)
    if due_ms and turns.is_held(due_ms) then
      return turns.due_in(call, group, row.id)
    end
    return due_ms and math.max(math.floor(tonumber(due_ms)) - now_ms(), 0) or 0
  end

  -- Which consumers a search for idle entries asks about, one by one; { false } is all together.
  -- spared: a consumer whose entries do not count; nil: all count.
  local function searched_holders(call, group, spared, holders)
    local are_many = #holders > SEARCHED_HOLDERS_MAX
    if are_many or not spared and redis.call('EXISTS', call.side('released', group)) == 0 then
      return { false }
    end
    local searched = {}
    for _, holder in ipairs(holders) do
      if holder[1] ~= RELEASED and holder[1] ~= spared then
        searched[#searched + 1] = holder[1]
      end
    end
    return searched
  end

  -- Rows that consumers own, idle for at least `idle_ms`, the longest idle first. If there are
  -- more than `limit`, they are the ones with the lowest ids.
  local function longest_idle(call, group, searched, spared, idle_ms, limit, part)
    local idle = {}
    for _, consumer in ipairs(searched) do
      if #idle >= limit then
        break
      end
      local rows = pending.idle_rows(
        call, group, idle_ms, part.first, part.last, limit, consumer or nil
      )
      for _, row in ipairs(rows) do
        if row.owner and row.owner ~= spared then
          row.place = #idle
          idle[#idle + 1] = row
        end
      end
    end
    table.sort(idle, function(left, right)
      if left.idle ~= right.idle then
        return left.idle > right.idle
      end
      return left.place < right.place
    end)
    return idle
  end

  -- A unix time (ms) that is not after the oldest delivery of an entry that a consumer owns, if it
  -- is remembered; else nil.
  function pending.oldest_ms(call, group)
    local known = redis.call('GET', call.side('oldest', group))
    return known and is_number(known) and tonumber(known) or nil
  end

  -- Search for this time in a part of the pending entries.
  -- searched, spared: see `searched_holders`.
  local function search_oldest(call, group, searched, spared, part)
    local time_ms = now_ms()
    local oldest_ms = time_ms
    for _, consumer in ipairs(searched) do
      local idle_ms, steps, row_count = time_ms - oldest_ms, 0, nil
      repeat
        local rows = pending.idle_rows(
          call, group, idle_ms, part.first, part.last, STEP_ROWS, consumer or nil
        )
        local before_ms = oldest_ms
        for _, row in ipairs(rows) do
          if row.owner and row.owner ~= spared then
            oldest_ms = math.min(oldest_ms, time_ms - row.idle)
          end
        end
        row_count, steps = #rows, steps + 1
        if row_count == STEP_ROWS and (steps > STEPS_MAX or oldest_ms == before_ms) then
          -- Go on from twice the idle time, whether or not an entry is as old as this.
          oldest_ms = time_ms - 2 * math.max(time_ms - oldest_ms, 1)
        end
        idle_ms = time_ms - oldest_ms + 1
      until row_count < STEP_ROWS
    end
    return oldest_ms
  end

  -- The part of the pending entries that this call searches: the ids of its first and last entry,
  -- whether it is the last part, and the oldest delivery in the parts before. nil: it is too early
  -- for another part.
  local function next_part(call, group, total, first, last, time_ms)
    local first_ms, last_ms = tonumber((split_id(first))), tonumber((split_id(last)))
    if total <= SEARCHED_MAX or first_ms == last_ms then
      return { first = '-', last = '+', is_last = true, oldest_ms = time_ms }
    end
    local walk = fields_of(call.side('walk', group), { 'next', 'oldest_ms', 'not_before_ms' })
    local pause_ms = walk[3] and tonumber(walk[3]) - time_ms or 0
    if pause_ms > 0 and pause_ms <= PART_PAUSE_MS then
      return nil
    end
    local part = { first = walk[1] or first, oldest_ms = tonumber(walk[2] or time_ms) }
    if compare_ids(part.first, first) < 0 or compare_ids(part.first, last) > 0 then
      part.first = first
    end
    -- As if they were spread evenly over the time of their ids.
    local length_ms = math.max(math.floor((last_ms - first_ms) * SEARCHED_MAX / total), 1)
    local end_ms = tonumber((split_id(part.first))) + length_ms
    part.is_last = end_ms >= last_ms
    part.last = part.is_last and '+' or string.format('%.0f-', end_ms) .. U64_MAX
    return part
  end

  -- Search for entries that consumers own and that are idle for at least `idle_ms`.
  --
  -- The server has no order of pending entries by time, so a search walks over all of them, in parts
  -- if they are many. As most searches find nothing, the oldest delivery is remembered then, and
  -- there is no search until it may be idle for long enough.
  --
  -- spared: a consumer whose entries do not count; nil: all count.
  -- Reply: rows, the longest idle first (if there are more than `limit`, those with the lowest ids);
  -- if there are none, a time that is not after the oldest delivery that counts (nil: the search
  -- goes on with another call).
  function pending.search(call, group, idle_ms, spared, limit)
    local time_ms = now_ms()
    local oldest_ms = pending.oldest_ms(call, group)
    if oldest_ms and oldest_ms <= time_ms and oldest_ms + idle_ms > time_ms then
      return {}, oldest_ms
    end
    local total, first, last, holders = unpack(redis.call('XPENDING', call.key, group))
    if total == 0 then
      return {}, time_ms
    end
    local part = next_part(call, group, total, first, last, time_ms)
    if not part then
      return {}, nil
    end
    local searched = searched_holders(call, group, spared, holders)
    local rows = longest_idle(call, group, searched, spared, idle_ms, limit, part)
    if #rows > 0 then
      return rows, nil
    end
    local walk = call.side('walk', group)
    local everybody = spared and searched_holders(call, group, nil, holders) or searched
    oldest_ms = math.min(part.oldest_ms, search_oldest(call, group, everybody, nil, part))
    local text = decimal(oldest_ms)
    if not part.is_last then
      redis.call(
        'HSET', walk, 'next', next_id(part.last), 'oldest_ms', text, 'not_before_ms',
        decimal(time_ms + PART_PAUSE_MS)
      )
      redis.call('PEXPIRE', walk, WALK_KEPT_MS)
      return {}, nil
    end
    redis.call('DEL', walk)
    local kept_ms = OLDEST_KEPT_MS * math.max(math.ceil(total / SEARCHED_MAX), 1)
    redis.call('SET', call.side('oldest', group), text, 'PX', kept_ms)
    if spared and total <= SEARCHED_MAX then
      oldest_ms = search_oldest(call, group, searched, spared, part)
    end
    return {}, oldest_ms
  end

  -- Forget it, because an entry may now look older than it is.
  function pending.forget_oldest(call, group)
    redis.call('DEL', call.side('oldest', group), call.side('walk', group))
  end

  -- How many entries a consumer holds, and whether entries are pending that are new to the group:
  -- its position was moved back.
  -- info: of the group.
  function pending.held_count(call, group, consumer, info)
    if info.pending == 0 then
      return 0, false
    end
    local position = info['last-delivered-id']
    if info.consumers > LISTED_HOLDERS_MAX then
      local rows = redis.call('XPENDING', call.key, group, '-', '+', COUNTED_MAX, consumer)
      if #rows < COUNTED_MAX then
        local first = next_id(position)
        local above = first and redis.call('XPENDING', call.key, group, first, '+', 1) or {}
        return #rows, #above > 0
      end
    end
    local summary = redis.call('XPENDING', call.key, group)
    local has_above = summary[3] and compare_ids(summary[3], position) > 0
    for _, holder in ipairs(summary[4] or {}) do
      if holder[1] == consumer then
        return tonumber(holder[2]), has_above
      end
    end
    return 0, has_above
  end

  -- Reply: for each entry its id, owner (nil: nobody), idle time (ms), delivery count, for how long
  -- nobody gets it (ms), its last error (nil: none), and the entry it waits for (nil: none).
  operations.ListPending = function(call)
    local asked, group = call.args, groups.require(call)
    local first, last, limit = asked.start, asked['end'], asked.limit
    local idle_ms, consumer = asked.min_idle_ms, asked.consumer
    if consumer == RELEASED then
      return {}
    end
    local rows
    if idle_ms == 0 then
      rows = pending.rows(call, group, first, last, limit, consumer)
    else
      rows = pending.idle_rows(call, group, idle_ms, first, last, limit, consumer)
      if not consumer then  -- nobody's entries count whatever their idle time is
        local is_listed = {}
        for _, row in ipairs(rows) do
          is_listed[row.id] = true
        end
        for _, row in ipairs(pending.rows(call, group, first, last, limit, RELEASED)) do
          if not is_listed[row.id] then
            rows[#rows + 1] = row
          end
        end
        table.sort(rows, function(left, right)
          return compare_ids(left.id, right.id) < 0
        end)
      end
    end
    local listed = {}
    for at = 1, math.min(#rows, limit) do
      local row = rows[at]
      listed[at] = {
        row.id, row.owner or false, row.idle, row.count,
        row.owner and 0 or pending.due_in(call, group, row) or 0,
        pending.error_of(call, group, row.id),
        not row.owner and turns.before(call, group, row.id) or false,
      }
    end
    return listed
  end

  -- Reply: as XPENDING without a range; the entries that nobody owns count, but have no consumer.
  operations.SumPending = function(call)
    local summary = redis.call('XPENDING', call.key, groups.require(call))
    local holders = {}
    for _, holder in ipairs(summary[4] or {}) do
      if holder[1] ~= RELEASED then
        holders[#holders + 1] = holder
      end
    end
    return { summary[1], summary[2], summary[3], holders }
  end
end
