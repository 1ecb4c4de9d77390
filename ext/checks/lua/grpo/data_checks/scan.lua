-- Looks at every row of a dataset as a stage would read it: its prompt, its target, its own answer.
--
-- A scan is {
--   rows = how many were looked at, lengths = tokens of each prompt that could be made,
--   too_long = { count=, first= }, longer than data.max_prompt_tokens,
--   cut = { count=, first= }: targets that are longer than sampling.max_new_tokens,
--   faults = { [kind] = { count=, first=, message= } }: rows that no step can use.  The kinds are
--     "prompt" (an error), "empty_prompt", "target" (an error), "no_target", "blank_target",
--     "pair" (an error),
--     "no_answer", "blank_answer", "no_number" (after "####"),
--   prompts_said = { [kind] = { count=, first=, message=, convert= } }: notes on prompts
--     (prompt_notes.lua),
--   of_all = sentences about the experiment by its first prompt,
--   repeated = { exact=, loose=, first=, of= }: prompts of earlier rows, literally, and with other
--     white space,
--   unusable = { [row] = true }: rows with a fault at which a step stops,
--   prompts = all that scan.overlap reads }
-- `first` is a row's number, and `of` that of the row that it repeats.

local answer = require "grpo.answer"
local core = require "grpo.core"
local prompt_notes = require "grpo.loop.prompt_notes"
local prompts = require "grpo.scoring.prompts"
local row_random = require "grpo.scoring.row_random"

local scan = {}

