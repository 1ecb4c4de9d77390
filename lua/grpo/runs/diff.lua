-- Compares two runs: options that differ, the place where they diverge, their ends.

local core = require "grpo.core"
local events = require "grpo.loop.events"
local history = require "grpo.runs.history"
local rundir = require "grpo.runs.directory"
local sorted_pairs = require "grpo.base.sorted"
local stage_options = require "grpo.runs.stage_options"

local run_diff = {}

local function text_of(v)
  if v == nil then return "-" end
  return type(v) == "table" and core.json_encode(v) or tostring(v)
end

-- Times and memory differ from run to run; nothing else may.
local function repeatable(name)
  return not (name:find("^time/") or name:find("^tokens_per_second/") or name == "step_time"
    or name == "memory/peak_bytes" or name == "seconds")
end

local function union(a, b)
  local names = {}
  for name in pairs(a) do names[name] = true end
  for name in pairs(b) do names[name] = true end
  return sorted_pairs(names)
end

-- The files that a run reads: { [path] = size and checksum as text }.
local function inputs_of(run)
  local inputs = {}
  for _, file in ipairs(rundir.read(run.dir, "inputs") or {}) do
    inputs[file.path] = file.crc32c
      and ("%s bytes, CRC-32C %08x"):format(text_of(file.size), file.crc32c) or "a directory"
  end
  return inputs
end

