---@meta _
-- The fields of grpo.experiment { ... }.  Written by `make options`; do not edit.

---@class grpo.Options
---@field name? string name of the run's directory; default: the script's name
---@field seed? integer seed of every random number of the run (default 0)
---@field threads? integer threads of the engine, which never change a result; default: all cores; a script that loads a model itself needs the flag --threads instead
---@field compute? "f32"|"bf16" how products with weights, and attention, are computed: in float32, or with operands rounded to bf16 and sums in float32, about twice as fast where the CPU has instructions for it (default "f32")
---@field numbers? "native"|"portable" the order and rounding of every sum: native, those of the fastest kernels of this CPU; portable, the same bits on every machine, at about half the speed (docs/portable.md); it holds for the whole process (default "native")
---@field extends? string a file of settings (docs/settings.md), merged below this table
---@field model? grpo.Options.model
---@field reference? string|boolean the model that KL is measured against, or the teacher of train.distill: initial, policy (as it is in each step), random, a model's path, false, or a name that an extension adds (default "initial")
---@field reference_dtype? "auto"|"f32"|"bf16"|"int8"|"nf4" how a reference that is loaded from a path is stored: auto: as model.quantize says, else as in its file (default "auto")
---@field data? grpo.Options.data
---@field sampling? grpo.Options.sampling
---@field rewards? table<string|integer, grpo.RewardFunction|grpo.RewardEntry> function(text, row, c) -> number, boolean or nil (does not apply), or entries { name=, weight=, fn= }; as a list or by name
---@field reward? grpo.Options.reward
---@field limits? grpo.Options.limits
---@field tools? table<string, grpo.Tool|function|table<string, grpo.Tool>> tools that a model may call while it answers: name = { description=, parameters=, fn= }; docs/tools.md
---@field environment? grpo.Environment|fun(row: table, rng: fun(): number): number|boolean|nil a function that answers the model turn by turn with observations, or { reset=, step= }; docs/tools.md
---@field turns? grpo.Options.turns
---@field train? grpo.Options.train
---@field eval? grpo.Options.eval
---@field log? grpo.Options.log
---@field checkpoint? grpo.Options.checkpoint
---@field hooks? grpo.Options.hooks
---@field stages? grpo.Stage[] a list of { kind = "sft"|"grpo"|"ppo"|"distill", ... }, or of a kind that an extension adds, run in order, each overriding the fields above (not name, threads, compute, numbers, extends, model.path, .config, .tokenizer, .dtype, .quantize, .lora)

---@class grpo.Options.model
---@field path? string a directory in Hugging Face layout, a run or checkpoint directory, an adapter, a .gguf file, or a name that an extension finds
---@field config? string|table a table, or a file of settings, that describes a model to create with random weights
---@field tokenizer? string|grpo.Tokenizer tokenizer object, path, name as of model.path, or of an encoding of tiktoken (cl100k_base); default: the one beside the weights
---@field dtype? "f32"|"bf16"|"auto" storage of the frozen weights beside an adapter; auto: as in the checkpoint (default "auto")
---@field quantize? "nf4"|"int8" storage of the frozen projections in 4 or 8 bits; needs an adapter
---@field lora? grpo.Options.model.lora train a low-rank adapter (LoRA) instead of all weights
---@field chat_template? string|fun(messages: grpo.Message[], opts: table): string a name (chatml, gemma, llama3, mistral, phi3), a Jinja template, or function(messages, opts) -> string; false: none, for plain text; default: the tokenizer's own
---@field chat_template_kwargs? table variables of the chat template, by name, such as enable_thinking = false
---@field gradient_checkpointing? boolean compute each layer again in the backward pass instead of keeping its activations: the same bits, less memory, more time (default false)

---@class grpo.Options.model.lora
---@field rank? integer rank of the adapter (default 8)
---@field alpha? number the adapter's output is scaled by alpha / rank (default 16)
---@field dropout? number dropout of the adapter's input, in training only (default 0)
---@field targets? string|any[] which weights get an adapter: names such as q_proj, or all-linear, which is every projection of the layers (default "all-linear")

