-- grpo.jail runs commands that are not trusted: programs that a model wrote, in any language.  See
-- ext/jail/jail.h for what a jail is.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"

local jail = {}

local MIB = 2 ^ 20

-- The options that limit a task; rewards that run code have them too.
jail.limits = {
  seconds = { type = "number", default = 5, min = 0.01, max = 86400 },
  wall_seconds = { type = "number", min = 0.01, max = 864000 },
  memory_mib = { type = "number", default = 256, min = 1, max = 2 ^ 24 },
  disk_mib = { type = "number", default = 16, min = 0.1, max = 2 ^ 20 },
  output_bytes = { type = "integer", default = 65536, min = 0, max = 2 ^ 30 },
  processes = { type = "integer", default = 16, min = 1, max = 10000 },
  read = { type = "table", default = {} },
  env = { type = "table", default = {} },
}

local spec = {
  command = { type = "table", required = true },
  files = { type = "table", default = {} },
  input = { type = "string", default = "" },
}
for name, row in pairs(jail.limits) do spec[name] = row end

-- A program finds these variables and no others.  With them Python orders sets in the same way each
-- time.
local environment = { PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
  HOME = "/jail", TMPDIR = "/tmp", LANG = "C.UTF-8", PYTHONHASHSEED = "0",
  PYTHONDONTWRITEBYTECODE = "1" }

-- A string that C can take whole.
local function text(v, where)
  if type(v) ~= "string" or v:find("\0", 1, true) then
    errors.raise("EARG", "%s: got %s, want a string without a zero byte", where,
      type(v) == "string" and "one with it" or type(v))
  end
  return v
end

local function texts(list, where)
  local copy = {}
  for i, v in ipairs(list) do copy[i] = text(v, ("%s[%d]"):format(where, i)) end
  return copy
end

local function variables(env)
  local all, list = {}, {}
  for name, v in pairs(environment) do all[name] = v end
  for name, v in sorted_pairs(env) do
    all[text(name, "jail.env: a name")] = text(v, "jail.env." .. tostring(name))
  end
  for name, v in sorted_pairs(all) do list[#list + 1] = name .. "=" .. v end
  return list
end

-- The task as core.jail reads it.
local function prepared(task)
  local o = options.check(task, spec, "jail", 4)
  local files = {}
  for name, content in sorted_pairs(o.files) do
    if type(content) ~= "string" then
      errors.raise("EARG", "jail.files[%q]: got %s, want its text", tostring(name), type(content))
    end
    files[#files + 1] = { text(name, "jail.files: a name"), content }
  end
  local command = texts(o.command, "jail.command")
  if #command == 0 then
    errors.raise("EARG", "jail.command: is empty, want a program and its arguments")
  end
  return { command = command, env = variables(o.env), read = texts(o.read, "jail.read"),
    files = files, input = o.input, cpu_seconds = o.seconds,
    wall_seconds = o.wall_seconds or 5 * o.seconds, memory = math.floor(o.memory_mib * MIB),
    disk = math.floor(o.disk_mib * MIB), output = o.output_bytes, processes = o.processes }
end

-- Runs them all.  Nothing that failed to begin has a result, so a failure is raised.
local function run(tasks, at_once)
  local results, message, code = core.jail(tasks, at_once)
  if not results then errors.raise(code, "%s", message) end
  for _, r in ipairs(results) do r.ok = r.ended == "exit" and r.code == 0 end
  return results
end

---Runs commands side by side; see docs/lua-api.md.  Results are in the order of the tasks.
function jail.run_all(tasks, opts)
  if type(tasks) ~= "table" then
    errors.raise("EARG", "jail.run_all: got %s, want a list of tasks", type(tasks))
  end
  local o = options.check(opts, {
    at_once = { type = "integer", default = 0, min = 0, max = core.jail_at_once },
  }, "jail.run_all")
  local list = {}
  for i, task in ipairs(tasks) do list[i] = prepared(task) end
  return run(list, o.at_once)
end

---Runs one command.
function jail.run(task)
  return run({ prepared(task) }, 1)[1]
end

---Says why a task could not be run here, without running it; nil if it could.  Without a task: why
---there can be no jail.
function jail.problem(task)
  local t = prepared(task or { command = { "sh" } })
  t.probe = true
  local ok, message = core.jail({ t }, 1)
  if not ok then return message end
end

-- Rewards of the script say here, in lines, which programs they run; `grpo check` shows them.
jail.needed = {}

return jail
