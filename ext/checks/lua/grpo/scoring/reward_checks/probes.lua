-- Calls rewards with texts that nobody sampled: degenerate ones, and demonstrations.  Each
-- suspicion becomes a finding, a sentence.

local careful = require "grpo.scoring.reward_checks.careful"
local core = require "grpo.core"
local degenerate_texts = require "grpo.scoring.reward_checks.degenerate_texts"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local prompts = require "grpo.scoring.prompts"
local reward_entries = require "grpo.options.reward_entries"
local rollout = require "grpo.scoring.rollout"
local row_checks = require "grpo.scoring.reward_checks.row_checks"
local row_texts = require "grpo.scoring.reward_checks.row_texts"

local probes = {}

local SLOW = 0.5 -- seconds for one text
local BYTES_A_TOKEN, LONGEST, SHORTEST = 8, 100000, 200 -- of degenerate texts
local GOLD_ROWS = 20

-- A completion of `text` for a row as rewards see it; group_fn sees it alone.
local function completion(text, row, prompt, tokenizer, config)
  local ok, ids = pcall(tokenizer.encode, tokenizer, text)
  ids = ok and ids or {}
  local has_target, target = errors.try(prompts.target, config, tokenizer, row)
  target = has_target and target or nil
  local logprobs, target_logprobs = {}, target and {}
  for i = 1, #ids do logprobs[i] = -1.0 end
  for i = 1, target and math.min(#ids, #target) or 0 do target_logprobs[i] = -1.0 end
  return rollout.made({ text = text, prompt = prompt.text, plain_prompt = prompt.given,
    messages = prompt.messages, row = row, tokenizer = tokenizer, ids = ids, length = #ids,
    logprobs = logprobs, target_ids = target, target_logprobs = target_logprobs },
    config.seed)
end

local function plain(entry)
  return reward_entries.kind_of(entry) ~= "token_fn"
end

-- The prompt of a row; an empty one if it cannot be made, which is a finding about the row.
local function prompt_of(config, tokenizer, row)
  local ok, prompt = errors.try(prompts.render, config, tokenizer, row)
  return ok and prompt or { text = "", ids = {} }
end

-- { { name=, text=, of=, rewards = { [entry] = number or core.none }, errors=,
-- seconds = { [entry] = number }, changed = sentence }, ... }.  score: of careful.scorer; a reward
-- that it does not call any more has nil.
local function probe(entries, texts, rows, tokenizer, config, score)
  local list = {}
  for k, item in ipairs(texts) do
    local original = item.row or rows[(k - 1) % #rows + 1]
    local row = row_checks.copy(original)
    local prompt = prompt_of(config, tokenizer, row)
    local c = completion(item.text, row, prompt, tokenizer, config)
    local seconds = score { c }
    list[k] = { name = item.name, text = item.text, of = item.of, rewards = c.rewards,
      errors = c.errors, seconds = seconds }
    local changer, changed = row_checks.changed(entries, original, row, function(entry, mine)
      score({ completion(item.text, mine, prompt, tokenizer, config) }, { entry })
    end)
    list[k].changer, list[k].changed = changer, changed
  end
  return list
end

local function shorten(text)
  text = display.clean(text):gsub("%s+", " ")
  return #text > 40 and text:sub(1, 37) .. "..." or text
end

-- "rewards.lua:14: ... (completion: ...)" without the completion, which the finding names
local function reason(entry, message)
  local text = tostring(message):gsub(" %(completion: .*$", "")
  local prefix = "rewards." .. entry.name .. ": "
  return text:sub(1, #prefix) == prefix and text:sub(#prefix + 1) or text
end

local function crashes(entries, results, findings)
  for _, entry in ipairs(entries) do
    local names, first = {}, nil
    for _, r in ipairs(results) do
      local message = r.errors and r.errors[entry.name]
      if message then
        first = first or reason(entry, message)
        names[#names + 1] = r.name
      end
    end
    if first then
      findings[#findings + 1] = ("reward %s fails on %s%s: %s"):format(entry.name, names[1],
        #names > 1 and (" and %d more texts"):format(#names - 1) or "", first)
    end
  end
end

local function changes(entries, results, findings)
  for _, entry in ipairs(entries) do
    for _, r in ipairs(results) do
      if r.changer == entry then
        findings[#findings + 1] = "reward " .. r.changed
        break
      end
    end
  end
end

local function slow(entries, results, findings)
  for _, entry in ipairs(entries) do
    local worst, count = nil, 0
    for _, r in ipairs(results) do
      local seconds = r.seconds[entry.name] or 0
      if seconds > SLOW then
        count = count + 1
        if not worst or seconds > worst.seconds[entry.name] then worst = r end
      end
    end
    if worst then
      findings[#findings + 1] = ("reward %s is slow: it takes %.1f s on %s (%d bytes)%s"):format(
        entry.name, worst.seconds[entry.name], worst.name, #worst.text,
        count > 1 and (" and more than %.1f s on %d more texts"):format(SLOW, count - 1) or "")
    end
  end
end

-- Returns the one value that a reward gives to all texts; nil if there are several.
local function constant(entry, results)
  local first
  for _, r in ipairs(results) do
    if not (r.errors and r.errors[entry.name]) then
      local v = r.rewards[entry.name]
      if first == nil then first = v end
      if v ~= nil and v ~= first then return nil end
    end
  end
  return first
end

local function best_of(entry, results)
  local best, which = -math.huge, nil
  for _, r in ipairs(results) do
    local v = r.rewards[entry.name]
    if type(v) == "number" and v > best then best, which = v, r end
  end
  return best, which
end

-- Returns the first rows' demonstrations; {} without a target.
local function demonstrations(train, target, tokenizer)
  local list = {}
  for i = 1, target and math.min(GOLD_ROWS, #train) or 0 do
    local row = train[i]
    local ok, text = pcall(target, row)
    if ok and type(text) == "table" then
      local ids = type(text[1]) == "number"
      ok, text = pcall(ids and tokenizer.decode or table.concat, ids and tokenizer or text, ids
        and text or nil)
    end
    if ok and type(text) == "string" then
      list[#list + 1] = { name = "demonstration " .. i, text = text, row = row }
    end
  end
  return list
end

local function compare_with_gold(entries, results, gold, findings)
  for _, entry in ipairs(entries) do
    local worst, which = best_of(entry, results)
    local best, best_one = best_of(entry, gold)
    if which and best_one and worst > best then
      findings[#findings + 1] = ("reward %s gives %.4g to degenerate text (%s: \"%s\"), and at "
        .. "most %.4g to %d "
        .. "demonstrations"):format(entry.name, worst, which.name, shorten(which.text), best, #gold)
    elseif best_one and not which then
      findings[#findings + 1] = ("reward %s gives nil to every degenerate text, and numbers to "
        .. "demonstrations: nil "
        .. "leaves a completion out of its group; return 0 or false for a wrong answer")
          :format(entry.name)
    end
  end
end

-- { { name=, own=, other=, differs= }, ... }, one for each entry: see rowwise.compare.
local function beside_rows(entries, gold, demos, tokenizer, config, score)
  local exchanged, list = row_checks.exchanged(demos), {}
  if #exchanged == 0 then return list end
  local others = probe(entries, exchanged, {}, tokenizer, config, score)
  for _, entry in ipairs(entries) do
    local own, other, differs = row_checks.compare(entry, gold, others)
    list[#list + 1] = { name = entry.name, own = own, other = other, differs = differs }
  end
  return list
end

-- A finding about a reward that gives one value to everything.  what: the texts, in words.
function probes.constant_finding(name, value, what)
  return ("reward %s gives %s to everything: %s"):format(name,
    value == core.none and "nothing" or ("%.4g"):format(value), what)
end

local answer_columns = { "answer", "solution", "ground_truth", "label", "target", "gold" }

-- A hint where a reward may have compared a text with a number of the row; "" elsewhere.
local function about_numbers(row, value)
  if type(row) ~= "table" or value == core.none or value > 0 then return "" end
  for _, name in ipairs(answer_columns) do
    if type(row[name]) == "number" then
      return ("; row.%s is a number, which no text equals: compare tostring(row.%s)"):format(name,
        name)
    end
  end
  return ""
end

-- Finds rewards that give one value to everything.  With demonstrations that is a finding; without
-- them a right answer may not have been among the texts, so that completions of the model must be
-- looked at too: returns a list of { name =, value =, what = the texts, in words, hint = }.
local function find_constants(entries, results, gold, of_rows, row, findings)
  local other = #gold > 0 and gold or of_rows
  local all = table.move(other, 1, #other, #results + 1,
    table.move(results, 1, #results, 1, {}))
  local what = ("%d degenerate texts and %d %s"):format(#results, #other,
    #gold > 0 and "demonstrations" or "texts made of rows")
  local suspects = {}
  for _, entry in ipairs(entries) do
    local v = constant(entry, all)
    if v ~= nil and #gold > 0 then
      findings[#findings + 1] = probes.constant_finding(entry.name, v,
        what .. about_numbers(row, v))
    elseif v ~= nil then
      suspects[#suspects + 1] = { name = entry.name, value = v, what = what,
        hint = about_numbers(row, v) }
    end
  end
  return suspects
end

-- config: of a stage with rewards; target: some stage's data.target or nil.  Appends sentences to
-- `findings`.  Returns how many texts were tried, beside_rows' list, and find_constants' list.
function probes.run(config, tokenizer, target, findings)
  local train, rows = config.data.train, {}
  for i = 1, math.min(5, #train) do rows[i] = train[i] end
  local entries = {}
  for _, entry in ipairs(config.reward_entries) do
    if plain(entry) then entries[#entries + 1] = entry end
  end
  if #entries == 0 then return 0, {}, {} end
  local score = careful.scorer(entries, config.limits.reward)
  local bytes = BYTES_A_TOKEN * config.sampling.max_new_tokens
  local texts = degenerate_texts.texts(math.max(SHORTEST, math.min(LONGEST, bytes)))
  local results = probe(entries, texts, rows, tokenizer, config, score)
  local demos = demonstrations(train, target, tokenizer)
  local gold = probe(entries, demos, rows, tokenizer, config, score)
  local of_rows = #gold > 0 and {}
    or probe(entries, row_texts.of(rows), rows, tokenizer, config, score)
  crashes(entries, results, findings)
  local all = table.move(gold, 1, #gold, #results + 1, table.move(results, 1, #results, 1, {}))
  slow(entries, table.move(of_rows, 1, #of_rows, #all + 1, table.move(all, 1, #all, 1, {})),
    findings)
  changes(entries, all, findings)
  local suspects = find_constants(entries, results, gold, of_rows, rows[1], findings)
  if #gold > 0 then compare_with_gold(entries, results, gold, findings) end
  return #all + #of_rows, beside_rows(entries, gold, demos, tokenizer, config, score), suspects
end

return probes
