-- Timing: entries that groups deliver later, or until a deadline, as `engine/state/entries/deadlines.py`
-- says.
--
-- Sorted sets of a stream have ids by unix times (ms):
--   due        when groups may deliver an entry
--   deadlines  when its deadline is over
--   expiring   the same of those whose deadline was not over when it was last looked at
-- Another client may delete or trim entries past the gateway. So a member counts only while the stream
-- has its entry, and some members are looked at with each append of an entry with times.

do
  -- Members of a set that are looked at with each append.
  local CHECKED = 2

  -- Words of one command. Lua has room for about 8,000.
  local WORDS_MAX = 1000

  local KINDS = { 'due', 'deadlines', 'expiring' }

  -- Whether entries of the stream have times.
  function timing.exists(call)
    if call.has_times == nil then
      call.has_times = redis.call('EXISTS', call.side('due'), call.side('deadlines')) > 0
    end
    return call.has_times
  end

  -- The time of an entry in one of the sets; nil if it has none.
  local function time_of(call, kind, id)
    local at_ms = redis.call('ZSCORE', call.side(kind), id)
    return at_ms and tonumber(at_ms) or nil
  end

  -- When an entry is due, if it is not yet; nil: groups may deliver it.
  function timing.later_ms(call, id)
    local at_ms = timing.exists(call) and time_of(call, 'due', id)
    return at_ms and at_ms > now_ms() and at_ms or nil
  end

  -- Whether the deadline of an entry is over.
  function timing.is_over(call, id)
    local at_ms = timing.exists(call) and time_of(call, 'deadlines', id)
    return at_ms and at_ms <= now_ms()
  end

  -- Forget the times of entries that are gone, or whose ids come again.
  function timing.forget(call, ids)
    for first = 1, timing.exists(call) and #ids or 0, WORDS_MAX do
      local last = math.min(first + WORDS_MAX - 1, #ids)
      for _, kind in ipairs(KINDS) do
        redis.call('ZREM', call.side(kind), unpack(ids, first, last))
      end
    end
  end

  -- Forget the times of some entries, if they are gone.
  local function check_some(call)
    local gone = {}
    for _, kind in ipairs({ 'due', 'deadlines' }) do
      for _, id in ipairs(redis.call('ZRANDMEMBER', call.side(kind), CHECKED)) do
        if not entry_at(call, id) then
          gone[#gone + 1] = id
        end
      end
    end
    timing.forget(call, gone)
  end

  -- The fault if so many more entries of the stream may not have times; else nil.
  function timing.refusal(call, more, timed_max)
    local is_full = timing.count(call) + more > timed_max
    return is_full and fault('LimitReached', 'entries with times in this stream', timed_max) or nil
  end

  local function put(call, kind, id, at_ms)
    streams.put(call, call.side(kind), 'ZADD', decimal(at_ms), id)
  end

  -- Give entries their times, as a writer says them.
  -- drafts, ids: of the entries that were appended. An id that a writer gives may have been there.
  -- timings: each with its `place` among them, from 1 on, and times: `delay_ms` or `deliver_at_ms`,
  --   `ttl_ms` or `expires_at_ms`.
  function timing.put(call, drafts, ids, timings)
    if drafts.ids ~= '*' then
      timing.forget(call, ids)
    end
    if #timings == 0 then
      return
    end
    local time_ms = now_ms()
    call.has_times = true
    for _, each in ipairs(timings) do
      local id = ids[each.place]
      local due_ms = each.delay_ms and time_ms + each.delay_ms or each.deliver_at_ms
      local deadline_ms = each.ttl and time_ms + tonumber(each.ttl) or tonumber(each.deadline)
      if due_ms and due_ms > time_ms then
        put(call, 'due', id, due_ms)
      end
      if deadline_ms then
        put(call, 'deadlines', id, deadline_ms)
        put(call, 'expiring', id, deadline_ms)
      end
    end
    check_some(call)
  end

  -- How many entries have times, about.
  function timing.count(call)
    return math.max(
      redis.call('ZCARD', call.side('due')), redis.call('ZCARD', call.side('deadlines'))
    )
  end

  -- Reply: for each id with times its place, from 0 on, and both times (nil: none).
  operations.FindTimes = function(call)
    require_stream(call)
    local times = {}
    for at, id in ipairs(timing.exists(call) and call.args.ids or {}) do
      local due_ms = redis.call('ZSCORE', call.side('due'), id)
      local deadline_ms = redis.call('ZSCORE', call.side('deadlines'), id)
      if (due_ms or deadline_ms) and entry_at(call, id) then
        times[#times + 1] = { at - 1, due_ms, deadline_ms }
      end
    end
    return times
  end
end
