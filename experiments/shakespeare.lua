-- experiments/shakespeare.lua
--
-- Question: can a model of characters learn a text from rewards for single characters, and how does
-- that compare with learning it from the likelihood?
--
--   grpo run experiments/shakespeare.lua --arg text=FILE [--arg mode=sft|grpo|ppo|denoise]
--
-- Without a text a small grammar (experiments/tasks/verse.lua) generates one, so nothing is
-- downloaded. The first nine tenths of a text are trained on, the last tenth is held out.
--
--   mode=sft      maximum likelihood, held-out loss in nats and bits per character
--     steps window batch_size lr
--   mode=grpo     a reward for every character that equals the text's: a short supervised stage
--                 (pretrain=N steps, 0: from scratch), then GRPO
--     prompt=32 characters of a window are given, horizon=16 follow, K=8 times
--     reward_mode=match|signed          1 / 0, or +1 / -1
--     partial_logprob=X                 adds X log p(character) to a reward
--     partial_of=reference|sampled      ... of the text's character, or of the sampled one
--     reference=bigram|random|initial   beta_kl=X  kl_warmup_tokens=N: full KL, its weight
--                                       annealed from 0
--     batch_size=32 (windows per step)  steps  lr  clip  clip_high  weight_decay  max_grad_norm=1
--     lr_warmup=N steps (default: a twentieth of all)  iterations=1 (updates from one rollout)
--   mode=ppo      the same rewards with a critic; its KL is in the reward
--     gamma lambda value_coef  minibatches=1
--   mode=denoise  masked training with bidirectional attention: held-out loss on masked characters,
--                 beside the entropy of single ones
--     steps window batch_size lr  mask_ratio=X (default: from 0.1 to 1)
--     positions=rotary|learned          rotary (default) is a model of the same size with rotary
--                                       positions, which learns to look at neighbours several times
--                                       sooner; learned is GPT-2
--
-- All modes: seed, size=char (6 layers of 384) | small (4 of 128) | tiny, sample_every=N steps
-- between texts in the log, tokens=chars | bpe (vocab=512) | PATH of a tokenizer, such as a
-- tiktoken rank file; and every option by its own name: sampling.temperature=0.9 train.iterations=2
-- ...
--
-- Measured results: experiments/shakespeare.md

local dense      = require "rewards.dense"
local grpo       = require "grpo"
local schedule   = require "grpo.schedule"
local statistics = require "grpo.statistics"
local verse      = require "tasks.verse"

-- 1. Arguments, with the names of the research code that this follows. ---------------------------

local given = {}
for name, value in pairs(grpo.args) do given[name] = value end

local function text_arg(name, default, choices)
  local value = given[name]
  given[name] = nil
  if value == nil then return default end
  if choices and not (" " .. choices .. " "):find(" " .. value .. " ", 1, true) then
    error(("--arg %s=%s: want one of: %s"):format(name, value, choices), 0)
  end
  return value
end

local function number_arg(name, default)
  local text = text_arg(name)
  if text == nil then return default end
  return tonumber(text) or error(("--arg %s=%s: want a number"):format(name, text), 0)
end

local function integer_arg(name, default)
  local n = number_arg(name, default)
  local whole = math.tointeger(n)
  if not whole or whole < 0 then error(("--arg %s=%s: want a whole number"):format(name, n), 0) end
  return whole
end

local mode  = text_arg("mode", "sft", "sft grpo ppo denoise")
local size  = text_arg("size", "char", "char small tiny")
local seed  = integer_arg("seed", 0)
local every = integer_arg("sample_every", 0)

-- 2. The text, its tokens, the model.
-- --------------------------------------------------------------

local path = text_arg("text")
local source
if path then
  local file, message = io.open(path, "rb")
  if not file then error("--arg text: " .. message, 0) end
  source = file:read "a" or error("--arg text=" .. path .. ": cannot be read; is it a file?", 0)
  file:close()
else
  io.stderr:write("shakespeare: no --arg text=FILE, so a text is generated\n")
  source = verse.text { n = 200000 }
end

local HELD_OUT = 0.9 -- from here on

local tokens = text_arg("tokens", "chars")
local vocab  = tokens == "bpe" and integer_arg("vocab", 512)
local tokenizer
if tokens == "chars" then
  tokenizer = grpo.tokenizer.chars(source, { special = false })
