-- Deliveries: acknowledge, give back, extend and claim what is pending.

do
  -- What became of an id of an ack, nack or extend: one letter each.
  local DONE, NOT_PENDING, CLAIMED = 'd', 'n', 'c'

  -- What became of an id of a deletion.
  local DELETED, NOT_FOUND, REFERENCED = 'd', 'n', 'r'

  -- Whether a consumer may settle an entry: it or nobody owns it, or nobody is named.
  local function may_settle(row, consumer)
    return not consumer or not row.owner or row.owner == consumer
  end

  -- Acknowledge ids. Reply: one letter for each.
  function pending.acknowledge(call, group, consumer, ids)
    local acked, is_acked, outcomes = {}, {}, {}
    local owned = consumer and pending.owned_among(call, group, consumer, ids) or {}
    for at, id in ipairs(ids) do
      local outcome = NOT_PENDING  -- an id given twice counts once
      if not is_acked[id] then
        local row = not owned[id] and pending.row(call, group, id)
        if owned[id] or (row and may_settle(row, consumer)) then
          outcome, is_acked[id] = DONE, true
          acked[#acked + 1] = id
        elseif row then
          outcome = CLAIMED
        end
      end
      outcomes[at] = outcome
    end
    pending.settle(call, group, acked)
    return table.concat(outcomes)
  end

  -- Reply: one letter for each id.
  operations.Ack = function(call)
    local group = groups.require(call)
    groups.check(call, group)
    return pending.acknowledge(call, group, call.args.consumer, call.args.ids)
  end

  -- Acknowledge what a consumer received up to an entry. This call begins at the id `start`, and
  -- looks at up to `limit` entries.
  -- Reply: the id to go on from; nil at the end.
  -- An entry counts if its id is not greater and it was delivered no later, to the millisecond.
  operations.AckThrough = function(call)
    local asked, group = call.args, groups.require(call)
    local consumer, seen = asked.consumer, asked.seen
    groups.check(call, group)
    local last = pending.row(call, group, seen)
    if not last or last.owner ~= consumer then
      return false
    end
    local rows = pending.rows(call, group, asked.start, seen, asked.limit, consumer)
    local is_over = rows[#rows].id == seen
    if is_over then
      last = rows[#rows]  -- its idle time was read at the same moment as those of the others
    end
    local ids = {}
    for _, row in ipairs(rows) do
      if row.idle >= last.idle then
        ids[#ids + 1] = row.id
      end
    end
    pending.settle(call, group, ids)
    return not is_over and next_id(rows[#rows].id)
  end

  -- Reply: one letter for each id.
  operations.AckAndDelete = function(call)
    local group, references, ids = call.args.group, call.args.references, call.args.ids
    if groups.missing(call, group) then
      return string.rep(NOT_FOUND, #ids)
    end
    groups.check(call, group)
    local referring = references == 'keep' and {} or trims.groups_of(call)
    local outcomes = {}
    for at, id in ipairs(ids) do
      local outcome = NOT_FOUND
      if pending.settle(call, group, { id }) == 1 then
        local is_needed = references == 'acked' and trims.is_referenced(call, referring, id)
        outcome = is_needed and REFERENCED or DELETED
        if outcome == DELETED then
          redis.call('XDEL', call.key, id)
          turns.deleted(call, { id })
          timing.forget(call, { id })
        end
        if references == 'delete' then
          trims.purge(call, referring, { id })
        end
      end
      outcomes[at] = outcome
    end
    return table.concat(outcomes)
  end

  -- Reply: one letter for each id, and how many dead letters wait to be relayed.
  operations.Nack = function(call)
    local asked, group = call.args, groups.require(call)
    local mode = asked.mode
    groups.check(call, group, true)
    local policy = policies.of(call, group)

    local function count_after(before)
      return asked.retry_count or mode == 'fatal' and COUNT_MAX
        or mode == 'silent' and pending.one_less(before) or before
    end

    local function delay_after(after)
      if policy.is_spent(after) then
        return 0
      end
      return asked.delay_ms or mode == 'fail' and policies.delay_ms(policy, after) or 0
    end

    local outcomes, released, counts = {}, {}, {}
    for at, id in ipairs(asked.ids) do
      local row = pending.row(call, group, id)
      counts[id] = counts[id] or row and row.count
      local outcome = row and (may_settle(row, asked.consumer) and DONE or CLAIMED) or NOT_PENDING
      if not row and asked.force and entry_at(call, id) then
        outcome = DONE
      end
      if row and asked.counts and not (row.owner and row.count == asked.counts[at]) then
        outcome = CLAIMED -- it was delivered again, or given back
      end
      if outcome == DONE then
        local after = count_after(row and row.count or '0')
        pending.release(call, group, { { id, after, delay_after(after) } })
        if asked.error and asked.error ~= '' then
          pending.note_error(call, group, id, asked.error)
        end
        released[#released + 1] = id
      end
      outcomes[at] = outcome
    end
    if asked.by_policy then
      for _, id in ipairs(released) do
        local row = pending.row(call, group, id)
        if row and policy.is_spent(row.count) then
          policies.dead_letter(call, group, policy, row, nil, counts[id])
        elseif row and timing.is_over(call, id) then
          policies.expire(call, group, policy, row)
        end
      end
    end
    return { table.concat(outcomes), policies.outbox_count(call) }
  end

  -- Undo deliveries that nobody received: pairs of an id and its delivery count, as text. An entry
  -- that was delivered again stays as it is.
  operations.GiveBack = function(call)
    local group, consumer = call.args.group, call.args.consumer
    if groups.missing(call, group) then
      return 0
    end
    groups.check(call, group, true)
    local released = {}
    for _, delivery in ipairs(call.args.deliveries) do
      local id, count = delivery[1], delivery[2]
      local row = pending.row(call, group, id)
      if row and row.owner == consumer and row.count == count then
        released[#released + 1] = { id, pending.one_less(count) }
      end
    end
    pending.release(call, group, released)
    return #released
  end

  -- Restart the idle time of entries. Reply: one letter for each id.
  operations.Extend = function(call)
    local group, consumer, outcomes = groups.require(call), call.args.consumer, {}
    for at, id in ipairs(call.args.ids) do
      local row = pending.row(call, group, id)
      if not row or not row.owner then
        outcomes[at] = NOT_PENDING
      elseif row.owner ~= consumer then
        outcomes[at] = CLAIMED
      else
        outcomes[at] = DONE
        redis.call('XCLAIM', call.key, group, consumer, 0, id, 'JUSTID')
      end
    end
    return table.concat(outcomes)
  end

  -- A delivery of a pending entry: id, fields, idle time and delivery count before, from whom it is
  -- taken (nil: from nobody else), the delivery count from now on, and the last error (nil: none).
  function pending.delivery(call, group, row, fields, consumer, count)
    return {
      row.id, fields, row.owner and row.idle or 0, row.count,
      row.owner ~= consumer and row.owner or false, count,
      pending.error_of(call, group, row.id),
    }
  end

  -- Give a pending entry to a consumer, and note the delivery and from whom it is taken.
  -- taken: see claims.lua. fields, count, at: as for `delivery` and `assign`.
  function pending.take_over(call, group, taken, row, fields, count, at)
    pending.assign(call, group, taken.by, row, count, at)
    claims.note(taken, row)
    local delivery = pending.delivery(call, group, row, fields, taken.by, count)
    taken.deliveries[#taken.deliveries + 1] = delivery
  end

  -- Whether a row may be claimed: nobody owns it, or it is idle for long enough.
  local function is_claimable(call, group, row, idle_ms)
    if not row.owner then
      return pending.due_in(call, group, row) == 0
    end
    return row.idle >= idle_ms
  end

  -- How long a number is in RESP2, with what stands around it.
  local function header_bytes(number)
    return #tostring(number) + 3
  end

  -- How long an entry is in RESP2: id, names and values, numbers.
  local function reply_bytes(id, fields, numbers)
    local size = header_bytes(2 + #numbers) + header_bytes(#id) + #id + 2
    if not fields then
      size = size + 5
    else
      size = size + header_bytes(#fields)
      for _, part in ipairs(fields) do
        size = size + header_bytes(#part) + #part + 2
      end
    end
    for _, number in ipairs(numbers) do
      size = size + header_bytes(number)
    end
    return size
  end

  -- Take an entry into the reply. Reply: whether there is room for it. The first entry has room
  -- whatever its size is.
  -- numbers: what the reply says of it beside id and fields.
  function pending.take(asked, id, fields, numbers, is_first)
    local parts, size = fields and #fields or 0, fields and size_of(fields) or 0
    if asked.size_bytes_max then
      if not is_first and (size > asked.size_bytes_max or parts > asked.parts) then
        return false
      end
      asked.size_bytes_max, asked.parts = asked.size_bytes_max - size, asked.parts - parts
    end
    if asked.budget_bytes then
      if asked.is_spent then
        return false
      end
      if asked.counts_reply then
        size = reply_bytes(id, fields, numbers)
      end
      asked.budget_bytes, asked.budget_parts = asked.budget_bytes - size, asked.budget_parts - parts
      asked.is_spent = asked.budget_bytes <= 0 or asked.budget_parts <= 0
    end
    return true
  end

  -- Take an entry over for a claim, which names its bounds as a read does. Reply: whether there is
  -- room for it.
  -- before: its delivery count. at: as for `assign`.
  local function claim(call, taken, row, fields, before, at)
    local asked, is_first = call.args, call.args.is_first and #taken.deliveries == 0
    if not asked.just_id and not pending.take(asked, row.id, fields, {}, is_first) then
      return false
    end
    local after = asked.retry_count or asked.just_id and before or pending.one_more(before)
    pending.take_over(call, asked.group, taken, row, not asked.just_id and fields, after, at)
    return true
  end

  -- Take entries over by id. They have `size_bytes_max` bytes and `parts` names and values at
  -- most; the first one has room in any case if it `is_first`. There may be `consumers_max`
  -- consumers.
  -- Reply: deliveries, ids that are gone from the stream, and whether an entry had no room.
  operations.Claim = function(call)
    local asked = call.args
    local group, consumer = asked.group, asked.consumer
    local info = groups.require_info(call, group)
    groups.check_room(call, info)
    groups.check(call, group)
    local at = asked.time_ms and { 'TIME', asked.time_ms }
      or asked.idle_ms and { 'IDLE', asked.idle_ms }
    local taken, gone, is_over = claims.by(consumer), {}, 0

    for _, id in ipairs(asked.ids) do
      local row = pending.row(call, group, id)
      local entry = entry_at(call, id)
      local had_room = true
      if not entry then
        if row then
          pending.settle(call, group, { id })
          gone[#gone + 1] = id
        end
      elseif not row and asked.force then
        row = { id = id, idle = 0, count = '0' }
        had_room = claim(call, taken, row, entry[2], '1', at)
      elseif row and is_claimable(call, group, row, asked.min_idle_ms) then
        had_room = claim(call, taken, row, entry[2], row.count, at)
      end
      if not had_room then
        is_over = 1
        break
      end
    end
    claims.write(call, group, taken)
    if #taken.deliveries == 0 then
      redis.call('XGROUP', 'CREATECONSUMER', call.key, group, consumer)
    elseif at then
      pending.forget_oldest(call, group)
    end
    if asked.last_id ~= MIN_ID then
      -- An id that is never pending: this only raises the position.
      redis.call('XCLAIM', call.key, group, consumer, 0, MIN_ID, 'JUSTID', 'LASTID', asked.last_id)
    end
    return { taken.deliveries, gone, is_over }
  end

  -- Take over idle entries in order of their ids, with bounds as for `Claim`. This call looks at up
  -- to `looked_at_max` entries.
  -- Reply: deliveries, ids that are gone from the stream, the id to go on from, how many dead
  -- letters wait to be relayed.
  operations.Autoclaim = function(call)
    local asked = call.args
    local group, consumer = asked.group, asked.consumer
    local idle_ms, looked_at_max = asked.min_idle_ms, asked.looked_at_max
    local info = groups.require_info(call, group)
    groups.check(call, group)
    pending.oldest_ms(call, group)  -- which fails now if it is not what it has to be
    if asked.by_policy then
      policies.dead_letters_before(call, group, policies.of(call, group), idle_ms)
    end
    groups.check_room(call, info)
    redis.call('XGROUP', 'CREATECONSUMER', call.key, group, consumer)
    local taken, gone = claims.by(consumer), {}
    local rows = pending.rows(call, group, asked.start, '+', looked_at_max + 1)
    local next_start = MIN_ID
    for at, row in ipairs(rows) do
      if at > looked_at_max or #taken.deliveries + #gone == asked.limit then
        next_start = row.id
        break
      end
      local entry = entry_at(call, row.id)
      if not entry then
        gone[#gone + 1] = row.id
      elseif is_claimable(call, group, row, idle_ms) then
        if not claim(call, taken, row, entry[2], row.count) then
          next_start = row.id
          break
        end
      end
    end
    pending.settle(call, group, gone)
    claims.write(call, group, taken)
    return { taken.deliveries, gone, next_start, policies.outbox_count(call) }
  end
end
