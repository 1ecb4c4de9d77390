-- Options of TRL, transformers, PEFT and verl: each is led to its name here.

local core = require "grpo.core"
local foreign = require "grpo.options.foreign"
local foreign_names = require "grpo.options.foreign_names"
local layers = require "grpo.options.layers"
local option_tree = require "grpo.options.option_tree"
local parse = require "grpo.commands.parse"
local tiny = require "tests.lua.tiny"

-- A value of the kind that an option takes.
local function sample_of(path)
  local node = option_tree.find(path)
  local row = node and node.row
  if not row then return "x" end
  if row.choices then return row.choices[1] end
  if row.type:find("boolean") then return true end
  if row.type:find("string") then return "x" end
  if row.type:find("list") or row.type:find("table") then return { "x" } end
  return math.tointeger(math.max(row.min or 1, 1)) or row.min
end

local function table_of(path, value)
  local t = value
  local parts = {}
  for part in path:gmatch("[^.]+") do table.insert(parts, 1, part) end
  for _, part in ipairs(parts) do t = { [part] = t } end
  return t
end

-- Returns what is said of a table of options.
local function said(t)
  return tiny.message_of(layers.resolve, { { name = "script", value = t } }, {})
end

local function said_on_command_line(...)
  local words = { ... }
  for i, word in ipairs(words) do words[i] = layers.parse_override(word) end
  return tiny.message_of(layers.resolve, {}, words)
end

-- Names that people write, and those that they should be told: a list of its own,
-- which is not made from the rows.
local led = {
  ["beta"] = "train.kl", ["num_generations"] = "sampling.group_size",
  ["learning_rate"] = "train.lr", ["epsilon"] = "train.clip", ["epsilon_high"] = "train.clip_high",
  ["max_completion_length"] = "sampling.max_new_tokens",
  ["max_prompt_length"] = "data.max_prompt_tokens", ["loss_type"] = "train.loss",
  ["gradient_accumulation_steps"] = "a part of train.prompts_per_step",
  ["per_device_train_batch_size"] = "a part of train.prompts_per_step",
  ["generation_batch_size"] = "a part of train.prompts_per_step",
  ["reward_weights"] = "a part of rewards", ["reward_funcs"] = "a part of rewards",
  ["scale_rewards"] = "train.advantage.scale", ["num_iterations"] = "train.iterations",
  ["delta_x.temperature"] = "sampling.temperature", ["top_p"] = "sampling.top_p",
  ["top_k"] = "sampling.top_k", ["min_p"] = "sampling.min_p",
  ["repetition_penalty"] = "sampling.repetition_penalty",
  ["mask_truncated_completions"] = "train.mask_truncated",
  ["importance_sampling_level"] = "train.importance",
  ["multi_objective_aggregation"] = "reward.aggregate", ["sync_ref_model"] = "train.sync_reference",
  ["ref_model_mixup_alpha"] = "train.sync_reference.mixup",
  ["ref_model_sync_steps"] = "train.sync_reference.every",
  ["log.top_entropy_quantile"] = "train.top_entropy_quantile", ["entropy_coef"] = "train.entropy",
  ["max_tool_calling_iterations"] = "turns.max",
  ["vllm_importance_sampling_mode"] = "train.sampler_correction.mode",
  ["vllm_importance_sampling_cap"] = "train.sampler_correction.max",
  ["off_policy_mask_threshold"] = "train.off_policy_mask",
  ["use_bias_correction_kl"] = "train.kl_bias_correction",
  ["log_completions"] = "log.completions", ["num_completions_to_print"] = "log.completions",
  ["model_name_or_path"] = "model.path", ["torch_dtype"] = "model.dtype",
  ["use_peft"] = "model.lora", ["lora_r"] = "model.lora.rank", ["lora_alpha"] = "model.lora.alpha",
  ["lora_target_modules"] = "model.lora.targets", ["load_in_4bit"] = "model.quantize",
  ["dataset_name"] = "a part of data.train", ["output_dir"] = "name", ["run_name"] = "name",
  ["num_train_epochs"] = "train.epochs", ["max_steps"] = "train.steps",
  ["lr_scheduler_type"] = "a part of train.lr", ["warmup_steps"] = "a part of train.lr",
  ["warmup_ratio"] = "a part of train.lr", ["optim"] = "train.optimizer.name",
  ["weight_decay"] = "train.optimizer.weight_decay", ["adam_beta1"] = "train.optimizer.beta1",
  ["adam_beta2"] = "train.optimizer.beta2", ["adam_epsilon"] = "train.optimizer.eps",
  ["model.max_grad_norm"] = "train.max_grad_norm", ["bf16"] = "compute",
  ["train.gradient_checkpointing"] = "model.gradient_checkpointing",
  ["logging_steps"] = "log.every", ["eval_steps"] = "eval.every",
  ["save_steps"] = "checkpoint.every",
  ["save_total_limit"] = "checkpoint.keep", ["metric_for_best_model"] = "checkpoint.best",
  ["report_to"] = "log.tensorboard", ["train.seed"] = "seed",
  ["max_new_tokens"] = "sampling.max_new_tokens", ["num_return_sequences"] = "sampling.group_size",
  ["do_sample"] = "sampling.temperature", ["model.lora.r"] = "model.lora.rank",
  ["model.lora.target_modules"] = "model.lora.targets", ["batch_size"] = "train.prompts_per_step",
  ["cliprange"] = "train.clip", ["vf_coef"] = "train.ppo.value_coef", ["kl_coef"] = "train.kl",
  ["actor_rollout_ref.rollout.n"] = "sampling.group_size",
  ["actor_rollout_ref.actor.optim.lr"] = "train.lr",
  ["actor_rollout_ref.actor.kl_loss_coef"] = "train.kl", ["actor.kl_loss_coef"] = "train.kl",
  ["train.kl_loss_coef"] = "train.kl", ["rollout.n"] = "sampling.group_size",
  ["actor_rollout_ref.actor.clip_ratio_high"] = "train.clip_high",
  ["actor_rollout_ref.actor.ppo_epochs"] = "train.iterations",
  ["algorithm.kl_ctrl.kl_coef"] = "train.kl", ["algorithm.adv_estimator"] = "train.loss",
  ["algorithm.lam"] = "train.ppo.lambda", ["data.train_batch_size"] = "train.prompts_per_step",
  ["data.max_response_length"] = "sampling.max_new_tokens",
  ["data.train_files"] = "a part of data.train", ["trainer.total_epochs"] = "train.epochs",
  ["trainer.save_freq"] = "checkpoint.every", ["trainer.test_freq"] = "eval.every",
  ["trainer.experiment_name"] = "name",
}

