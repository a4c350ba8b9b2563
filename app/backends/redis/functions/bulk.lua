-- Bulk: counts and places of entries, for plans.

do
  -- Bytes of names and values that one call may look at.
  local COUNTED_BYTES_MAX = 1024 * 1024

  -- Count up to `limit` entries above the id `after`, up to the id `through`. Reply: how many there
  -- are in this part, the id of the last, and whether there may be more.
  operations.count = function(call)
    local after, through = call.args.after, call.args.through
    require_stream(call)
    if compare_ids(after, through) >= 0 then
      return { 0, after, 0 }
    end
    local entries, is_all = read_range(
      call.key, above(after), through, false, call.args.limit, COUNTED_BYTES_MAX, math.huge
    )
    local last = #entries > 0 and entries[#entries][1] or after
    return { #entries, last, is_all and 0 or 1 }
  end

  -- The ids of entries of a range, as for `count`, by their `places`, which ascend from 1. Reply:
  -- the ids; fewer if entries are gone.
  operations.places = function(call)
    local places, first = call.args.places, above(call.args.after)
    local entries = read_range(
      call.key, first, call.args.through, false, places[#places], math.huge, math.huge
    )
    local ids = {}
    for _, place in ipairs(places) do
      local entry = entries[place]
      if entry then
        ids[#ids + 1] = entry[1]
      end
    end
    return ids
  end
end
