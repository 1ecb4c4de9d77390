-- One prompt's lines: compiled as an expression or statements, run protected, results shown.  What `grpo repl` and
-- `grpo attach` share.

local core = require "grpo.core"
local pretty = require "grpo.pretty"

local Session = {}
Session.__index = Session

local session = {}

-- env: globals of the session; out(text), err(text): where results and errors go; call(chunk), optional: runs it,
-- returning true and results or false and an error.
function session.new(env, out, err, call)
  return setmetatable({ env = env, out = out, err = err, call = call or core.protected }, Session)
end

-- `local` at the start of a line makes a variable of the session.
local function session_locals(line)
  local name = line:match("^%s*local%s+function%s+([%a_][%w_]*)")
  if name then return (line:gsub("^%s*local%s+", "", 1)) end
  if line:match("^%s*local%s+[%a_][%w_%s,]*=") then return (line:gsub("^%s*local%s+", "", 1)) end
  return line
end

-- Compiles a line as an expression, then as statements.  Returns chunk, or nil, message, incomplete.
local function compile(line, env)
  local chunk = load("return " .. line, "=stdin", "t", env)
  if chunk then return chunk end
  local statement, message = load(session_locals(line), "=stdin", "t", env)
  if statement then return statement end
  return nil, message, message:find("<eof>", 1, true) ~= nil
end

local function describe(self, name)
  local value = self.env
  for part in name:gmatch("[%w_]+") do
    local ok, next_value = pcall(function() return value[part] end)
    value = ok and next_value or nil
  end
  self.out(pretty.describe(name, value) .. "\n")
end

-- Runs a text.  True when it is only the beginning of something: the next line belongs to it.
function Session:run(text)
  local asked = text:match("^%s*%?%s*(.-)%s*$")
  if asked then return describe(self, asked) end
  local chunk, message, incomplete = compile(text, self.env)
  if not chunk then
    if not incomplete then self.err(message .. "\n") end
    return incomplete
  end
  local started = core.clock()
  local results = table.pack(self.call(chunk))
  if not results[1] then
    self.err(tostring(results[2]) .. "\n")
    return false
  end
  if results.n > 1 then self.env._ = results[2] end
  if not text:match(";%s*$") then
    for i = 2, results.n do self.out(pretty.format(results[i]) .. "\n") end
  end
  local seconds = core.clock() - started
  if seconds > 1 then self.err(("(%.2f s)\n"):format(seconds)) end
  return false
end

return session
