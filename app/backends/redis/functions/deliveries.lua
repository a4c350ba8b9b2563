-- Deliveries: acknowledge, give back, extend and claim what is pending.

do
  -- What became of an id of an ack, nack or extend: one letter each.
  local DONE, NOT_PENDING, CLAIMED = 'd', 'n', 'c'

  -- What became of an id of a deletion.
  local DELETED, NOT_FOUND, REFERENCED = 'd', 'n', 'r'

  -- An optional name among the arguments: nil if it is '', and else what follows a '='.
  local function optional(text)
    return text ~= '' and string.sub(text, 2) or nil
  end

  -- Whether a consumer may settle an entry: it or nobody owns it, or nobody is named.
  local function may_settle(row, consumer)
    return not consumer or not row.owner or row.owner == consumer
  end

  -- The ids behind the first arguments.
  local function ids_from(call, first)
    return { unpack(call.args, first) }
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

  -- Acknowledge entries. Arguments: the group, the consumer (optional), ids.
  operations.ack = function(call)
    local group, consumer = call.args[1], optional(call.args[2])
    local missing = groups.missing(call, group)
    if missing then
      return missing
    end
    groups.check(call, group)
    return pending.acknowledge(call, group, consumer, ids_from(call, 3))
  end

  -- Acknowledge what a consumer received up to an entry. Arguments: the group, the consumer, the id
  -- of the entry, the id to start from, how many entries to look at.
  -- Reply: the id to go on from; nil at the end.
  -- An entry counts if its id is not greater and it was delivered no later, to the millisecond.
  operations.ack_through = function(call)
    local group, consumer, seen, start, limit = unpack(call.args)
    local missing = groups.missing(call, group)
    if missing then
      return missing
    end
    groups.check(call, group)
    local last = pending.row(call, group, seen)
    if not last or last.owner ~= consumer then
      return false
    end
    local rows = pending.rows(call, group, start, seen, limit, consumer)
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

  -- Acknowledge entries and delete them. Arguments: the group, what becomes of references to them
  -- ('keep', 'delete' or 'acked'), ids. Reply: one letter for each.
  operations.ack_and_delete = function(call)
    local group, references = call.args[1], call.args[2]
    local ids = ids_from(call, 3)
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
        end
        if references == 'delete' then
          trims.purge(call, referring, { id })
        end
      end
      outcomes[at] = outcome
    end
    return table.concat(outcomes)
  end

  -- Give entries back. Arguments: the names of stream and group, the consumer (optional), the mode,
  -- the delay in ms ('' is by the policy), the error ('' is none), the delivery count ('' is by the
  -- mode), whether entries that are not pending are taken, whether the policy is followed, ids.
  -- Reply: one letter for each id, and how many dead letters wait to be relayed.
  operations.nack = function(call)
    local stream, group, consumer, mode, delay_ms, text, count, forces, by_policy =
      unpack(call.args)
    consumer = optional(consumer)
    local missing = groups.missing(call, group)
    if missing then
      return missing
    end
    groups.check(call, group, true)
    local policy = policies.of(call, group, stream)

    local function count_after(before)
      if count ~= '' then
        return count
      end
      if mode == 'fatal' then
        return COUNT_MAX
      end
      return mode == 'silent' and pending.one_less(before) or before
    end

    local function delay_after(after)
      if policy.is_spent(after) then
        return 0
      end
      if delay_ms ~= '' then
        return tonumber(delay_ms)
      end
      return mode == 'fail' and policies.delay_ms(policy, after) or 0
    end

    local outcomes, released = {}, {}
    for at, id in ipairs(ids_from(call, 10)) do
      local row = pending.row(call, group, id)
      local outcome = row and (may_settle(row, consumer) and DONE or CLAIMED) or NOT_PENDING
      if not row and forces == '1' and #redis.call('XRANGE', call.key, id, id) > 0 then
        outcome = DONE
      end
      if outcome == DONE then
        local after = count_after(row and row.count or '0')
        pending.release(call, group, { { id, after, delay_after(after) } })
        if text ~= '' then
          pending.note_error(call, group, id, text)
        end
        released[#released + 1] = id
      end
      outcomes[at] = outcome
    end
    if by_policy == '1' then
      for _, id in ipairs(released) do
        local row = pending.row(call, group, id)
        if row and policy.is_spent(row.count) then
          policies.dead_letter(call, group, stream, policy, row)
        end
      end
    end
    return { table.concat(outcomes), policies.outbox_count(call) }
  end

  -- Undo deliveries that nobody received. Arguments: the group, the consumer, and for each entry
  -- its id and its delivery count. An entry that was delivered again stays as it is.
  operations.give_back = function(call)
    local group, consumer = call.args[1], call.args[2]
    if groups.missing(call, group) then
      return 0
    end
    groups.check(call, group, true)
    local released = {}
    for at = 3, #call.args, 2 do
      local id, count = call.args[at], call.args[at + 1]
      local row = pending.row(call, group, id)
      if row and row.owner == consumer and row.count == count then
        released[#released + 1] = { id, pending.one_less(count) }
      end
    end
    pending.release(call, group, released)
    return #released
  end

  -- Restart the idle time of entries. Arguments: the group, the consumer, ids.
  -- Reply: one letter for each id.
  operations.extend = function(call)
    local group, consumer = call.args[1], call.args[2]
    local missing = groups.missing(call, group)
    if missing then
      return missing
    end
    local outcomes = {}
    for at, id in ipairs(ids_from(call, 3)) do
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

  -- Whether a row may be claimed: nobody owns it, or it is idle for long enough.
  local function is_claimable(call, group, row, idle_ms)
    if not row.owner then
      return pending.due_in(call, group, row) == 0
    end
    return row.idle >= idle_ms
  end

  -- What the entries may take that a claim gets: a function that takes their fields in, and tells
  -- whether they have room.
  -- bytes, parts: of names and values, and how many of them; '' is without bound.
  -- is_first: whether the next fields are the first, which have room whatever their size is.
  local function room_of(bytes, parts, is_first)
    bytes, parts = tonumber(bytes), tonumber(parts)
    return function(fields)
      if not bytes then
        return true
      end
      local size = size_of(fields)
      if not is_first and (size > bytes or #fields > parts) then
        return false
      end
      is_first, bytes, parts = false, bytes - size, parts - #fields
      return true
    end
  end

  -- Take entries over by id. Arguments: the group, the consumer, how many consumers there may be,
  -- the least idle time, the delivery time to set ('IDLE' or 'TIME' and ms, or '' and ''), the
  -- delivery count to set ('' is one more), whether entries that are not pending are taken, whether
  -- this is no delivery, the id to which the group is raised, the bytes of names and values and how
  -- many of them ('' and '' are without bound), whether the first entry has room in any case, ids.
  -- Reply: deliveries, ids that are gone from the stream, and whether an entry had no room.
  operations.claim = function(call)
    local group, consumer, consumers_max, idle_ms, clock, ms, count, forces, just_id, last_id,
      bytes, parts, is_first = unpack(call.args)
    local info = groups.info(call, group)
    if not info then
      return fault('GroupNotFound', redis.call('EXISTS', call.key))
    end
    local excess = groups.too_many(call, info, consumer, consumers_max)
    if excess then
      return excess
    end
    groups.check(call, group)
    idle_ms = tonumber(idle_ms)
    local at = clock ~= '' and { clock, ms } or nil
    local taken, deliveries, gone = claims.by(consumer), {}, {}
    local has_room, is_over = room_of(bytes, parts, is_first == '1'), 0

    local function count_after(before)
      if count ~= '' then
        return count
      end
      return just_id == '1' and before or pending.one_more(before)
    end

    -- Take an entry over. Reply: whether it has room.
    local function take(row, fields, before)
      if just_id ~= '1' and not has_room(fields) then
        return false
      end
      local after = count_after(before)
      pending.assign(call, group, consumer, row, after, at)
      claims.note(taken, row)
      deliveries[#deliveries + 1] =
        pending.delivery(call, group, row, just_id ~= '1' and fields, consumer, after)
      return true
    end

    for index = 14, #call.args do
      local id = call.args[index]
      local row = pending.row(call, group, id)
      local entry = redis.call('XRANGE', call.key, id, id)[1]
      local had_room = true
      if not entry then
        if row then
          pending.settle(call, group, { id })
          gone[#gone + 1] = id
        end
      elseif not row then
        if forces == '1' then
          had_room = take({ id = id, idle = 0, count = '0' }, entry[2], '1')
        end
      elseif is_claimable(call, group, row, idle_ms) then
        had_room = take(row, entry[2], row.count)
      end
      if not had_room then
        is_over = 1
        break
      end
    end
    claims.write(call, group, taken)
    if #deliveries == 0 then
      redis.call('XGROUP', 'CREATECONSUMER', call.key, group, consumer)
    elseif at then
      pending.forget_oldest(call, group)
    end
    if last_id ~= MIN_ID then
      -- An id that is never pending: this only raises the position.
      redis.call('XCLAIM', call.key, group, consumer, 0, MIN_ID, 'JUSTID', 'LASTID', last_id)
    end
    return { deliveries, gone, is_over }
  end

  -- Take over idle entries in order of their ids. Arguments: the names of stream and group, the
  -- consumer, how many consumers there may be, the least idle time, the id to start from, how many
  -- entries to take and to look at, whether this is no delivery, whether the policy is followed,
  -- the bytes of names and values and how many of them ('' and '' are without bound).
  -- Reply: deliveries, ids that are gone from the stream, the id to go on from, how many dead
  -- letters wait to be relayed.
  operations.autoclaim = function(call)
    local stream, group, consumer, consumers_max, idle_ms, start, limit, looked_at_max, just_id,
      by_policy, bytes, parts = unpack(call.args)
    local info = groups.info(call, group)
    if not info then
      return fault('GroupNotFound', redis.call('EXISTS', call.key))
    end
    groups.check(call, group)
    pending.oldest_ms(call, group)  -- which fails now if it is not what it has to be
    idle_ms, limit, looked_at_max = tonumber(idle_ms), tonumber(limit), tonumber(looked_at_max)
    if by_policy == '1' then
      local policy = policies.of(call, group, stream)
      policies.dead_letters_before(call, group, stream, policy, idle_ms)
    end
    local excess = groups.too_many(call, info, consumer, consumers_max)
    if excess then
      return excess
    end
    redis.call('XGROUP', 'CREATECONSUMER', call.key, group, consumer)
    local taken, deliveries, gone = claims.by(consumer), {}, {}
    local has_room = room_of(bytes, parts, true)
    local rows = pending.rows(call, group, start, '+', looked_at_max + 1)
    local next_start = MIN_ID
    for at, row in ipairs(rows) do
      if at > looked_at_max or #deliveries + #gone == limit then
        next_start = row.id
        break
      end
      local entry = redis.call('XRANGE', call.key, row.id, row.id)[1]
      if not entry then
        gone[#gone + 1] = row.id
      elseif is_claimable(call, group, row, idle_ms) then
        if just_id ~= '1' and not has_room(entry[2]) then
          next_start = row.id
          break
        end
        local after = just_id == '1' and row.count or pending.one_more(row.count)
        pending.assign(call, group, consumer, row, after)
        claims.note(taken, row)
        deliveries[#deliveries + 1] =
          pending.delivery(call, group, row, just_id ~= '1' and entry[2], consumer, after)
      end
    end
    pending.settle(call, group, gone)
    claims.write(call, group, taken)
    return { deliveries, gone, next_start, policies.outbox_count(call) }
  end
end
