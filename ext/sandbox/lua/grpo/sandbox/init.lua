-- grpo.sandbox.run runs code that a model wrote, in a Lua state of its own and under limits.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"

local sandbox = {}

local known = { "time", "memory", "instructions", "env", "isolate" }
-- The default budget of instructions for each second; current machines execute more.
local PER_SECOND = 5e7

local function number(opts, name, default, low, high)
  local v = opts[name]
  if v == nil then return default end
  if type(v) ~= "number" or not (v >= low and v <= high) then
    errors.raise("EARG", "sandbox.%s: got %s, want a number, %g to %g", name, tostring(v), low,
      high)
  end
  return v
end

local function check(code, opts)
  if type(code) ~= "string" then
    errors.raise("EARG", "sandbox.run: got %s, want the code as a string", type(code))
  end
  if type(opts) ~= "table" then
    errors.raise("EARG", "sandbox.run: got %s, want a table of options", type(opts))
  end
  for name in pairs(opts) do
    if not options.among(name, known) then
      errors.raise("EARG", "sandbox.%s: unknown option, %s", tostring(name),
        options.advice(tostring(name), known))
    end
  end
  if opts.env ~= nil and type(opts.env) ~= "table" then
    errors.raise("EARG", "sandbox.env: got %s, want a table", type(opts.env))
  end
  if opts.isolate ~= nil and opts.isolate ~= false and opts.isolate ~= "process" then
    errors.raise("EARG", "sandbox.isolate: got %s, want \"process\"", tostring(opts.isolate))
  end
end

---Runs Lua code; see docs/lua-api.md.  Returns true, the list of its results (with n) and its
---output, or false, a message and the output.
function sandbox.run(code, opts)
  opts = opts or {}
  check(code, opts)
  local seconds = number(opts, "time", 1, 1e-3, 3600)
  local limits = {
    seconds = seconds,
    memory = math.floor(number(opts, "memory", 64 * 2 ^ 20, 1, 2 ^ 40)),
    instructions = math.floor(number(opts, "instructions", seconds * PER_SECOND, 1, 1e18)),
  }
  local env = core.state_encode(opts.env or {}, "sandbox.env")
  local ok, result, output = core.sandbox(code, env, limits, opts.isolate == "process")
  if ok then result = core.state_decode(result) end
  return ok, result, output
end

return sandbox
