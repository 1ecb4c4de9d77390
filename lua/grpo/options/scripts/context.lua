-- The context of the script that runs: what the program around it has given to it.
--
-- A script calls grpo.experiment as a plain function and reads grpo.args as a plain table, so the
-- program remembers here whose call that is.  A context is
--   { path = of the script, or nil, where = the name of a file of settings, or nil,
--     name = of the run if the script gives none, args = { [name] = text },
--     overrides = a list of { path=, value=, text= }, rewards = entries of a host,
--     asked = { [name] = true } }
-- and stays in place after the script has returned: functions of the script may still read
-- grpo.args.

local context = {}

local function complete(given)
  local args = {}
  for name, value in pairs(given.args or {}) do args[name] = value end
  return { path = given.path, where = given.where, name = given.name, args = args,
    overrides = given.overrides or {},
    rewards = given.rewards or {}, asked = {} }
end

local current = complete {}

function context.current()
  return current
end

-- Begins a context for what is loaded next.
function context.begin(given)
  current = complete(given)
  return current
end

-- Returns a function that brings back the present context.
function context.restorer()
  local before = current
  return function() current = before end
end

-- grpo.args.  Arguments that were given and never asked for are likely misspelt, and are refused
-- (script.lua): reading a field or all of them is asking.
context.args = setmetatable({}, {
  __index = function(_, name)
    current.asked[name] = true
    return current.args[name]
  end,
  __newindex = function(_, name, value) current.args[name] = value end,
  __pairs = function()
    for name in pairs(current.args) do current.asked[name] = true end
    return pairs(current.args)
  end,
})

return context