-- Those without an equivalent, and a word of the reason.
local without = {
  ["use_vllm"] = "samples with the weights", ["vllm_mode"] = "samples with the weights",
  ["vllm_gpu_memory_utilization"] = "no GPU", ["fp16"] = "compute = \"bf16\"",
  ["steps_per_generation"] = "train%.ppo%.minibatches", ["log.wandb"] = "wandb_forward%.py",
  ["deepspeed"] = "sharded", ["fsdp"] = "sharded", ["push_to_hub"] = "grpo export",
  ["dataloader_num_workers"] = "worker", ["torch_compile"] = "CPU",
  ["resume_from_checkpoint"] = "; remove it %(write grpo run %-%-resume=runs/NAME%)",
  ["use_dora"] = "plain LoRA",
  ["label_smoothing_factor"] = "likelihood", ["eval_on_start"] = "before its first step",
  ["actor_rollout_ref.rollout.tensor_model_parallel_size"] = "sharded",
  ["actor_rollout_ref.actor.fsdp_config.param_offload"] = "sharded",
  ["algorithm.use_pf_ppo"] = "from%-verl", ["trainer.nnodes"] = "sharded",
}

describe("a name of another program", function()
  for path, ours in require("grpo.base.sorted")(led) do
    it(("%s is %s"):format(path, ours), function()
      local option = ours:match("%S+$")
      local message = said(table_of(path, sample_of(option)))
      local begins = ("script: %s is %s here"):format(path, ours)
      assert.equal(begins, message:sub(1, #begins))
      assert.is_nil(message:find("did you mean", 1, true))
    end)
  end
  for path, reason in require("grpo.base.sorted")(without) do
    it(path .. " has no equivalent", function()
      local message = said(table_of(path, 1))
      local begins = ("script: %s has no equivalent here, because "):format(path)
      assert.equal(begins, message:sub(1, #begins))
      assert.matches(reason, message)
    end)
  end
  it("is answered together with all others of its table", function()
    assert.equal([[script: 3 options are not known by these names; write in their place:
  sampling = {
    group_size = 8,  -- num_generations
  },
  train = {
    clip = 0.2,  -- epsilon
    kl = 0.04,  -- beta
  },]], said { train = { beta = 0.04, epsilon = 0.2, num_generations = 8 } })
    assert.equal("command line: 4 options are not known by these names; write in their place:\n"
      .. "  train.kl=0.1 train.lr=cosine:peak=1e-5\nand remove or write by hand:\n"
      .. "  foo: unknown option",
      said_on_command_line("beta=0.1", "learning_rate=1e-5", "lr_scheduler_type=cosine", "foo=1")
  )
  end)
  it("stands in a section of its own, or in one that the script has", function()
    local text = said { lora_r = 8,
      peft_config = { lora_alpha = 16, target_modules = { "q_proj" } }, model = { path = "x" },
      args = { bf16 = true, lr = 1e-5, nothing = 1 } }
    assert.equal([[script: 6 options are not known by these names; write in their place:
  compute = "bf16",  -- args.bf16
  train = {
    lr = 1e-5,  -- args.lr
  },
and in your section model:
    lora = {
      rank = 8,  -- lora_r
      alpha = 16,  -- lora_alpha
      targets = { "q_proj" },  -- target_modules
    },
and remove or write by hand:
  -- args.nothing: unknown option]], text)
  end)
  it("is written as its file has it", function()
    local function of_file(name)
      return tiny.message_of(layers.resolve, { { name = "script", where = name,
        value = { beta = 0.1, lora_target_modules = { "q_proj" } } } }, {})
    end
    assert.matches('write in their place:\n  model:\n    lora:\n      targets: %["q_proj"%]  # '
      .. 'lora_target_modules\n  train:\n    kl: 0%.1  # beta$', of_file("no-such-file.yaml"))
    assert.matches('  "train": {\n    "kl": 0%.1,  // beta\n  },$', of_file("no-such-file.json"))
  end)
  it("may be a section that got the one value that is meant", function()
    assert.equal('script: model: got \'Qwen/Qwen3-0.6B\', want a table; write model = { path = '
      .. '"Qwen/Qwen3-0.6B" }', said { model = "Qwen/Qwen3-0.6B" })
    assert.matches('  model = {\n    path = "x",  %-%- model\n  },',
      said { model = "x", beta = 0.1 })
    assert.matches("data: got a table, want a table; write data = { train = ... }",
      said { data = require("grpo.data").list { { prompt = "x" } } })
  end)
  it("belongs to frozen weights, which need an adapter", function()
    local text = said { torch_dtype = "bfloat16", load_in_4bit = true }
    assert.matches('torch_dtype: write model.dtype = "bf16" beside model.lora; ', text)
    assert.matches('load_in_4bit: write model.quantize = "nf4" beside model.lora; ', text)
    assert.matches('  model = {\n    dtype = "bf16",', said { torch_dtype = "bfloat16",
    lora_r = 8 })
    assert.matches('in your section model:\n    dtype = "bf16",',
      said { torch_dtype = "bfloat16", model = { lora = {} }, bf16 = true })
  end)
  it("may be misspelt itself", function()
    assert.equal("script: train.num_generation: unknown option, did you mean 'num_generations', "
      .. "which is sampling.group_size here?", said { train = { num_generation = 1 } })
    assert.equal("command line: learning_rte: unknown option, did you mean 'learning_rate', "
      .. "which is train.lr here?", said_on_command_line("learning_rte=1"))
  end)
  it("may not hide a misspelt section", function()
    assert.equal("script: trian.lr: unknown option, did you mean 'train.lr'?",
      said { trian = { lr = 1 } })
    assert.equal("script: trian: unknown option, did you mean 'train'?",
      said { trian = { lr = 1, clip = 2 } })
    assert.equal("script: train.optimizr.name: unknown option, did you mean "
      .. "'train.optimizer.name'?", said { train = { optimizr = { name = "lion" } } })
    assert.equal("command line: trian.lr: unknown option, did you mean 'train.lr'?",
      said_on_command_line("trian.lr=1"))
    assert.equal("command line: smapling.temprature: unknown option, did you mean "
      .. "'sampling.temperature'?", said_on_command_line("smapling.temprature=1"))
    local both = said { trian = { learning_rate = 1, clip = 2 } }
    assert.matches("  train = {\n    lr = 1,  %-%- trian%.learning_rate\n  },", both)
    assert.matches("%-%- trian: unknown option, did you mean 'train'%?", both)
  end)
  it("may not hide a misspelt name of ours", function()
    assert.equal("script: train.clipp: unknown option, did you mean 'clip'?",
      said { train = { clipp = 1 } })
    assert.equal("script: lr: unknown option, did you mean 'train.lr'?", said { lr = 1 })
  end)
end)

describe("a value that stands beside such a name", function()
  local function writes(code, t) assert.matches("; write " .. code:gsub("%p", "%%%0"), said(t)) end
  it("is written as it is here", function()
    writes("train.lr = 2e-6", { train = { learning_rate = 2e-6 } })
    writes("train.advantage.scale = \"group\"", { scale_rewards = true })
    writes("train.advantage.scale = \"none\"", { scale_rewards = "none" })
    writes("train.advantage.scale = \"batch\"", { scale_rewards = "batch" })
    for _, name in ipairs { "grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo",
      "vespo" } do
      writes(("train.loss = %q"):format(name), { loss_type = name })
    end
    writes("compute = \"bf16\"", { bf16 = true })
    writes("model.lora.targets = { \"q_proj\", \"v_proj\" }",
      { model = { lora_target_modules = { "q_proj", "v_proj" } } })
    writes("train.optimizer.name = \"adamw_8bit\"", { optim = "paged_adamw_8bit" })
    writes("eval.every_epochs = 1", { eval_strategy = "epoch" })
    writes("stages = { { kind = \"ppo\" } }", { algorithm = { adv_estimator = "gae" } })
    writes("sampling.top_k = 0", { rollout = { top_k = -1 } })
  end)
  it("is not written where it cannot be", function()
    assert.matches("which has no equivalent of \"sgd\"", said { optim = "sgd" })
    assert.is_nil(said({ beta = "much" }):find("write", 1, true))
    assert.matches("and false is what happens without it; remove it", said { bf16 = false })
    assert.matches("and %-1 is what happens without it", said { max_steps = -1 })
  end)
  it("counts prompts where completions were counted", function()
    local t = { per_device_train_batch_size = 8, gradient_accumulation_steps = 4,
      num_generations = 16 }
    assert.matches("\n    prompts_per_step = 2,  %-%- gradient_accumulation_steps, "
      .. "per_device_train_batch_size\n", said { train = t })
    assert.matches("\n    prompts_per_step = 4,", said { gradient_accumulation_steps = 4,
      report_to = "none" }) -- with TRL's defaults, 8 completions at once in groups of 8
    t.num_generations = 5
    assert.matches("per_device_train_batch_size: write train.prompts_per_step = completions of a "
      .. "step / sampling.group_size", said { train = t })
    assert.matches("train%.gradient_accumulation_steps is a part of train%.prompts_per_step here, "
      .. "which is set already; remove it",
      said { train = { gradient_accumulation_steps = 4, prompts_per_step = 2 } })
  end)
  it("becomes part of the schedule of the learning rate", function()
    writes('train.lr = "cosine:peak=2e-6"',
      { train = { lr_scheduler_type = "cosine", lr = 2e-6 } })
    writes('train.lr = "cosine:peak=2e-6,warmup_ratio=0.1"',
      { train = { lr = "cosine:peak=2e-6", warmup_ratio = 0.1 } })
    writes('train.lr = "linear:from=2e-6,to=0,warmup=20"',
      { train = { lr = 2e-6, warmup_steps = 20 } })
  end)
  it("is written as a command line has it", function()
    assert.equal("command line: train.loss_type is train.loss here; write train.loss=dapo",
      said_on_command_line("train.loss_type=dapo"):match("^[^.]*%.[^.]*%.[^.]*%.loss=dapo"))
    assert.matches("write train%.lr=2e%-6%.", said_on_command_line("learning_rate=2e-6"))
  end)
end)

-- Returns the options of a block of lines to paste.
local function pasted(text)
  local block = text:match("in their place:\n(.*)$"):gsub("\nand remove or write by hand:\n.*$", "")
  assert.is_nil(block:find("and in your section", 1, true))
  return assert(load("return {" .. block .. "\n}"))()
end

describe("the arguments of a whole script", function()
  -- Arguments as people write them, and the options that they should become.
  local cases = {
    { { learning_rate = 1e-5, lr_scheduler_type = "constant_with_warmup", warmup_steps = 20 },
      { train = { lr = "warmup:to=1e-5,steps=20" } } },
    { { learning_rate = 1e-5, lr_scheduler_type = "constant_with_warmup", warmup_ratio = 0.03 },
      { train = { lr = "warmup:to=1e-5,warmup_ratio=0.03" } } },
    { { learning_rate = 1e-5, lr_scheduler_type = "constant_with_warmup" },
      { train = { lr = 1e-5 } } },
    { { learning_rate = 1e-5, lr_scheduler_type = "constant", warmup_steps = 3 },
      { train = { lr = 1e-5 } } },
    { { learning_rate = 1e-5, warmup_steps = 0.1 },
      { train = { lr = "linear:from=1e-5,to=0,warmup_ratio=0.1" } } },
    { { learning_rate = 1e-5, lr_scheduler_type = "linear", warmup_steps = 0 },
      { train = { lr = "linear:from=1e-5,to=0" } } },
    { { learning_rate = 1e-5, lr_scheduler_type = "cosine_with_min_lr",
      lr_scheduler_kwargs = { min_lr_rate = 0.1 }, warmup_ratio = 0.05 },
      { train = { lr = "cosine:peak=1e-5,final=1e-6,warmup_ratio=0.05" } } },
    { { learning_rate = 1e-5, lr_scheduler_type = "cosine_with_restarts",
      lr_scheduler_kwargs = { num_cycles = 4 } },
      { train = { lr = "cosine:peak=1e-5,restarts=4" } } },
    { { learning_rate = 1e-5, lr_scheduler_type = "inverse_sqrt", warmup_steps = 7 },
      { train = { lr = "inverse_sqrt:peak=1e-5,warmup=7" } } },
    { { learning_rate = 1e-5, lr_scheduler_type = "polynomial",
      lr_scheduler_kwargs = { power = 2 } },
      { train = { lr = "linear:from=1e-5,to=0,power=2" } } },
    { { report_to = "none", bf16 = true, optim = "adamw_torch", loss_type = "dr_grpo" },
      { compute = "bf16", log = { tensorboard = false },
        train = { optimizer = { name = "adamw" }, loss = "dr_grpo" } } },
    { { report_to = "none", betas = { 0.9, 0.95 }, weight_decay = 0.1 }, {
      log = { tensorboard = false }, train = { optimizer = { beta1 = 0.9, beta2 = 0.95,
        weight_decay = 0.1 } } } },
    { { per_device_train_batch_size = 4, gradient_accumulation_steps = 4, num_generations = 8 },
      { sampling = { group_size = 8 }, train = { prompts_per_step = 2 } } },
    { { save_strategy = "epoch", save_total_limit = 2, eval_strategy = "steps", eval_steps = 50 },
      { checkpoint = { every_epochs = 1, keep = 2 }, eval = { every = 50 } } },
    { { generation_kwargs = { temperature = 0.7, top_p = 0.9 }, max_grad_norm = 0.3 },
      { sampling = { temperature = 0.7, top_p = 0.9 }, train = { max_grad_norm = 0.3 } } },
    { { actor_rollout_ref = { actor = { optim = { lr = 1e-6, lr_warmup_steps_ratio = 0.1 },
      kl_loss_coef = 0.01 }, rollout = { n = 5 } }, data = { train_batch_size = 64 } },
      { sampling = { group_size = 5 }, train = { prompts_per_step = 64, kl = 0.01,
        lr = "linear:from=1e-6,to=0,warmup_ratio=0.1" } } },
  }
  for i, case in ipairs(cases) do
    it("become options: " .. i, function()
      local options = pasted(said(case[1]))
      assert.same(case[2], options)
      assert.is_table((layers.resolve({ { name = "script", value = options } }, {})))
    end)
  end
  local merged = {
    { { use_peft = false, lora_r = 16, beta = 0.1 }, { train = { kl = 0.1 } } },
    { { load_in_4bit = false, bnb_4bit_quant_type = "nf4", lora_r = 8 },
      { model = { lora = { rank = 8 } } } },
    { { sync_ref_model = false, ref_model_sync_steps = 64, ref_model_mixup_alpha = 0.5,
      beta = 0.1 }, { train = { kl = 0.1 } } },
    { { vllm_importance_sampling_correction = false, vllm_importance_sampling_cap = 2, beta = 0.1 },
      { train = { kl = 0.1 } } },
    { { use_vllm = false, vllm_importance_sampling_correction = true,
      vllm_importance_sampling_mode = "token_mask", beta = 0.1 }, { train = { kl = 0.1 } } },
    { { eval_strategy = "no", eval_steps = 50, save_strategy = "no", save_steps = 50, beta = 0.1 },
      { train = { kl = 0.1 } } },
    { { do_eval = false, eval_steps = 50, beta = 0.1 }, { train = { kl = 0.1 } } },
    { { eval_strategy = "epoch", eval_steps = 50 }, { eval = { every_epochs = 1 } } },
    { { log_completions = false, num_completions_to_print = 5 }, { log = { completions = 0 } } },
    { { log_completions = true, num_completions_to_print = 5 }, { log = { completions = 5 } } },
    { { load_best_model_at_end = false, metric_for_best_model = "eval_reward", beta = 0.1 },
      { train = { kl = 0.1 } } },
    { { load_best_model_at_end = true, metric_for_best_model = "eval_reward" },
      { checkpoint = { best = "eval/reward" } } },
    { { use_kl_loss = false, kl_loss_coef = 0.001, n = 5, ["rollout"] = { n = 5 } },
      { sampling = { group_size = 5 } } },
    { { epsilon_high = 5.0, loss_type = "cispo" }, { train = { loss = "cispo", cispo_cap = 5 } } },
    { { learning_rate = 1e-5, max_steps = 100, num_iterations = 4, save_steps = 50, eval_steps = 10,
      logging_steps = 5, warmup_steps = 8 }, { checkpoint = { every = 13 }, eval = { every = 3 },
      log = { every = 2 }, train = { steps = 25, iterations = 4,
        lr = "linear:from=1e-5,to=0,warmup=2" } } },
    { { learning_rate = 1e-5, beta = 0.1 },
      { train = { lr = "linear:from=1e-5,to=0", kl = 0.1 } } },
    { { lr_scheduler_type = "warmup_stable_decay", warmup_steps = 10, learning_rate = 1e-5,
      lr_scheduler_kwargs = { num_decay_steps = 20 }, max_steps = 100 }, { train = { steps = 100,
        lr = "chain:10=(warmup:to=1e-5,steps=10),70=1e-5,(cosine:peak=1e-5,steps=20)" } } },
    { { lr_scheduler_type = "polynomial", learning_rate = 1e-5,
      lr_scheduler_kwargs = { lr_end = 1e-7 } }, { train = { lr = "linear:from=1e-5,to=1e-7" } } },
    { { adam_epsilon = 1e-6, optim = "adamw_torch", optim_args = "x" },
      { train = { optimizer = { name = "adamw", eps = 1e-6 } } } },
  }
  for i, case in ipairs(merged) do
    it("do not lose or invent what was meant: " .. i, function()
      assert.same(case[2], pasted(said(case[1])))
    end)
  end
  it("are both written, or the loss is said: all pairs that share an option", function()
    local rows, lost = {}, {}
    for _, list in ipairs(foreign_names.lists) do
      for _, row in ipairs(list.rows) do
        if row[2] and not row[1]:find("%.") and not option_tree.find(row[1]) then
          rows[#rows + 1] = row
        end
      end
    end
    for i, a in ipairs(rows) do
      for j = i + 1, #rows do
        local b = rows[j]
        if a[2] == b[2] then
          local text = said { [a[1]] = 37, [b[1]] = 53 }
          for name, value in pairs { [a[1]] = "37", [b[1]] = "53" } do
            local left = text:match("by hand:(.*)$") or text
            local told = left:find(name .. ":", 1, true)
            if not told and not text:find(value, 1, true)
              and not a[2]:find("prompts_per_step") then
              lost[#lost + 1] = a[1] .. " + " .. b[1] .. ": " .. name
            end
          end
        end
      end
    end
    assert.same({}, lost)
  end)
  it("are written as a file of settings has them", function()
    local text = tiny.message_of(layers.resolve, { { name = "script", where = "no-such.yaml",
      value = { dataset_name = "x", reward_funcs = { "a" } } } }, {})
    assert.matches('  data:\n    train:  # dataset_name\n      path: "x"', text)
    assert.matches("  rewards:  # reward_funcs\n    text.equals: 1", text)
  end)
  it("may have any value", function()
    local odd = { 0, -1, 1.5, 0 / 0, "x", "", true, false, {}, { 1 }, { x = { y = 1 } }, print,
      ("a"):rep(100), "a\nb", "]]", math.mininteger }
    for _, value in ipairs(odd) do
      local all = {}
      for _, list in ipairs(foreign_names.lists) do
        for _, row in ipairs(list.rows) do
          if not row[1]:find("%.") and not option_tree.find(row[1]) then all[row[1]] = value end
        end
      end
      assert.matches("options are not known by these names; ", said(all))
      all[print], all[1] = 1, 2 -- keys that no option has
      assert.matches("options are not known by these names; ", said(all))
      all[print], all[1] = nil, nil
      for name in pairs(all) do assert.is_string(said { [name] = value }) end
    end
  end)
  it("are answered in one go, every field of GRPOConfig and TrainingArguments", function()
    local all, names = {}, {}
    local fields = assert(core.fs.read "ext/names/tests/cases/hugging_face.txt")
    for line in fields:gmatch("[^\n]+") do
      local class, name = line:match("^(%S+) (%S+)$")
      local row = foreign.row(name)
      local of_grpo = class == "GRPOConfig" or class == "_BaseConfig"
        or class == "TrainingArguments"
      if of_grpo and all[name] == nil and name ~= "seed" then
        local first = row.values and require("grpo.base.sorted")(row.values)(row.values)
        local value = first or sample_of(row[2] or "x")
        all[name] = value == "true" or value ~= "false" and value
        names[#names + 1] = name
      end
    end
    assert.is_true(#names > 180)
    local text = said(all)
    for _, name in ipairs(names) do
      if not text:find(("%f[%w_]" .. name .. "%f[^%w_]")) then error(name .. " has no answer") end
    end
    assert.is_table((layers.resolve({ { name = "script", value = pasted(text) } }, {})))
  end)
end)

describe("a value that other programs call otherwise", function()
  for option, values in require("grpo.base.sorted")(foreign_names.values) do
    it("is named: " .. option, function()
      local row = option_tree.find(option).row
      for value, ours in pairs(values) do
        assert.is_false(row.type:find("enum") and (option_tree.value(row, value)) ~= nil, value)
        if type(ours) == "string" then
          local ok, v = pcall(load, "return " .. ours)
          assert.is_true(ok)
          assert.is_not_nil((option_tree.value(row, v())), ours)
        end
      end
    end)
  end
  it("is led to ours, or to what else does it", function()
    local function answer(path, value) return said(table_of(path, value)) end
    assert.matches("got 'ppo', which is not one of its values, because it is a kind of stage; "
      .. "write stages = { { kind = \"ppo\" } }", answer("train.loss", "ppo"))
    assert.matches("got 'adamw8', which is \"adamw_8bit\" here",
      answer("train.optimizer.name", "adamw8"))
    assert.matches("got true, which is \"group\" here", answer("train.advantage.scale", true))
    assert.matches("got 'low_var_kl', which is \"k3\" here",
      answer("train.kl_estimator", "low_var_kl"))
    assert.matches("got 'dpo', .* kind of stage", answer("train.loss", "dpo"))
    assert.matches("got 'kto', .* pairs of answers", answer("train.loss", "kto"))
    assert.matches("got 'bfloat16', which is \"bf16\" here", answer("compute", "bfloat16"))
    assert.matches("did you mean 'dapo'", answer("train.loss", "dapoo"))
  end)
end)

describe("the table of names", function()
  local function lines_of(path)
    local list = {}
    for line in assert(core.fs.read(path)):gmatch("[^\n]+") do list[#list + 1] = line end
    return list
  end
  it("has every field of GRPOConfig, TrainingArguments and TRL's other classes", function()
    local lines, missing = lines_of "ext/names/tests/cases/hugging_face.txt", {}
    assert.is_true(#lines > 200)
    for _, line in ipairs(lines) do
      local name = line:match("%S+$")
      local row = foreign.row(name)
      if not row or row[1] ~= name then missing[#missing + 1] = line end
    end
    assert.same({}, missing)
  end)
  it("has every key of verl's, or its section", function()
    local lines, missing = lines_of "ext/names/tests/cases/verl.txt", {}
    assert.is_true(#lines > 500)
    for _, name in ipairs(lines) do
      local ours = option_tree.find(name)
      if not ours and not foreign.row(name) then missing[#missing + 1] = name end
    end
    assert.same({}, missing)
  end)
  it("leads to options that exist, with values and lines that they take", function()
    local function fits(code, name)
      local path, text = code:match("^([%l_.]+) = (.*)$")
      local node = path and option_tree.find(path)
      if not node then error(name .. ": " .. code) end
      if text:find("...", 1, true) or text:find(" of a step", 1, true) then return end
      local chunk = load("local grpo = ... return " .. text, "=" .. name, "t", {})
      if not chunk then error(name .. ": " .. code) end
      local ok, v = pcall(chunk)
      if ok and node.row and type(v) ~= "table" and v ~= nil then
        local taken, why = option_tree.value(node.row, v)
        if taken == nil then error(("%s: %s: %s"):format(name, code, why)) end
      end
    end
    local function beside() end
    for _, row in ipairs(foreign.rows("TRL", "transformers", "PEFT", "verl")) do
      if row.ours then
        assert.is_not_nil(option_tree.find(row.ours), row.name)
        local function told(value)
          local text = foreign.advice(row.name, value, beside, { fits = function(path, v)
            local node = option_tree.find(path)
            return node.row and (option_tree.value(node.row, v)) ~= nil
          end }, function(code) return "{{" .. code .. "}}" end)
          local code = text:match("{{(.*)}}")
          if code then fits(code, row.name) end
        end
        if not row.part then told(sample_of(row.ours)) end
        told(1)
        for value in pairs(row.values or {}) do told(tonumber(value) or value) end
      else
        assert.is_true(#row.about > 30 and not row.about:find("%.$"),
          row.name)
      end
    end
  end)
  it("has no name twice within a program, and none that is an option here", function()
    for _, list in ipairs(foreign_names.lists) do
      local seen = {}
      for _, row in ipairs(list.rows) do
        assert.is_nil(seen[row[1]], row[1])
        seen[row[1]] = true
        local same = option_tree.find(row[1])
        assert.is_true(not same or row[1] == row[2], row[1])
      end
    end
  end)
end)

describe("a flag of another program", function()
  local flags = require "grpo.commands.flags"
  local run = { name = "run", arguments = { flags.script, flags.override }, flags = { flags.dir } }
  local function refused(pattern, command, ...)
    tiny.refused(pattern, parse, command, { "x", ... })
  end
  it("is led to the option", function()
    refused("unknown flag %-%-num%-generations: num_generations is sampling%.group_size here; "
      .. "options are written sampling%.group_size=VALUE", run, "--num-generations", "8")
    refused("unknown flag %-%-learning_rate: learning_rate is train%.lr here; options are written "
      .. "train%.lr=VALUE", run, "--learning_rate=1e-5")
    refused("unknown flag %-%-use%-vllm: use_vllm has no equivalent here", run, "--use-vllm")
    refused("unknown flag %-%-lr; options are written train%.lr=VALUE", run, "--lr", "1")
  end)
  it("is led to the flag of the command", function()
    local generate = require "grpo.commands.generate"
    refused("unknown flag %-%-max_new_tokens, write %-%-max%-new%-tokens", generate,
      "--max_new_tokens", "8")
    refused("unknown flag %-%-max%-tokens, write %-%-max%-new%-tokens", generate,
      "--max-tokens", "8")
    refused("unknown flag %-%-num%-return%-sequences, write %-%-completions", generate,
      "--num-return-sequences", "8")
    refused("unknown flag %-%-do%-sample, write %-%-temperature", generate, "--do-sample")
    refused("unknown flag %-%-n, write %-%-completions", generate, "--n", "3")
    refused("unknown flag %-%-max, write %-%-max%-new%-tokens", generate, "--max", "3")
  end)
end)