---@class grpo.Options.data
---@field train? grpo.Dataset the training rows
---@field eval? grpo.Dataset held-out rows
---@field prompt? fun(row: table): string|grpo.Message[] function(row) -> string, messages or a list of ids; default: row.prompt
---@field target? fun(row: table): string|string[] function(row) -> string or a list of ids: the completion for kind="sft", and the text that dense rewards compare with; or a list of strings that alternate between the model's turns and what tools say, which is not learned
---@field shuffle? boolean take the rows in a seeded random order, another one in each epoch (default true)
---@field sampler? grpo.Sampler|grpo.SamplerFunction function(p) -> a list of p.n rows of data.train, by number, in place of the order of data.shuffle; or { sample = function(self, p), observe = function(self, p, groups) }, which learns what became of them; what it remembers is p.state
---@field too_long? "drop"|"truncate_left"|"error" what happens to a prompt longer than max_prompt_tokens; it is counted and reported (default "drop")
---@field max_prompt_tokens? integer length of the longest prompt in tokens; data.too_long says what happens to longer ones (default 512)

---@class grpo.Options.sampling
---@field group_size? integer G, the completions of each prompt (default 8)
---@field renormalize? boolean where top_k, top_p or min_p leave tokens out, train log-probabilities over the tokens that are left, which is what was sampled; false: over all tokens, as TRL takes them (default true)
---@field max_new_tokens? integer length of the longest completion in tokens, its end token included (default 256)
---@field temperature? number the logits are divided by it, in sampling and in training; 0 takes the most probable token (default 1)
---@field top_p? number sample from the smallest set of tokens with at least this probability; 1: off (default 1)
---@field top_k? integer sample from the k most probable tokens; 0: off (default 0)
---@field min_p? number leave out tokens less probable than this share of the most probable one; 0: off (default 0)
---@field repetition_penalty? number the logits of tokens that have occurred are divided by it; 1: off (default 1)
---@field stop? string|string[] strings that end a completion and stay in its text; they may name special tokens (default {})
---@field stop_regex? string a pattern that ends a completion when its text matches
---@field grammar? string a grammar in GBNF, as llama.cpp writes it: only tokens are sampled that keep to it, and with several turns each of them is a text of it
---@field regex? string a regular expression in place of a grammar, which is the whole completion or turn

---@class grpo.Options.reward
---@field aggregate? "sum"|"normalize_then_sum" how several rewards become one (default "sum")
---@field on_error? "stop"|"zero"|"skip" what happens when a reward raises an error: the run stops, the reward is 0, or the completion is left out (default "stop")
---@field clip? number[] { low, high }: bounds of the total reward

---@class grpo.Options.limits
---@field reward? grpo.Options.limits.reward
---@field tool? grpo.Options.limits.tool
---@field hook? grpo.Options.limits.hook
---@field schedule? grpo.Options.limits.schedule

---@class grpo.Options.limits.reward
---@field instructions? integer Lua instructions of one reward call (default 50000000)
---@field memory? integer bytes that one reward call may take (default 67108864)
---@field seconds? number limit in wall time, far beyond the other two; past it the run stops (default 5)

---@class grpo.Options.limits.tool
---@field instructions? integer Lua instructions of one call of a tool or an environment (default 50000000)
---@field memory? integer bytes that one such call may take (default 67108864)
---@field seconds? number limit in wall time, far beyond the other two; past it the run stops (default 5)

---@class grpo.Options.limits.hook
---@field instructions? integer Lua instructions of one hook call (default 1000000000)
---@field memory? integer bytes that one hook call may take (default 268435456)
---@field seconds? number limit in wall time, far beyond the other two; past it the run stops (default 60)

---@class grpo.Options.limits.schedule
---@field instructions? integer Lua instructions of one schedule call (default 1000000)
---@field memory? integer bytes that one schedule call may take (default 16777216)
---@field seconds? number limit in wall time, far beyond the other two; past it the run stops (default 1)

---@class grpo.Options.turns
---@field max? integer most turns of the model in one completion, where there are tools or an environment (default 8)
---@field format? "auto"|"chat"|"json"|"compact"|grpo.CallForm how a call of a tool and its answer are written: chat: as the chat template does; json: <tool_call>{...}</tool_call>; compact: <<name argument>>; auto: chat where prompts are messages, else json; or { stop=, read=, write= } (default "auto")

