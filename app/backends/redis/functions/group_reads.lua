-- Group reads: what a consumer of a group gets.

do
  -- Pending entries that a read looks at when it claims, at least and at most.
  local CLAIM_ROWS_MIN, CLAIM_ROWS_MAX = 128, 2000

  -- Entries that are read at first if their size is bounded. Each further step reads twice as many.
  local STEP_ENTRIES = 16

  -- After this time a read looks again if it met only entries that nobody can claim, or a part of
  -- the pending entries, in ms.
  local PAUSE_MS, PART_PAUSE_MS = 1000, 50

  local LIVE, CAUGHT_UP, FULL = 'live', 'caught_up', 'max_pending'
  local PAUSED, RATE_LIMITED, CLOSED = 'paused', 'rate_limited', 'closed'
  local KEY_BLOCKED = 'key_blocked'

  -- Entries, and bytes of names and values, that a call looks at to pass by those that filters do
  -- not let through.
  local PASSED_MAX, PASSED_BYTES_MAX = 1000, 2 ^ 20

  -- Whether no further entry has room.
  local function is_full(asked)
    return asked.is_spent
      or (asked.size_bytes_max and (asked.size_bytes_max <= 0 or asked.parts <= 0))
  end

  -- Fill in from the policy what the request leaves open.
  local function follow(asked, policy)
    if not asked.by_policy then
      return
    end
    if asked.claims_any and not asked.claim_idle_ms then
      asked.claim_idle_ms = policy.claim_idle_ms
    end
    local most = policy.max_pending
    if most and (not asked.max_pending or most < asked.max_pending) then
      asked.max_pending = most
    end
  end

  -- Rows that may be claimed: what nobody owns first, and then the longest idle.
  -- Reply: the rows, and when the oldest delivery was (nil: unknown).
  local function claimable(call, asked, room)
    local group, spared = asked.group, not asked.claim_own and asked.consumer or nil
    local rows = pending.due(call, group, room)
    if not asked.claim_idle_ms or #rows >= room then
      return rows, nil
    end
    local limit = math.min(math.max(2 * room, CLAIM_ROWS_MIN), CLAIM_ROWS_MAX)
    local idle, oldest_ms = pending.search(call, group, asked.claim_idle_ms, spared, limit)
    for _, row in ipairs(idle) do
      rows[#rows + 1] = row
    end
    if #idle > 0 then  -- perhaps nobody can claim them
      oldest_ms = now_ms() + PAUSE_MS - asked.claim_idle_ms
    end
    return rows, oldest_ms
  end

  -- Settle an entry that would be delivered, and whose deadline is over. There may be others behind.
  local function expire(call, asked, policy, row)
    policies.expire(call, asked.group, policy, row)
    asked.has_expired = true
  end

  -- Claim pending entries, behind what the read has taken so far. Reply: how many of them the
  -- consumer did not hold, and when the oldest delivery was (nil: unknown). Entries that are gone
  -- from the stream stop being pending.
  local function claim(call, asked, policy, room, taken)
    local deliveries, begun, gained = taken.deliveries, {}, 0
    for _, delivery in ipairs(deliveries) do
      begun[delivery[1]] = true
    end
    local rows, oldest_ms = claimable(call, asked, room - #deliveries)
    for _, row in ipairs(rows) do
      if #deliveries == room then
        break
      end
      if not begun[row.id] and not policy.is_spent(row.count) then
        local entry = entry_at(call, row.id)
        if asked.by_policy and timing.is_over(call, row.id) then
          expire(call, asked, policy, row)
        elseif not entry then
          pending.settle(call, asked.group, { row.id })
        else
          local numbers = asked.claim_idle_ms and { row.owner and row.idle or 0, row.count } or {}
          if not pending.take(asked, row.id, entry[2], numbers, #deliveries == 0) then
            break
          end
          pending.take_over(call, asked.group, taken, row, entry[2], pending.one_more(row.count))
          gained = gained + (row.owner ~= asked.consumer and 1 or 0)
        end
      end
    end
    claims.write(call, asked.group, taken)
    return gained, oldest_ms
  end

  -- The command that reads as the consumer.
  -- passes: what is read is not delivered, and only passed by.
  local function read(call, asked, count, after, passes)
    local words = { 'XREADGROUP', 'GROUP', asked.group, asked.consumer, 'COUNT', count }
    if asked.no_ack or passes then
      words[#words + 1] = 'NOACK'
    end
    words[#words + 1] = 'STREAMS'
    words[#words + 1] = call.key
    words[#words + 1] = after
    local reply = redis.call(unpack(words))
    return reply and reply[1][2] or {}
  end

  -- Undo the delivery of new entries from one on: they are too large together with those before.
  local function put_back(call, asked, entries_read, first, last_id)
    local ids = {}
    for at = first, #entries_read do
      ids[#ids + 1] = entries_read[at][1]
    end
    local info = groups.info(call, asked.group)
    if not asked.no_ack then
      pending.settle(call, asked.group, ids)
    end
    local count = info['entries-read']
    redis.call(
      'XGROUP', 'SETID', call.key, asked.group, last_id, 'ENTRIESREAD',
      count and decimal(count - #ids) or -1
    )
  end

  -- How many of the entries that are new to the group have room. This looks at them first, as a
  -- delivery of an entry that is pending already could not be undone.
  local function count_new(call, asked, room, last_id, numbers)
    local count, first = 0, next_id(last_id)
    while first and count < room do
      local page = redis.call('XRANGE', call.key, first, '+', 'COUNT', STEP_ENTRIES)
      for _, entry in ipairs(page) do
        if count == room or not pending.take(asked, entry[1], entry[2], numbers, count == 0) then
          return count
        end
        count = count + 1
      end
      first = #page == STEP_ENTRIES and next_id(page[#page][1])
    end
    return count
  end

  -- Read entries that are new to the group.
  -- Reply: the entries, and whether there may be more.
  local function read_new(call, asked, room, last_id)
    local new = {}
    local is_bounded = asked.size_bytes_max or asked.budget_bytes
    local numbers = asked.claim_idle_ms and { 0, 0 } or {}
    if is_bounded and asked.has_pending_above then
      local count = count_new(call, asked, room, last_id, numbers)
      return count > 0 and read(call, asked, count, '>') or {}, true
    end
    local step = is_bounded and STEP_ENTRIES or room
    while #new < room do
      local count = math.min(step, room - #new)
      local batch = read(call, asked, count, '>')
      for at, entry in ipairs(batch) do
        if not pending.take(asked, entry[1], entry[2], numbers, #new == 0) then
          put_back(call, asked, batch, at, last_id)
          return new, true
        end
        new[#new + 1], last_id = entry, entry[1]
      end
      if #batch < count then
        return new, false
      end
      step = step * 2
    end
    return new, true
  end

  -- Give held entries their turn, at most so many. Reply: whether one had no room.
  local function begin_turns(call, asked, policy, room, taken)
    for _, id in ipairs(room > 0 and turns.ready(call, asked.group, room) or {}) do
      local row = pending.row(call, asked.group, id)
      local entry = row and entry_at(call, id)
      if not entry then
        pending.settle(call, asked.group, { id })
      elseif timing.is_over(call, id) then
        expire(call, asked, policy, row)
      else
        local numbers = asked.claim_idle_ms and { 0, row.count } or {}
        if not pending.take(asked, id, entry[2], numbers, #taken.deliveries == 0) then
          return true
        end
        pending.take_over(call, asked.group, taken, row, entry[2], pending.one_more(row.count))
      end
    end
    return false
  end

  -- Whether a new entry may be delivered by now. If it is to be pending before it may: its key, if
  -- it waits for its turn then, and when that is.
  local function in_time(call, asked, rules, entry)
    local id = entry[1]
    local is_over, due_ms = timing.is_over(call, id), timing.later_ms(call, id)
    if not is_over and not due_ms then
      return true
    end
    if #redis.call('XPENDING', call.key, asked.group, id, id, 1) > 0 then
      return false  -- the position was set back: it is pending already
    end
    if not is_over then
      return false, rules.key_field and turns.key_in(rules, entry[2]), due_ms
    end
    -- It becomes a dead letter when the group is read next.
    return false, nil, rules.on_expiry and now_ms() or nil
  end

  -- Read entries that are new to the group and that its rules let through: filters pass others by,
  -- and keys hold others back.
  -- Reply: the entries; whether there may be more; whether the call has only passed by others, and
  -- there may be more behind them; whether no more may be held back.
  local function read_by_rules(call, asked, rules, room, last_id)
    local matches = rules.filters and filters.matcher(rules.filters)
    local gate = rules.key_field and turns.gate(call, asked.group, rules, not asked.no_ack)
    local by_time = timing.exists(call)
    local new, looked_at, looked_bytes, is_over, is_blocked = {}, 0, 0, false, false
    local numbers = asked.claim_idle_ms and { 0, 0 } or {}
    -- Neighbouring entries that are delivered, or that are not; and what has a key of them.
    local run, run_matches, keyed = 0, false, {}

    -- Deliver the entries of the run, or pass them by.
    local function settle()
      local batch = run > 0 and read(call, asked, run, '>', not run_matches) or {}
      for _, entry in ipairs(run_matches and batch or {}) do
        new[#new + 1] = entry
      end
      for _, entry in ipairs(keyed) do
        if not run_matches and entry.key then
          pending.hold(call, asked.group, entry.id, entry.key, entry.due_ms)
        elseif not run_matches then
          local delay_ms = math.max(entry.due_ms - now_ms(), 0)
          pending.release(call, asked.group, { { entry.id, '0', delay_ms } })
        elseif not asked.no_ack then
          turns.take(call, asked.group, entry.id, entry.key)
        end
      end
      run, keyed = 0, {}
    end

    -- Take an entry into a run. Reply: whether there is room for it.
    local function look(entry)
      local is_match, key, due_ms = not matches or matches(entry[2]), nil, nil
      if is_match and by_time then
        is_match, key, due_ms = in_time(call, asked, rules, entry)
      end
      if is_match and #new + (run_matches and run or 0) == room then
        return false
      end
      if is_match and gate then
        local act
        act, key = gate(entry[1], entry[2])
        is_blocked = act == 'stop'
        if is_blocked then
          return false
        end
        is_match = act == 'deliver'
      end
      if is_match ~= run_matches then
        settle()
        run_matches = is_match
      end
      local taken = #new + run
      if is_match and not pending.take(asked, entry[1], entry[2], numbers, taken == 0) then
        return false
      end
      if key or due_ms then
        keyed[#keyed + 1] = { id = entry[1], key = key, due_ms = due_ms }
      end
      run, last_id = run + 1, entry[1]
      looked_at, looked_bytes = looked_at + 1, looked_bytes + size_of(entry[2])
      return true
    end

    local may_be_more = true
    while may_be_more and not is_over and looked_at < PASSED_MAX do
      local first = next_id(last_id)
      local page =
        first and redis.call('XRANGE', call.key, first, '+', 'COUNT', STEP_ENTRIES) or {}
      for _, entry in ipairs(page) do
        is_over = is_over or not look(entry)
      end
      may_be_more = is_over or #page == STEP_ENTRIES
      is_over = is_over or looked_bytes > PASSED_BYTES_MAX
    end
    settle()
    local is_looking = looked_at > 0 and #new == 0 and may_be_more and not is_blocked
    return new, may_be_more, is_looking, is_blocked
  end

  -- The greatest id but one.
  local LAST_BUT_ONE = U64_MAX .. '-18446744073709551614'

  -- Note that the consumer was here: Redis 7.0 does not if there is nothing new. It reads what it
  -- holds after the greatest id but one: for the server, the greatest id means new entries.
  local function see(call, asked)
    redis.call(
      'XREADGROUP', 'GROUP', asked.group, asked.consumer, 'COUNT', 1, 'STREAMS', call.key,
      LAST_BUT_ONE
    )
  end

  -- In how many ms the read may claim something, if nothing else changes; nil: never.
  local function next_claim_in(call, asked, rules, oldest_ms)
    local due_in = pending.next_due_in(call, asked.group, rules.has_turns or rules.key_field)
    if not asked.claim_idle_ms then
      return due_in
    end
    local idle_in = PART_PAUSE_MS
    if oldest_ms then
      local left_ms = oldest_ms + asked.claim_idle_ms - now_ms()
      idle_in = left_ms > 0 and left_ms or PAUSE_MS
    end
    return due_in and math.min(due_in, idle_in) or idle_in
  end

  -- How many entries may be read.
  local function room_of(asked, held)
    if not asked.max_pending then
      return asked.limit
    end
    return math.min(asked.limit, math.max(asked.max_pending - held, 0))
  end

  -- What a consumer gets that reads on: claimed entries, and then new ones.
  local function deliver(call, asked, policy, info, held)
    local rules = asked.by_policy and policy or policies.NONE
    local allowance, free_in = policies.allowance(call, asked.group, rules)
    local room = math.min(room_of(asked, held), allowance or asked.limit)
    local taken, more, oldest_ms = claims.by(asked.consumer), 0, nil
    local claimed = taken.deliveries
    local is_untidy = rules.has_turns and turns.tidy(call, asked.group)
    -- Entries that are due come before those that are new, however many they are.
    local is_behind = rules.has_turns and turns.join(call, asked.group)
    local is_over = rules.has_turns and begin_turns(call, asked, policy, room, taken)
    local gained = #claimed
    local walks = rules.filters or rules.key_field or (asked.by_policy and timing.exists(call))
    local may_claim = asked.claims_any and (asked.claim_idle_ms or asked.claim_released)
    may_claim = may_claim and room > #claimed and info.pending > 0
    if may_claim and not is_over then
      more, oldest_ms = claim(call, asked, policy, room, taken)
    end
    local new, may_be_more, is_looking, is_blocked = {}, true, false, false
    room, gained = room - #claimed, gained + more
    if room > 0 and not is_behind and not (#claimed > 0 and is_full(asked)) then
      if walks then
        new, may_be_more, is_looking, is_blocked = read_by_rules(
          call, asked, rules, room, info['last-delivered-id']
        )
      else
        new, may_be_more = read_new(call, asked, room, info['last-delivered-id'])
      end
    end
    if asked.has_pending_above and not asked.no_ack then
      pending.owned(call, asked.group, new)
    end
    policies.use_rate(call, asked.group, rules, #claimed + #new)
    if #claimed + #new == 0 then
      see(call, asked)
    end
    if asked.has_pending_above and #new > 0 then
      held = pending.held_count(call, asked.group, asked.consumer, groups.info(call, asked.group))
    else
      held = held + gained + (asked.no_ack and 0 or #new)
    end
    local lag = info.lag
    if walks then
      info = groups.info(call, asked.group)
      lag = info.lag
    elseif #new > 0 then
      lag = lag and lag >= #new and lag - #new
      if not lag then
        info = groups.info(call, asked.group)
        lag = info.lag
      end
    end
    local is_last = #new > 0 and not walks
    local last_id = is_last and new[#new][1] or info['last-delivered-id']
    local is_live = may_be_more and has_entries_above(call, last_id)
    local state = is_live and LIVE or CAUGHT_UP
    if asked.max_pending and held >= asked.max_pending then
      state = FULL
    elseif is_blocked then
      state = KEY_BLOCKED
    end
    local is_at_end = state == CAUGHT_UP
    if rules.paused_until_ms and rules.paused_until_ms > now_ms() then
      state = PAUSED
    elseif allowance and allowance == #claimed + #new and state ~= CAUGHT_UP then
      state = RATE_LIMITED
    end
    local pending_count = info.pending - (call.settled_count or 0) + (asked.no_ack and 0 or #new)
    if is_at_end and asked.by_policy and pending_count <= 0 and groups.closed_at_ms(call)
      and groups.is_over(call, groups.info(call, asked.group)) then
      state = CLOSED
    end
    local is_served = #claimed + #new > 0 or state == CLOSED
    may_claim = may_claim or (walks and asked.claims_any and asked.claim_released and room > 0)
    local claim_in = not is_served and may_claim and next_claim_in(call, asked, rules, oldest_ms)
    local may_get_more = is_untidy or is_behind or asked.has_expired
    if is_looking or (may_get_more and not is_served) then
      claim_in = 0
    elseif allowance == 0 then
      claim_in = free_in
    end
    return is_served, lag, held, state, claim_in, claimed, new
  end

  -- What a consumer gets that reads again what it holds.
  local function repeat_history(call, asked, _, info, held)
    local group, consumer = asked.group, asked.consumer
    local room = asked.limit
    if asked.max_pending and held >= asked.max_pending then
      local before = redis.call(
        'XPENDING', call.key, group, '-', asked.after, math.max(asked.max_pending, 1), consumer
      )
      room = room_of(asked, #before)
    end
    local deliveries, after, delivered = {}, asked.after, {}
    local step = (asked.size_bytes_max or asked.budget_bytes) and STEP_ENTRIES or room
    local is_over = room == 0
    while not is_over and #deliveries < room do
      local first = next_id(after)
      local count = math.min(step, room - #deliveries)
      local rows = first and pending.rows(call, group, first, '+', count, consumer) or {}
      local batch = #rows > 0 and read(call, asked, #rows, after) or {}
      for at, row in ipairs(rows) do
        local fields = batch[at] and batch[at][2] or nil
        if not is_over and not pending.take(asked, row.id, fields, {}, #deliveries == 0) then
          is_over = true
        end
        if is_over then
          if fields then
            pending.assign(call, group, consumer, row, row.count, { 'IDLE', row.idle })
          end
        else
          if fields then
            local count = pending.one_more(row.count)
            delivered[count] = delivered[count] or {}
            table.insert(delivered[count], row.id)
          end
          deliveries[#deliveries + 1] =
            pending.delivery(call, group, row, fields or false, consumer, row.count)
          after = row.id
        end
      end
      is_over = is_over or #rows < count
      step = step * 2
    end
    pending.count_deliveries(call, group, consumer, delivered)
    if #deliveries == 0 then
      see(call, asked)
    end
    return room > 0, info.lag, held, room == 0 and FULL or LIVE, false, deliveries, {}
  end

  -- Read as a consumer. Steps:
  --
  -- 1. Check the group, and the bound of its consumers. A read that is refused changes nothing.
  -- 2. Acknowledge.
  -- 3. Fill in from the policy of the group what the request leaves open.
  -- 4. Make dead letters of entries that were delivered too often.
  -- 5. Claim entries that nobody owns, and then those that are idle for long enough; or repeat what
  --    the consumer holds, if the read has a cursor.
  -- 6. Read entries that are new to the group, as many as there is room for.
  --
  -- Arguments beside the fields of `ReadGroup`:
  --   stream          whose entries are read
  --   after           the id after which to repeat what the consumer holds; nil: read on
  --   claims_any      whether pending entries may be claimed
  --   consumers_max   how many consumers there may be
  --   parts           names and values of all entries, at most
  --   budget_bytes, budget_parts   the same of the budget that the streams of a read share, if any
  --   counts_reply    whether the bytes of the budget are those of RESP2
  -- `size_bytes_max`, `parts`, `budget_bytes` and `budget_parts` become less with each entry that
  -- is taken.
  --
  -- Reply: whether the read is served; the lag (nil: unknown); how many entries the consumer holds;
  -- the state; in how many ms the read may get something (nil: never; 0: it has only passed by what
  -- filters do not let through, and looks again); how many dead letters wait to be relayed; what is
  -- left of the budget; deliveries; new entries; whether entries of the stream have times.
  operations.ReadGroup = function(call)
    local asked = call.args
    local group = asked.group
    local info = groups.require_info(call, group)
    groups.check_room(call, info)
    groups.check(call, group)
    local policy = policies.of(call, group)
    if #asked.acked > 0 then
      pending.oldest_ms(call, group)  -- which fails now if it is not what it has to be
      pending.acknowledge(call, group, asked.consumer, asked.acked)
    end
    follow(asked, policy)
    local outbox_count = 0
    local settles = policy.max_deliveries or timing.exists(call)
    if asked.by_policy and settles and not asked.after then
      if info.pending > 0 then
        policies.dead_letters_before(call, group, policy, asked.claim_idle_ms)
      end
      outbox_count = policies.outbox_count(call)
    end
    local held, has_above = pending.held_count(call, group, asked.consumer, info)
    asked.has_pending_above = has_above
    local serve = asked.after and repeat_history or deliver
    local is_served, lag, held_after, state, claim_in, deliveries, new =
      serve(call, asked, policy, info, held)
    return {
      is_served and 1 or 0, lag, held_after, state, claim_in or false, outbox_count,
      asked.budget_bytes or 0, asked.budget_parts or 0, deliveries, new,
      timing.exists(call) and 1 or 0,
    }
  end

  -- Look whether a read would be refused.
  operations.check_reader = function(call)
    local asked = call.args
    local info = groups.require_info(call, asked.group)
    groups.check_room(call, info)
    return 0
  end
end
