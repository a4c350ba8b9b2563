-- Filters: which entries the filters of a group let through. `engine/filters/` says what they mean.

local filters = {}

do
  -- Characters of a value that is taken for a number, at most.
  local NUMBER_LENGTH_MAX = 1000

  -- Whether a text is a decimal number.
  local function is_decimal(text)
    if #text > NUMBER_LENGTH_MAX then
      return false
    end
    local mantissa = string.gsub(text, '[eE][+-]?%d+$', '')
    return string.find(mantissa, '^[+-]?%d+$') ~= nil
      or string.find(mantissa, '^[+-]?%d+%.%d+$') ~= nil
  end

  local function is_within(value, bounds)
    if not value or not is_decimal(value) then
      return false
    end
    local number = tonumber(value)
    return not (bounds.gt and number <= bounds.gt) and not (bounds.ge and number < bounds.ge)
      and not (bounds.lt and number >= bounds.lt) and not (bounds.le and number > bounds.le)
  end

  local TEXT_TESTS = {
    exact = function(value, text)
      return value == text
    end,
    prefix = function(value, text)
      return value ~= nil and string.sub(value, 1, #text) == text
    end,
    suffix = function(value, text)
      return value ~= nil and #value >= #text and string.sub(value, #value - #text + 1) == text
    end,
    range = is_within,
  }

  -- Whether a condition holds.
  -- values: the last value of each name.
  local function holds(condition, values)
    local dialect, inner = next(condition)
    if type(dialect) ~= 'string' then
      dialect, inner = 'all', condition  -- a list
    end
    if dialect == 'all' or dialect == 'any' then
      for _, part in ipairs(inner) do
        if holds(part, values) == (dialect == 'any') then
          return dialect == 'any'
        end
      end
      return dialect == 'all'
    elseif dialect == 'not' then
      return not holds(inner, values)
    elseif dialect == 'present' then
      for _, name in ipairs(type(inner) == 'table' and inner or { inner }) do
        if not values[name] then
          return false
        end
      end
      return true
    end
    for name, wanted in pairs(inner) do
      if not TEXT_TESTS[dialect](values[name], wanted) then
        return false
      end
    end
    return true
  end

  -- A function that tells whether fields are let through by filters in JSON.
  function filters.matcher(text)
    local condition = cjson.decode(text)
    return function(fields)
      local values = {}
      for at = 1, #fields, 2 do
        values[fields[at]] = fields[at + 1]
      end
      return holds(condition, values)
    end
  end
end
