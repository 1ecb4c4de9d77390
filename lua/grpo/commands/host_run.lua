-- A run inside somebody else's program (grpo_run_execute of grpo.h): no terminal, no signals, no
-- output but what the host's callbacks are told.

local attach_server = require "grpo.commands.repl.attach_server"
local core = require "grpo.core"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local start = require "grpo.runs.start"

local host_run = {}

-- Replaces functions with which a script would end or change the program around it, and print where
-- it is not the host's own.  host: { log = }.  Returns a function that puts back those of os.
function host_run.tame(host)
  if not core.is_guest() then
    function _G.print(...)
      local parts = table.pack(...)
      for i = 1, parts.n do parts[i] = tostring(parts[i]) end
      host.log(table.concat(parts, "\t", 1, parts.n))
    end
  end
  local library = _G.os -- the script's, which is the host's own in a state that it lends
  if type(library) ~= "table" then return function() end end
  local exit, setlocale = library.exit, library.setlocale
  function library.exit()
    errors.raise("EARG", "os.exit: would end the program around this run")
  end
  function library.setlocale(locale, category)
    if locale ~= nil then
      errors.raise("EARG", "os.setlocale: the locale is that of the program around this run")
    end
    return setlocale(nil, category)
  end
  return function() library.exit, library.setlocale = exit, setlocale end
end

-- The view of the run that calls the host, in place of lines on a terminal.
local function view_of(host)
  local view = display.silent()
  local function say(_, text) host.log(text) end
  local function look(tr)
    if host.stopping() then tr:stop("the host") end
  end
  view.line, view.info, view.note = say, say, say
  view.stage = function(_, tr) look(tr) end
  view.step = function(_, tr, metrics)
    host.step(tr.step_count, metrics)
    look(tr)
  end
  return view
end

local function words_to_args(words)
  local args = {}
  for _, word in ipairs(words) do
    local name, value = word:match("^([^=]+)=(.*)$")
    if not name then errors.raise_plain("EARG", "args: '%s' is not name=value", word) end
    args[name] = value
  end
  return args
end

local function check_overrides(words)
  for _, word in ipairs(words) do
    if not word:find("^[%w_.]+=") then
      errors.raise_plain("EARG", "overrides: '%s' is not option=value", word)
    end
  end
end

local function run(host)
  require("grpo").host = host.functions
  check_overrides(host.overrides)
  if host.threads > 0 then core.set_threads(host.threads) end
  local tr, directory = start.trainer { script = host.path, text = host.script, words = true,
    overrides = host.overrides, args = words_to_args(host.args), rewards = host.rewards,
    attach = attach_server.open,
    root = host.resume and (host.directory or ".") or host.directory, resume = host.resume,
    steps = host.max_steps > 0 and host.max_steps or nil,
    view = function() return view_of(host) end }
  if not tr then return host.reached(directory.info.step, false, directory.dir) end
  local ok, why = pcall(tr.run, tr)
  host.reached(tr.step_count, why == "stopped", directory and directory.dir or "")
  if not ok then error(why, 0) end
end

-- host: { path=, script=, overrides=, args=, directory=, resume=, max_steps=, threads=, rewards=,
--         functions = grpo.host of the script, log = f(text), step = f(number, metrics),
--         stopping = f() -> boolean, reached = f(steps, stopped, directory) }
-- `reached` is called when the run has ended, also by an error, which is raised then.
function host_run.run(host)
  local untame = host_run.tame(host)
  local ok, why = pcall(run, host)
  untame()
  if not ok then error(why, 0) end
end

return host_run
