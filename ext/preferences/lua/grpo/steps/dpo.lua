-- kind = "dpo": learning from preferences without a reward model (DPO, 2305.18290, and its kin).

local errors = require "grpo.base.errors"
local losses = require "grpo.preferences.losses"
local origins = require "grpo.options.origins"
local preference_options = require "grpo.preferences.options"
local preference_rows = require "grpo.preferences.rows"
local step = require "grpo.preferences.step"

local dpo = { title = "Preference optimization", about = "preference optimization on pairs",
  samples = false, schedules = { "train.dpo.beta" }, prompt_of = preference_rows.prompt,
  needs_reference = step.needs_reference, card = { "train.dpo.loss_type", "train.dpo.beta" } }

dpo.ignores = {
  ["train.loss"] = "its losses are those of train.dpo.loss_type",
  ["train.iterations"] = "it takes one update from a pair",
  ["train.kl"] = "the distance from the reference is in train.dpo.beta",
  ["train.entropy"] = "its losses have no such term",
  ["train.distill"] = "it has no teacher",
  ["sampling.grammar"] = "it samples nothing",
  ["sampling.regex"] = "it samples nothing",
}

function dpo.check(config, complain, origin)
  preference_rows.check("dpo", config, complain)
  preference_options.check(config, complain, origin)
end

local function form_of(config)
  return losses.some(step.options(config, { step = 0 }), "rows") and "label" or "pair"
end

function dpo.engine_options(config)
  return { group_size = form_of(config) == "label" and 1 or 2, examples = false }
end

function dpo.first_row(source, config)
  preference_rows.take(source, 1, form_of(config))
end

function dpo.row_problem(config, tokenizer, prompt, held_out)
  return preference_rows.problem(config, tokenizer, prompt, form_of(config), held_out)
end

-- ---- log-probabilities ------------------------------------------------------------------------

-- Runs the policy, and the reference where there is one, over n texts of each prompt.  Returns the
-- batch, and lists of log-probabilities of each text.
local function read(stage, prompts, texts, n, stream)
  local batch = stage.engine:given { prompts = prompts, completions = texts, n = n,
    stream = stream }
  if stage.reference then stage.engine:reference(batch) end
  local logprobs, ref = {}, {}
  for i = 1, #batch do
    logprobs[i] = batch:logprobs(i)
    ref[i] = stage.reference and batch:ref_logprobs(i) or nil
  end
  return batch, logprobs, ref
end

-- WPO's weight of a text is the mean over its tokens of log p_t - log sum over the vocabulary of
-- p^2.  The second is 2 log p_t less the token's log-probability at temperature 1/2.
local function log_weight(logprobs, sharp)
  local sum = 0.0
  for t, l in ipairs(logprobs) do sum = sum + sharp[t] - l end
  return sum / #logprobs
end

-- Log-probabilities of the texts at temperature 1/2.
local function sharpened(stage, prompts, texts, stream)
  local batch = stage.engine:given { prompts = prompts, completions = texts, n = 2,
    temperature = 0.5, stream = stream }
  local lists = {}
  for i = 1, #batch do lists[i] = batch:logprobs(i) end
  return lists
end

