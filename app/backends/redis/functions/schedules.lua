-- Schedules: what is appended at which times.
--
-- All schedules are in one hash, which is the key of a call, each as text that the gateway reads.
-- Beside it are two sorted sets: `schedule_names`, in byte order, and `schedule_wakes`, by the time
-- when something is to be done. The stream of a schedule remembers in its hash `scheduled` which
-- due time it has got last, and the id of the entry. It may be in another slot.

do
  -- Put a schedule in the place of what it was, unless it is something else by now. A text that is
  -- '' stands for none. Reply: whether it was put.
  operations.put_schedule = function(call)
    local asked, names = call.args, call.side('schedule_names')
    local wakes = call.side('schedule_wakes')
    check_types(call, { 'schedule_names', 'schedule_wakes' })
    if (redis.call('HGET', call.key, asked.schedule) or '') ~= asked.before then
      return 0
    end
    if asked.after == '' then
      redis.call('HDEL', call.key, asked.schedule)
      redis.call('ZREM', names, asked.schedule)
      redis.call('ZREM', wakes, asked.schedule)
      return 1
    end
    if asked.before == '' and redis.call('HLEN', call.key) >= asked.schedules_max then
      return fault('LimitReached', 'schedules', asked.schedules_max)
    end
    redis.call('HSET', call.key, asked.schedule, asked.after)
    redis.call('ZADD', names, 0, asked.schedule)
    if asked.wake_ms then
      redis.call('ZADD', wakes, asked.wake_ms, asked.schedule)
    else
      redis.call('ZREM', wakes, asked.schedule)
    end
    return 1
  end

  -- The schedules about which something is to be done, for the gateway that runs them: the first
  -- that asks, until it has not asked for `lease_ms`.
  -- Reply: the time; how many schedules there are, -1 if another gateway runs them; when something
  -- is to be done about the next one, as text or nil; those that are due.
  operations.due_schedules = function(call)
    local asked, lease = call.args, call.side('schedule_runner')
    local time_ms = now_ms()
    local runner = redis.call('GET', lease)
    if runner and runner ~= asked.runner then
      return { time_ms, -1, false, {} }
    end
    redis.call('SET', lease, asked.runner, 'PX', asked.lease_ms)
    local wakes = redis.call(
      'ZRANGE', call.side('schedule_wakes'), 0, asked.limit, 'WITHSCORES'
    )
    local due, next_ms = {}, false
    for at = 1, #wakes, 2 do
      if tonumber(wakes[at + 1]) > time_ms or #due == asked.limit then
        next_ms = wakes[at + 1]
        break
      end
      local text = redis.call('HGET', call.key, wakes[at])
      if text then
        due[#due + 1] = text
      else  -- another client has removed it
        redis.call('ZREM', call.side('schedule_wakes'), wakes[at])
      end
    end
    return { time_ms, redis.call('HLEN', call.key), next_ms, due }
  end

  -- Append the entry of a due time, unless the stream has got that or a later one of the schedule.
  -- The words are the entry. Reply: the id of the entry that it has got last.
  operations.append_scheduled = function(call)
    local asked, key = call.args, call.side('scheduled')
    check_types(call, { 'meta', 'scheduled' })
    local known = redis.call('HGET', key, asked.identity)
    if known then
      local due_ms, id = string.match(known, '^(%d+) (%d+%-%d+)$')
      if due_ms and compare_numbers(due_ms, asked.time_ms) >= 0 then
        redis.call('HSET', key, asked.identity, known)  -- a reply waits for what came before it
        return id
      end
    end
    local id = appends.append(call, true, call.words, call.first_word)
    if type(id) == 'string' then
      redis.call('HSET', key, asked.identity, asked.time_ms .. ' ' .. id)
      streams.expire_alike(call, key)
    end
    return id
  end
end
