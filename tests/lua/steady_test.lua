-- A steady run takes no memory: from step 3 on the engine allocates nothing, whatever the lengths.

local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

-- kind: of the one stage; critic: of "ppo"
local function experiment(steps, kind, critic)
  return grpo.experiment {
    name = "steady",
    model = {
      config = tiny.llama { num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,
        max_position_embeddings = 64, tie_word_embeddings = true, initializer_range = 0.3 },
      tokenizer = grpo.tokenizer.chars("abcdefgh "),
    },
    data = {
      train = grpo.data.generate(function(rng) -- prompts of 1 to 20 letters
        local n = 1 + math.floor(rng() * 20)
        return { prompt = ("abcdefgh"):rep(3):sub(1, n) }
      end, { n = 500 }),
      max_prompt_tokens = 20,
    },
    sampling = { group_size = 4, max_new_tokens = 12 },
    rewards = { tiny.count_a },
    train = { steps = steps, prompts_per_step = 3, lr = 1e-4, kl = kind == "grpo" and 0.01 or nil,
      ppo = { critic = critic, minibatches = kind == "ppo" and 2 or nil } },
    stages = { { kind = kind } },
  }
end

describe("a steady run", function()
  it("allocates nothing outside Lua from step 3 to 1000, with lengths that vary", function()
    local tr = grpo.trainer(experiment(1000, "grpo"))
    local lengths, after_three = {}, nil
    for m in tr.step, tr do
      lengths[m["completions/mean_length"]] = true
      if tr.step_count == 3 then after_three = core.mem() end
    end
    collectgarbage()
    local now = core.mem()
    local different = 0
    for _ in pairs(lengths) do different = different + 1 end
    assert.is_true(different > 20)
    assert.equal(1000, tr.step_count)
    assert.equal(after_three.allocations, now.allocations)
    assert.is_true(now.live <= after_three.live) -- a closed graph may have given some back
    local growth = now.peak_rss - after_three.peak_rss -- Lua's own garbage
    assert.is_true(core.version().sanitizer or growth < 8 * 2 ^ 20)
  end)

  it("nor does one with a critic", function()
    for _, critic in ipairs { "shared", "separate" } do
      local tr, after_three = grpo.trainer(experiment(150, "ppo", critic)), nil
      while tr:step() do
        if tr.step_count == 3 then after_three = core.mem() end
      end
      assert.equal(after_three.allocations, core.mem().allocations)
    end
  end)
end)
