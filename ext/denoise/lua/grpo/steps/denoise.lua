-- kind = "denoise": masked training.  Some tokens of a text are hidden, and a model that sees it
-- both ways learns to tell them (BERT, 1810.04805); m:unmask samples from it.
--
-- A row's text is data.prompt's with data.target's behind it; without data.target the default is
-- row.text, as of grpo.data.text, else row.prompt.  No end token is added.

local errors = require "grpo.base.errors"
local origins = require "grpo.options.origins"
local prompts = require "grpo.scoring.prompts"
local schedule_value = require "grpo.options.schedule_value"
local sorted_pairs = require "grpo.base.sorted"

local denoise = { title = "Masked training", about = "masked training, seeing both ways",
  samples = false, masks = true, reads_text = true, leaves_out_end = true,
  schedules = { "train.denoise.mask_ratio" } }

denoise.ignores = {
  ["sampling.grammar"] = "it completes nothing",
  ["sampling.regex"] = "it completes nothing",
}

local MOST_ROWS = 4096 -- of data.train that are counted for the unigram entropy
local SAMPLE_TOKENS = 256

-- ---- options ------------------------------------------------------------------------

local function is_range(v)
  local low, high = v[1], v[2]
  return #v == 2 and type(low) == "number" and type(high) == "number" and 0 < low and low <= high
    and high <= 1
end

function denoise.check(config, complain)
  local options = config.train.denoise
  local ratio = options.mask_ratio
  if type(ratio) == "table" and not is_range(ratio) then
    complain("train.denoise.mask_ratio",
      "want { low, high }, two numbers in order, above 0 and up to 1")
  elseif ratio == 0 then
    complain("train.denoise.mask_ratio", "got 0, which masks nothing; want more than 0, up to 1")
  end
  if options.random + options.keep > 1 then
    complain("train.denoise.keep",
      "random %s and keep %s are shares of the masked tokens, together at most 1", options.random,
      options.keep)
  end
  if config.eval.mask_ratio == 0 then
    complain("eval.mask_ratio", "got 0, which masks nothing; want more than 0, up to 1")
  end
  if not options.mask_prompt and not config.data.target then
    complain("train.denoise.mask_prompt",
      "is false, so what is masked is data.target's text, and there is none")
  end
  if #config.reward_entries > 0 then
    complain("rewards", "have no say in a denoise stage, which completes nothing; give them to the "
      .. "stages that use them")
  end
  if config.eval.metric then
    complain("eval.metric",
      "is not used by a denoise stage, which is measured by its loss on masked tokens")
  end
  if config.eval.group_size > 0 then
    complain("eval.group_size", "is not used by a denoise stage, which completes nothing; leave 0")
  end
  if type(config.train.kl) == "function" or config.train.kl > 0 then
    complain("train.kl", "a denoise stage measures no KL; leave 0")
  end
end

-- The longest prompt and completion that the engine makes room for: without a target all is the
-- prompt's.
function denoise.lengths(config)
  local longest = config.data.max_prompt_tokens
  if config.data.target then return longest, config.sampling.max_new_tokens end
  return math.max(1, longest - 1), 1
end

-- ---- rows ---------------------------------------------------------------------------

local function target_ids(config, tokenizer, row)
  local text = config.data.target and config.data.target(row)
  if text == nil then return {} end
  if type(text) == "table" then return text end
  if type(text) ~= "string" then
    errors.raise_at(origins.position(config, "data.target"), "EARG",
      "data.target: returned a %s for a row, want a string or a list of ids", type(text))
  end
  return tokenizer:encode(text)
end