---@class grpo.Options.train
---@field steps? integer steps of the stage, each one rollout with all its updates (iterations); default: as many as epochs needs
---@field epochs? number passes over the rows, where steps is not set; a last step that the rows do not fill takes rows of the next pass (default 1)
---@field prompts_per_step? integer prompts of one step; rows, for kind="sft" (default 8)
---@field iterations? integer passes over one rollout, an optimizer update each; all of them are one step (default 1)
---@field micro_batch_tokens? integer rows in memory at once; default: those of one group, the least that is possible; never changes a result, except bnpo's
---@field gradient_blocks? integer blocks of groups whose gradients are summed apart, and then by a binary tree; takes the gradient's memory log2(blocks) times, rounded down; default: one for each group, or fewer where that were more than 512 MiB; changes the last bits of a result
---@field router_aux_loss_coef? number mixtures of experts: coefficient of the auxiliary loss, which is small where a router takes all experts equally often; it is added to the loss (default 0)
---@field lr? number|grpo.Schedule|string learning rate (default 1e-6)
---@field max_grad_norm? number gradients are scaled down to this norm; 0: never (default 1)
---@field on_nonfinite? "stop"|"skip" what follows a step whose reward (where reward.on_error is stop), loss or gradient is not finite: the weights stay, its batch is kept in the run's directory, and the run stops, or takes the next batch, up to 10 times in a row (default "stop")
---@field optimizer? grpo.Options.train.optimizer
---@field reuse_rollout? boolean|"auto" keep the activations of sampling for the first iteration's forward: less time, more memory, the same bits; auto: where possible, if they take at most a quarter of the machine's memory and half of what is free; true is refused with model.gradient_checkpointing, model.lora.dropout and, in PPO, train.ppo.critic = shared (default "auto")
---@field skip_zero_std_groups? boolean dynamic sampling: roll out further prompts in place of groups whose rewards are all equal (default false)
---@field advantage? grpo.Options.train.advantage
---@field loss? grpo.LossName|fun(t: grpo.LossInput): grpo.Tensor the policy loss: a name, or function(t) -> scalar tensor (default "grpo")
---@field kl_in? "loss"|"reward" add the KL to the loss, or subtract it from the reward (default "loss")
---@field clip? number lower clip bound: ratios below 1 - clip earn no further gradient (default 0.2)
---@field clip_high? number upper clip bound: ratios above 1 + clip_high earn no further gradient; default: clip
---@field delta? number largest ratio that counts, for negative advantages too; default: none
---@field importance? "token"|"sequence" one importance ratio for each token, or one for the whole sequence (default "token")
---@field kl? number|grpo.Schedule|string beta, the coefficient of the KL term; with 0 the reference is not run at all (default 0)
---@field kl_estimator? "k1"|"k2"|"k3"|"full" how the KL is estimated: from each token's log-probabilities (k1, k2, k3), or exactly, over the whole vocabulary (full) (default "k3")
---@field kl_bias_correction? boolean multiply each token's KL term by its ratio, which makes the estimate unbiased off-policy (default false)
---@field off_policy_mask? number leave out sequences with a negative advantage whose mean(old - new) log-probability is above this; default: none is left out
---@field sampler_correction? grpo.Options.train.sampler_correction weight each token by exp(old - sampler), the ratio between training and sampling
---@field entropy? number|grpo.Schedule|string coefficient of the entropy bonus (default 0)
---@field top_entropy_quantile? number share of the tokens that enter the policy term: those with the highest entropy (default 1)
---@field mask_truncated? boolean leave completions that were cut at max_new_tokens out of the loss; they still count in the advantages' baseline (default false)
---@field clip_cov? grpo.Options.train.clip_cov
---@field kl_cov? grpo.Options.train.kl_cov
---@field sapo? grpo.Options.train.sapo
---@field vespo? grpo.Options.train.vespo
---@field cispo_cap? number cispo: largest ratio; default: 1 + clip_high
---@field distill? grpo.Options.train.distill the reference is a teacher, and the divergence of the policy from it a term of the loss
---@field sync_reference? grpo.Options.train.sync_reference move the reference towards the policy from time to time
---@field ppo? grpo.Options.train.ppo