elseif tokens == "bpe" then
  tokenizer = grpo.tokenizer.train({ source:sub(1, math.floor(HELD_OUT * #source)) },
    { kind = "bpe", vocab_size = vocab })
else
  tokenizer = grpo.tokenizer.load(tokens)
end

local function windows(options, from, to)
  options.tokenizer, options.from, options.to = tokenizer, from, to
  if path then return grpo.data.text(path, options) end
  return grpo.data.windows(source, options)
end

local CONTEXT = 256 -- for every size

local shapes = { char = "configs/models/gpt2-char.json" }
for name, shape in pairs { small = { 4, 128, 4 }, tiny = { 2, 32, 2 } } do
  shapes[name] = {
    model_type = "gpt2", n_layer = shape[1], n_embd = shape[2], n_head = shape[3],
    n_positions = CONTEXT, layer_norm_epsilon = 1e-5, initializer_range = 0.02,
    activation_function = "gelu_new",
  }
end

-- 3. Supervised: random windows, small batches, which learn most from a token.
-- ---------------------

local tiny = size == "tiny"

local function supervised(steps, window, batch, lr)
  return {
    kind     = "sft",
    data     = { train = windows({ window = window, prompt = 1, stride = 1 }, 0, HELD_OUT) },
    sampling = { max_new_tokens = window - 1 },
    train    = {
      steps = steps, prompts_per_step = batch, kl = 0,
      lr = schedule.cosine { peak = lr, warmup = math.min(100, steps // 4), final = lr / 10 },
      optimizer = { beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1 },
    },
  }
end

local experiment = {
  name  = "shakespeare-" .. mode,
  seed  = seed,
  model = { config = shapes[size], tokenizer = tokenizer },
  data  = { target = function(row) return row.target end },
  hooks = {},
}

local learn_lr = { char = 1e-3, small = 2e-3, tiny = 3e-3 }

if mode == "sft" then
  local steps  = integer_arg("steps", tiny and 40 or 10000)
  local window = integer_arg("window", 64)
  local batch  = integer_arg("batch_size", 8)
  local stage  = supervised(steps, window, batch, number_arg("lr", learn_lr[size]))
  experiment.data.eval = windows({ window = window, prompt = 1 }, HELD_OUT, 1)
  experiment.data.max_prompt_tokens = 1
  experiment.eval = { every = math.max(1, steps // 10) }
  experiment.checkpoint = { every = math.max(1, steps // 10), best = "eval/loss" }
  experiment.log = { every = math.max(1, steps // 100) }
  experiment.stages = { stage }
end

-- Masked training: every character sees the whole window; texts are made by filling in masks.
if mode == "denoise" then
  local steps  = integer_arg("steps", tiny and 40 or 6000)
  local window = integer_arg("window", tiny and 64 or 128)
  local lr     = number_arg("lr", learn_lr[size])
  local ratio  = number_arg("mask_ratio")
  if ratio and not (ratio > 0 and ratio <= 1) then
    error(("--arg mask_ratio=%s: want more than 0, up to 1"):format(ratio), 0)
  end
  if text_arg("positions", "rotary", "rotary learned") == "rotary" then
    local shape = ({ char = { 6, 384, 6 }, small = { 4, 128, 4 }, tiny = { 2, 32, 2 } })[size]
    experiment.model.config = {
      model_type = "llama", num_hidden_layers = shape[1], hidden_size = shape[2],
      num_attention_heads = shape[3], intermediate_size = shape[2] * 8 // 3,
      max_position_embeddings = CONTEXT,
    }
  end
  experiment.data  = {
    train = windows({ window = window, stride = 1 }, 0, HELD_OUT),
    eval = windows({ window = window }, HELD_OUT, 1), max_prompt_tokens = window,
  }
  experiment.train = {
    steps = steps, prompts_per_step = integer_arg("batch_size", 16),
    denoise = { mask_ratio = ratio },
    lr = schedule.cosine { peak = lr, warmup = math.min(100, steps // 4), final = lr / 10 },
    optimizer = { beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1 },
  }
  experiment.eval = { every = math.max(1, steps // 20), samples = 400 }
  experiment.checkpoint = { every = math.max(1, steps // 10), best = "eval/masked_loss" }
  experiment.log = { every = math.max(1, steps // 100) }
  experiment.stages = { { kind = "denoise" } }
end

-- 4. Dense rewards: every character is rewarded by itself.
-- -----------------------------------------

-- Prints the gain of the held-out windows since the stage before; both policies sampled each of
-- them.
local function compare(report, tr)
  if not report.per_row then return end
  if report.label == "after " .. mode then
    local g = statistics.paired_bootstrap(tr.state.before, report.per_row, { seed = seed })
    local line = ("match on %d held-out windows: %.4f before, %.4f after, gain %.4f "
      .. "(95 %% interval %.4f to %.4f)"):format(g.n, statistics.mean(tr.state.before),
      statistics.mean(report.per_row), g.difference, g.low, g.high)
    tr:print(line)
    tr:log_text("gain", line)
  elseif report.label ~= "step" then
    tr.state.before = report.per_row
  end
end

-- The fields of train that differ between GRPO and PPO; beta: a number or schedule.
local learners = {}

function learners.grpo(beta)
  return { kl_estimator = "full", kl = beta }
end

function learners.ppo(beta)
  return { ppo = {
    kl_coef = beta, gamma = number_arg("gamma", 0.9), lambda = number_arg("lambda", 0.95),
    value_coef = number_arg("value_coef", 0.1), minibatches = integer_arg("minibatches", 1),
  } }
end

if learners[mode] then
  local steps    = integer_arg("steps", tiny and 20 or 300)
  local pretrain = integer_arg("pretrain", tiny and 40 or 600)
  local window   = integer_arg("window", 64)
  local prompt   = integer_arg("prompt", 32)
  local horizon  = integer_arg("horizon", 16)
  local beta     = number_arg("beta_kl", 0.2)
  local warmup   = integer_arg("kl_warmup_tokens", 40000)
  local partial  = number_arg("partial_logprob", 0)
  local of       = text_arg("partial_of", "reference", "reference sampled")
  local match    = dense.match { mode = text_arg("reward_mode", "match", "match signed") }
  local clip     = number_arg("clip", 0.2)

  experiment.reference = text_arg("reference", "bigram", "bigram random initial")
  experiment.rewards   = { { name = "match", token_fn = match } }
  if partial ~= 0 then
    experiment.rewards[2] = {
      name = "partial", weight = partial, token_fn = dense.logprob { of = of },
    }
  end
  experiment.data.eval  = windows({ window = prompt + horizon, prompt = prompt }, HELD_OUT, 1)
  experiment.data.max_prompt_tokens = prompt
  experiment.sampling   = { group_size = integer_arg("K", 8), max_new_tokens = horizon }
  experiment.eval       = { metric = dense.share, samples = tiny and 16 or 256, group_size = 4 }
  experiment.checkpoint = { every = math.max(1, steps // 4) }
  experiment.log        = { every = math.max(1, steps // 50), completions = 2 }
  experiment.hooks.on_eval = compare

  if beta > 0 and warmup > 0 then beta = schedule.warmup { to = beta, tokens = warmup } end
  local train = learners[mode](beta)
  train.steps, train.prompts_per_step = steps, integer_arg("batch_size", 32)
  local lr, rise = number_arg("lr", 2e-4), integer_arg("lr_warmup", math.max(1, steps // 20))
  train.lr = rise > 0 and schedule.warmup { to = lr, steps = rise } or lr
  train.iterations = integer_arg("iterations", 1)
  train.max_grad_norm = number_arg("max_grad_norm", 1)
  train.clip, train.clip_high = clip, number_arg("clip_high", clip)
  local decay = number_arg("weight_decay", 0)
  train.optimizer = { beta1 = 0.9, beta2 = 0.99, weight_decay = decay }
  local pieces = windows({ window = prompt + horizon, prompt = prompt, stride = 1 }, 0, HELD_OUT)
  experiment.stages = { { kind = mode, data = { train = pieces }, train = train } }
  if pretrain > 0 then
    if prompt + window - 1 > CONTEXT then -- both stages are evaluated on the same prompts
      error(("--arg window=%d: beside prompt=%d the context of %d leaves room for %d"):format(
        window, prompt, CONTEXT, math.max(0, CONTEXT + 1 - prompt)), 0)
    end
    table.insert(experiment.stages, 1, supervised(pretrain, window, 8, learn_lr[size]))
  end
end

-- 5. Sample texts, every sample_every steps.
-- -------------------------------------------------------

if every > 0 then
  -- the text's first line, cut so that it leaves room
  local start = tokenizer:encode(source:match "[^\n]+\n?" or source)
  start = table.move(start, 1, math.min(#start, 50), 1, {})
  function experiment.hooks.on_step(m, tr)
    if m.step % every ~= 0 then return end
    local options = { max_new_tokens = 200, temperature = 0.8, seed = m.step }
    local unmasking = { steps = 128, temperature = 0.8, seed = m.step, order = "random" }
    local c = mode == "denoise" and tr.model:unmask(128, unmasking)[1]
      or tr.model:generate({ start }, options)[1]
    tr:print(("--- a text after step %d:\n%s"):format(m.step, c.text))
    tr:log_text("sample", c.text)
  end
end

local unknown = next(given)
if unknown then
  local message = "--arg %s: unknown here with mode=%s; see the head of the script"
  error(message:format(unknown, mode), 0)
end

return grpo.experiment(experiment)