-- The example that the engine takes, { prompt = always seen, target = may be masked }, for a
-- rendered prompt, and whether its target is cut.
local function example(config, tokenizer, prompt)
  local target = target_ids(config, tokenizer, prompt.row)
  local n = math.min(#target, config.sampling.max_new_tokens)
  local is_cut = n < #target
  if not config.train.denoise.mask_prompt then
    if n == 0 then
      errors.raise_at(origins.position(config, "data.target"), "EARG",
        "data.target: gave nothing for a row, and "
        .. "train.denoise.mask_prompt is false: no token may be masked")
    end
    return { prompt = prompt.ids, target = table.move(target, 1, n, 1, {}) }, is_cut
  end
  local all = table.move(prompt.ids, 1, #prompt.ids, 1, {})
  return { prompt = {}, target = table.move(target, 1, n, #all + 1, all) }, is_cut
end

local function next_example(source)
  local row, is_cut = example(source.config, source.tokenizer, source:next())
  if is_cut then source.targets_truncated = source.targets_truncated + 1 end
  return row
end

function denoise.first_row(source)
  next_example(source)
end

-- ---- a step -------------------------------------------------------------------------

-- The least and the greatest mask ratio of the step's rows.
local function mask_ratios(config, p)
  local ratio = config.train.denoise.mask_ratio
  if type(ratio) == "table" then return ratio[1], ratio[2] end
  local one = schedule_value(config, "train.denoise.mask_ratio", ratio, p)
  return one, one
end

function denoise.step(stage, p)
  local config, options = stage.config, stage.config.train.denoise
  local rows = stage.source:collect(config.train.prompts_per_step, next_example)
  stage.work = { examples = rows }
  local lr = schedule_value(config, "train.lr", config.train.lr, p)
  local low, high = mask_ratios(config, p)
  if not (low > 0 and high <= 1) then
    errors.raise_at(origins.position(config, "train.denoise.mask_ratio"), "EARG",
      "train.denoise.mask_ratio: %s for p.step = %d, want more than 0, up to 1", low, p.step)
  end
  local metrics = stage.engine:denoise(rows,
    { mask = stage.tr.tokenizer.mask, vocab = #stage.tr.tokenizer, low = low, high = high,
    random = options.random, keep = options.keep, lr = lr,
    max_grad_norm = config.train.max_grad_norm, seed = config.seed,
    step = stage.tr.step_count + 1 })
  metrics.learning_rate = lr
  return metrics, metrics.num_tokens
end

function denoise.line(_, m)
  return ("loss %.4f | masked %2.0f %% | %d tokens/s"):format(m.loss, 100 * m.mask_ratio,
    math.floor(m["tokens_per_second/train"]))
end

-- ---- held out -----------------------------------------------------------------------

denoise.eval_names = { "eval/masked_loss", "eval/masked_accuracy", "eval/unigram_entropy",
  "eval/below_unigram" }

-- Nats of a token of the training text, drawn without looking at the others; counted once.
local function unigram_entropy(stage)
  if stage.unigram_entropy then return stage.unigram_entropy end
  local config, tokenizer = stage.config, stage.tr.tokenizer
  local dataset, counts, total, ignored = config.data.train, {}, 0, { dropped = 0, truncated = 0 }
  local stride = math.max(1, #dataset // MOST_ROWS)
  for i = 1, #dataset, stride do
    local prompt = prompts.render(config, tokenizer, dataset[i])
    prompt.row = dataset[i]
    if prompts.fit(config, tokenizer, prompt, ignored) then
      for _, id in ipairs(example(config, tokenizer, prompt).target) do
        counts[id], total = (counts[id] or 0) + 1, total + 1
      end
    end
  end
  local sum = 0.0
  for _, n in sorted_pairs(counts) do sum = sum - n / total * math.log(n / total) end
  stage.unigram_entropy = sum
  return sum
end

-- The loss on masked tokens of the held-out rows, always the same ones, and how far it is below
-- what the frequency of tokens alone would give.
function denoise.evaluate(tr, list, report)
  local config, tokenizer, slice = tr.settings, tr.tokenizer, tr.settings.train.prompts_per_step
  local ratio, nats, tokens, right, cut = config.eval.mask_ratio, 0.0, 0, 0, 0
  for first = 1, #list, slice do
    local rows = {}
    for i = first, math.min(first + slice - 1, #list) do
      local row, is_cut = example(config, tokenizer, list[i])
      rows[#rows + 1], cut = row, cut + (is_cut and 1 or 0)
    end
    local sum, n, good = tr.engine:masked_loss(rows,
      { mask = tokenizer.mask, low = ratio, high = ratio, seed = config.seed, first = first - 1 })
    nats, tokens, right = nats + sum, tokens + n, right + good
    tr:check_interrupt()
  end
  if cut > 0 then report.targets_truncated = cut end
  report["eval/masked_loss"], report["eval/masked_accuracy"] = nats / tokens, right / tokens
  report["eval/unigram_entropy"] = unigram_entropy(tr.stage)
  report["eval/below_unigram"] = report["eval/unigram_entropy"] - report["eval/masked_loss"]
end

function denoise.eval_line(report)
  local below = report["eval/below_unigram"]
  return ("loss %.3f nats on masked tokens, %.3f %s their frequencies' %.3f; %.1f %% right"):format(
    report["eval/masked_loss"], math.abs(below), below < 0 and "above" or "below",
    report["eval/unigram_entropy"], 100 * report["eval/masked_accuracy"])
end

-- ---- samples ------------------------------------------------------------------------

-- n texts made from nothing but masks, as long as the first row of data.train (with mask_prompt =
-- false: behind its prompt).
function denoise.sample(tr, n)
  local config = tr.settings
  local prompt = prompts.render(config, tr.tokenizer, config.data.train[1])
  prompt.row = config.data.train[1]
  local row = example(config, tr.tokenizer, prompt)
  local ids = table.move(row.prompt, 1, #row.prompt, 1, {})
  for _ = 1, math.min(#row.target, SAMPLE_TOKENS) do ids[#ids + 1] = tr.tokenizer.mask end
  local options = config.train.denoise
  return tr.model:unmask(ids, { n = n, steps = options.sample_steps, order = options.sample_order,
    temperature = config.sampling.temperature, top_p = config.sampling.top_p,
    top_k = config.sampling.top_k, min_p = config.sampling.min_p,
    seed = config.seed + tr.step_count, mask = tr.tokenizer.mask })
end

return denoise
