-- The experiment that tools/check-ranks runs on several ranks.  CASE names a kind of training.
-- Matrices of the model with more than 16,384 numbers are cut between ranks, others are not.
-- BASE: a checkpoint, for cases with an adapter; TEXT: a file, for masked training.

local grpo = require "grpo"
local dense = require "rewards.dense"

local rows = {}
for i = 0, 99 do
  local a, b = i // 10, i % 10
  rows[#rows + 1] = { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b) }
end

-- ---- what the cases share ----------------------------------------------------------------

local function digits(text, row, c)
  local right = text == row.answer and 1 or 0
  return select(2, text:gsub("%d", "")) / 6 + right + c.rng() / 100 + math.random() / 100
end

local base = {
  seed = 11,
  model = {
    config = { model_type = "llama", hidden_size = 48, intermediate_size = 400,
      num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 1,
      max_position_embeddings = 64 },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  },
  sampling = { group_size = 3, max_new_tokens = 6 },
  data = { train = grpo.data.list(rows), eval = grpo.data.list(table.move(rows, 50, 58, 1, {})),
    target = function(row) return row.answer end, max_prompt_tokens = 8 },
  rewards = { { name = "digits", fn = digits } },
  train = { steps = 3, prompts_per_step = 5, lr = 2e-3 },
  eval = { every = 2 },
  checkpoint = { every = 2 },
  hooks = {
    on_start = function(tr) tr.state.sum = tr.state.sum or 0 end,
    on_rollout = function(batch, tr)
      for _, c in ipairs(batch.completions) do tr.state.sum = tr.state.sum + c.reward end
    end,
    on_step = function(m, tr)
      tr:append("steps.txt", ("%d %.17g %.17g\n"):format(tr.step_count, tr.state.sum, m.grad_norm))
    end,
  },
}

local function with(changes)
  for section, fields in pairs(changes) do
    if type(base[section]) == "table" and section ~= "rewards" and section ~= "stages" then
      for name, value in pairs(fields) do base[section][name] = value end
    else
      base[section] = fields
    end
  end
end

local function adapter(changes)
  with { model = { path = os.getenv("BASE"), lora = { rank = 4 } } }
  base.model.config, base.model.tokenizer = nil, nil
  with(changes)
end

local function ppo(critic, changes)
  with { stages = { { kind = "ppo" } } }
  with { train = { iterations = 2, ppo = { critic = critic, minibatches = 2, kl_coef = 0.05 } } }
  with(changes or {})
end

local function preferences(kind, train)
  with { stages = { { kind = kind } }, train = train }
  base.rewards, base.hooks, base.data.target = nil, nil, nil
  base.data.pair = function(row)
    return { chosen = row.answer, rejected = row.answer .. "00", completion = row.answer,
      label = #row.answer == 1 }
  end
end

-- ---- the cases ---------------------------------------------------------------------------------

-- looks across the units of a micro-batch: every token's advantage against the mean of all
local function across_units(t)
  local ratio = (t.logp - t.old_logp):exp()
  local mean = (t.advantage * t.mask):sum() / t.num_tokens
  local kl = t.logp - t.old_logp
  local policy = ((ratio * t.advantage - ratio * mean) * t.mask):sum() / t.num_tokens
  return 0.1 * (kl * kl * t.mask):mean() - policy
end

local turn_form = { stop = { "=" }, write = function(result) return "+" .. result .. "+" end,
  read = function(text)
    if not text:find("=", 1, true) then return nil end
    return { { name = "count", arguments = { text = text, none = grpo.json.null,
      empty = grpo.json.decode("{}") } } }
  end }

local cases = {
  sft = function()
    with { stages = { { kind = "sft" } }, train = { prompts_per_step = 60, steps = 4 } }
  end,
  grpo = function() with { train = { kl = 0.05, advantage = { scale = "batch" } } } end,
  iterations = function()
    with { train = { iterations = 3, micro_batch_tokens = 60, top_entropy_quantile = 0.8,
      clip_cov = { ratio = 0.1, low = 0.1 }, kl_cov = { ratio = 0.1 } } }
  end,
  tied = function()
    with { rewards = { { name = "even", fn = function(text) return #text % 2 == 0 end } },
      train = { skip_zero_std_groups = true } }
  end,
  ppo = function() ppo("shared", { train = { micro_batch_tokens = 60 } }) end,
  ppo_separate = function() ppo("separate") end,
  ppo_adapter = function() adapter {} ppo("separate") end,
  denoise = function()
    with { stages = { { kind = "denoise" } } }
    base.data = { train = grpo.data.text(os.getenv("TEXT"), { window = 40, stride = 7 }),
      eval = grpo.data.text(os.getenv("TEXT"), { window = 40, stride = 60 }),
      max_prompt_tokens = 40 }
    base.train.prompts_per_step, base.rewards, base.hooks = 60, nil, nil
  end,
  dpo = function() preferences("dpo", { dpo = { beta = 0.3, ld_alpha = 0.5 } }) end,
  kto = function() preferences("dpo", { dpo = { loss_type = "kto" } }) end,
  online_dpo = function()
    with { stages = { { kind = "online_dpo" } }, train = { dpo = { ld_alpha = 0.5 } } }
    base.data.target = nil
  end,
  reward = function() preferences("reward", { prompts_per_step = 60 }) end,
  dense = function()
    with { reference = "random", train = { kl = 0.1, kl_estimator = "full" },
      rewards = { { name = "match", token_fn = dense.match() },
        { name = "partial", weight = 0.1, token_fn = dense.logprob() },
        { name = "digits", fn = digits } } }
  end,
  lora = function()
    adapter { train = { kl = 0.05, iterations = 2 },
      model = { lora = { rank = 4, dropout = 0.1 } } }
  end,
  nf4 = function() adapter { train = { kl = 0.05 }, model = { quantize = "nf4" } } end,
  mixture = function()
    with { train = { kl = 0.05, iterations = 2, router_aux_loss_coef = 0.01 } }
    base.model.config = { model_type = "qwen3_moe", hidden_size = 48, num_hidden_layers = 2,
      num_attention_heads = 2, num_key_value_heads = 1, head_dim = 24, num_experts = 6,
      num_experts_per_tok = 2, moe_intermediate_size = 40, max_position_embeddings = 64 }
  end,
  bf16 = function() with { compute = "bf16", train = { iterations = 2 } } end,
  bf16_adapter = function() adapter { compute = "bf16", model = { dtype = "bf16" } } end,
  adamw_8bit = function()
    with { train = { optimizer = { name = "adamw_8bit", weight_decay = 0.1 } } }
  end,
  lion = function()
    with { train = { optimizer = { name = "lion", weight_decay = 0.1 },
      max_grad_norm = 0.1 } }
  end,
  bnpo = function()
    with { train = { loss = "bnpo", micro_batch_tokens = 60, iterations = 2 } }
  end,
  lua_loss = function()
    with { train = { loss = across_units, micro_batch_tokens = 60, iterations = 2 } }
  end,
  distill = function()
    with { stages = { { kind = "distill" } }, reference = "random",
      train = { iterations = 2, micro_batch_tokens = 60, steps = 4,
        distill = { beta = 0.5, top_k = 5, lambda = 0.5 } } }
  end,
  distill_samples = function()
    with { stages = { { kind = "distill" } }, reference = "random",
      train = { distill = { beta = 0, lambda = 0.3, seq_kd = true } } }
  end,
  distill_feedback = function()
    with { stages = { { kind = "distill" } }, reference = "policy",
      train = { iterations = 2, distill = { max_prompt_tokens = 12, prompt = function(row, c)
        if c.index == 2 and #c.text % 2 == 0 then return nil end
        return c.text:sub(1, 5) .. row.prompt .. row.answer
      end } } }
  end,
  distill_term = function()
    with { train = { sync_reference = { every = 1, mixup = 0.3 },
      distill = { weight = 0.5, sampled_token = true, prompt = function(row)
        return row.answer .. row.prompt
      end } } }
  end,
  one_sum = function() with { train = { gradient_blocks = 1, iterations = 2 } } end,
  blocks = function() with { train = { gradient_blocks = 2, prompts_per_step = 7 } } end,
  tools = function()
    with { tools = { count = { parameters = { text = "string" },
        fn = function(arguments, c) return #arguments.text + math.floor(c.rng() * 3) end } },
      turns = { format = turn_form, max = 3 }, sampling = { max_new_tokens = 16 } }
  end,
  environment = function()
    with { turns = { max = 4 }, sampling = { max_new_tokens = 16 },
      rewards = { { name = "played", fn = function(_, _, c)
        return c.environment.reward + #c.parts / 10
      end } },
      environment = function(_, rng)
        local hidden, sum = math.floor(rng() * 10), 0
        local action, c = coroutine.yield("+")
        while action do
          sum = sum + (action:find(tostring(hidden), 1, true) and 1 or 0)
          action, c = coroutine.yield(tostring(math.floor(c.rng() * 10)), sum / 7)
        end
        return sum
      end }
  end,
  credit = function() -- a walk: turns keep to an expression and have advantages of their own
    with { turns = { max = 5 }, rewards = nil,
      sampling = { max_new_tokens = 24, stop = { "=" }, regex = "[0-9]{1,2}=" },
      train = { iterations = 2, advantage = { turn_weight = 0.5 }, kl_cov = { ratio = 0.1 },
        entropy = grpo.schedule.adaptive_entropy { target = 2.2, delta = 0.01 } },
      environment = function()
        local at = 2
        for _ = 1, 5 do
          local action = coroutine.yield(tostring(at), at == 0 and -1 or nil, at)
          at = math.max(0, at + (tonumber(action:sub(1, 1)) < 5 and -1 or 1))
          if at == 4 then return 1 end
        end
        return 0
      end }
    base.rewards = nil
  end,
}

local chosen = cases[os.getenv("CASE") or ""]
if not chosen then
  local names = {}
  for name in pairs(cases) do names[#names + 1] = name end
  table.sort(names)
  error("CASE: want one of " .. table.concat(names, ", "), 0)
end
chosen()
return grpo.experiment(base)
