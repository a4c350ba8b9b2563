-- Keyspace: rename, expire, set counters.

do
  -- How long a new name is kept for housekeeping.
  local RENAMED_KEPT_MS = 86400000

  -- Let the side keys expire when the stream does, or never.
  local function expire_side_keys(call)
    local at_ms = redis.call('PEXPIRETIME', call.key)
    for _, pair in ipairs(streams.side_names(call)) do
      local kind, name = unpack(pair)
      if not EXPIRES[kind] then
        if at_ms > 0 then
          redis.call('PEXPIREAT', call.side(kind, name), decimal(at_ms))
        else
          redis.call('PERSIST', call.side(kind, name))
        end
      end
    end
  end

  -- Rename the stream to the second one. If housekeeping may know the old name, it finds the new
  -- one in `renamed`. Reply: whether the name was free or given up.
  operations.RenameStream = function(call)
    require_info(call)
    local target = call.streams[2]
    if stream_info(target) and not call.args.replace then
      return 0
    end
    if target.key == call.key then
      return 1
    end
    streams.check_reach(call)
    local names = streams.side_names(call)
    streams.drop_side_keys(target)
    local is_governed = redis.call('HGET', call.side('meta'), 'max_age_ms') ~= false
    for _, pair in ipairs(names) do
      local kind, name = unpack(pair)
      if redis.call('EXISTS', call.side(kind, name)) == 1 then
        redis.call('RENAME', call.side(kind, name), target.side(kind, name))
        is_governed = is_governed or kind == 'group'
      end
    end
    redis.call('RENAME', call.key, target.key)
    if is_governed then
      redis.call('SET', call.side('renamed'), target.key, 'PX', RENAMED_KEPT_MS)
    end
    return 1
  end

  -- Reply: whether the time was set.
  operations.ExpireStream = function(call)
    local asked = call.args
    require_info(call)
    streams.side_names(call)  -- which fails if it cannot be known what expires with the stream
    local words = { 'PEXPIRE', call.key, asked.ttl_ms }
    if asked.at_ms then
      words = { 'PEXPIREAT', call.key, asked.at_ms }
    end
    if asked.if_none then
      words[#words + 1] = 'NX'
    else
      words[#words + 1] = asked.if_set and 'XX' or nil
      words[#words + 1] = asked.if_later and 'GT' or asked.if_earlier and 'LT' or nil
    end
    local is_set = redis.call(unpack(words))
    if is_set == 1 then
      if redis.call('EXISTS', call.key) == 0 then
        streams.drop_side_keys(call)
      else
        expire_side_keys(call)
      end
    end
    return is_set
  end

  -- Reply: whether the stream had an expiry.
  operations.PersistStream = function(call)
    require_info(call)
    streams.side_names(call)
    local is_removed = redis.call('PERSIST', call.key)
    if is_removed == 1 then
      expire_side_keys(call)
    end
    return is_removed
  end

  operations.SetCounters = function(call)
    local last_id, added, deleted =
      call.args.last_id, call.args.entries_added, call.args.max_deleted_id
    local info = require_info(call)
    if compare_ids(last_id, info['max-deleted-entry-id']) < 0 then
      return fault('CounterTooLow', 'last_id', 'max_deleted_id')
    end
    local newest = info['last-entry']
    if newest and compare_ids(last_id, newest[1]) < 0 then
      return fault('CounterTooLow', 'last_id', 'newest')
    end
    if added and info.length > tonumber(added) then
      return fault('CounterTooLow', 'entries_added', 'length')
    end
    if compare_ids(last_id, deleted) < 0 then
      return fault('CounterTooLow', 'last_id', 'max_deleted_id')
    end
    local known = streams.known(call, info['last-generated-id'])
    if known[1] and compare_ids(last_id, known[1]) < 0 then
      redis.call('HSET', call.side('meta'), 'trimmed', last_id)
    end
    if deleted == MIN_ID then
      deleted = info['max-deleted-entry-id']
    end
    redis.call(
      'XSETID', call.key, last_id, 'ENTRIESADDED', added or decimal(info['entries-added']),
      'MAXDELETEDID', deleted
    )
    return 1
  end
end
