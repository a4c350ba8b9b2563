-- Groups and their consumers: describe, create, change, delete.
--
-- What the server does not keep about a group is in the hash `group`: its policy, a field a
-- setting. The group then has the consumer `RELEASED`. If the hash is there and the consumer is
-- not, another client has destroyed the group and made it again. What the hash says is then of no
-- group.

do
  -- A field of the hash that is always there.
  local MARK = 'marked'

  -- The name that 'on_disconnect' had in earlier gateways.
  local OLD_KEEPS = 'keeps'

  -- The kinds of side keys that are touched where a group has something pending, and where it is
  -- marked: those of its stream, and its own.
  local TOUCHED = { stream = { 'claims', 'outbox' }, group = { 'released', 'errors', 'walk' } }
  local MARKED = { stream = { 'meta', 'outbox' }, group = { 'group', 'released', 'errors' } }

  -- Up to so many consumers, a look whether `RELEASED` is one of them is cheap.
  local CONSUMERS_LOOKED_AT_MAX = 1000

  -- The fault of a group that does not exist.
  local function not_found(call)
    return fault('GroupNotFound', redis.call('EXISTS', call.key))
  end

  -- The error if there is no such group; nil if there is one.
  function groups.missing(call, group)
    local reply = redis.pcall('XPENDING', call.key, group, '-', '+', 1)
    if not reply.err then
      return nil
    end
    if string.find(reply.err, 'NOGROUP', 1, true) then
      return not_found(call)
    end
    return reply
  end

  -- The group of the call. Raise an error if there is no such group.
  function groups.require(call)
    local group = call.args.group
    local missing = groups.missing(call, group)
    return missing and error(missing) or group
  end

  -- Raise a fault if another client has put something else under a side key that is touched before
  -- the operation is over.
  -- marks: whether the group may be marked.
  function groups.check(call, group, marks)
    local kinds = marks and MARKED or TOUCHED
    check_types(call, kinds.stream, group, kinds.group)
  end

  -- What XINFO GROUPS says of all groups; nil if there is no stream.
  local function infos_of(call)
    local infos = redis.pcall('XINFO', 'GROUPS', call.key)
    if not infos.err then
      return infos
    end
    return not string.find(infos.err, 'no such key', 1, true) and error(infos) or nil
  end

  -- What a reply of XINFO says of a name; nil if it says nothing.
  local function row_of(rows, name)
    for _, row in ipairs(rows) do
      if row[2] == name then
        return row
      end
    end
    return nil
  end

  -- What XINFO GROUPS says of a group; nil if there is none.
  local function info_of(call, group)
    return row_of(infos_of(call) or {}, group)
  end

  -- The same as a table.
  function groups.info(call, group)
    local info = info_of(call, group)
    return info and by_name(info)
  end

  -- The same; a fault is raised if there is no such group.
  function groups.require_info(call, group)
    return groups.info(call, group) or error(not_found(call))
  end

  -- Remove what is kept about a group, but for its oldest delivery.
  local function clear(call, group)
    local keys = {}
    for _, kind in ipairs(GROUP_KINDS) do
      keys[#keys + 1] = kind ~= 'oldest' and call.side(kind, group) or nil
    end
    redis.call('DEL', unpack(keys))
    redis.call('SREM', call.side('turning'), group)
  end

  -- Note that a group has side keys, and drop those of an earlier group of that name.
  function groups.mark(call, group)
    local key = call.side('group', group)
    if redis.call('XGROUP', 'CREATECONSUMER', call.key, group, RELEASED) == 1 then
      clear(call, group)
    end
    if redis.call('HSETNX', key, MARK, 1) == 1 then
      redis.call('HSET', call.side('meta'), GROUP_MARK .. group, '')  -- they go with the stream
      streams.expire_alike(call, key)
    end
  end

  -- Wake whoever waits for a group.
  function groups.wake(call, group)
    local key = call.side('released', group)
    redis.call('ZADD', key, 0, MIN_ID)
    redis.call('ZREM', key, MIN_ID)
  end

  -- When the stream was closed; false: it is open. If another client has put something else there,
  -- it is open: what is delivered or settled by now must not fail.
  function groups.closed_at_ms(call)
    local text = redis.pcall('HGET', call.side('meta'), 'closed_at_ms')
    return type(text) == 'string' and is_number(text) and text
  end

  -- Whether nothing can come to a group any more: all of a closed stream is settled.
  -- info: what XINFO GROUPS says of the group.
  function groups.is_over(call, info)
    return info.pending == 0 and not has_entries_above(call, info['last-delivered-id'])
  end

  -- Wake the reads of a group of a closed stream if all of that is settled now.
  function groups.wake_at_end(call, group)
    if groups.closed_at_ms(call) and groups.is_over(call, groups.info(call, group)) then
      groups.wake(call, group)
    end
  end

  -- The consumers of a group as XINFO CONSUMERS describes them, without `RELEASED`; and what it
  -- says of `RELEASED`, if it is there.
  local function consumers(call, group)
    local named, released = {}, nil
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', call.key, group)) do
      if consumer[2] == RELEASED then
        released = by_name(consumer)
      else
        named[#named + 1] = consumer
      end
    end
    return named, released
  end

  -- How many entries `RELEASED` has; nil if it is not a consumer of the group.
  local function released_count(call, info)
    if info.consumers <= CONSUMERS_LOOKED_AT_MAX then
      local _, released = consumers(call, info.name)
      return released and released.pending
    end
    for _, holder in ipairs(redis.call('XPENDING', call.key, info.name)[4] or {}) do
      if holder[1] == RELEASED then
        return tonumber(holder[2])
      end
    end
    return 0
  end

  -- What is in the hash of a group, whatever group it is of.
  local function found(call, group)
    local key = call.side('group', group)
    local kept = by_name(redis.call('HGETALL', key))
    settings.check(key, POLICY, kept)
    if kept[OLD_KEEPS] then
      kept.on_disconnect = kept.on_disconnect or '1'
    end
    return kept
  end

  -- The hash of a group as a table: empty if it is of an earlier group. For operations that change
  -- the state.
  function groups.kept(call, group)
    local kept = found(call, group)
    if not kept[MARK] then
      return kept
    end
    if redis.call('XGROUP', 'CREATECONSUMER', call.key, group, RELEASED) == 1 then
      redis.call('XGROUP', 'DELCONSUMER', call.key, group, RELEASED)
      clear(call, group)
      return {}
    end
    return kept
  end

  -- What is to be added to XINFO GROUPS: how many entries nobody owns, how many consumers do not
  -- count, the policy, when the stream was closed, whether all of it is settled then, and how many pending
  -- entries are not due yet.
  local function additions(call, info)
    local kept = found(call, info.name)
    local released = kept[MARK] and released_count(call, info)
    local closed_at_ms = groups.closed_at_ms(call)
    return {
      released or 0, released and 1 or 0, settings.in_order(POLICY, released and kept or {}),
      closed_at_ms, closed_at_ms and groups.is_over(call, info) and 1 or 0,
      released and pending.delayed_count(call, info.name) or 0,
    }
  end

  -- Describe the groups of these `names`. Reply: for each group that exists, what XINFO GROUPS says
  -- and the additions.
  operations.describe_groups = function(call)
    local infos = infos_of(call) or raise('StreamNotFound')
    local is_wanted = {}
    for _, name in ipairs(call.args.names) do
      is_wanted[name] = true
    end
    local described = {}
    for _, info in ipairs(infos) do
      if is_wanted[info[2]] then
        described[#described + 1] = { info, additions(call, by_name(info)) }
      end
    end
    return described
  end

  -- The names of all groups, in any order.
  operations.group_names = function(call)
    local infos = infos_of(call) or raise('StreamNotFound')
    for at, info in ipairs(infos) do
      infos[at] = info[2]
    end
    return infos
  end

  local function described(call, group)
    local info = info_of(call, group) or error(not_found(call))
    return { info, additions(call, by_name(info)) }
  end

  -- Reply: what XINFO GROUPS says of the group, and the additions.
  operations.DescribeGroup = function(call)
    return described(call, call.args.group)
  end

  operations.require_group = function(call)
    groups.require(call)
    return 1
  end

  -- Raise a fault if the settings of a policy contradict each other.
  -- stream: the name of the stream.
  local function check_policy(policy, stream)
    if (policy.max_deliveries == nil) ~= (policy.dead_letter_stream == nil) then
      raise('Invalid', 'max_deliveries and dead_letter_stream belong together', 'policy')
    end
    if policy.on_expiry == '1' and not policy.dead_letter_stream then
      raise('Invalid', 'on_expiry needs a dead_letter_stream', 'policy', 'on_expiry')
    end
    if policy.dead_letter_stream == '.' .. stream then
      local text = 'a stream cannot be its own dead letter stream'
      raise('Invalid', text, 'policy', 'dead_letter_stream')
    end
  end

  local function keep_policy(call, group, changed)
    groups.mark(call, group)
    local key = call.side('group', group)
    settings.keep(key, changed)
    if changed.key_field or changed.key_pending_max then
      turns.change(call, group)
    end
    groups.wake(call, group)
    if changed.on_disconnect then
      redis.call('HDEL', key, OLD_KEEPS)
    end
  end

  -- How many entries a group at a position has read: at most as many as the stream had, or -1 for
  -- an unknown number.
  local function entries_read(call, count)
    if not count then
      return -1
    end
    local info = stream_info(call)
    local added = info and decimal(info['entries-added']) or '0'
    return compare_numbers(count, added) > 0 and added or count
  end

  -- Create a group, unless there are `groups_max`. Without a policy any policy is accepted.
  -- Reply: whether it is new, and its description.
  operations.CreateGroup = function(call)
    local asked = call.args
    local group, given = asked.group, asked.policy or {}
    local policy, changed = settings.patched(POLICY, {}, given)
    check_policy(policy, asked.stream)
    groups.check(call, group, true)
    local there = groups.info(call, group)
    if there then
      local _, differing = settings.patched(POLICY, groups.kept(call, group), given)
      if not asked.exist_ok or next(differing) then
        return fault('GroupExists')
      end
      return { 0, described(call, group) }
    end
    local info = stream_info(call)
    if not info then
      if not asked.create_stream then
        return fault('StreamNotFound')
      end
      streams.begin(call)
    elseif info.groups >= asked.groups_max then
      return fault('LimitReached', 'groups in this stream', asked.groups_max)
    end
    clear(call, group)
    redis.call(
      'XGROUP', 'CREATE', call.key, group, asked.start.last_id or '$', 'MKSTREAM', 'ENTRIESREAD',
      entries_read(call, asked.start.entries_read)
    )
    if next(changed) then
      keep_policy(call, group, changed)
    end
    return { 1, described(call, group) }
  end

  -- Change a group. If it `moves`, it gets the position `last_id`: '$' is the last one of the
  -- stream, nil is its own. Reply: its description.
  operations.UpdateGroup = function(call)
    local asked = call.args
    local group = asked.group
    local info = groups.require_info(call, group)
    groups.check(call, group, true)
    local policy, changed = settings.patched(POLICY, groups.kept(call, group), asked.policy)
    if next(changed) then
      check_policy(policy, asked.stream)
      keep_policy(call, group, changed)
    end
    if asked.moves then
      redis.call(
        'XGROUP', 'SETID', call.key, group, asked.last_id or info['last-delivered-id'],
        'ENTRIESREAD', entries_read(call, asked.entries_read)
      )
    end
    return described(call, group)
  end

  -- Whoever waits for the group is woken. Reply: whether the group existed.
  operations.DestroyGroup = function(call)
    local group = call.args.group
    require_stream(call)
    groups.check(call, group)
    local is_gone = redis.call('XGROUP', 'DESTROY', call.key, group)
    groups.wake(call, group)
    clear(call, group)
    pending.forget_oldest(call, group)
    return is_gone
  end

  -- What XINFO CONSUMERS says of a consumer; nil if there is none.
  local function consumer_of(call, group, name)
    return row_of(redis.call('XINFO', 'CONSUMERS', call.key, group), name)
  end

  -- Reply: what XINFO CONSUMERS says of each consumer of the group.
  operations.ListConsumers = function(call)
    return (consumers(call, groups.require(call)))
  end

  -- Reply: what XINFO CONSUMERS says of the consumer; nil if there is none.
  operations.DescribeConsumer = function(call)
    local group, consumer = groups.require(call), call.args.consumer
    return consumer ~= RELEASED and consumer_of(call, group, consumer) or false
  end

  -- Raise a fault if the consumer is new to its group and would be one too many. To look whether it
  -- is new, it is created and deleted again: this takes no longer with many consumers.
  -- info: of the group.
  function groups.check_room(call, info)
    local consumer, consumers_max = call.args.consumer, call.args.consumers_max
    if info.consumers >= consumers_max
      and info.consumers - redis.call('EXISTS', call.side('group', info.name)) >= consumers_max
      and redis.call('XGROUP', 'CREATECONSUMER', call.key, info.name, consumer) == 1 then
      redis.call('XGROUP', 'DELCONSUMER', call.key, info.name, consumer)
      raise('LimitReached', 'consumers in this group', consumers_max)
    end
  end

  -- Create a consumer, unless there are `consumers_max`.
  -- Reply: whether it is new, and what XINFO CONSUMERS says of it.
  operations.CreateConsumer = function(call)
    local group, consumer = call.args.group, call.args.consumer
    local info = groups.require_info(call, group)
    groups.check_room(call, info)
    local is_new = redis.call('XGROUP', 'CREATECONSUMER', call.key, group, consumer)
    return { is_new, consumer_of(call, group, consumer) }
  end

  -- Delete a consumer, or release up to `limit` of its entries.
  -- Reply: how many entries it held (nil: there is no such consumer), and whether it is gone.
  operations.DeleteConsumer = function(call)
    local group, consumer, release = groups.require(call), call.args.consumer, call.args.release
    groups.check(call, group, true)
    local known = consumer_of(call, group, consumer)
    if not known or consumer == RELEASED then
      return { false, 1 }
    end
    local held = by_name(known).pending
    if release then
      local entries = {}
      for at, row in ipairs(pending.rows(call, group, '-', '+', call.args.limit, consumer)) do
        entries[at] = { row.id, row.count }
      end
      pending.release(call, group, entries)
      if held > #entries then
        return { held, 0 }
      end
    end
    redis.call('XGROUP', 'DELCONSUMER', call.key, group, consumer)
    if not release then
      pending.forget_errors(call, group)
      groups.wake_at_end(call, group)
    end
    return { held, 1 }
  end

  -- Delete consumers that hold nothing and have not been seen for so long.
  -- Reply: how many consumers it has looked at.
  operations.forget_consumers = function(call)
    local group = call.args.group
    if groups.missing(call, group) then
      return 0
    end
    local ttl_ms = tonumber(groups.kept(call, group).consumer_ttl_ms)
    local named = ttl_ms and consumers(call, group) or {}
    for _, consumer in ipairs(named) do
      local info = by_name(consumer)
      if info.pending == 0 and info.idle >= ttl_ms then
        redis.call('XGROUP', 'DELCONSUMER', call.key, group, info.name)
      end
    end
    return #named
  end
end
