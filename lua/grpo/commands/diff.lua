local run_diff = require "grpo.runs.diff"
local core = require "grpo.core"
local display = require "grpo.base.display"
local flags = require "grpo.commands.flags"
local history = require "grpo.runs.history"

local command = {
  name = "diff",
  summary = "compare two runs: options, first difference, results",
  arguments = { flags.run, flags.with(flags.run, { doc = false }) },
  flags = { flags.json },
  about = {
    "Compares two runs. It shows what differs of the options of their stages, of arguments, input "
      .. "files, environments, sources and later changes; the first step whose metrics differ "
      .. "(times and memory are not compared); the first completion that differs and at which "
      .. "token; the first one of the same text that has other rewards or another advantage; and "
      .. "the results side by side: means of the last ten steps, and the last evaluation, with its "
      .. "step if that is not the last one. The exit status is 0 whether or not the runs differ.",
  },
}

-- A number with six digits, or with more if it would look like the other one beside it.
local function number_text(v, other)
  if type(v) ~= "number" then return "-" end
  local digits = 6
  local function text(x) return ("%%.%dg"):format(digits):format(x) end
  while type(other) == "number" and v ~= other and digits < 17 and text(v) == text(other) do
    digits = digits + 1
  end
  return text(v)
end

local function short(text, width)
  text = display.clean(tostring(text)):gsub("\n", " ")
  return #text > width and text:sub(1, width - 3) .. "..." or text
end

-- A value that may be a word.
local function value_text(v, other)
  return type(v) == "string" and short(v, 40) or number_text(v, other)
end

-- A result; step: of its evaluation, if that is not the run's last step.
local function end_text(v, other, step)
  local text = number_text(v, other)
  return v and step and ("%s (step %d)"):format(text, step) or text
end

-- Shows rows in columns that are as wide as needed; value(v, other, step) is the text of v beside
-- other.
local function show_table(rows, a, b, value)
  a, b = display.name(a), display.name(b)
  local widths = { 0, #a }
  for _, row in ipairs(rows) do
    widths[1] = math.max(widths[1], #row.name)
    widths[2] = math.max(widths[2], #value(row.a, row.b, row.a_step))
  end
  local line = ("  %%-%ds  %%-%ds  %%s\n"):format(widths[1], widths[2])
  core.out(line:format("", a, b))
  for _, row in ipairs(rows) do
    core.out(line:format(row.name, value(row.a, row.b, row.a_step),
      value(row.b, row.a, row.b_step)))
  end
end

local function show_settings(settings, sources, changes, a, b)
  if #settings == 0 and #sources == 0 and #changes == 0 then
    core.out("same options, same sources, same environment\n")
    return
  end
  if #settings > 0 then
    core.out("set differently:\n")
    show_table(settings, a.name, b.name, function(v) return short(v, 60) end)
  end
  for _, line in ipairs(sources) do core.out("source " .. short(line, 200) .. "\n") end
  for _, line in ipairs(changes) do core.out("changed " .. short(line, 200) .. "\n") end
end

-- Returns the first of the values that differ as text.
local function differences(names)
  local parts = {}
  for i, one in ipairs(names) do
    parts[i] = i <= 4 and ("%s %s / %s"):format(one.name, value_text(one.a, one.b),
      value_text(one.b, one.a)) or nil
  end
  local more = #names > 4 and (", and %d more"):format(#names - 4) or ""
  return table.concat(parts, ", ") .. more
end

local function show_metrics(metrics, common)
  if common == 0 then
    core.out("metrics: no common step\n")
  elseif not metrics then
    core.out(("metrics: equal on all %d common steps\n"):format(common))
  else
    core.out(("metrics: differ from step %d: %s\n"):format(metrics.step,
      differences(metrics.names)))
  end
end

-- judged: a completion of the same text with other rewards
local function judged_text(judged)
  return ("rewards differ from step %d, prompt %d (%s), completion %d: %s"):format(judged.step,
    judged.prompt_index, short(judged.prompt, 40), judged.index, differences(judged.names))
end

local function show_completions(text, common, judged)
  if common == 0 then
    core.out("completions: no common step\n")
  elseif not text and judged then
    core.out(("completions: the same texts on all %d common steps, but %s\n"):format(common,
      judged_text(judged)))
  elseif not text then
    core.out(("completions: equal on all %d common steps\n"):format(common))
  elseif text.count then
    core.out(("completions: differ from step %d, where one run has %d and the other %d\n")
      :format(text.step, text.count, text.other_count))
  elseif not text.same_prompt then
    local format = "completions: differ from step %d, prompt %d: the prompts differ\n  %s\n  %s\n"
    core.out(format:format(text.step, text.prompt_index, short(text.prompt, 100),
      short(text.other_prompt, 100)))
  else
    core.out(("completions: differ from step %d, prompt %d (%s), completion %d, %s\n"):format(
      text.step, text.prompt_index, short(text.prompt, 40), text.index,
      text.token and ("token %d"):format(text.token) or ("byte %d"):format(text.at)))
    local from = math.max(1, text.at - 40)
    core.out(("  ...%s\n  ...%s\n"):format(short(text.a:sub(from), 100),
      short(text.b:sub(from), 100)))
  end
end

function command.run(o)
  local a, b = history.open(o.words[1]), history.open(o.words[2])
  local settings, sources = run_diff.settings(a, b), run_diff.sources(a, b)
  local metrics, common = run_diff.metrics(a, b)
  local changes, ends = run_diff.changes(a, b), run_diff.ends(a, b)
  local text, common_texts, judged = run_diff.completions(a, b)
  if o.flags.json then
    core.out(core.json_encode { a = a.dir, b = b.dir, settings = settings, sources = sources,
      changes = changes, metrics = metrics, common_steps = common, completions = text,
      common_completion_steps = common_texts, judged = judged, ends = ends } .. "\n")
    return
  end
  show_settings(settings, sources, changes, a, b)
  show_metrics(metrics, common)
  show_completions(text, common_texts, judged)
  if text and judged then core.out("of the same texts, " .. judged_text(judged) .. "\n") end
  if #ends > 0 then
    core.out("ends:\n")
    show_table(ends, a.name, b.name, end_text)
  end
end

return command