---@class grpo.Options.train.optimizer
---@field name? "adamw"|"adamw_8bit"|"lion" adamw; adamw_8bit: with moments in 8 bits, as bitsandbytes has them, 2 bytes for each trained number instead of 8; lion: one moment, and steps of the size lr, for which a tenth of AdamW's lr is usual (default "adamw")
---@field beta1? number decay of the first moment (default 0.9)
---@field beta2? number decay of the second moment (default 0.999)
---@field eps? number added to the root of the second moment (default 1e-8)
---@field weight_decay? number decoupled weight decay (default 0)
---@field no_decay? string[] kinds of parameters without weight decay: bias, norm (default { "bias", "norm" })

---@class grpo.Options.train.advantage
---@field scale? "group"|"batch"|"none" divide advantages by the standard deviation of the group's rewards, of the whole step's, or not (default "group")
---@field baseline? "mean"|"leave_one_out"|"none" what is subtracted from a reward: the mean of its group, the mean of the group's others, or nothing (default "mean")
---@field normalize? boolean normalise advantages once more, over the step: (A - mean) / (std + 1e-4) (default false)
---@field turn_weight? number GiGPO: weight of each turn's own advantage among the turns of the group that began in the same state of the environment; 0: none (default 0)
---@field turn_discount? number GiGPO: discount of the rewards of later turns in a turn's return; -1 where two players move in turn, and what one wins the other loses (default 0.95)

---@class grpo.Options.train.sampler_correction
---@field mode? "token_truncate"|"token_mask"|"sequence_truncate"|"sequence_mask" one weight per token or per sequence; a weight outside the bounds is truncated to them, or masked: set to 0 (default "token_truncate")
---@field min? number lower bound of the weight; default: none
---@field max? number upper bound of the weight (default 3)

---@class grpo.Options.train.clip_cov
---@field ratio? number Clip-Cov: share of the step's tokens that leave the policy term, drawn from those whose covariance of log-probability and advantage is between low and high; 0: none (default 0)
---@field low? number Clip-Cov: tokens with a covariance above this may leave (default 1)
---@field high? number Clip-Cov: tokens with a covariance below this may leave (default 5)

---@class grpo.Options.train.kl_cov
---@field ratio? number KL-Cov: share of the step's tokens, those with the highest covariance of log-probability and advantage, that get a KL to the policy that sampled; 0: none (default 0)
---@field coef? number KL-Cov: coefficient of that KL (default 1)

---@class grpo.Options.train.sapo
---@field pos? number sapo: temperature of the gate for A > 0 (default 1)
---@field neg? number sapo: temperature of the gate for A <= 0 (default 1.05)

---@class grpo.Options.train.vespo
---@field k_pos? number vespo: exponent for A >= 0 (default 2)
---@field lambda_pos? number vespo: decay for A >= 0 (default 3)
---@field k_neg? number vespo: exponent for A < 0 (default 3)
---@field lambda_neg? number vespo: decay for A < 0 (default 2)

---@class grpo.Options.train.distill
---@field weight? number|grpo.Schedule|string coefficient of the divergence in the loss (default 1)
---@field beta? number which divergence of student and teacher is measured: 1 the reverse KL, 0 the forward KL, between them the generalised Jensen-Shannon divergence (default 1)
---@field top_k? integer sum over the tokens that the teacher likes best, this many, and over all others as one; 0: over the whole vocabulary (default 0)
---@field sampled_token? boolean measure the reverse KL at the sampled token alone, not over the vocabulary (default false)
---@field prompt? function function(row, c) -> what the teacher reads before completion c in place of the prompt, such as one with the answer or with what was wrong, as data.prompt gives it; nil: c has no teacher; default: the student's prompt
---@field max_prompt_tokens? integer length of the longest prompt that train.distill.prompt gives; default: data.max_prompt_tokens; data.too_long says what happens to longer ones, where drop leaves the completion without a teacher
---@field lambda? number share of the steps of a distill stage that learn on completions of the student; the others learn on data.target (default 1)
---@field seq_kd? boolean the other steps learn on completions that the teacher samples, not on data.target (default false)

