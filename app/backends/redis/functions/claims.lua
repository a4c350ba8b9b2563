-- Claims: who has taken entries over from whom, for the feeds of the gateways.
--
-- Each record in the stream `claims` has the fields
--   group   the name of the group
--   from    the consumer that held the entries
--   by      the consumer that has them now
--   ids     "ms-seq:count ms-seq:count ...": the entries, and their delivery counts before

local claims = {}

do
  -- About how many records are kept, and for how long after the last one.
  local RECORDS_MAX, KEPT_MS = 1000, 3600000

  -- Begin to note what a consumer gets, and what of it others held.
  function claims.by(consumer)
    return { by = consumer, holders = {}, entries = {}, deliveries = {} }
  end

  -- Note that the consumer takes an entry over.
  -- row: the pending entry as it was.
  function claims.note(taken, row)
    local holder = row.owner
    if not holder or holder == taken.by then
      return
    end
    if not taken.entries[holder] then
      taken.entries[holder] = {}
      taken.holders[#taken.holders + 1] = holder
    end
    local entries = taken.entries[holder]
    entries[#entries + 1] = row.id .. ':' .. row.count
  end

  -- Write what was noted.
  function claims.write(call, group, taken)
    local key = call.side('claims')
    for _, holder in ipairs(taken.holders) do
      redis.call(
        'XADD', key, 'MAXLEN', '~', RECORDS_MAX, '*',
        'group', group, 'from', holder, 'by', taken.by,
        'ids', table.concat(taken.entries[holder], ' ')
      )
    end
    if #taken.holders > 0 then
      redis.call('PEXPIRE', key, KEPT_MS)
    end
  end
end
