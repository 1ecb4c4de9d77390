-- The tools of grpo mcp.  A tool is { name =, title =, description =, properties = of its JSON
-- schema, required = names, hints =, call = function(arguments, runs) -> text, failed }.
--
-- Arguments come from a model: they are checked against the schema, and none of them can become a
-- flag of the program.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local history = require "grpo.runs.history"
local options = require "grpo.options"
local program = require "grpo.mcp.program"
local sorted_pairs = require "grpo.base.sorted"

local tools = {}

local MOST_NOTES = 30

-- ---- arguments --------------------------------------------------------------------------------

local function text(description) return { type = "string", description = description } end

local function integer(description, low, high)
  return { type = "integer", minimum = low, maximum = high, description = description }
end

local run_name = text "the name of a run, such as my-001, or its directory"
local script = text "an experiment in Lua, or a file of settings, below the server's directory"
local overrides = { type = "array", items = { type = "string" },
  description = "options of the experiment that win over the script: [\"train.lr=1e-5\"]" }

local function complain(format, ...) errors.raise_plain("EARG", format, ...) end

local function check_one(name, value, schema)
  if schema.type == "string" then
    if type(value) ~= "string" then complain("%s: got a %s, want a string", name, type(value)) end
    if value == "" or value:find("^%-") or value:find("%z") then
      complain("%s: want a text that is not empty and does not begin with '-'", name)
    end
  elseif schema.type == "integer" then
    local n = math.tointeger(type(value) == "number" and value or nil)
    if not n or n < schema.minimum or n > schema.maximum then
      complain("%s: want an integer from %d to %d", name, schema.minimum, schema.maximum)
    end
  elseif type(value) ~= "table" or #value == 0 and next(value) ~= nil then
    complain("%s: got a %s, want a list of strings", name, type(value))
  else
    for _, item in ipairs(value) do check_one(name, item, schema.items) end
  end
end

