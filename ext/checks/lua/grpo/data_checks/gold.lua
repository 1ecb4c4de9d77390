-- Calls the rewards of a stage with each row's own answer: a row whose answer a reward cannot judge
-- teaches nothing, or stops the run.

local careful = require "grpo.scoring.reward_checks.careful"
local core = require "grpo.core"
local row_checks = require "grpo.scoring.reward_checks.row_checks"
local rollout = require "grpo.scoring.rollout"
local reward_entries = require "grpo.options.reward_entries"
local sorted_pairs = require "grpo.base.sorted"

local gold = {}

local SECONDS = 10 -- for all rows of a dataset

-- Returns { visit = function(i, row, prompt, text), as scan.rows takes it, tried = number of rows,
-- slow = whether the time was too short for all rows, failures = { [entry] = { count=, first=,
-- message= } }, nothing = the same for rows for which an entry gives nil }.
function gold.watch(config, tokenizer)
  local entries, spent = {}, 0.0
  for _, entry in ipairs(config.reward_entries) do
    if reward_entries.kind_of(entry) ~= "token_fn" then entries[#entries + 1] = entry end
  end
  local score = careful.scorer(entries, config.limits.reward)
  local watch = { tried = 0, failures = {}, nothing = {}, entries = entries }
  local function note(list, name, i, message)
    local one = list[name] or { count = 0, first = i, message = message }
    one.count, list[name] = one.count + 1, one
  end
  function watch.visit(i, row, prompt, text)
    if #entries == 0 then return end
    watch.slow = spent > SECONDS
    if watch.slow then return end
    if not text then
      watch.tried = watch.tried + 1
      return
    end
    local ok, ids = pcall(tokenizer.encode, tokenizer, text)
    local c = rollout.made({ text = text, prompt = prompt.text, plain_prompt = prompt.given,
      messages = prompt.messages, tokenizer = tokenizer, row = row_checks.copy(row),
      ids = ok and ids or {},
      length = ok and #ids or 0 }, config.seed)
    local seconds = score { c }
    for _, taken in pairs(seconds) do spent = spent + taken end
    watch.tried = watch.tried + 1
    for name, message in sorted_pairs(c.errors or {}) do note(watch.failures, name, i, message) end
    for _, entry in ipairs(entries) do
      local failed = c.errors and c.errors[entry.name]
      if c.rewards[entry.name] == core.none and not failed then
        note(watch.nothing, entry.name, i)
      end
    end
  end
  return watch
end

return gold