-- The texts of item k; those of a pair share the tokens of the shorter one.
local function set_texts(o, item, k, logprobs, ref, sharp)
  if item.label ~= nil then
    item.text = losses.text(logprobs[k], ref[k])
    return
  end
  local i = 2 * k - 1
  local shared = math.min(#logprobs[i], #logprobs[i + 1])
  item.chosen = losses.text(logprobs[i], ref[i], o.ld_alpha, shared)
  item.rejected = losses.text(logprobs[i + 1], ref[i + 1], o.ld_alpha, shared)
  if not sharp then return end
  item.weight = math.exp(log_weight(logprobs[i], sharp[i])
    + log_weight(logprobs[i + 1], sharp[i + 1]))
end

-- KTO's estimate of the KL: the mean log-ratio of texts behind the prompt of the row after theirs.
local function kl_of(stage, rows, stream)
  local prompts, texts, sum = {}, {}, 0.0
  for i, row in ipairs(rows) do
    prompts[i], texts[i] = row.prompt, rows[(i - 2) % #rows + 1].text
  end
  local _, logprobs, ref = read(stage, prompts, texts, 1, stream)
  for i in ipairs(rows) do
    local text = losses.text(logprobs[i], ref[i])
    sum = sum + text.logp - text.ref
  end
  return math.max(0, sum / #rows)
end

-- Reads rows: the loss, metrics, the batch and the texts of its completions with their slopes.
local function judge(stage, o, rows, stream)
  local prompts, texts = preference_rows.flat(rows)
  local items, list = {}, {}
  if losses.some(o, "kl") then o.kl = kl_of(stage, rows, stream) end
  local sharp = o.use_weighting and sharpened(stage, prompts, texts, stream)
  local batch, logprobs, ref = read(stage, prompts, texts, #texts // #prompts, stream)
  for k, row in ipairs(rows) do
    local item = { label = row.label }
    set_texts(o, item, k, logprobs, ref, sharp)
    items[k] = item
    for _, text in ipairs(item.text and { item.text } or { item.chosen, item.rejected }) do
      list[#list + 1] = text
    end
  end
  local loss, metrics = losses.evaluate(o, items)
  return loss, metrics, batch, list
end

-- ---- a step -----------------------------------------------------------------------------------

function dpo.step(stage, p)
  local config, o = stage.config, step.options(stage.config, p)
  local rows = preference_rows.take(stage.source, config.train.prompts_per_step, form_of(config))
  stage.work = { examples = preference_rows.examples(rows) }
  local loss, measured, batch, texts = judge(stage, o, rows, "sample")
  step.check(stage, loss)
  local metrics = step.update(stage, p, batch, texts)
  for name, value in pairs(measured) do metrics[name] = value end
  metrics.beta = o.beta
  return metrics, metrics.num_tokens
end

function dpo.line(_, m)
  local text = ("loss %.4f"):format(m.loss)
  if m["rewards/accuracies"] then
    text = ("%s | right %3.0f %%"):format(text, 100 * m["rewards/accuracies"])
  end
  if m["rewards/margins"] then text = ("%s | margin %.3f"):format(text, m["rewards/margins"]) end
  return ("%s | %d tokens/s"):format(text, math.floor(m.trained_tokens / m.step_time))
end

-- ---- held out ---------------------------------------------------------------------------------

dpo.eval_names = { "eval/loss", "eval/rewards/chosen", "eval/rewards/rejected",
  "eval/rewards/accuracies", "eval/rewards/margins", "eval/logps/chosen", "eval/logps/rejected" }

-- The loss and the metrics of held-out pairs, a step's number at a time; their means.
function dpo.evaluate(tr, list, report)
  local config, stage, rows = tr.settings, tr.stage, {}
  local count = { dropped = 0 }
  for _, prompt in ipairs(list) do
    rows[#rows + 1] = preference_rows.of(config, tr.tokenizer, prompt, form_of(config), count,
      true)
  end
  if #rows == 0 then
    errors.raise_at(origins.position(config, "data.eval"), "ENOENT", "data.eval: no usable row")
  end
  local o, weights = step.options(config, stage:argument()), {}
  local slice = config.train.prompts_per_step
  for first = 1, #rows, slice do
    local part = table.move(rows, first, math.min(first + slice - 1, #rows), 1, {})
    local _, m = judge(stage, o, part, "eval")
    for _, name in ipairs(dpo.eval_names) do
      local value = m[name:sub(6)]
      if value then
        weights[name] = (weights[name] or 0) + #part
        report[name] = (report[name] or 0.0) + value * #part
      end
    end
    tr:check_interrupt()
  end
  for name, weight in pairs(weights) do report[name] = report[name] / weight end
  report.n, report.skipped = #rows, report.skipped + count.dropped
end

function dpo.eval_line(report)
  local right = report["eval/rewards/accuracies"]
  return ("loss %.4f of held-out %s%s"):format(report["eval/loss"], right and "pairs" or "texts",
    right and ("; %.1f %% right"):format(100 * right) or "")
end

return dpo
