-- The figure of `grpo check` beside the counter of mem.h, after steps at the longest texts.

local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local made = {}
local shape = { vocab_size = 2000, hidden_size = 128, intermediate_size = 344,
  num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2,
  max_position_embeddings = 512 }
local PROMPT, NEW = 64, 32

local function saved()
  local dir = tiny.path()
  made[#made + 1] = dir
  assert(core.fs.mkdirs(dir))
  core.model_new(tiny.llama(shape), { seed = 3 }):save(dir, { dtype = "bf16" })
  return dir
end

-- Changes of the configuration's shape, options of the model's loading, and of the engine.
local cases = {
  { "all weights", engine = {} },
  { "checkpointing", engine = { gradient_checkpointing = true } },
  { "bf16", new = { compute = "bf16" }, engine = {} },
  { "reuse", engine = { reuse_rollout = true } },
  { "a micro-batch of several groups", engine = { micro_batch_tokens = 1200 } },
  { "PPO, shared critic", engine = { critic = "shared" }, ppo = true },
  { "PPO, critic of its own", engine = { critic = "separate" }, ppo = true },
  { "LoRA", load = {}, lora = true, engine = {} },
  { "NF4", load = { quantize = "nf4" }, lora = true, engine = {} },
  { "windowed", shape = { model_type = "mistral", sliding_window = 64 }, engine = {} },
  { "latent", shape = { model_type = "deepseek_v2", first_k_dense_replace = 4,
    kv_lora_rank = 48, qk_nope_head_dim = 32, qk_rope_head_dim = 16, v_head_dim = 32 },
    engine = {} },
}

local function model_of(case)
  if case.load then
    local m = core.model_load(saved(), case.load)
    if case.lora then m:add_lora { rank = 8, targets = "all-linear", seed = 1 } end
    return m
  end
  return core.model_new(tiny.with(tiny.llama(shape), case.shape), tiny.with({ seed = 3 }, case.new))
end

-- Steps whose prompts are as long as is allowed, and completions where none ends early.
local function steps(engine, case)
  local prompts, index, completions = {}, {}, {}
  for i = 1, 4 do
    prompts[i], index[i] = {}, i
    for k = 1, PROMPT do prompts[i][k] = (k * 7 + i) % 1000 + 3 end
  end
  for i = 1, 32 do
    local advantage = i % 2 == 0 and 1.0 or -1.0
    completions[i] = { advantage = advantage, reward = advantage }
  end
  for step = 1, 2 do
    local batch = engine:rollout { prompts = prompts, index = index, n = 8, seed = 1, step = step,
      sampling = { max_new_tokens = NEW } }
    if case.ppo then
      engine:ppo(batch, completions, { ppo = { kl_coef = 0.0 }, lr = 1e-4 })
    else
      engine:update(batch, completions, { lr = 1e-4 })
    end
  end
end

describe("the estimate of memory", function()
  for _, case in ipairs(cases) do
    it("is what a run takes: " .. case[1], function()
      collectgarbage()
      collectgarbage()
      local before = core.mem().live
      local model = model_of(case)
      collectgarbage() -- what was only saved
      collectgarbage()
      local options = tiny.with({ model = model, prompts_per_step = 4, group_size = 8,
        max_prompt_tokens = PROMPT, max_new_tokens = NEW, optimizer = {}, examples = false,
        reuse_rollout = false }, case.engine)
      local said = core.engine_estimate(options).total
      local engine = core.engine(options)
      steps(engine, case)
      local took = core.mem().live - before
      assert.is_true(math.abs(said - took) <= 0.05 * took, ("%d of %d"):format(said, took))
      engine:close()
    end)
  end
end)
