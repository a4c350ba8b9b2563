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

  -- What was made: when (unix ms), the first id, how many entries, the digest of the request.
  local function read_made(text)
    local at_ms, first_id, count, digest = string.match(text, '^(%d+) (%S+) (%d+) (.*)$')
    return { at_ms = tonumber(at_ms), first_id = first_id, count = count, digest = digest }
  end

  -- How long a key is valid, and how many a producer may have. `defaults` are for streams that do
  -- not say.
  local function limits(call, defaults)
    local own = redis.call('HMGET', call.side('meta'), 'idempotency_window_ms', 'idempotency_max')
    return tonumber(own[1] or defaults[1]), tonumber(own[2] or defaults[2])
  end

  -- Forget what a producer has used too long ago, and what is more than it may have.
  local function forget_some(keys, key_times, since_ms, keys_max)
    for _ = 1, FORGOTTEN_AT_ONCE do
      local oldest = redis.call('ZRANGE', key_times, 0, 0)[1]
      local text = oldest and redis.call('HGET', keys, oldest)
      local is_old = text and read_made(text).at_ms < since_ms
      if not oldest or not (is_old or redis.call('ZCARD', key_times) > keys_max) then
        return
      end
      redis.call('ZREM', key_times, oldest)
      redis.call('HDEL', keys, oldest)
    end
  end

  -- Return what was made under a key that is still valid, or nil.
  --
  -- key: a table with `producer`, `key` and `defaults` (window in ms, keys of a producer at most).
  function idempotency.made(call, key)
    local text = redis.call('HGET', call.side('keys', key.producer), key.key)
    local made = text and read_made(text)
    if not made or made.at_ms < now_ms() - limits(call, key.defaults) then
      return nil
    end
    return made
  end

  -- Tell whether a producer may have a key: the stream knows it, or there is room for another one.
  function idempotency.has_room(call, key, producers_max)
    local producers = call.side('producers')
    local since_ms = now_ms() - limits(call, key.defaults)
    local last_ms = redis.call('ZSCORE', producers, key.producer)
    if last_ms and tonumber(last_ms) >= since_ms then
      return true
    end
    local count = redis.call('ZCARD', producers)
    if count >= producers_max then
      redis.call('ZREMRANGEBYSCORE', producers, '-inf', string.format('(%.0f', since_ms))
      count = redis.call('ZCARD', producers)
    end
    return count < producers_max
  end

  -- Remember what was made under a key.
  function idempotency.remember(call, key, first_id, count, digest)
    local window_ms, keys_max = limits(call, key.defaults)
    local at_ms = now_ms()
    local keys = call.side('keys', key.producer)
    local key_times = call.side('key_times', key.producer)
    local place = redis.call('HINCRBY', call.side('meta'), 'keys_added', 1)
    local made = string.format('%.0f %s %.0f ', at_ms, first_id, count) .. digest
    redis.call('HSET', keys, key.key, made)
    redis.call('ZADD', key_times, string.format('%.0f', place), key.key)
    forget_some(keys, key_times, at_ms - window_ms, keys_max)
    local producers = call.side('producers')
    redis.call('ZADD', producers, string.format('%.0f', at_ms), key.producer)
    redis.call('PEXPIRE', keys, window_ms + 1)
    redis.call('PEXPIRE', key_times, window_ms + 1)
    redis.call('PEXPIRE', producers, window_ms + 1)
  end

  -- Count a repeat.
  function idempotency.count_repeat(call)
    redis.call('HINCRBY', call.side('meta'), 'keys_repeated', 1)
  end

  -- Forget all keys of the stream. The counters stay.
  function idempotency.forget_all(call)
    local producers = call.side('producers')
    for _, producer in ipairs(redis.call('ZRANGE', producers, 0, -1)) do
      redis.call('UNLINK', call.side('keys', producer), call.side('key_times', producer))
    end
    redis.call('UNLINK', producers)
  end

  -- Describe the keys of the stream. Arguments: window in ms and keys of a producer where the
  -- stream does not say. Reply: window, keys of a producer at most, producers, keys, keys ever
  -- remembered, repeats.
  operations.describe_keys = function(call)
    local window_ms, keys_max = limits(call, call.args)
    local since_ms = string.format('%.0f', now_ms() - window_ms)
    local names = redis.call('ZRANGEBYSCORE', call.side('producers'), since_ms, '+inf')
    local count = 0
    for _, producer in ipairs(names) do
      count = count + redis.call('HLEN', call.side('keys', producer))
    end
    local counters = redis.call('HMGET', call.side('meta'), 'keys_added', 'keys_repeated')
    return {
      window_ms, keys_max, #names, count,
      tonumber(counters[1] or 0), tonumber(counters[2] or 0),
    }
  end

  -- Remember a key for an entry that exists. Arguments: producer, key, id of the entry, window in
  -- ms and keys of a producer where the stream does not say.
  operations.remember_key = function(call)
    local producer, name, entry_id = unpack(call.args)
    local key = { producer = producer, key = name, defaults = { call.args[4], call.args[5] } }
    if redis.call('EXISTS', call.key) == 0 then
      return fault('StreamNotFound')
    end
    if #redis.call('XRANGE', call.key, entry_id, entry_id) == 0 then
      return fault('EntryNotFound', entry_id)
    end
    local made = idempotency.made(call, key)
    if made then
      return made.first_id == entry_id and 1 or fault('IdempotencyMismatch', name)
    end
    idempotency.remember(call, key, entry_id, 1, '')
    return 1
  end
end