-- A text of 16 bytes for a prompt.  Two checksums of 32 bits: a million prompts have no two that
-- differ and share it, with a chance of one in ten million that they do.
local function key_of(text)
  return ("<I4I4I8"):pack(core.fs.crc32c(text), core.fs.crc32c(text:reverse()), #text)
end

local function without_spaces(text)
  return (text:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", ""))
end

local function blank(v)
  return v == core.json_null or type(v) == "string" and not v:find("%S")
end

local function note(faults, kind, number, message)
  local fault = faults[kind] or { count = 0, first = number, message = message }
  fault.count, faults[kind] = fault.count + 1, fault
end

-- ---- one row -----------------------------------------------------------------------------------

-- The prompt of row number i; nil if it cannot be made.
local function prompt_of(config, tokenizer, row, i, held_out, faults)
  local ok, prompt = pcall(row_random.during, config, "prompt", i, held_out, prompts.render, config,
    tokenizer, row, i, held_out)
  if not ok then
    note(faults, "prompt", i, (tostring(prompt):gsub("^data%.prompt: ", "")))
    return nil
  end
  if #prompt.ids == 0 then note(faults, "empty_prompt", i) end
  return prompt
end

-- A target as text, which the tokenizer must know, and its number of tokens; nil for nil.
local function text_of(tokenizer, target)
  if target == nil or blank(target) then return target, 0 end
  local ids = prompts.target({ data = { target = function() return target end } }, tokenizer)
  if type(target) ~= "table" then return target, #ids end
  return math.type(target[1]) == "integer" and tokenizer:decode(target) or table.concat(target),
    #ids
end

-- The target of a row as text, and its number of tokens; nil if there is none.
local function target_of(config, tokenizer, row, i, held_out, faults)
  local ok, target, length = pcall(function()
    local given = row_random.during(config, "target", i, held_out, config.data.target, row)
    return text_of(tokenizer, given)
  end)
  if not ok then
    note(faults, "target", i, tostring(target))
  elseif target == nil then
    note(faults, "no_target", i)
  elseif blank(target) then
    note(faults, "blank_target", i)
  else
    return target, length
  end
end

-- The field `answer` of a row, which ready rewards compare with, as text; nil if it says nothing.
local function answer_of(row, i, faults, seen)
  local value = type(row) == "table" and row.answer or nil
  if value == nil then
    note(faults, "no_answer", i)
    return nil
  end
  seen.answers = seen.answers + 1
  if blank(value) then
    note(faults, "blank_answer", i)
    return nil
  end
  if type(value) ~= "string" then return type(value) == "number" and answer.gold(value) or nil end
  if value:find("####", 1, true) then seen.hashes = seen.hashes + 1 end
  local number = answer.hashed(value)
  if not number or number == "" then note(faults, "no_number", i) end
  return value
end

-- Kinds of faults at which a step stops.
local stops = { "prompt", "empty_prompt", "target", "no_target", "pair" }

local function count_stops(faults)
  local sum = 0
  for _, kind in ipairs(stops) do sum = sum + (faults[kind] and faults[kind].count or 0) end
  return sum
end

-- ---- all rows ----------------------------------------------------------------------------------
-- The row among the prompts `seen` with one of these keys.  counts: { exact =, loose = }, of which
-- one is raised when there is such a row.
local function known_row(seen, key, loose, counts)
  local row = seen.exact[key]
  if row then
    counts.exact = counts.exact + 1
    return row
  end
  row = seen.loose[loose]
  if row then counts.loose = counts.loose + 1 end
  return row
end

-- The text that no other row should have: the prompt, or a whole window of grpo.data.text, because
-- many windows begin with the same character.
local function own_text(row, prompt)
  return prompt_notes.is_window(row, prompt) and row.text or prompt.text
end

-- Keeps what there is to say of the prompt of row i.
local function look_at(config, tokenizer, result, row, prompt, i)
  for _, said in ipairs(prompt_notes.of(config, tokenizer, prompt, row)) do
    note(result.prompts_said, said.kind, i, said.text)
    result.prompts_said[said.kind].convert = said.convert
  end
  result.of_all = result.of_all or prompt_notes.of_all(config, tokenizer, prompt)
end

local function remember(result, text, i)
  local repeated = result.repeated
  local plain = without_spaces(text)
  local key = key_of(text)
  local loose = plain == text and key or key_of(plain)
  local before = known_row(result.prompts, key, loose, repeated)
  if before and not repeated.first then repeated.first, repeated.of = i, before end
  result.prompts.exact[key] = result.prompts.exact[key] or i
  result.prompts.loose[loose] = result.prompts.loose[loose] or i
  local list = result.prompts.list
  if list then list[#list + 1] = { i, key, loose } end
end

-- Removes faults that every row has: the rows have no answers, or none that ends in "#### N".
local function forgive(faults, seen)
  if seen.answers == 0 then faults.no_answer = nil end
  if seen.hashes == 0 then faults.no_number = nil end
end

-- count: { count=, first= } of rows with more tokens than the limit.
local function count_longer(count, i, length, limit)
  if length <= limit then return end
  count.count, count.first = count.count + 1, count.first or i
end

-- Scans the first `n` rows of a dataset.  options: { held_out = is it data.eval?, visit(i, row,
-- prompt, gold) = is called with each row whose prompt can be made and its own answer as text, or
-- nil, ends = how many end tokens a target has that the stage leaves out, progress(i, n) = is
-- called before each row, problem = row_problem of the kind of stage, or nil }.
function scan.rows(config, tokenizer, dataset, n, options)
  local held_out = options.held_out or false
  local result = { rows = n, lengths = {}, too_long = { count = 0 }, cut = { count = 0 },
    faults = {}, prompts_said = {}, repeated = { exact = 0, loose = 0 }, unusable = {},
    prompts = { exact = {}, loose = {}, list = held_out and {} or nil } }
  local faults, seen = result.faults, { answers = 0, hashes = 0 }
  local function row_at(i) return dataset[i] end
  for i = 1, n do
    options.progress(i, n)
    local before = count_stops(faults)
    local row = row_random.during(config, "row", i, held_out, row_at, i)
    local prompt = prompt_of(config, tokenizer, row, i, held_out, faults)
    local gold, length
    if config.data.target then
      gold, length = target_of(config, tokenizer, row, i, held_out, faults)
      count_longer(result.cut, i, length or 0, config.sampling.max_new_tokens + options.ends)
    end
    if prompt and options.problem then
      prompt.row, prompt.number = row, i
      local problem = options.problem(config, tokenizer, prompt, held_out)
      if problem then note(faults, "pair", i, problem) end
    end
    if count_stops(faults) > before then result.unusable[i] = true end
    local own = answer_of(row, i, faults, seen)
    if prompt then
      result.lengths[#result.lengths + 1] = #prompt.ids
      count_longer(result.too_long, i, #prompt.ids, config.data.max_prompt_tokens)
      remember(result, own_text(row, prompt), i)
      look_at(config, tokenizer, result, row, prompt, i)
      if options.visit then options.visit(i, row, prompt, gold or own) end
    end
  end
  forgive(faults, seen)
  return result
end

-- How many held-out prompts are among those of training: { exact=, loose=, first=, of= }.
function scan.overlap(train, eval)
  local shared = { exact = 0, loose = 0 }
  for _, item in ipairs(eval.prompts.list) do
    local number, key, loose = item[1], item[2], item[3]
    local at = known_row(train.prompts, key, loose, shared)
    if at and not shared.first then shared.first, shared.of = number, at end
  end
  return shared
end

return scan
