-- Ranges: read entries.

local read_range

do
  -- How the walk through a range begins. Pages grow while entries are small.
  local PAGE_FIRST, PAGE_MAX, PAGE_BYTES = 16, 500, 256 * 1024

  -- Read entries of a range.
  --
  -- first, last: the bounds, as XRANGE or, with `is_reverse`, as XREVRANGE takes them.
  -- count_max, bytes_max, parts_max: how many entries, how many bytes of names and values, and how
  -- many names and values at most. The first entry is always returned.
  -- Returns the entries, and whether the range has no more.
  read_range = function(key, first, last, is_reverse, count_max, bytes_max, parts_max)
    local command = is_reverse and 'XREVRANGE' or 'XRANGE'
    local entries, count, bytes, parts = {}, 0, 0, 0
    local page = PAGE_FIRST
    while count < count_max do
      local asked = math.min(page, count_max - count)
      local portion = redis.call(command, key, first, last, 'COUNT', asked)
      for at = 1, #portion do
        local fields = portion[at][2]
        for place = 1, #fields do
          bytes = bytes + #fields[place]
        end
        parts = parts + #fields
        if count > 0 and (bytes > bytes_max or parts > parts_max) then
          return entries, false
        end
        count = count + 1
        entries[count] = portion[at]
      end
      if #portion < asked or entries[count][1] == MAX_ID then
        return entries, true
      end
      first = '(' .. entries[count][1]
      page = math.max(1, math.min(page * 8, PAGE_MAX, math.floor(PAGE_BYTES * count / (bytes + 1))))
    end
    return entries, false
  end

  -- Read entries from `first` to `last`, as for `read_range`. Reply: the entries, and whether there
  -- may be more.
  operations.range = function(call)
    local asked = call.args
    require_stream(call)
    local entries, is_all = read_range(
      call.key, asked.first, asked.last, asked.reverse,
      asked.count_max, asked.bytes_max, asked.parts_max
    )
    return { entries, is_all and 0 or 1 }
  end

  -- Read what comes `after` an id, with bounds as for `read_range`: '$' is the last id, and '+'
  -- stands for the last entry.
  -- Reply: nil if there is no stream; otherwise the id after which was read, the last id, the
  -- greatest id that was trimmed, the entries, whether there may be more, and when the stream was
  -- closed (nil: it is open, or there is more), and whether entries of the stream have times.
  operations.read = function(call)
    local asked, after = call.args, call.args.after
    local info = stream_info(call)
    if not info then
      return false
    end
    local last_id = info['last-generated-id']
    local known = streams.known(call, last_id, 'closed_at_ms')
    local trimmed = known[1] or MIN_ID
    local entries, is_all = {}, true
    if after == '+' then
      entries = redis.call('XREVRANGE', call.key, '+', '-', 'COUNT', math.min(asked.count_max, 1))
      after = MIN_ID
    elseif after == '$' then
      after = last_id
    elseif asked.count_max > 0 and info.length > 0 and compare_ids(last_id, after) > 0 then
      entries, is_all = read_range(
        call.key, above(after), '+', false, asked.count_max, asked.bytes_max, asked.parts_max
      )
    end
    local closed_at_ms = known[2] or false
    local through = #entries > 0 and entries[#entries][1] or after
    if closed_at_ms and has_entries_above(call, through) then
      closed_at_ms = false
    end
    local has_times = #entries > 0 and timing.exists(call)
    return {
      after, last_id, trimmed, entries, is_all and 0 or 1, closed_at_ms, has_times and 1 or 0,
    }
  end
end
