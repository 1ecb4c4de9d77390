---@meta grpo
-- The module that require "grpo" returns.

---@class grpo
---@field args table<string, string> the values of --arg on the command line
---@field host table<string, fun(...): any>|nil functions of the program around this run (grpo_run_add_function of grpo.h)
---@field none userdata "does not apply here", for lists of rewards
local grpo = {}

---PCRE2 with UTF, Unicode classes and JIT; bounded: a runaway match is an error.
---@param pattern string
---@param flags? string any of "i" "s" "m" "x"
---@return grpo.Regex
function grpo.regex(pattern, flags) end

grpo.json = {}
---@type userdata
grpo.json.null = nil

---@param s string
---@param what? string names the text in errors
---@return any
function grpo.json.decode(s, what) end

---Keys sorted; NaN and infinities become null; {} is a list unless grpo.json.object marked it.
---@param v any
---@param opts? { indent?: integer }
---@return string
function grpo.json.encode(v, opts) end

---@param t table
---@return table t
function grpo.json.object(t) end

---@class grpo.Template
local Template = {}

---Renders; also gives the first and last byte of each {% generation %} body.
---@param vars? table<string, any>
---@return string, integer[][]
function Template:render(vars) end

---A chat template in Jinja; raises with "template:LINE: ...".
---@param source string
---@return grpo.Template
function grpo.template(source) end

grpo.tokenizer = {}

---@param path string directory, tokenizer.json or a name that an extension finds
---@return grpo.Tokenizer
function grpo.tokenizer.load(path) end

---@return grpo.Tokenizer
function grpo.tokenizer.bytes() end

---@param text string every character in it becomes a token
---@param opts? { special?: boolean } false: nothing but characters, no end or padding token; default true
---@return grpo.Tokenizer
function grpo.tokenizer.chars(text, opts) end

---@param texts string[]
---@param opts? { vocab_size?: integer, kind?: "bpe", special_tokens?: string[], bos?: string, eos?: string, pad?: string,
---split_digits?: boolean, min_frequency?: integer }
---@return grpo.Tokenizer
function grpo.tokenizer.train(texts, opts) end

grpo.model = {}

---@param path string a model, run (its newest checkpoint), checkpoint or adapter directory, a GGUF file or a name that an extension finds
---@param opts? { dtype?: "f32"|"auto"|"bf16", quantize?: "nf4"|"int8", compute?: "f32"|"bf16",
---tokenizer?: grpo.Tokenizer|string, adapter?: string, base?: string } dtype: default f32; compute:
---default auto; adapter: a PEFT folder; base: used instead of the model that an adapter names
---@return grpo.Model
function grpo.model.load(path, opts) end

---@param config table|string config.json's fields, or a JSON file
---@param opts? { seed?: integer, tokenizer?: grpo.Tokenizer|string, compute?: "f32"|"bf16" }
---@return grpo.Model
function grpo.model.new(config, opts) end

---@param model grpo.Model
---@return grpo.Model frozen
function grpo.model.clone(model) end

---Loads a checkpoint with a sequence-classification head, a classifier or a reward model:
---rewards = { { name = "judge", group_fn = grpo.reward_model(path).group_fn } }
---@param path string a directory in Hugging Face layout, with score.weight, or a run that trained one
---@param opts? grpo.RewardModelOptions
---@return grpo.RewardModel
function grpo.reward_model(path, opts) end

---@param nested number|table
---@param opts? { requires_grad?: boolean }
---@return grpo.Tensor
function grpo.tensor(nested, opts) end

---@param shape integer[]
---@param opts? { requires_grad?: boolean }
---@return grpo.Tensor
function grpo.zeros(shape, opts) end

---@param shape integer[]
---@param opts? { seed?: integer, requires_grad?: boolean }
---@return grpo.Tensor
function grpo.randn(shape, opts) end

---@param list grpo.Tensor[]
---@param axis? integer default 1
---@return grpo.Tensor
function grpo.concat(list, axis) end

---@param list grpo.Tensor[]
---@return grpo.Tensor
function grpo.stack(list) end

---@param cond grpo.Tensor|number
---@param a grpo.Tensor|number
---@param b grpo.Tensor|number
---@return grpo.Tensor
function grpo.where(cond, a, b) end

---Runs f without recording a graph.
---@param f function
---@param ... any
---@return any ...
function grpo.no_grad(f, ...) end

---Frees every tensor that f made, except what it returns.
---@param f function
---@param ... any
---@return any ...
function grpo.scope(f, ...) end

grpo.optim = {}

---AdamW, as torch.optim.AdamW.
---@param tensors grpo.Tensor[]
---@param opts? grpo.AdamWOptions
---@return grpo.Optimizer
function grpo.optim.adamw(tensors, opts) end

---AdamW with moments in 8 bits, as bitsandbytes has them; tensors of fewer than 4,096 numbers keep
---float32 moments.
---@param tensors grpo.Tensor[]
---@param opts? grpo.AdamWOptions
---@return grpo.Optimizer
function grpo.optim.adamw_8bit(tensors, opts) end

---Lion: one moment, and steps of the size lr, for which a tenth of AdamW's lr is usual.
---@param tensors grpo.Tensor[]
---@param opts? grpo.AdamWOptions beta2 is 0.99 by default; eps is not read
---@return grpo.Optimizer
function grpo.optim.lion(tensors, opts) end

---@param tensors grpo.Tensor[]
---@param max number
---@return number norm before clipping
function grpo.clip_grad_norm(tensors, max) end

---Evaluates a built-in loss by name on t (see docs/algorithms.md).  Without t.lengths and
---t.sequence all tokens are one sequence.
---@param name string
---@param t table logp and entropy tensors; old_logp, ref_logp, sampler_logp, advantage, mask tensors or lists; lengths
---@param opts? table options of section train
---@return grpo.Tensor loss
---@return table<string, number> metrics
function grpo.loss(name, t, opts) end

---The loss on raw logits, as one operation.
---@param logits grpo.Tensor [N, vocab]
---@param targets grpo.Ids
---@param advantages grpo.Tensor|number[] [N]
---@param opts? table options of grpo.loss, and normalizer, temperature, old_logp, ref_logp, mask, lengths, loss
---@return grpo.Tensor loss
---@return table<string, number> metrics
function grpo.loss_from_logits(logits, targets, advantages, opts) end

---In a stock Lua: installs the bounded library functions (docs/stock-lua.md) permanently, so that
---files loaded later hold them in their locals too.  In the program they are always installed.
function grpo.guard() end

---Rewards to advantages, plain lists in and out.
---@param rewards (number|(number|userdata)[])[]
---@param opts table group=, scale=, baseline=, weights=, aggregate=, normalize=
---@return number[] advantages
---@return table info
function grpo.advantages(rewards, opts) end

---@param options grpo.Options
---@return grpo.Experiment
function grpo.experiment(options) end

---@param experiment grpo.Experiment
---@return grpo.Trainer
function grpo.trainer(experiment) end

---@param expression string
---@return number|nil
---@return string|nil message
function grpo.calc(expression) end

---@param t table
---@return fun(): any, any
function grpo.sorted_pairs(t) end

---@type grpo.data modules, loaded when first named
grpo.data = nil
---@type grpo.schedule
grpo.schedule = nil
---@type grpo.samplers
grpo.samplers = nil
---@type table
grpo.losses = nil

return grpo
