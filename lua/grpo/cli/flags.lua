-- Numbers among a command's flags.  o: the parsed words of a command.

local core = require "grpo.core"

local flags = {}

local function wrong(name, text, want)
  error(core.error("EARG", ("--%s: got '%s', want %s"):format(name, tostring(text), want)), 0)
end

-- Any number; `default` without the flag.
function flags.number(o, name, default)
  local text = o.flags[name]
  if text == nil then return default end
  local n = tonumber(text)
  if not n then wrong(name, text, "a number") end
  return math.tointeger(n) or n
end

-- A whole number of at least `low`; `default` without the flag.
function flags.integer(o, name, low, default)
  local text = o.flags[name]
  if text == nil then return default end
  local n = math.tointeger(tonumber(text))
  if not n or n < low then wrong(name, text, ("a whole number, %d or more"):format(low)) end
  return n
end

-- One of the words; nil without the flag.
function flags.choice(o, name, ...)
  local text = o.flags[name]
  if text == nil then return nil end
  for _, word in ipairs { ... } do
    if word == text then return text end
  end
  wrong(name, text, table.concat({ ... }, ", "):gsub(", ([^,]*)$", " or %1"))
end

-- --threads, put into effect; its value or nil.
function flags.threads(o)
  local n = flags.integer(o, "threads", 1)
  if n and n > 1024 then wrong("threads", o.flags.threads, "a whole number from 1 to 1024") end
  if n then core.set_threads(n) end
  return n
end

return flags
