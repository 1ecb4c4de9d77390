-- Every option of an experiment: those of the engine, which are rows of its own .def files
-- (src/base/options.h), and those of the program around it, which are the rows below.
--
-- A row is { path=, type=, default=, min=, max=, choices=, live=, doc= }:
--   type      "int" "number" "boolean" "string" "enum" "schedule" (a number or a function of p)
--             "function" "table" "list" "dataset" "any", joined by | where several fit
--   min, max  bounds of numbers, both included; for a schedule they hold for what it returns
--   live      may be changed between two steps
--   open      the fields of a table are the user's own: model.chat_template_kwargs.NAME
--   added     an extension has added it, and documents it
-- A "table" without a default is optional: the rows below its path apply only when it is given.
-- A row of the engine's also has of=, the name of its set ("loss", "ppo", ...); ppo = true marks
-- the options of losses that a stage of kind "ppo" has too.

local core = require "grpo.core"
local extensions = require "grpo.base.extensions"

local rows, of_engine, taken = {}, core.options(), {}

local function add(list)
  for _, row in ipairs(list) do
    row.path, row.type, row.doc = row[1], row[2], row[3]
    row[1], row[2], row[3] = nil, nil, nil
    row.live = row.live or false
    rows[#rows + 1] = row
  end
end

local function begins(path, prefix)
  return path:sub(1, #prefix) == prefix
end

-- Adds the engine's rows that are not here yet and whose path begins with `prefix`, and with none
-- of the others.
local function engine(prefix, ...)
  for _, row in ipairs(of_engine) do
    local here = begins(row.path, prefix)
    for _, except in ipairs { ... } do here = here and not begins(row.path, except) end
    if here and not taken[row] then rows[#rows + 1], taken[row] = row, true end
  end
end

local function words(text)
  local list = {}
  for word in text:gmatch("[^|]+") do list[#list + 1] = word end
  return list
end

local loss_words, loss_defaults = core.losses()
local losses = words(loss_words)

add {
  { "name", "string", "name of the run's directory; default: the script's name" },
  { "seed", "int",
    "seed of every random number of the run", default = 0, min = 0, max = 9007199254740991 },
  { "threads", "int",
    "threads of the engine, which never change a result; default: all cores; a script that "
    .. "loads a model itself needs the flag --threads instead", min = 1, max = 1024 },
  { "compute", "enum",
    "how products with weights, and attention, are computed: in float32, or with operands "
    .. "rounded to bf16 and sums in float32, about twice as fast where the CPU has instructions "
    .. "for it", default = "f32", choices = { "f32", "bf16" } },
  { "numbers", "enum",
    "the order and rounding of every sum: native, those of the fastest kernels of this CPU; "
    .. "portable, the same bits on every machine, at about half the speed (docs/portable.md); it "
    .. "holds for the whole process", default = "native", choices = { "native", "portable" } },
  { "extends", "string",
    "a file of settings (docs/settings.md), merged below this table" },

  { "model.path", "string",
    "a directory in Hugging Face layout, a run or checkpoint directory, an adapter, a .gguf "
    .. "file, or a name that an extension finds" },
  { "model.config", "string|table",
    "a table, or a file of settings, that describes a model to create with random weights" },
  { "model.tokenizer", "string|any",
    "tokenizer object, path, name as of model.path, or of an encoding of tiktoken (cl100k_base); "
    .. "default: the one beside the weights" },
  { "model.dtype", "enum",
    "storage of the frozen weights beside an adapter; auto: as in the checkpoint",
    default = "auto", choices = { "f32", "bf16", "auto" } },
  { "model.quantize", "enum",
    "storage of the frozen projections in 4 or 8 bits; needs an adapter",
    choices = { "nf4", "int8" } },
  { "model.lora", "table", "train a low-rank adapter (LoRA) instead of all weights" },
  { "model.lora.rank", "int", "rank of the adapter", default = 8, min = 1, max = 4096 },
  { "model.lora.alpha", "number",
    "the adapter's output is scaled by alpha / rank", default = 16.0, min = 0 },
  { "model.lora.dropout", "number",
    "dropout of the adapter's input, in training only", default = 0.0, min = 0, max = 0.999 },
  { "model.lora.targets", "string|list",
    "which weights get an adapter: names such as q_proj, or all-linear, which is every "
    .. "projection of the layers", default = "all-linear" },
  { "model.chat_template", "string|function|boolean",
    "a name (chatml, gemma, llama3, mistral, phi3), a Jinja template, or function(messages, "
    .. "opts) -> string; false: none, for plain text; default: the tokenizer's own" },
  { "model.chat_template_kwargs", "table",
    "variables of the chat template, by name, such as enable_thinking = false", open = true },
}
engine "model."

add {
  { "reference", "string|boolean",
    "the model that KL is measured against, or the teacher of train.distill: initial, policy (as "
    .. "it is in each step), random, a model's path, false, or a name that an extension adds",
    default = "initial" },
  { "reference_dtype", "enum",
    "how a reference that is loaded from a path is stored: auto: as model.quantize says, else as "
    .. "in its file", default = "auto", choices = { "auto", "f32", "bf16", "int8", "nf4" } },

  { "data.train", "dataset", "the training rows" },
  { "data.eval", "dataset", "held-out rows" },
  { "data.prompt", "function",
    "function(row) -> string, messages or a list of ids; default: row.prompt" },
  { "data.target", "function",
    "function(row) -> string or a list of ids: the completion for kind=\"sft\", and the text "
    .. "that dense rewards compare with; or a list of strings that alternate between the model's "
    .. "turns and what tools say, which is not learned" },
  { "data.shuffle", "boolean",
    "take the rows in a seeded random order, another one in each epoch", default = true },
  { "data.sampler", "function|table",
    "function(p) -> a list of p.n rows of data.train, by number, in place of the order of "
    .. "data.shuffle; or { sample = function(self, p), observe = function(self, p, groups) }, "
    .. "which learns what became of them; what it remembers is p.state", live = true },
  { "data.too_long", "enum",
    "what happens to a prompt longer than max_prompt_tokens; it is counted and reported",
    default = "drop", choices = { "drop", "truncate_left", "error" } },
}
engine "data."

engine "sampling."
add {
  { "sampling.stop", "string|list",
    "strings that end a completion and stay in its text; they may name special tokens",
    default = {}, live = true },
  { "sampling.stop_regex", "string",
    "a pattern that ends a completion when its text matches", live = true },
  { "sampling.grammar", "string",
    "a grammar in GBNF, as llama.cpp writes it: only tokens are sampled that keep to it, and "
    .. "with several turns each of them is a text of it" },
  { "sampling.regex", "string",
    "a regular expression in place of a grammar, which is the whole completion or turn" },

  { "rewards", "list|table",
    "function(text, row, c) -> number, boolean or nil (does not apply), or entries { name=, "
    .. "weight=, fn= }; as a list or by name" },
  { "reward.aggregate", "enum",
    "how several rewards become one", default = "sum", choices = { "sum", "normalize_then_sum" } },
  { "reward.on_error", "enum",
    "what happens when a reward raises an error: the run stops, the reward is 0, or the "
    .. "completion is left out", default = "stop", choices = { "stop", "zero", "skip" } },
  { "reward.clip", "list", "{ low, high }: bounds of the total reward" },
}

local function limits(of, call, such, instructions, memory, seconds)
  add {
    { ("limits.%s.instructions"):format(of), "int", "Lua instructions of " .. call,
      default = instructions, min = 1000 },
    { ("limits.%s.memory"):format(of), "int", ("bytes that %s may take"):format(such),
      default = memory, min = 65536 },
    { ("limits.%s.seconds"):format(of), "number",
      "limit in wall time, far beyond the other two; past it the run stops", default = seconds,
      min = 0.001 },
  }
end
limits("reward", "one reward call", "one reward call", 50000000, 67108864, 5.0)
limits("tool", "one call of a tool or an environment", "one such call", 50000000, 67108864, 5.0)
limits("hook", "one hook call", "one hook call", 1000000000, 268435456, 60.0)
limits("schedule", "one schedule call", "one schedule call", 1000000, 16777216, 1.0)

add {
  { "tools", "table",
    "tools that a model may call while it answers: name = { description=, parameters=, fn= }; "
    .. "docs/tools.md" },
  { "environment", "table|function",
    "a function that answers the model turn by turn with observations, or { reset=, step= }; "
    .. "docs/tools.md" },
  { "turns.max", "int",
    "most turns of the model in one completion, where there are tools or an environment",
    default = 8, min = 1, max = 100000, live = true },
  { "turns.format", "enum|table",
    "how a call of a tool and its answer are written: chat: as the chat template does; json: "
    .. "<tool_call>{...}</tool_call>; compact: <<name argument>>; auto: chat where prompts are "
    .. "messages, else json; or { stop=, read=, write= }",
    default = "auto", choices = { "auto", "chat", "json", "compact" } },

  { "train.steps", "int",
    "steps of the stage, each one rollout with all its updates (iterations); default: as many as "
    .. "epochs needs",
    min = 0, max = 1000000000 },
  { "train.epochs", "number",
    "passes over the rows, where steps is not set; a last step that the rows do not fill takes "
    .. "rows of the next pass", default = 1.0, min = 0, max = 1000000 },
}

engine "train.prompts_per_step"
engine "train.iterations"
engine "train.micro_batch_tokens"
engine "train.gradient_blocks"
engine "train.router_aux_loss_coef"
engine "train.lr"
engine "train.max_grad_norm"
add {
  { "train.on_nonfinite", "enum",
    "what follows a step whose reward (where reward.on_error is stop), loss or gradient is "
    .. "not finite: the weights stay, its batch is kept in the run's directory, and the run "
    .. "stops, or takes the next batch, up to 10 times in a row",
    default = "stop", choices = { "stop", "skip" }, live = true },
}
engine "train.optimizer."
add {
  { "train.optimizer.no_decay", "list",
    "kinds of parameters without weight decay: bias, norm", default = { "bias", "norm" } },
  { "train.reuse_rollout", "boolean|enum",
    "keep the activations of sampling for the first iteration's forward: less time, more "
    .. "memory, the same bits; auto: where possible, if they take at most a quarter of the "
    .. "machine's memory and half of what is free; true is refused with "
    .. "model.gradient_checkpointing, model.lora.dropout and, in PPO, train.ppo.critic = shared",
    default = "auto", choices = { "auto" } },
}
engine "train.skip_zero_std_groups"
engine "train.advantage."
add {
  { "train.advantage.turn_weight", "number",
    "GiGPO: weight of each turn's own advantage among the turns of the group that began in the "
    .. "same state of the environment; 0: none", default = 0.0, min = 0 },
  { "train.advantage.turn_discount", "number",
    "GiGPO: discount of the rewards of later turns in a turn's return; -1 where two players move "
    .. "in turn, and what one wins the other loses", default = 0.95, min = -1, max = 1 },
}
add {
  { "train.loss", "enum|function",
    "the policy loss: a name, or function(t) -> scalar tensor",
    default = "grpo", choices = losses },
  { "train.kl_in", "enum",
    "add the KL to the loss, or subtract it from the reward",
    default = "loss", choices = { "loss", "reward" } },
}
engine("train.", "train.ppo.", "train.distill.")
add {
  { "train.distill", "table",
    "the reference is a teacher, and the divergence of the policy from it a term of the loss" },
  { "train.distill.weight", "schedule",
    "coefficient of the divergence in the loss", default = 1.0, min = 0, live = true },
}
engine "train.distill."
add {
  { "train.distill.sampled_token", "boolean",
    "measure the reverse KL at the sampled token alone, not over the vocabulary", default = false },
  { "train.distill.prompt", "function",
    "function(row, c) -> what the teacher reads before completion c in place of the prompt, such "
    .. "as one with the answer or with what was wrong, as data.prompt gives it; nil: c has no "
    .. "teacher; default: the student's prompt" },
  { "train.distill.max_prompt_tokens", "int",
    "length of the longest prompt that train.distill.prompt gives; default: "
    .. "data.max_prompt_tokens; data.too_long says what happens to longer ones, where drop leaves "
    .. "the completion without a teacher", min = 1, max = 1048576 },
  { "train.distill.lambda", "number",
    "share of the steps of a distill stage that learn on completions of the student; the others "
    .. "learn on data.target", default = 1.0, min = 0, max = 1 },
  { "train.distill.seq_kd", "boolean",
    "the other steps learn on completions that the teacher samples, not on data.target",
    default = false },
  { "train.sync_reference", "table", "move the reference towards the policy from time to time" },
  { "train.sync_reference.every", "int", "steps between two moves", default = 512, min = 1 },
  { "train.sync_reference.mixup", "number",
    "reference <- mixup policy + (1 - mixup) reference", default = 0.6, min = 0, max = 1 },
}
engine "train.ppo."
add {
  { "eval.every", "int",
    "steps of the run, through all stages, between evaluations; 0: only before and after",
    default = 0, min = 0, live = true },
  { "eval.every_epochs", "number",
    "passes over the rows between evaluations, as train.epochs counts them; 0.5: two in each pass; "
    .. "not beside eval.every",
    default = 0.0, min = 0, max = 1000000, live = true },
  { "eval.samples", "int", "rows of data.eval used; default: all", min = 1, live = true },
  { "eval.group_size", "int",
    "sampled completions of each row, for pass@K; 0: none", default = 0, min = 0, max = 4096 },
  { "eval.temperature", "number",
    "temperature of the sampled completions", default = 1.0, min = 0, max = 1000, live = true },
  { "eval.max_new_tokens", "int",
    "length of the longest completion of an evaluation; default, and at most: "
    .. "sampling.max_new_tokens", min = 1, max = 1048576 },
  { "eval.pass_at", "list", "the K of pass@K, maj@K and best@K", default = { 1 } },
  { "eval.majority", "boolean",
    "measure maj@K too: whether the answer that most of K samples give is right", default = false },
  { "eval.best_of", "string",
    "measure best@K too: whether the one of K samples with the highest reward is right; the name "
    .. "of that reward, or \"reward\" for the total" },
  { "eval.metric", "function",
    "function(text, row, c) -> number or boolean; default: the reward entry \"correct\", else "
    .. "the total" },

  { "log.every", "int",
    "steps of the run between lines of metrics on the screen", default = 1, min = 1, live = true },
  { "log.completions", "int", "completions shown each time", default = 2, min = 0, live = true },
  { "log.tensorboard", "boolean",
    "write event files for TensorBoard, by an extension", default = true },

  { "checkpoint.every", "int",
    "steps of the run between checkpoints; 0: only at the end of a stage or when stopped",
    default = 0, min = 0, live = true },
  { "checkpoint.every_epochs", "number",
    "passes over the rows between checkpoints, as train.epochs counts them; not beside "
    .. "checkpoint.every", default = 0.0, min = 0, max = 1000000, live = true },
  { "checkpoint.keep", "int",
    "newest checkpoints to keep, beside the best", default = 2, min = 1, live = true },
  { "checkpoint.best", "string",
    "a metric's name: keep the checkpoint where it was highest (losses: lowest), among "
    .. "evaluations (eval/...) or where checkpoints are written" },

  { "hooks.on_start", "function", "on_start(tr)" },
  { "hooks.on_rollout", "function", "on_rollout(batch, tr): after rewards, before advantages" },
  { "hooks.on_step", "function", "on_step(metrics, tr)" },
  { "hooks.on_eval", "function", "on_eval(report, tr)" },
  { "hooks.on_checkpoint", "function", "on_checkpoint(path, tr)" },
  { "hooks.on_reload", "function",
    "on_reload(files, tr): of the new script, before its functions take the place of the old ones; "
    .. "an error keeps the old ones" },
  { "hooks.on_error", "function", "on_error(err, tr)" },
  { "hooks.on_end", "function", "on_end(tr, why)" },
  { "stages", "list",
    "a list of { kind = \"sft\"|\"grpo\"|\"ppo\"|\"distill\", ... }, or of a kind that an "
    .. "extension adds, run in order, each overriding the fields above (not name, threads, "
    .. "compute, numbers, extends, model.path, .config, .tokenizer, .dtype, .quantize, .lora)" },
}

for _, row in ipairs(extensions.rows "options") do
  row.added = true
  add { row }
end

return { rows = rows, losses = losses, loss_defaults = loss_defaults,
  optimizer_defaults = core.optimizers() }