local function check(tool, arguments)
  for name, value in sorted_pairs(arguments) do
    local schema = tool.properties[name]
    if not schema then
      local known = {}
      for one in sorted_pairs(tool.properties) do known[#known + 1] = one end
      complain("there is no argument '%s'; %s", name, options.advice(name, known))
    end
    if value == core.json_null then
      arguments[name] = nil
    else
      check_one(name, value, schema)
    end
  end
  for _, name in ipairs(tool.required) do
    if arguments[name] == nil then complain("the argument '%s' is missing", name) end
  end
end

-- ---- calls of the program ---------------------------------------------------------------------

-- The words of a command with the overrides of a call.
local function words_of(arguments, ...)
  local words = { ... }
  for _, one in ipairs(arguments.overrides or {}) do
    if not one:find("^[%a_][%w_.]*=") then complain("overrides: '%s' is not KEY=VALUE", one) end
    words[#words + 1] = one
  end
  return words
end

local function called(words)
  local said, status = program.run(words)
  if said == "" then said = "(nothing was printed)" end
  return said, status ~= 0
end

-- ---- what a run says about itself -------------------------------------------------------------

-- last: the last row of its metrics, which may be newer than what the run says of itself.
local function facts(run, last)
  local step = math.max(run.step or 0, last and last.step or 0)
  local lines = { ("%s: %s, step %d of %s"):format(run.dir, run.state, step, run.steps or "?") }
  if run.script then lines[2] = "script: " .. run.script end
  return lines
end

local function add_row(lines, title, row)
  if not row then return end
  lines[#lines + 1] = "\n" .. title .. ":"
  for name, value in sorted_pairs(row) do
    if type(value) == "number" then lines[#lines + 1] = ("  %s: %.6g"):format(name, value) end
  end
end

-- The last row of a log, and the first one.
local function ends_of(dir, name)
  local first, last
  for _, row in history.rows(dir, name) do first, last = first or row, row end
  return last, first
end

local function explain(arguments, runs)
  local run = history.open(arguments.run, runs)
  local last, first = ends_of(run.dir, "metrics")
  local lines = facts(run, last)
  if first and first ~= last then add_row(lines, "metrics of the first step", first) end
  add_row(lines, "metrics of the last step", last)
  add_row(lines, "the last evaluation", (ends_of(run.dir, "eval")))
  lines[#lines + 1] = "\nnotes, of which those on patterns say what to try:"
  for i = math.max(1, #run.notes - MOST_NOTES + 1), #run.notes do
    lines[#lines + 1] = "  " .. run.notes[i]
  end
  lines[#lines + 1] = "\n`help` explains each metric and option by its name."
  return table.concat(lines, "\n"), false
end

-- ---- the tools --------------------------------------------------------------------------------

local reads = { readOnlyHint = true, openWorldHint = false }

tools.list = {
  { name = "start_run", title = "Start a run", required = {},
    description = "Starts training in the background and returns the run's directory. Check the "
      .. "script with check_script before its first run.",
    hints = { readOnlyHint = false, destructiveHint = false, openWorldHint = false },
    properties = { script = script, overrides = overrides,
      name = text "what the run is called; default: the script's name and a number",
      resume = text "the run to resume after a stop or a crash, in place of a script" },
    call = function(a, runs)
      if not a.script and not a.resume then
        complain("the argument 'script' is missing; a run that was interrupted wants 'resume'")
      end
      local what = a.resume and "--resume=" .. history.find(a.resume, runs) or a.script
      local words = words_of(a, "run", what, "--detach", "--json", "--dir", runs)
      if a.name then table.move({ "--as", a.name }, 1, 2, #words + 1, words) end
      return called(words)
    end },
  { name = "check_script", title = "Check a script", required = { "script" },
    description = "Loads a script and checks its options, rows and rewards; shows prompts, sampled "
      .. "completions with their rewards, time and memory. Trains nothing.",
    hints = reads, properties = { script = script, overrides = overrides },
    call = function(a) return called(words_of(a, "check", a.script)) end },
  { name = "check_reward", title = "Check rewards", required = {},
    description = "With script: calls its rewards with degenerate and random texts, and says what "
      .. "is odd. With run and rewards: scores the run's completions again with the rewards of a "
      .. "file, and says what changes. With tests: runs a file NAME_test.lua.",
    hints = reads,
    properties = { script = script, run = run_name, tests = text "a file of tests",
      rewards = text "a Lua file that returns a reward, a table of rewards or an experiment" },
    call = function(a, runs)
      if a.script then return called { "test", "--fuzz", a.script } end
      if a.tests then return called { "test", a.tests } end
      if not a.run or not a.rewards then
        complain("want script, or tests, or run and rewards")
      end
      return called { "replay", history.find(a.run, runs), "--reward", a.rewards }
    end },
  { name = "list_runs", title = "List runs", required = {}, hints = reads, properties = {},
    description = "Lists runs, newest first, one JSON object on each line.",
    call = function(_, runs) return called { "runs", "--json", "--dir", runs } end },
  { name = "watch_run", title = "Watch a run", required = { "run" }, hints = reads,
    description = "Says whether a run trains, where it is, and shows the last lines of its screen.",
    properties = { run = run_name, lines = integer("how many lines; default 20", 1, 500) },
    call = function(a, runs)
      local run = history.open(a.run, runs)
      local shown = run.notes
      if core.fs.exists(run.dir .. "/output.log") then
        shown = { (program.run { "logs", run.dir, "--lines", tostring(a.lines or 20) }) }
      end
      local last, most = ends_of(run.dir, "metrics"), a.lines or 20
      local lines = facts(run, last)
      add_row(lines, "metrics of the last step", last)
      lines[#lines + 1] = "\nthe last lines:"
      table.move(shown, math.max(1, #shown - most + 1), #shown, #lines + 1, lines)
      return table.concat(lines, "\n"), false
    end },
  { name = "explain_run", title = "Explain a run", required = { "run" }, hints = reads,
    description = "The facts of a run: its state, the metrics of the first and the last step, its "
      .. "last evaluation, and its notes about patterns that need attention.",
    properties = { run = run_name }, call = explain },
  { name = "show_completions", title = "Show completions", required = { "run" }, hints = reads,
    description = "Shows completions of a step with their rewards and advantages, best first.",
    properties = { run = run_name, step = integer("the step; default: the last one", 1, 2 ^ 40),
      count = integer("how many prompts; default 4", 1, 1000) },
    call = function(a, runs)
      local words = { "replay", history.find(a.run, runs) }
      if a.step then words[3] = ("%d"):format(a.step) end
      table.move({ "--count", ("%d"):format(a.count or 4) }, 1, 2, #words + 1, words)
      return called(words)
    end },
  { name = "stop_run", title = "Stop a run", required = { "run" },
    description = "Ends a run after a checkpoint, from which start_run can resume it.",
    hints = { readOnlyHint = false, destructiveHint = false, idempotentHint = true,
      openWorldHint = false },
    properties = { run = run_name },
    call = function(a, runs) return called { "stop", history.find(a.run, runs) } end },
  { name = "help", title = "Help", required = { "topic" }, hints = reads,
    description = "Explains an option (train.lr), a metric, a function (grpo.data.jsonl) or a "
      .. "command, or searches the pages for words.",
    properties = { topic = text "a name, or words to search for" },
    call = function(a)
      local words = { "help" }
      for word in a.topic:gmatch("[^%s]+") do
        if not word:find("^%-") then words[#words + 1] = word end
      end
      return called(words)
    end },
}

-- The list as the protocol has it.
function tools.described()
  local list = {}
  for i, tool in ipairs(tools.list) do
    local properties = next(tool.properties) and tool.properties or core.json_object {}
    list[i] = { name = tool.name, title = tool.title, description = tool.description,
      annotations = tool.hints,
      inputSchema = { type = "object", properties = properties, required = tool.required,
        additionalProperties = false } }
  end
  return list
end

-- The tool of this name, or nil.
function tools.named(name)
  for _, tool in ipairs(tools.list) do
    if tool.name == name then return tool end
  end
end

-- Calls a tool.  Returns its text and whether it has failed; what is wrong with the arguments is a
-- text too, because the model that wrote them reads it.
function tools.call(tool, arguments, runs)
  local ok, said, failed = core.protected(function()
    check(tool, arguments)
    return tool.call(arguments, runs)
  end)
  if ok then return said, failed end
  return errors.line(said), true
end

return tools
