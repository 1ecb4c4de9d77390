-- The runs whose bytes tools/check-portable compares between machines.  CASE names one of them;
-- BASE is the model that the run "sft" made.  Most widths are odd ones for vectors, and rewards use
-- what C libraries could compute differently.

local grpo = require "grpo"
local schedule = require "grpo.schedule"

local function problem(rng)
  local a, b = math.floor(rng() * 10), math.floor(rng() * 10)
  return { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b) }
end

-- A reward in floating point: powers, logarithms, sines, a sort with ties, numbers as text and back
local function close(text, row, c)
  local got = tonumber(text:match "^%d+") or 99
  local far = math.abs(got - tonumber(row.answer))
  local score = math.exp(-far / 3) + 0.1 * math.cos(far) ^ 2 - 0.05 * math.log(1 + (#text) ^ 1.3)
  local order = {}
  for i = 1, #text do order[i] = text:sub(i, i) end
  table.sort(order, function(x, y) return x > y end)
  score = score + 1e-3 * tonumber(string.format("%.7g", math.atan(far, #order + 1) / 3))
  return score + 0.01 * c.rng() + 0.01 * math.random()
end

local base = {
  seed = 5,
  numbers = "portable",
  model = { tokenizer = grpo.tokenizer.chars("0123456789+=") },
  sampling = { group_size = 4, max_new_tokens = 5, temperature = 0.9, top_p = 0.95 },
  data = { train = grpo.data.generate(problem, { seed = 1, n = 400 }),
    eval = grpo.data.generate(problem, { seed = 2, n = 10 }),
    target = function(row) return row.answer end, max_prompt_tokens = 8 },
  rewards = { { name = "close", fn = close } },
  train = { steps = 20, prompts_per_step = 4, kl = 0.05,
    lr = schedule.cosine { peak = 3e-3, warmup = 3 } },
  eval = { every = 10, group_size = 2 },
  checkpoint = { every = 10 },
}

local cases = {
  grpo = function() -- state-space layers and attention
    base.model.config = { model_type = "qwen3_5_text", hidden_size = 40, intermediate_size = 72,
      num_hidden_layers = 2, layer_types = { "linear_attention", "full_attention" },
      num_attention_heads = 2, num_key_value_heads = 1, head_dim = 24,
      linear_num_key_heads = 2, linear_num_value_heads = 2, linear_key_head_dim = 12,
      linear_value_head_dim = 14, linear_conv_kernel_dim = 4, max_position_embeddings = 64 }
    base.train.iterations = 2
  end,
  sft = function() -- exact GELU
    base.model.config = { model_type = "gpt_neox", hidden_size = 64, intermediate_size = 100,
      num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 64 }
    base.stages = { { kind = "sft" } }
    base.train.kl = nil
  end,
  ppo = function() -- soft caps, windows and GELU by tanh
    base.model.config = { model_type = "gemma2", hidden_size = 36, intermediate_size = 76,
      num_hidden_layers = 2, num_attention_heads = 3, num_key_value_heads = 1, head_dim = 12,
      sliding_window = 6, attn_logit_softcapping = 20, final_logit_softcapping = 15,
      max_position_embeddings = 64 }
    base.stages = { { kind = "ppo" } }
    base.train.kl = nil
    base.train.ppo = { critic = "separate", minibatches = 2, kl_coef = 0.05 }
  end,
  nf4 = function()
    base.model = { path = os.getenv("BASE"), quantize = "nf4", lora = { rank = 4, dropout = 0.1 } }
  end,
}

cases[os.getenv("CASE")]()
return grpo.experiment(base)
