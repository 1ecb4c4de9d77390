-- Loading an experiment script: its arguments, overrides, package.path and strict globals.

local context = require "grpo.options.scripts.context"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local places = require "grpo.data.places"
local events = require "grpo.loop.events"
local experiment = require "grpo.options.experiment"
local install_dir = require "grpo.base.install_dir"
local loaded_sources = require "grpo.options.scripts.loaded_sources"
local modules = require "grpo.options.scripts.modules"
local options = require "grpo.options"
local other_programs = require "grpo.base.other_programs"
local parse_override = require "grpo.options.layers".parse_override
local reward_entries = require "grpo.options.reward_entries"
local script_files = require "grpo.options.scripts.script_files"
local settings = require "grpo.options.settings"
local sorted_pairs = require "grpo.base.sorted"
local sums = require "grpo.loop.sums"

local script = {}

-- Undefined globals are errors, in the script and in what it requires; the globals of a host stay
-- as they are.
local function strict_globals()
  if not core.is_guest() then core.strict(_G) end
end

local function no_file(path)
  local folder, name = path:match("^(.*/)([^/]*)$")
  local scripts = {}
  for _, file in ipairs(core.fs.list(folder or ".") or {}) do
    if file:find("%.lua$") then scripts[#scripts + 1] = file end
  end
  name = name or path
  local near = core.fs.exists(path .. ".lua") and name .. ".lua" or options.nearest(name, scripts)
  errors.raise_plain("ENOENT", "%s: no such file%s", path,
    near and (", did you mean '%s%s'?"):format(folder or "", near) or "")
end

-- The text of the script at `path`, remembered as it is now.
local function read(path)
  if core.fs.exists(path) and (path:find("%.gguf$") or path:find("%.safetensors$")) then
    errors.raise_plain("EARG", "%s: a model is not a script; write a script that names it, with "
      .. "model = { path = \"%s\" }", path, path)
  end
  local text, message, code = loaded_sources.take(path)
  if text then return text end
  if code == "ENOENT" and not core.fs.exists(path) then no_file(path) end
  errors.raise_plain(code or "ENOENT", "%s", message)
end

-- Modules are found beside the script, beside `home`, where it was before a run kept it, and last
-- among the files that come with grpo, because its examples share the problems of
-- experiments/tasks.
local function search_beside(path, home)
  local front, last = "", nil
  for _, file in ipairs { path, home } do
    local directory = file:match("^(.*)/[^/]*$") or "."
    if directory ~= last then
      front = ("%s%s/?.lua;%s/?/init.lua;"):format(front, directory, directory)
    end
    last = directory
  end
  front = front .. "./?.lua;./lua/?.lua;"
  if package.path:sub(1, #front) == front then return end -- a reload
  local shipped = install_dir.directory()
  package.path = front .. package.path .. (shipped and (";%s/?.lua"):format(shipped) or "")
end

local function parse_overrides(words)
  local list = {}
  for _, word in ipairs(words or {}) do list[#list + 1] = parse_override(word) end
  return list
end

local library = { "assert", "coroutine", "debug", "error", "getmetatable", "io", "ipairs", "load",
  "math", "next", "os", "package", "pairs", "pcall", "rawequal", "rawget", "rawlen", "rawset",
  "require", "select", "setmetatable", "string", "table", "tonumber", "tostring", "type", "utf8",
  "xpcall" }

-- Returns a function that gives the globals of Lua's library their values again, which modules of
-- the script need, and returns the name of one that had another.
local function keep_library()
  local values = {}
  for i, name in ipairs(library) do values[i] = rawget(_G, name) end
  local get, set = rawget, rawset
  return function()
    local changed
    for i = 1, #library do
      if get(_G, library[i]) ~= values[i] then
        changed = library[i]
        set(_G, changed, values[i])
      end
    end
    return changed
  end
end

-- The line of the text that gives a global another value, behind the path; the path if none is
-- found.
local function place_of_assignment(name, text, path)
  local number = 0
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    number = number + 1
    if line:find("^%s*" .. name .. "%s*=") or line:find("^%s*function%s+" .. name .. "%s*%(") then
      return ("%s:%d"):format(path, number)
    end
  end
  return path
end

-- Runs the script and returns its result.  limits: none without.
local function execute(chunk, text, path, limits)
  local library_changed = keep_library()
  local ok, result
  if limits then
    ok, result = core.limited(limits, path, chunk)
  else
    ok, result = core.protected(chunk)
  end
  local changed = not core.is_guest() and library_changed()
  if changed then
    errors.raise_plain("EARG", "%s: the global '%s' is of Lua's library, which modules use, too; "
      .. "take another name, or write local %s = ...", place_of_assignment(changed, text, path),
      changed, changed)
  end
  if ok then return result end
  local name = tostring(result):match("undefined global '([%w_]+)'")
  local block = name and other_programs.ask("arguments", name, text)
  if block then errors.with_block(result, block) end
  if type(result) == "table" and result.code ~= nil and result.code ~= "ESCRIPT" then
    error(result, 0)
  end
  local e = core.error("EARG", tostring(result))
  e.traceback = type(result) == "table" and result.traceback or nil
  error(e, 0)
end

-- May a function of these texts ask for an argument later, as hooks and rewards do?  The table of
-- arguments may have another name there: local a = grpo.args.
local function may_ask(texts, name)
  local word = name:gsub("%p", "%%%0")
  for _, text in ipairs(texts) do
    if text:find("([\"'])" .. word .. "%1") then return true end
    for table_name in ("args=args\n" .. text):gmatch("([%a_][%w_]*)%s*=%s*[^\n=]-args%f[^%w_]") do
      if text:find(table_name .. "%s*%.%s*" .. word .. "%f[^%w_]") then return true end
    end
  end
  return false
end

-- Refuses arguments that neither the script nor its modules have asked for or may ask for.  failed:
-- the script has raised, so that only one that is misspelt may be the cause.
local function refuse_unasked(given, path, text, failed)
  local asked, texts, names = context.current().asked, { text }, {}
  for _, file in pairs((loaded_sources.met())) do texts[#texts + 1] = file.text end
  for name in sorted_pairs(asked) do names[#names + 1] = name end
  for name, value in sorted_pairs(given) do
    local near = not failed or options.nearest(name, names)
    if near and not asked[name] and not may_ask(texts, name) then
      errors.raise_plain("EARG", "--arg %s=%s: %s asks for no such argument, %s", name, value, path,
        options.advice(name, names))
    end
  end
end

-- Methods of strings are Lua's own (src/script/environment.h), also where the script wants others.
local function note_replaced(path)
  if core.is_guest() then return end
  for name, fn in sorted_pairs(string) do
    local now = rawget(_G.string, name)
    if now ~= nil and now ~= fn then
      core.err(("note: %s: string.%s is replaced; s:%s() calls Lua's own, because grpo's code "
        .. "calls it, too\n"):format(path, name, name))
    end
  end
end

-- The text of a script, or of a file of settings, as a function; nil and what is wrong with it.  A
-- copy that a run keeps has the name of its original, beside which the script may look for files.
local function compile(text, path, home)
  local kind = settings.kind(path, home)
  if not kind then return load(text, "@" .. (home or path), "t") end
  return function()
    return experiment.new(settings.fields(text, path, kind), context.current())
  end
end

-- Raises about a text that does not compile.
local function raise_syntax(problem, text)
  local message, block = other_programs.explained(problem, text)
  error(errors.with_block(core.error("EARG", message), block), 0)
end

-- "my" for "experiments/my.lua"
local function name_of(path)
  local name, ending = path:match("([^/]+)$"), settings.kind(path) and "%.%a+$" or "%.lua$"
  return (name:gsub(ending, ""))
end

-- Modules and files come from the directory in which a run saved its sources; nil: from disk.
local function take_saved(source)
  modules.take_from(source and source .. "/modules")
  script_files.begin(source and source .. "/files")
end

-- o: { args=, overrides=, words= } of a command line; text: of the script, if path is not a file;
-- saved: a run's directory of sources, whose modules and files come first; home: the script's path
-- before a run kept it; limits: of running it, none without; rewards: entries of a host.  Returns
-- the Experiment.
function script.load(path, o)
  loaded_sources.forget()
  local text = o.text or read(path)
  search_beside(path, o.home)
  context.begin { path = path, where = settings.kind(path, o.home) and path,
    name = name_of(path), args = o.args, overrides = parse_overrides(o.overrides),
    rewards = o.rewards }
  local chunk, problem = compile(text, path, o.saved and o.home)
  if not chunk then raise_syntax(problem, text) end
  strict_globals()
  -- rows made of random numbers are the same in every run
  if not core.is_guest() then math.randomseed(0) end
  take_saved(o.saved)
  local ok, result = pcall(script_files.noted, execute, chunk, text, path, o.limits)
  if not ok then
    if o.words then refuse_unasked(o.args or {}, path, text, true) end
    error(result, 0)
  end
  if not experiment.is(result) then
    error(core.error("EARG",
      ("%s: returned %s; end the script with: return grpo.experiment { ... }"):format(path,
      result == nil and "nothing" or "a " .. type(result))), 0)
  end
  if o.words then
    refuse_unasked(o.args or {}, path, text)
    note_replaced(path)
  end
  return result
end

-- Returns a sentence that names the rewards which a host gave the run when it began
-- (grpo_run_add_reward) and does not give now, or nil if it gives all of them.  given: the entries
-- of the host, nil if there is no host.
function script.lost_rewards(info, given)
  local left, list = {}, {}
  for _, entry in ipairs(given or {}) do left[entry.name] = true end
  for _, name in ipairs(info.host_rewards or {}) do
    if not left[name] then list[#list + 1] = ("'%s'"):format(name) end
  end
  if #list == 0 then return nil end
  return ("the reward %s was a function of the program that began the run"):format(
    table.concat(list, ", "))
end

-- The experiment of a run, from the sources that it saved.  It computes as the run did last, unless
-- an option says otherwise.  more, all optional: { overrides = after its own and those of resumes,
-- at = only those of resumes until this step, script = another one, rewards = entries of a host,
-- may_lose_rewards = true: the caller says itself which of those are not there }.
function script.of_run(dir, info, more)
  more = more or {}
  sums.verify(dir, info, "source/")
  places.pin(info.hub)
  local overrides = {}
  for _, words in ipairs { info.overrides or {}, events.words(dir, more.at),
    more.overrides or {} } do
    table.move(words, 1, #words, #overrides + 1, overrides)
  end
  local e = script.load(more.script or dir .. "/source/main.lua", { args = info.args,
    overrides = overrides, saved = not more.script and dir .. "/source" or nil,
    home = info.script, rewards = more.rewards })
  -- run.json knows what GRPO_CPU, or a script that --force took, has made of the saved script's
  for name, default in pairs { compute = "f32", numbers = "native" } do
    local origin = e.origins[name]
    if origin == "default" or not more.script and origin ~= "command line" then
      e.config[name] = info[name] or default
    end
  end
  local lost = not more.may_lose_rewards and script.lost_rewards(info, more.rewards)
  if lost then core.notice(("note: %s: %s, and what the script has is taken"):format(dir, lost)) end
  return e
end

-- The reward entries that a file means: it returns an experiment, a function, or what the option
-- `rewards` takes. args: grpo.args.  Second result: the experiment, if it is one.
function script.rewards(path, args)
  local text, message, code = core.fs.read(path)
  if not text then errors.raise_plain(code or "ENOENT", "%s", message) end
  local directory = path:match("^(.*)/[^/]*$") or "."
  package.path = ("%s/?.lua;%s/?/init.lua;./?.lua;./lua/?.lua;%s"):format(directory, directory,
    package.path)
  context.begin { path = path, where = settings.kind(path) and path, name = "rewards", args = args }
  local chunk, problem = compile(text, path)
  if not chunk then raise_syntax(problem, text) end
  strict_globals()
  -- a run's own copy, with its modules beside it
  local kept = path:match("^(.*/source.*)/main%.lua$")
  take_saved(kept)
  local ok, result = script_files.noted(core.protected, chunk)
  if not ok then error(result, 0) end
  if experiment.is(result) then
    return result.stages[#result.stages].config.reward_entries, result
  end
  if type(result) == "function" then result = { result } end
  if type(result) ~= "table" or next(result) == nil then
    errors.raise_plain("EARG",
      "%s: returned %s; return a reward function, a table of them (as the option rewards "
      .. "takes it), or an experiment", path, result == nil and "nothing" or type(result) == "table"
      and "an empty table" or "a " .. type(result))
  end
  return reward_entries.list(result, path)
end

return script
