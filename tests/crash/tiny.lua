-- The experiments of tools/check-crash, one for each kind of run, as small as they can be.
--
--   --arg kind=plain      GRPO with evaluations between steps, the best by an evaluation
--              stages     supervised steps, then GRPO with a KL, a schedule and tr.state
--              lora       an adapter beside a frozen model in ./base, a KL
--              ppo        a PPO stage with a critic of its own
--              deltanet   an adapter beside a frozen Qwen3.5 in ./deltanet, turns, rollouts reused
--              lfm2       a small LFM2, turns
--              mixture    a small Qwen3 mixture of experts, turns
--              denoise    masked training
--              changes    a reload after step 1, an attached session after step 2
--              curriculum data.sampler with a state, tables of hooks, two stages
--
-- Environment: EDIT=TEXT is written into reward.lua after step 1.  ATTACH=FILE holds the lines of
-- the attached session.

local grpo = require "grpo"
local schedule = require "grpo.schedule"

local kind = grpo.args.kind
local shape = { model_type = "llama", hidden_size = 16, intermediate_size = 16,
  num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 24 }

-- A model whose layers have a state, and an environment that answers twice.
local function play(e, model)
  e.model = model
  e.environment = function(row, rng)
    for turn = 1, 2 do
      local action = coroutine.yield(turn == 1 and "=" or math.floor(rng() * 9) .. "=")
      if action:find(row.answer, 1, true) then return 1 end
    end
    return 0
  end
  e.turns, e.sampling.stop, e.sampling.max_new_tokens = { max = 3 }, { "+", "1" }, 9
end

local function problem(rng)
  local a, b = math.floor(rng() * 5), math.floor(rng() * 5)
  return { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b) }
end

local e = {
  name = kind,
  model = { config = shape, tokenizer = grpo.tokenizer.chars("0123456789+=") },
  data = { train = grpo.data.generate(problem, { seed = 1, n = 40 }),
    eval = grpo.data.generate(problem, { seed = 2, n = 6 }), max_prompt_tokens = 8 },
  sampling = { group_size = 4, max_new_tokens = 4 },
  rewards = {
    { name = "digits", fn = function(text) return require("reward").digits(text) end },
    { name = "noise", fn = function(_, _, c)
      return c.rng() / 10 + math.random() / 10 + c.state.count / 100
    end },
  },
  train = { steps = 5, prompts_per_step = 2, lr = 1e-2 },
  eval = { every = 2 },
  checkpoint = { every = 2, keep = 1, best = "eval/metric" },
  log = { tensorboard = false },
  hooks = {
    on_start = function(tr) tr.state.count = tr.state.count or 0 end,
    on_eval = function(m, tr)
      tr.state.count = tr.state.count + 10
      tr:append("evaluations", ("%d %s\n"):format(m.step, m.label))
    end,
  },
}

-- A session is attached after step 2; the run waits for it.
local function attach(tr)
  local lines = tr.step_count == 2 and os.getenv("ATTACH")
  if not lines then return end
  os.execute((": >attach.lives; ('%s' attach %s <%s >attach.out 2>attach.err; rm attach.lives) &")
    :format(os.getenv("GRPO"), tr.directory.dir, lines))
  tr.paused = true
end

local function edit(tr)
  local text = tr.step_count == 1 and os.getenv("EDIT")
  if not text then return end
  local file <close> = assert(io.open("reward.lua", "w"))
  file:write(text)
end

function e.hooks.on_step(_, tr)
  tr.state.count = tr.state.count + 1
  tr:append("steps", ("%d %d\n"):format(tr.step_count, tr.state.count))
  edit(tr)
  attach(tr)
end

if kind == "stages" then
  e.data.target = function(row) return row.answer end
  e.stages = {
    { kind = "sft", train = { steps = 2 } },
    { kind = "grpo", train = { steps = 3, kl = 0.05, iterations = 2,
      lr = schedule.cosine { peak = 1e-2, warmup = 1 } } },
  }
elseif kind == "lora" then
  e.model = { path = "base", lora = { rank = 2, alpha = 4 } }
  e.train.kl, e.checkpoint.best = 0.05, "reward"
elseif kind == "deltanet" then
  play(e, { path = "deltanet", lora = { rank = 2, alpha = 4, targets = "all-linear" } })
  e.train.kl, e.train.reuse_rollout, e.checkpoint.best = 0.05, true, "reward"
elseif kind == "lfm2" then
  play(e, { config = { model_type = "lfm2", hidden_size = 16, intermediate_size = 16,
    num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 1, full_attn_idxs = { 1 },
    max_position_embeddings = 24 }, tokenizer = e.model.tokenizer })
elseif kind == "mixture" then
  play(e, { config = { model_type = "qwen3_moe", hidden_size = 16, num_hidden_layers = 2,
    num_attention_heads = 2, num_key_value_heads = 1, head_dim = 8, num_experts = 4,
    num_experts_per_tok = 2, moe_intermediate_size = 8, max_position_embeddings = 24 },
    tokenizer = e.model.tokenizer })
elseif kind == "ppo" then
  e.stages = { { kind = "ppo", train = { ppo = { critic = "separate", minibatches = 2 } } } }
elseif kind == "denoise" then
  e.rewards, e.stages = nil, { { kind = "denoise" } }
  e.data.train = grpo.data.text("text", { window = 20, stride = 3 })
  e.data.eval = grpo.data.text("text", { window = 20, stride = 17 })
  e.data.max_prompt_tokens, e.checkpoint.best = 20, "eval/masked_loss"
elseif kind == "curriculum" then
  e.data.target = function(row) return row.answer end
  e.stages = { { kind = "sft", train = { steps = 2 } }, { kind = "grpo", train = { steps = 3 } } }
  e.data.sampler = { sample = function(_, p)
    local list = {}
    for i = 1, p.n do
      list[i] = ((p.state.next or 0) + i + math.floor(p.rng() * 9)) % p.size + 1
    end
    return list
  end, observe = function(_, p, groups)
    p.state.next = groups[1].index
    p.state.means = p.state.means or {}
    p.state.means[groups[1].index] = groups[1].mean
  end }
  local on_step = e.hooks.on_step
  function e.hooks.on_step(m, tr)
    on_step(m, tr)
    tr:csv("table", { "step", "text" }):row { step = m.step,
      text = tr.batch and tr.batch.completions[1].text }
  end
elseif kind == "changes" then
  function e.hooks.on_start(tr)
    tr.state.count = tr.state.count or 0
    attach(tr)
  end
end
return grpo.experiment(e)
