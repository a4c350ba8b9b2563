-- Settings: the configuration of a stream and the policy of a group, as texts in a hash.
--
-- Before all files, library.py writes CONFIG and POLICY, the names of the settings in their order,
-- and FORMS, which says what the text of each is: a number, a list of numbers with commas between
-- them, the name of a stream after a '.', or '1' for the second word of a choice.

local settings = {}

do
  -- The configuration of a stream by name, of its texts, which begin behind a place.
  function settings.config_of(texts, place)
    local config = {}
    for at, name in ipairs(CONFIG) do
      config[name] = texts[place + at] or nil
    end
    return config
  end

  -- The configuration of the stream, and when it was closed (nil: it is open). Operations read it
  -- before they change anything: if another client has put something else there, nothing is done.
  function settings.of_stream(call)
    local texts = meta_of(call, 'trimmed', 'closed_at_ms', unpack(CONFIG))
    return settings.config_of(texts, 2), texts[2] or nil
  end

  -- Raise a fault if another client has put in what the gateway would not write. Fields that are no
  -- settings of these names are not looked at.
  function settings.check(key, names, kept)
    for _, name in ipairs(names) do
      local check = check_of(name)
      if kept[name] and check and not check(kept[name]) then
        raise('WrongType', key, name .. ' is no ' .. FORMS[name])
      end
    end
  end

  -- The settings, of these names, after a change. `given` has texts by name, and an empty one where
  -- there is no setting any more.
  -- Reply: the settings by name, and those that are other than before.
  function settings.patched(names, kept, given)
    local after, changed = {}, {}
    for _, name in ipairs(names) do
      after[name] = kept[name]
    end
    for name, text in pairs(given) do
      if text ~= (kept[name] or '') then
        changed[name] = text
        after[name] = text ~= '' and text or nil
      end
    end
    return after, changed
  end

  -- Put changed settings into the hash.
  function settings.keep(key, changed)
    for name, text in pairs(changed) do
      if text == '' then
        redis.call('HDEL', key, name)
      else
        redis.call('HSET', key, name, text)
      end
    end
  end

  -- The texts of settings in the order of the names, with false for those that are not set.
  function settings.in_order(names, kept)
    local texts = {}
    for at, name in ipairs(names) do
      texts[at] = kept[name] or false
    end
    return texts
  end
end