---@class grpo.Options.train.sync_reference
---@field every? integer steps between two moves (default 512)
---@field mixup? number reference <- mixup policy + (1 - mixup) reference (default 0.6)

---@class grpo.Options.train.ppo
---@field critic? "shared"|"separate" what the value head reads: the policy's own states, or those of a copy of the policy that is trained beside it (default "shared")
---@field gamma? number discount of later rewards (default 1)
---@field lambda? number lambda of GAE: 0 trusts the values, 1 the rewards (default 0.95)
---@field value_coef? number weight of the value loss (default 0.1)
---@field clip_value? number a value that moves further than this from the rollout's earns no further gradient (default 0.2)
---@field minibatches? integer updates of one iteration, each on its share of the prompts (default 1)
---@field whiten_rewards? boolean scale the step's rewards to standard deviation 1 before GAE (default false)
---@field kl_coef? number|grpo.Schedule|string coefficient of the KL in the reward of each token; with 0 the reference is not run at all (default 0.05)
---@field kl_estimator? "k1"|"k2"|"k3" how that KL is estimated (default "k1")

---@class grpo.Options.eval
---@field every? integer steps of the run, through all stages, between evaluations; 0: only before and after (default 0)
---@field every_epochs? number passes over the rows between evaluations, as train.epochs counts them; 0.5: two in each pass; not beside eval.every (default 0)
---@field samples? integer rows of data.eval used; default: all
---@field group_size? integer sampled completions of each row, for pass@K; 0: none (default 0)
---@field temperature? number temperature of the sampled completions (default 1)
---@field max_new_tokens? integer length of the longest completion of an evaluation; default, and at most: sampling.max_new_tokens
---@field pass_at? integer[] the K of pass@K, maj@K and best@K (default { 1 })
---@field majority? boolean measure maj@K too: whether the answer that most of K samples give is right (default false)
---@field best_of? string measure best@K too: whether the one of K samples with the highest reward is right; the name of that reward, or "reward" for the total
---@field metric? fun(text: string, row: table, c: grpo.Completion): number|boolean function(text, row, c) -> number or boolean; default: the reward entry "correct", else the total

---@class grpo.Options.log
---@field every? integer steps of the run between lines of metrics on the screen (default 1)
---@field completions? integer completions shown each time (default 2)
---@field tensorboard? boolean write event files for TensorBoard, by an extension (default true)

---@class grpo.Options.checkpoint
---@field every? integer steps of the run between checkpoints; 0: only at the end of a stage or when stopped (default 0)
---@field every_epochs? number passes over the rows between checkpoints, as train.epochs counts them; not beside checkpoint.every (default 0)
---@field keep? integer newest checkpoints to keep, beside the best (default 2)
---@field best? string a metric's name: keep the checkpoint where it was highest (losses: lowest), among evaluations (eval/...) or where checkpoints are written

---@class grpo.Options.hooks
---@field on_start? fun(tr: grpo.Trainer): string? on_start(tr)
---@field on_rollout? fun(batch: grpo.RolloutBatch, tr: grpo.Trainer): string? on_rollout(batch, tr): after rewards, before advantages
---@field on_step? fun(metrics: table<string, number>, tr: grpo.Trainer): string? on_step(metrics, tr)
---@field on_eval? fun(report: table<string, number>, tr: grpo.Trainer): string? on_eval(report, tr)
---@field on_checkpoint? fun(path: string, tr: grpo.Trainer): string? on_checkpoint(path, tr)
---@field on_reload? fun(files: string[], tr: grpo.Trainer): string? on_reload(files, tr): of the new script, before its functions take the place of the old ones; an error keeps the old ones
---@field on_error? fun(err: grpo.Error, tr: grpo.Trainer) on_error(err, tr)
---@field on_end? fun(tr: grpo.Trainer, why: string) on_end(tr, why)

---@alias grpo.LossName "grpo"|"bnpo"|"dr_grpo"|"dapo"|"gspo"|"gspo_token"|"luspo"|"gmpo"|"cispo"|"sapo"|"vespo"|"reinforce"|"rloo"

---@class grpo.Stage: grpo.Options
---@field kind "sft"|"grpo"|"ppo"|"distill"|string
