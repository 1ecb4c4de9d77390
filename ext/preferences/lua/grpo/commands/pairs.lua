local core = require "grpo.core"
local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"
local history = require "grpo.runs.history"
local model_paths = require "grpo.models.paths"
local preference_rows = require "grpo.preferences.rows"

local command = {
  name = "pairs",
  summary = "make pairs of preferences from a run's completions",
  arguments = { flags.run },
  flags = {
    { name = "margin", type = "number", value = "DIFFERENCE", min = 0, default = 0.0,
      doc = "leave out groups whose rewards differ by DIFFERENCE or less" },
    { name = "from", type = "integer", value = "STEP", min = 1, default = 1,
      doc = "begin with the completions of STEP" },
    { name = "labels", doc = "print every completion by itself, desirable if its reward is above "
      .. "the mean of its group, for kto" },
    flags.dir,
  },
  about = {
    "Prints for each group of completions that a run has sampled the one with the best reward and "
      .. "the one with the worst, as JSON: prompt, chosen, rejected, margin (the difference of "
      .. "their rewards) and step. A stage of kind \"dpo\" or \"reward\" learns from the lines as "
      .. "they are.",
    "Groups without a difference are left out. So are completions that were cut at "
      .. "sampling.max_new_tokens, which say nothing about how a text ends, those with turns of "
      .. "tools, and those without a reward. A prompt is the text that encodes to what the model "
      .. "read, or a list of token ids where no text does.",
  },
  notes = {
    "Exit status: 0 the pairs are printed, however many, 3 the run or its completions are missing "
      .. "or damaged.",
  },
}

-- The run's tokenizer, or nil.
local function tokenizer_of(run)
  local ok, place = errors.try(model_paths.find, run)
  local found, tokenizer = errors.try(core.tokenizer_load, ok and place.path or run)
  return found and tokenizer or nil
end

-- Returns the text that a stage encodes to what the model has read, or the ids: a prompt is
-- logged with the tokens that the tokenizer puts around a text.
local function prompt_of(tokenizer, text)
  if not tokenizer then return text end
  local ids = tokenizer:encode(text)
  local around = #tokenizer:encode("", { special = true })
  for before = 0, around do
    local inner = tokenizer:decode(table.move(ids, before + 1, #ids - around + before, 1, {}))
    if preference_rows.same(ids, tokenizer:encode(inner, { special = true })) then return inner end
  end
  return ids
end

local function usable(row)
  return type(row.reward) == "number" and row.finish ~= "length" and not row.parts
    and type(row.text) == "string" and row.text ~= ""
end

-- Calls visit(rows) with the usable completions of each group.
local function each_group(run, from, visit)
  local group, key = {}, nil
  for _, row in history.rows(run, "completions") do
    local of_row = ("%s/%s"):format(row.step, row.prompt_index)
    if of_row ~= key then
      if #group > 1 then visit(group) end
      group, key = {}, of_row
    end
    if row.step >= from and usable(row) then group[#group + 1] = row end
  end
  if #group > 1 then visit(group) end
end

-- Returns the completions with the greatest and the least reward, the first of several.
local function ends_of(group)
  local best, worst = group[1], group[1]
  for _, row in ipairs(group) do
    if row.reward > best.reward then best = row end
    if row.reward < worst.reward then worst = row end
  end
  return best, worst
end

local function print_labels(group, prompt)
  local mean = 0.0
  for _, row in ipairs(group) do mean = mean + row.reward / #group end
  for _, row in ipairs(group) do
    core.out(core.json_encode { prompt = prompt, completion = row.text, label = row.reward > mean,
      step = row.step } .. "\n")
  end
end

function command.run(o)
  local run = history.find(o.words[1], o.flags.dir)
  local tokenizer, count = tokenizer_of(run), 0
  if not core.fs.exists(run .. "/completions.jsonl") then
    errors.raise_plain("ENOENT", "pairs: %s: the run has sampled no completions", run)
  end
  each_group(run, o.flags.from, function(group)
    local best, worst = ends_of(group)
    local margin = best.reward - worst.reward
    if margin <= o.flags.margin or best.text == worst.text then return end
    local prompt = prompt_of(tokenizer, best.prompt)
    count = count + 1
    if o.flags.labels then return print_labels(group, prompt) end
    core.out(core.json_encode { prompt = prompt, chosen = best.text, rejected = worst.text,
      margin = margin, step = best.step } .. "\n")
  end)
  core.err(("%d group%s with a difference\n"):format(count, count == 1 and "" or "s"))
  return 0
end

return command
