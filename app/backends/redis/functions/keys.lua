-- Idempotency: what was appended under a key. See engine/state/idempotency.py.
--
-- Each producer of a stream has two side keys: `keys`, a hash from the key to what was made under
-- it, and `key_times`, a sorted set with the keys in order of use. Both expire when the last key is
-- too old. `producers` is a sorted set of the producers by their last use (unix ms). The hash `meta`
-- counts the keys (`keys_added`), and the repeats (`keys_repeated`).

local idempotency = {}

do
  -- Keys that are too old are forgotten with each new key, so many at a time.
  local FORGOTTEN_AT_ONCE = 8

  -- Entries that are appended together, at most.
  local COUNT_MAX = 1000000

  -- What was made: when (unix ms), the first id, how many entries, the digest of the request; nil
  -- if another client has put something else there.
  local function read_made(text)
    local at_ms, first_id, count, digest = string.match(text, '^(%d+) (%S+) (%d+) (.*)$')
    if not digest or not is_id(first_id) or tonumber(count) > COUNT_MAX then
      return nil
    end
    return { at_ms = tonumber(at_ms), first_id = first_id, count = count, digest = digest }
  end

  -- How long keys are valid (ms), and how many a producer may have.
  function idempotency.bounds(config)
    return tonumber(config.idempotency_window_ms or IDEMPOTENCY_WINDOW_MS),
      tonumber(config.idempotency_max or IDEMPOTENCY_MAX)
  end

  -- A key of a producer at the stream, now.
  --
  -- config: of the stream.
  function idempotency.key(call, producer, name, config)
    local at_ms = now_ms()
    local window_ms, keys_max = idempotency.bounds(config)
    check_types(call, { 'producers' }, producer, { 'keys', 'key_times' })
    meta_of(call, 'keys_added', 'keys_repeated')
    return {
      producer = producer, name = name, at_ms = at_ms, since_ms = at_ms - window_ms,
      window_ms = window_ms, keys_max = keys_max,
      keys = call.side('keys', producer), key_times = call.side('key_times', producer),
    }
  end

  -- Forget what is more than a producer may have; else what it has used too long ago.
  local function forget_some(key)
    local excess = redis.call('ZCARD', key.key_times) - key.keys_max
    if excess > 0 then
      local popped = redis.call('ZPOPMIN', key.key_times, math.min(excess, FORGOTTEN_AT_ONCE))
      for at = 1, #popped, 2 do
        redis.call('HDEL', key.keys, popped[at])
      end
      return
    end
    for _ = 1, FORGOTTEN_AT_ONCE do
      local oldest = redis.call('ZRANGE', key.key_times, 0, 0)[1]
      local text = redis.call('HGET', key.keys, oldest)
      local made = text and read_made(text)
      if made and made.at_ms >= key.since_ms then
        return
      end
      redis.call('ZREM', key.key_times, oldest)
      redis.call('HDEL', key.keys, oldest)
    end
  end

  -- Return what was made under a key that is still valid, or nil.
  function idempotency.made(key)
    local text = redis.call('HGET', key.keys, key.name)
    local made = text and read_made(text)
    return made and made.at_ms >= key.since_ms and made or nil
  end

  -- Tell whether a producer may have a key: the stream knows it, or there is room for another one.
  function idempotency.has_room(call, key, producers_max)
    local producers = call.side('producers')
    local last_ms = redis.call('ZSCORE', producers, key.producer)
    if last_ms and tonumber(last_ms) >= key.since_ms then
      return true
    end
    local count = redis.call('ZCARD', producers)
    if count >= producers_max then
      redis.call('ZREMRANGEBYSCORE', producers, '-inf', '(' .. decimal(key.since_ms))
      count = redis.call('ZCARD', producers)
    end
    return count < producers_max
  end

  -- Remember what was made under a key.
  function idempotency.remember(call, key, first_id, count, digest)
    local producers = call.side('producers')
    local place = redis.call('HINCRBY', call.side('meta'), 'keys_added', 1)
    local made = string.format('%.0f %s %.0f ', key.at_ms, first_id, count) .. digest
    redis.call('HSET', key.keys, key.name, made)
    redis.call('ZADD', key.key_times, decimal(place), key.name)
    forget_some(key)
    redis.call('ZADD', producers, decimal(key.at_ms), key.producer)
    for _, side_key in ipairs({ key.keys, key.key_times, producers }) do
      redis.call('PEXPIRE', side_key, key.window_ms + 1)
    end
  end

  -- Forget all keys of the stream. The counters stay.
  function idempotency.forget_all(call)
    local producers = call.side('producers')
    for _, producer in ipairs(redis.call('ZRANGE', producers, 0, -1)) do
      redis.call('UNLINK', call.side('keys', producer), call.side('key_times', producer))
    end
    redis.call('UNLINK', producers)
  end

  -- Describe the keys of the stream. Reply: window in ms, keys of a producer at most, producers, keys,
  -- keys ever remembered, repeats.
  operations.describe_keys = function(call)
    local window_ms, keys_max = idempotency.bounds(settings.of_stream(call))
    local since_ms = decimal(now_ms() - window_ms)
    local names = redis.call('ZRANGEBYSCORE', call.side('producers'), since_ms, '+inf')
    local count = 0
    for _, producer in ipairs(names) do
      count = count + redis.call('HLEN', call.side('keys', producer))
    end
    local counters = meta_of(call, 'keys_added', 'keys_repeated')
    return {
      window_ms, keys_max, #names, count,
      tonumber(counters[1] or 0), tonumber(counters[2] or 0),
    }
  end

  operations.RememberKey = function(call)
    local asked = call.args
    local name, entry_id = asked.key, asked.entry_id
    require_stream(call)
    if not entry_at(call, entry_id) then
      return fault('EntryNotFound', entry_id)
    end
    local key = idempotency.key(call, asked.producer, name, settings.of_stream(call))
    local made = idempotency.made(key)
    if made then
      return made.first_id == entry_id and 1 or fault('IdempotencyMismatch', name)
    end
    idempotency.remember(call, key, entry_id, 1, '')
    return 1
  end
end
