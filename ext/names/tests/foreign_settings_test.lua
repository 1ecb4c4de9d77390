-- Settings with TRL's names become options of an experiment, or are refused by name.

local foreign_settings = require "grpo.options.foreign_settings"
local tiny = require "tests.lua.tiny"

local function refused(given) return tiny.message_of(foreign_settings.options, given) end

describe("settings of other programs", function()
  it("become options", function()
    local o = foreign_settings.options { learning_rate = 1e-5, lr_scheduler_type = "cosine",
      warmup_ratio = 0.1, num_generations = 4, per_device_train_batch_size = 8, beta = 0.04,
      gradient_accumulation_steps = 2, max_completion_length = 32, loss_type = "dr_grpo",
      scale_rewards = false, max_steps = 20, lora_r = 8, use_peft = true }
    assert.equal("cosine:peak=1e-5,warmup_ratio=0.1", o.train.lr)
    assert.equal(4, o.train.prompts_per_step)
    assert.equal(4, o.sampling.group_size)
    assert.equal(32, o.sampling.max_new_tokens)
    assert.equal(0.04, o.train.kl)
    assert.equal("dr_grpo", o.train.loss)
    assert.equal("none", o.train.advantage.scale)
    assert.equal(20, o.train.steps)
    assert.equal(8, o.model.lora.rank)
  end)
  it("are left out where they change nothing", function()
    local o = foreign_settings.options { use_vllm = false, push_to_hub = false, max_steps = -1,
      report_to = "none", logging_strategy = "no", logging_steps = 5 }
    assert.is_nil(o.train)
    assert.is_false(o.log.tensorboard)
  end)
  it("are refused by name, all at once", function()
    local said = refused { use_vllm = true, fp16 = true, optim = "sgd", learning_rate = 1e-5 }
    for _, words in ipairs { "use_vllm: no equivalent, because", "fp16: no equivalent, because",
      "optim: it is train.optimizer.name here, which has no equivalent of \"sgd\"" } do
      assert.is_true(said:find(words, 1, true) ~= nil, said)
    end
    assert.is_nil(said:find("learning_rate", 1, true))
  end)
  it("are refused with the name that a misspelt one may mean", function()
    assert.matches("num_generation: .*num_generations", refused { num_generation = 4 })
  end)
end)
