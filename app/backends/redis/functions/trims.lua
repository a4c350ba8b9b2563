-- Trims: by request, and by the retention of the stream. See engine/decisions/trims.py.
--
-- `trimmed` in `meta` is the greatest id that a trim removed. It is exact, because it decides
-- whether a reader has missed something. So a trim looks at what it removes. A long trim is done in
-- parts, which are calls of their own.

local trims = {}

do
  -- What one part may look at: entries, and the bytes of their names and values. A trim that follows
  -- an append looks at as many more entries as were appended, whatever their size. Otherwise a
  -- stream that is appended to in large batches would become longer and longer.
  local LOOKED_AT_MAX = 1000
  local LOOKED_BYTES_MAX = 1024 * 1024

  -- Pending entries of groups that one part may look at.
  local REFERENCES_MAX = 5000

  -- How many entries an approximate trim removes at a time: those of a full node.
  local NODE_ENTRIES = 100

  -- Note the greatest id that a trim has removed.
  local function note_trimmed(call, id)
    local meta = call.side('meta')
    local before = redis.call('HGET', meta, 'trimmed')
    if not before or compare_ids(before, id) < 0 then
      if redis.call('HSET', meta, 'trimmed', id) == 1 then
        streams.expire_alike(call, meta)
      end
    end
  end

  -- Remove the oldest `count` entries, the last of which has this id.
  local function cut(call, length, count, id)
    redis.call('XTRIM', call.key, 'MAXLEN', '=', decimal(length - count))
    note_trimmed(call, id)
    return count
  end

  -- Ids of the oldest entries in a range: up to `count_max` of them.
  local function ids_of(key, low, high, count_max, bytes_max)
    local entries, is_all = read_range(
      key, low, high, false, count_max, bytes_max or LOOKED_BYTES_MAX, math.huge
    )
    local ids = {}
    for at = 1, #entries do
      ids[at] = entries[at][1]
    end
    return ids, is_all
  end

  -- Remove the oldest entries until there are `kept` left, or a part of them.
  --
  -- appended: how many entries have just been appended.
  -- Returns how many were removed, and whether these are all.
  local function cut_to_length(call, kept, appended)
    local length = redis.call('XLEN', call.key)
    local excess = length - kept
    if excess <= 0 then
      return 0, true
    end
    if kept < excess and kept < LOOKED_AT_MAX then  -- the newest entries are the shorter way
      local entries = read_range(call.key, '+', '-', true, kept + 1, LOOKED_BYTES_MAX, math.huge)
      if #entries == kept + 1 then
        return cut(call, length, excess, entries[#entries][1]), true
      end
    end
    local count, last = 0, nil
    if appended > 0 then
      local ids = ids_of(call.key, '-', '+', math.min(excess, appended), math.huge)
      count, last = #ids, ids[#ids]
    end
    if count < excess then
      local low = last and '(' .. last or '-'
      local ids = ids_of(call.key, low, '+', math.min(excess - count, LOOKED_AT_MAX))
      count, last = count + #ids, ids[#ids]
    end
    return cut(call, length, count, last), count == excess
  end

  -- Remove all entries below an id. Returns as above.
  local function cut_below(call, min_id)
    local last = min_id ~= MIN_ID
      and redis.call('XREVRANGE', call.key, '(' .. min_id, '-', 'COUNT', 1)[1]
    if not last then
      return 0, true
    end
    local removed = redis.call('XTRIM', call.key, 'MINID', '=', min_id)
    note_trimmed(call, last[1])
    return removed, true
  end

  -- Remove the oldest entries, a node at a time, as far as the trim allows. Returns as above.
  local function cut_nodes(call, to, removed_before, appended)
    local length = redis.call('XLEN', call.key)
    local count, low, through = 0, '-', nil
    local is_all = true
    while count < length do
      local ids = ids_of(call.key, low, '+', NODE_ENTRIES)
      local last = ids[#ids]
      if to.max_length and length - count - #ids < to.max_length
        or to.min_id and compare_ids(last, to.min_id) >= 0
        or to.limit and removed_before + count + #ids > to.limit then
        break
      end
      count, through, low = count + #ids, last, '(' .. last
      if count >= LOOKED_AT_MAX + appended then
        is_all = false
        break
      end
    end
    if count > 0 then
      cut(call, length, count, through)
    end
    return count, is_all
  end

  -- The groups of the stream: name, last id, and whether anything is pending.
  function trims.groups_of(call)
    local groups = {}
    for at, facts in ipairs(redis.call('XINFO', 'GROUPS', call.key)) do
      local group = by_name(facts)
      groups[at] = {
        name = group.name, last_id = group['last-delivered-id'], has_pending = group.pending > 0,
      }
      check_types(call, {}, group.name, { 'released', 'errors' })
    end
    return groups
  end

  -- How many ids one part looks up in the groups of the stream, or in those that have turns.
  function trims.ids_at_once(call, groups)
    local count = math.max(1, #groups, redis.call('SCARD', call.side('turning')))
    return math.max(1, math.min(LOOKED_AT_MAX, math.floor(REFERENCES_MAX / count)))
  end

  -- Tell whether a group has still to be given an entry, or has it pending.
  function trims.is_referenced(call, groups, id)
    for _, group in ipairs(groups) do
      if compare_ids(id, group.last_id) > 0 or group.has_pending
        and #redis.call('XPENDING', call.key, group.name, id, id, 1) > 0 then
        return true
      end
    end
    return false
  end

  -- Let no group have these ids pending any more.
  function trims.purge(call, groups, ids)
    for _, group in ipairs(groups) do
      if group.has_pending then
        redis.call('XACK', call.key, group.name, unpack(ids))
        redis.call('ZREM', call.side('released', group.name), unpack(ids))
        redis.call('HDEL', call.side('errors', group.name), unpack(ids))
        turns.finish(call, group.name, ids)
      end
    end
  end

  -- Remove the oldest entries, and what groups have of them pending. Returns as `cut_to_length`.
  local function cut_and_purge(call, to, removed_before)
    local groups = trims.groups_of(call)
    local length = redis.call('XLEN', call.key)
    local count_max = to.max_length and length - to.max_length or length
    if to.limit then
      local total = length + removed_before
      local whole = total <= to.limit and total or to.limit - to.limit % NODE_ENTRIES
      count_max = math.min(count_max, whole - removed_before)
    end
    if count_max <= 0 or to.min_id == MIN_ID then
      return 0, true
    end
    local high = to.min_id and '(' .. to.min_id or '+'
    local at_once = math.min(count_max, trims.ids_at_once(call, groups))
    local ids, is_all = ids_of(call.key, '-', high, at_once)
    if #ids == 0 then
      return 0, true
    end
    trims.purge(call, groups, ids)
    return cut(call, length, #ids, ids[#ids]), is_all or #ids == count_max
  end

  -- Remove entries that no group needs. The walk passes over the others. It ends when the length
  -- or the id is reached, or after the first node that could not be removed as a whole.
  --
  -- after: what is up to this id has been looked at.
  -- Returns how many were removed, and where the next part begins, or true if this is the last.
  local function evict(call, to, removed_before, after)
    local groups = trims.groups_of(call)
    local length = redis.call('XLEN', call.key)
    local evicted, looked_at = {}, 0
    local next_part = true
    while true do
      local ids = after == MAX_ID and {} or ids_of(call.key, above(after), '+', NODE_ENTRIES)
      if #ids == 0 or to.limit and removed_before + #evicted + #ids > to.limit then
        break
      end
      if looked_at >= trims.ids_at_once(call, groups) then
        next_part = after
        break
      end
      local last = ids[#ids]
      local is_last = to.max_length and length - #ids < to.max_length
        or to.min_id and compare_ids(last, to.min_id) >= 0
      for _, id in ipairs(ids) do
        if to.max_length and length <= to.max_length
          or to.min_id and compare_ids(id, to.min_id) >= 0 then
          break
        end
        if not trims.is_referenced(call, groups, id) then
          evicted[#evicted + 1] = id
          length = length - 1
        end
      end
      if is_last then
        break
      end
      looked_at, after = looked_at + #ids, last
    end
    local first = 1
    while evicted[first] do  -- the oldest go by a trim, which leaves the greatest deleted id
      local oldest = redis.call('XRANGE', call.key, '-', '+', 'COUNT', 1)[1]
      if oldest[1] ~= evicted[first] then
        break
      end
      redis.call('XTRIM', call.key, 'MAXLEN', '=', decimal(redis.call('XLEN', call.key) - 1))
      first = first + 1
    end
    for at = first, #evicted do
      redis.call('XDEL', call.key, evicted[at])
    end
    if #evicted > 0 then
      turns.deleted(call, evicted)
      timing.forget(call, evicted)
      note_trimmed(call, evicted[#evicted])
    end
    return #evicted, next_part
  end

  -- Carry out a trim, or a part of it.
  --
  -- to: what it keeps, with the fields of `TrimTo`; without `limit` it may remove all.
  -- removed: how many entries earlier parts have removed.
  -- after: where the part begins; `0-0` is the beginning.
  -- appended: how many entries have just been appended.
  -- Returns how many were removed, and where the next part begins, or true if this is the last.
  function trims.part(call, to, removed, after, appended)
    if to.references == 'acked' then
      return evict(call, to, removed, after)
    end
    local count, is_last
    if to.references == 'delete' then
      count, is_last = cut_and_purge(call, to, removed)
    elseif to.approximate then
      count, is_last = cut_nodes(call, to, removed, appended)
    elseif to.max_length then
      count, is_last = cut_to_length(call, to.max_length, appended)
    else
      count, is_last = cut_below(call, to.min_id)
    end
    return count, is_last or MIN_ID
  end

  -- Remove what the configuration of the stream does not keep. `appended` as above. Returns whether
  -- this was all.
  function trims.retain(call, config, appended)
    local is_last = true
    if config.max_age_ms then
      cut_below(call, decimal(math.max(now_ms() - tonumber(config.max_age_ms), 0)) .. '-0')
    end
    if config.max_length then
      local _
      _, is_last = cut_to_length(call, tonumber(config.max_length), appended)
    end
    return is_last
  end

  -- Trim the stream, or go on `after` an id when earlier parts have `removed` entries.
  -- Reply: how many entries were removed, and where the next part begins, or '' if there is none.
  operations.Trim = function(call)
    local asked = call.args
    require_stream(call)
    meta_of(call, 'trimmed')
    local removed, next_part = trims.part(call, asked.to, asked.removed, asked.after, 0)
    return { removed, next_part == true and '' or next_part }
  end

  -- Remove what the retention of the stream does not keep, or a part of it. Reply: whether there
  -- may be more.
  operations.retain = function(call)
    require_stream(call)
    return trims.retain(call, settings.of_stream(call), 0) and 0 or 1
  end
end
