-- kind = "reward": a model with a head for rewards learns to tell the better of two texts
-- (Bradley-Terry).  It saves as what grpo.reward_model loads.

local bradley_terry = require "grpo.preferences.bradley_terry"
local errors = require "grpo.base.errors"
local origins = require "grpo.options.origins"
local pass_at_k = require "grpo.loop.pass_at_k"
local preference_rows = require "grpo.preferences.rows"
local schedule_value = require "grpo.options.schedule_value"

local reward = { title = "Reward modelling", about = "a reward model from pairs", samples = false,
  head = true, prompt_of = preference_rows.prompt,
  card = { "train.reward.center_rewards_coefficient" } }

reward.ignores = {
  ["train.loss"] = "its loss is Bradley and Terry's",
  ["train.iterations"] = "it takes one update from a pair",
  ["train.kl"] = "it has no reference",
  ["train.entropy"] = "its loss has no such term",
  ["train.distill"] = "it has no teacher",
  ["sampling.grammar"] = "it samples nothing",
  ["sampling.regex"] = "it samples nothing",
}

function reward.check(config, complain)
  preference_rows.check("reward", config, complain)
  if config.model.lora then
    complain("model.lora", "a reward stage trains the head with all weights; leave it out")
  end
end

function reward.engine_options()
  return { group_size = 2, examples = true }
end

function reward.first_row(source)
  preference_rows.take(source, 1, "whole")
end

function reward.row_problem(config, tokenizer, prompt, held_out)
  return preference_rows.problem(config, tokenizer, prompt, "whole", held_out)
end

-- The loss of pairs, its metrics, their texts and the slopes of their rewards.
local function judge(stage, rows)
  local texts, margins = preference_rows.examples(rows), {}
  for i, row in ipairs(rows) do margins[i] = row.margin or 0 end
  local rewards = stage.engine:rewards(texts)
  local center = (stage.config.train.reward or {}).center_rewards_coefficient
  local loss, slopes, metrics = bradley_terry(rewards, margins, center)
  return loss, metrics, texts, slopes
end

function reward.step(stage, p)
  local config = stage.config
  local rows = preference_rows.take(stage.source, config.train.prompts_per_step, "whole")
  stage.work = { examples = preference_rows.examples(rows) }
  local loss, measured, texts, slopes = judge(stage, rows)
  local lr = schedule_value(config, "train.lr", config.train.lr, p)
  local metrics = stage.engine:reward_step(texts, { lr = lr, slopes = slopes,
    max_grad_norm = config.train.max_grad_norm, seed = config.seed,
    step = stage.tr.step_count + 1 })
  for name, value in pairs(measured) do metrics[name] = value end
  metrics.loss, metrics.learning_rate = loss, lr
  return metrics, metrics.num_tokens
end

function reward.line(_, m)
  return ("loss %.4f | right %3.0f %% | margin %.3f | %d tokens/s"):format(m.loss,
    100 * m.accuracy, m.margin, math.floor(m.trained_tokens / m.step_time))
end

-- ---- held out ---------------------------------------------------------------------------------

local means = { "eval/loss", "eval/accuracy", "eval/margin", "eval/mean_reward" }
reward.eval_names = table.move({ "eval/accuracy/low", "eval/accuracy/high" }, 1, 2, #means + 1,
  table.move(means, 1, #means, 1, {}))

function reward.evaluate(tr, list, report)
  local config, count, rows = tr.settings, { dropped = 0 }, {}
  for _, prompt in ipairs(list) do
    rows[#rows + 1] = preference_rows.of(config, tr.tokenizer, prompt, "whole", count, true)
  end
  if #rows == 0 then
    errors.raise_at(origins.position(config, "data.eval"), "ENOENT", "data.eval: no usable row")
  end
  for _, name in ipairs(means) do report[name] = 0.0 end
  local slice = config.train.prompts_per_step
  for first = 1, #rows, slice do
    local part = table.move(rows, first, math.min(first + slice - 1, #rows), 1, {})
    local loss, m = judge(tr.stage, part)
    m.loss = loss
    for _, name in ipairs(means) do
      report[name] = report[name] + m[name:sub(6)] * #part / #rows
    end
    tr:check_interrupt()
  end
  report["eval/accuracy/low"], report["eval/accuracy/high"] =
    pass_at_k.wilson(report["eval/accuracy"] * #rows, #rows)
  report.n, report.skipped = #rows, report.skipped + count.dropped
end

function reward.eval_line(report)
  return ("loss %.4f of held-out pairs; %.1f %% right"):format(report["eval/loss"],
    100 * report["eval/accuracy"])
end

return reward