-- The text of an option, in which functions of the run's script are named by its file alone: the
-- same script may be run from another directory.  What is in it is another question (sources).
local function from_anywhere(run, text)
  local script = run.info.script or ""
  return (text or ""):gsub("function %((.-):(%d+)%)", function(path, line)
    local own = path:gsub("^%.%.%.", "") -- Lua shortens a long path to its end
    if own == "" or script:sub(-#own) ~= own then return nil end
    return ("function (%s:%s)"):format(script:match("[^/]*$"), line)
  end)
end

-- A run's value of an option, as text: of numbers those that it used, which GRPO_CPU may have said.
local function value_of(run, name, option)
  return name == "numbers" and run.info.numbers or stage_options.text(option)
end

-- { { name=, a=, b= }, ... }: options of stages, arguments, files that are read, and facts of the
-- environment, that are not the same.
function run_diff.settings(a, b)
  local list = {}
  local function add(name, x, y)
    if x ~= y then list[#list + 1] = { name = name, a = x or "-", b = y or "-" } end
  end
  local function add_all(format, x, y)
    for name in union(x, y) do
      add(format:format(name), x[name] ~= nil and text_of(x[name]) or nil,
        y[name] ~= nil and text_of(y[name]) or nil)
    end
  end
  add("stages", stage_options.kinds(a), stage_options.kinds(b))
  for _, row in ipairs(stage_options.rows { a, b }) do
    local x, y = value_of(a, row.name, row[1]), value_of(b, row.name, row[2])
    if from_anywhere(a, x) ~= from_anywhere(b, y) then add(row.name, x, y) end
  end
  add_all("--arg %s", a.info.args or {}, b.info.args or {})
  add_all("(input %s)", inputs_of(a), inputs_of(b))
  add_all("(%s)", a.env, b.env)
  return list
end

-- Returns the changes of a run while it trained, or when it was resumed: { [a line] = true, or the
-- data that it set }.
local function changes_of(run)
  local set = {}
  for _, e in history.rows(run.dir, "events") do
    local value = e.value ~= nil and " = " .. core.json_encode(e.value) or ""
    set[("at step %d: %s %s%s"):format(e.step, e.kind, events.about(e), value)
      :gsub(" $", "")] = e.data or true
  end
  return set
end

-- A list of sentences about what was changed in one of the runs only while it trained.
function run_diff.changes(a, b)
  local x, y, list = changes_of(a), changes_of(b), {}
  for line in union(x, y) do
    if not x[line] or not y[line] then
      list[#list + 1] = ("%s, only in %s"):format(line, x[line] and a.name or b.name)
    elseif x[line] ~= y[line] then
      list[#list + 1] = line .. ", to different values"
    end
  end
  return list
end

-- Returns the files of source/ that differ or are in one run only.
function run_diff.sources(a, b)
  local list = {}
  local function walk(dir, prefix, found)
    for _, name in ipairs(core.fs.list(dir) or {}) do
      local path = dir .. "/" .. name
      if core.fs.isdir(path) then
        walk(path, prefix .. name .. "/", found)
      else
        found[prefix .. name] = path
      end
    end
    return found
  end
  local x, y = walk(a.dir .. "/source", "", {}), walk(b.dir .. "/source", "", {})
  for name in union(x, y) do
    if not x[name] or not y[name] then
      list[#list + 1] = ("%s: only in %s"):format(name, x[name] and a.name or b.name)
    elseif core.fs.read(x[name]) ~= core.fs.read(y[name]) then
      list[#list + 1] = name .. ": differs"
    end
  end
  return list
end

local function same(x, y)
  return x == y or (x ~= x and y ~= y)
end

-- Returns the metrics of two rows that are not equal: { name=, a=, b= }, ...
local function unequal(x, y)
  local names = {}
  for name in union(x, y) do
    if repeatable(name) and not same(x[name], y[name]) then
      names[#names + 1] = { name = name, a = x[name], b = y[name] }
    end
  end
  return names
end

-- Iterates over pairs of values of the same step.  Each of the two functions gives a step and its
-- value, in the order of steps, and nil at the end.
local function common_steps(next_of_a, next_of_b)
  local step, x = next_of_a()
  local other, y = next_of_b()
  return function()
    while step and other and step ~= other do
      if step < other then step, x = next_of_a() else other, y = next_of_b() end
    end
    if not step or not other then return nil end
    local found, mine, theirs = step, x, y
    step, x = next_of_a()
    other, y = next_of_b()
    return found, mine, theirs
  end
end

-- Iterates over the rows of metrics.jsonl: step, row.
local function metrics_of(run)
  local next_row = history.rows(run.dir, "metrics")
  return function()
    local _, row = next_row()
    if row then return row.step, row end
  end
end

-- Returns the first step whose metrics differ: { step=, names = { { name=, a=, b= }, ... } }, nil
-- when all agree; and how many steps both have.
function run_diff.metrics(a, b)
  local common, first = 0, nil
  for step, x, y in common_steps(metrics_of(a), metrics_of(b)) do
    local names = first and {} or unequal(x, y)
    common = common + 1
    if #names > 0 then first = { step = step, names = names } end
  end
  return first, common
end

-- Returns where two byte strings diverge, at the start of a character.
local function parting(x, y)
  local at = 1
  while at <= #x and at <= #y and x:byte(at) == y:byte(at) do at = at + 1 end
  while at > 1 and (x:byte(at) or y:byte(at) or 0) & 0xC0 == 0x80 do at = at - 1 end
  return at
end

-- Returns the number of tokens before byte `at` of the text, by the tokenizer of one of the runs;
-- nil without one.
local function token_at(tokenizer, text, at)
  if not tokenizer then return nil end
  local ok, ids = pcall(tokenizer.encode, tokenizer, text:sub(1, at - 1))
  return ok and #ids + 1 or nil
end

local function tokenizer_of(run)
  local dir = core.checkpoint_newest(run.dir)
  if not dir or not core.fs.exists(dir .. "/tokenizer.json") then return nil end
  local ok, tokenizer = pcall(core.tokenizer_load, dir)
  return ok and tokenizer or nil
end

-- Iterates over the steps of completions.jsonl: step, list of its rows; nil after the last one.  A
-- run that is training may be writing its last step, which is left out.
local function steps_of(run)
  local next_row = history.rows(run.dir, "completions")
  local _, row = next_row()
  return function()
    if not row then return nil end
    local step, list = row.step, {}
    repeat
      list[#list + 1] = row
      _, row = next_row()
    until not row or row.step ~= step
    if not row and run.state == "running" then return nil end
    return step, list
  end
end

-- Returns where two lists of completions of one step differ first; nil if they do not.
local function first_difference(a, b, xs, ys)
  for i = 1, math.min(#xs, #ys) do
    local x, y = xs[i], ys[i]
    if x.prompt ~= y.prompt or x.text ~= y.text then
      local offset = parting(x.text, y.text)
      return { step = x.step, prompt = x.prompt, prompt_index = x.prompt_index, index = x.index,
        at = offset,
        token = token_at(tokenizer_of(a) or tokenizer_of(b), x.text, offset), a = x.text,
        b = y.text, same_prompt = x.prompt == y.prompt, other_prompt = y.prompt }
    end
  end
  return #xs ~= #ys and { step = xs[1].step, count = #xs, other_count = #ys } or nil
end

-- Returns what a row of completions.jsonl says of the completion beside its text, by name.
local function judgement(row)
  local values = { reward = row.reward, advantage = row.advantage, finish = row.finish,
    length = row.length }
  for name, value in pairs(row.rewards or {}) do values["rewards." .. name] = value end
  for name, value in pairs(values) do
    if type(value) == "table" then values[name] = core.json_encode(value) end
  end
  return values
end

-- Returns the first of two lists' completions of the same text that is judged in another way; nil
-- if none is.
local function first_judgement(xs, ys)
  for i = 1, math.min(#xs, #ys) do
    local x, y = xs[i], ys[i]
    if x.prompt ~= y.prompt or x.text ~= y.text then return nil end
    local names = unequal(judgement(x), judgement(y))
    if #names > 0 then
      return { step = x.step, prompt = x.prompt, prompt_index = x.prompt_index, index = x.index,
        names = names }
    end
  end
end

-- Returns the first completion that differs: { step=, prompt=, prompt_index=, index=, at=, token=,
-- a=, b=, same_prompt=, other_prompt= }, or { step=, count=, other_count= } of a step that has more
-- of them in one run; nil when all agree.  Second: in how many steps up to there both have some.
-- Third: the first one before that whose rewards, advantage or end differ, though its text does
-- not: { step=, prompt=, prompt_index=, index=, names = { { name=, a=, b= }, ... } }, or nil.
function run_diff.completions(a, b)
  local common, judged = 0, nil
  for _, xs, ys in common_steps(steps_of(a), steps_of(b)) do
    common = common + 1
    judged = judged or first_judgement(xs, ys)
    local found = first_difference(a, b, xs, ys)
    if found then return found, common, judged end
  end
  return nil, common, judged
end

local shown = { "reward", "reward_std", "kl", "entropy", "loss", "loss/value_avg",
  "completions/mean_length",
  "frac_reward_zero_std", "grad_norm", "step_time", "tokens_per_second/generate",
  "memory/peak_bytes" }

local LAST = 10 -- steps whose mean is shown

-- Returns the last rows of the metrics, of the last stage alone, and the last evaluation.
local function tail(run)
  local list, evaluation = {}, {}
  for _, row in history.rows(run.dir, "metrics") do
    if #list > 0 and list[#list].stage ~= row.stage then list = {} end
    list[#list + 1] = row
    if #list > LAST then table.remove(list, 1) end
  end
  for _, row in history.rows(run.dir, "eval") do evaluation = row end
  return list, evaluation
end

-- Returns the step of an evaluation that is not of the run's last step; nil of another.
local function stale_step(evaluation, rows)
  local last = rows[#rows] and rows[#rows].step
  return last and evaluation.step and evaluation.step < last and evaluation.step or nil
end

-- Returns means of the most important metrics over the last steps (at most ten, of the last stage),
-- and the last evaluations, with a_step and b_step where they are of an earlier step than the last.
function run_diff.ends(a, b)
  local function mean(list, name)
    local sum, n = 0.0, 0
    for _, row in ipairs(list) do
      if type(row[name]) == "number" then sum, n = sum + row[name], n + 1 end
    end
    return n > 0 and sum / n or nil
  end
  local x, ex = tail(a)
  local y, ey = tail(b)
  local rows = {}
  for _, name in ipairs(shown) do
    local u, v = mean(x, name), mean(y, name)
    if u or v then rows[#rows + 1] = { name = name, a = u, b = v } end
  end
  for name in union(ex, ey) do
    if name:find("^eval/") and not name:find("/low$") and not name:find("/high$") then
      rows[#rows + 1] = { name = name, a = ex[name], b = ey[name], a_step = stale_step(ex, x),
        b_step = stale_step(ey, y) }
    end
  end
  return rows
end

return run_diff
