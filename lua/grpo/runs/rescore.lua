-- Saved completions scored again with other rewards, without the model: what would have been
-- different?

local errors = require "grpo.base.errors"
local saved_row = require "grpo.runs.saved_row"
local scoring = require "grpo.scoring.scoring"
local rollout = require "grpo.scoring.rollout"
local statistics = require "grpo.statistics"
local steps = require "grpo.options.stage_kinds"

local rescore = {}

-- The completions of one step as rewards see them.  rows: of completions.jsonl; config: of the
-- step's stage; run: for messages.  Tokens were not saved: c.ids and c.logprobs are absent.
function rescore.completions(rows, config, run)
  local cs, group, of_group = {}, nil, nil
  for _, row in ipairs(rows) do
    if row.index == 1 or not group then
      group, of_group = {}, row.row and saved_row.of(config, row, run) -- which the group shares
    end
    local c = rollout.made({ text = row.text, prompt = row.prompt, row = of_group,
      length = row.length, finish = row.finish, index = row.index, group = group,
      step = row.step - 1, saved = row, number = row.row, parts = row.parts,
      environment = row.environment }, config.seed)
    c.ids, c.logprobs = nil, nil
    group[#group + 1] = c
    cs[#cs + 1] = c
  end
  return cs
end

local function sign(v)
  if type(v) == "table" then v = statistics.mean(v) end
  return type(v) == "number" and (v > 0 and 1 or v < 0 and -1 or 0) or 0
end

-- Scores the completions of a step with `entries`: fills c.rewards, c.reward, c.advantage, and
-- c.flipped where the advantage's sign differs from the saved one's.  p: the argument of schedules
-- at that step; kind: the kind of the stage.  With a critic no advantage is computed, because that
-- needs the model.
function rescore.step(cs, entries, config, p, kind)
  for _, entry in ipairs(entries) do
    if entry.token_fn then
      errors.raise_plain("EARG",
        "rewards.%s: token_fn needs the tokens, which a run does not save; use --regenerate "
        .. "with the changed experiment", entry.name)
    end
  end
  config = setmetatable({ reward_entries = entries }, { __index = config })
  local weights = scoring.weights(config, p)
  scoring.reward(config, cs, weights)
  if steps[kind].critic then return end
  steps[kind].advantages(config, cs, weights)
  for _, c in ipairs(cs) do c.flipped = sign(c.advantage) ~= sign(c.saved.advantage) end
end

return rescore
