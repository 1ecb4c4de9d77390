---@meta _
-- The trainer, and what rewards, hooks and losses are called with.

---The result of grpo.experiment.
---@class grpo.Experiment
---@field config table the resolved options
---@field stages { kind: string, config: table }[]

---An error object: tostring(err) is its message.
---@class grpo.Error
---@field code string "EARG", "ENOENT", ...
---@field message string begins with the script's line
---@field where string the place in the C sources
---@field traceback? string

---One completion, as rewards and hooks see it.
---@class grpo.Completion
---@field text string decoded, special tokens left out; a stop string stays
---@field prompt string as the model saw it, with the tokens that the tokenizer puts around a plain string
---@field plain_prompt string|nil the plain string that data.prompt returned; nil for messages and ids
---@field messages grpo.Message[]|nil
---@field row table the dataset's row
---@field ids integer[]
---@field tokenizer grpo.Tokenizer|nil
---@field length integer
---@field finish "eos"|"stop"|"length"
---@field truncated boolean finish == "length"
---@field target_ids integer[]|nil with data.target: its result for the row
---@field target_logprobs number[]|nil log-probability of each of these under the policy, after the tokens sampled so far
---@field logprobs number[] of each sampled token
---@field prompt_index integer position of its prompt in the step, from 1
---@field index integer position in the group, from 1
---@field group grpo.Completion[]
---@field step integer
---@field tokens_seen integer
---@field state table tr.state, read-only
---@field rng fun(): number a seeded stream of this completion's own; math.random inside a reward uses it
---@field rewards table<string, number|userdata> by entry; grpo.none where one does not apply
---@field reward number|nil the total; set before on_rollout, which may change it
---@field advantage number|number[]|nil
---@field parts grpo.Part[]|nil with tools or an environment: the turns
---@field sampled boolean[]|nil for each token: did the model sample it?
---@field turns integer|nil of the model
---@field tool_calls integer|nil
---@field tool_failures integer|nil
---@field environment { reward: number|nil, done: boolean, turns: integer }|nil the episode; reward: all of its rewards
---@field extra table|nil columns that rewards returned as their second value

---A turn of a completion.
---@class grpo.Part
---@field role "assistant"|"tool"|"environment"
---@field text string
---@field first integer place in c.ids of its first token
---@field last integer
---@field finish? "eos"|"stop"|"length" of the model's turns
---@field reward? number of a turn of the model that an environment answered
---@field state? string the key of the state it began in, with train.advantage.turn_weight
---@field calls? grpo.Call[]

---@class grpo.Call
---@field name? string
---@field arguments? table<string, any>
---@field argument? string the one argument of the compact form
---@field error? string the problem with its form
---@field result? string the injected text
---@field failed? boolean

---The argument c of a tool and of an environment's step.
---@class grpo.TurnContext
---@field row table
---@field prompt string
---@field messages grpo.Message[]|nil
---@field index integer place in the group, from 1
---@field step integer
---@field turn integer the model's turns so far
---@field parts grpo.Part[]
---@field state table tr.state, read-only
---@field rng fun(): number a seeded stream of this completion's own; math.random uses it

---A bare function is a tool without parameters.
---@class grpo.Tool
---@field description? string
---@field parameters? table a JSON schema, or { name = type or { type =, description = } }
---@field fn fun(arguments: table<string, any>, c: grpo.TurnContext): any, string?

---@class grpo.Environment
---@field reset fun(row: table, rng: fun(): number): any, string?, string|number|nil the state, the first observation, and a key that names the state
---@field step fun(state: any, action: string, c: grpo.TurnContext): string?, number|boolean|nil, string|number|nil the observation, nil at the end; a reward; the key of the state that follows
---@field close? fun(state: any) called once for each reset, when the episode is over, whichever way

---A form of calls of your own.
---@class grpo.CallForm
---@field stop string[] strings that end a turn
---@field read fun(text: string): grpo.Call[]?
---@field write fun(result: string): string

---text, row, c -> a number, a boolean (1 or 0) or nil ("does not apply"); second, a table of
---columns for the log
---@alias grpo.RewardFunction fun(text: string, row: table, c: grpo.Completion): (number|boolean|nil), table?

---Exactly one of fn, group_fn and token_fn.
---@class grpo.RewardEntry
---@field name? string default: "reward1", ... or the entry's key
---@field weight? number|grpo.Schedule default 1
---@field fn? grpo.RewardFunction
---@field group_fn? fun(texts: string[], row: table, cs: grpo.Completion[]): (number|boolean|userdata)[], table[]? second, columns for the log
---@field token_fn? fun(c: grpo.Completion): number[] one reward for each token
---@field prepare? fun(cs: grpo.Completion[]) called before, with all completions that are scored

---@class grpo.RolloutBatch
---@field completions grpo.Completion[]
---@field step integer

---The argument of a loss written in Lua.  Tensors are [N], over the completion tokens of a
---micro-batch, and belong to the step.
---@class grpo.LossInput
---@field logp grpo.Tensor
---@field entropy grpo.Tensor
---@field old_logp grpo.Tensor
---@field ref_logp grpo.Tensor|nil
---@field sampler_logp grpo.Tensor
---@field advantage grpo.Tensor
---@field mask grpo.Tensor
---@field sequence integer[] 1-based sequence index of each token
---@field lengths integer[]
---@field num_sequences number of the whole update
---@field num_tokens number of the whole update
---@field normalizer number num_tokens
---@field beta number train.kl in this step; 0 with train.kl_in = "reward"
---@field max_new_tokens integer
---@field p grpo.ScheduleArgument

---@class grpo.Trainer
---@field model grpo.Model
---@field tokenizer grpo.Tokenizer
---@field config grpo.Options the stage's resolved options; those documented as live may be changed
---@field state table yours; saved in every checkpoint, restored on resume
---@field kept table yours, for any value: a reload keeps it, a checkpoint does not hold it
---@field step_count integer
---@field tokens_seen integer
---@field metrics table<string, number> of the last step
---@field batch grpo.RolloutBatch of the last step
---@field resumed boolean
---@field dir string|nil the run's directory; nil without one, and where a command only follows a run
local Trainer = {}

---A table that the script writes: logs/NAME.csv of the run.
---@class grpo.Csv
local Csv = {}

---Adds a row: values by column, where a missing one is empty, or a list of all of them.
---@param row table<string|integer, string|number|boolean>
---@return grpo.Csv self
function Csv:row(row) end

---One step, a rollout with all its updates; nil when all stages are done.
---@return table<string, number>|nil metrics
function Trainer:step() end

---Runs to the end, with evaluations and hooks.
---@return "finished"|"stopped"|"interrupted" why
function Trainer:run() end

---Held-out accuracy, pass@k, maj@k and best@k.
---@param n? integer rows; default eval.samples, else all
---@return table report
function Trainer:evaluate(n) end

---Saves a checkpoint of the run, or one in a directory.
---@param dir? string
---@return string path
function Trainer:save(dir) end

---The input of the loss for the last step, with the current policy.  Tensors are [N], over the
---completion tokens in the order of tr.batch.completions, or those of completion i.
---@class grpo.Inspection
---@field old_logp grpo.Tensor as sampled
---@field logp grpo.Tensor under the current policy
---@field ref_logp grpo.Tensor|nil under the reference, where there is one
---@field ratio grpo.Tensor exp(logp - old_logp)
---@field entropy grpo.Tensor
---@field advantage grpo.Tensor
---@field mask grpo.Tensor
---@field gradient grpo.Tensor|nil d loss / d logp
---@field loss number|nil of the whole step
---@field problem string|nil why there is no loss
---@field sequence integer[] which completion each token belongs to, from 1
---@field lengths integer[]
---@field ids integer[]
---@field completions grpo.Completion[]

---Log-probabilities, ratio, advantage and the loss's gradient of every token of the last step.
---@param i? integer a completion of tr.batch.completions; default: all
---@return grpo.Inspection
function Trainer:inspect(i) end

---@class grpo.Rescored
---@field completions grpo.Completion[] copies with the new rewards; c.was is the old one, c.flipped: another sign
---@field changed integer completions with another total
---@field flipped integer advantages with another sign
---@field failed integer errors in rewards, where reward.on_error lets them pass

---Scores the completions of the last step again; the trainer's own rewards stay.
---@param rewards? grpo.RewardFunction|table<string|integer, grpo.RewardFunction|grpo.RewardEntry>|string as the option rewards takes it, or a file that returns it, or an experiment; default: the stage's own
---@return grpo.Rescored
function Trainer:rescore(rewards) end

---Ends the run after this step, with a checkpoint.
---@param reason? string
function Trainer:stop(reason) end

---A number of your own among the step's metrics.
---@param name string
---@param value number
function Trainer:log(name, value) end

---A text in run.log and in the logs of extensions.
---@param name string
---@param s string
function Trainer:log_text(name, s) end

---Adds text to the run's file logs/NAME, which a resume cuts to its checkpoint.  Without a run
---directory it does nothing.
---@param name string letters, digits, ".", "_" and "-"
---@param text string
function Trainer:append(name, text) end

---Opens the table logs/NAME.csv, or finds it again.  A resume cuts it to its checkpoint; its
---columns cannot change.  Without a run directory nothing is written.
---@param name string letters, digits, ".", "_" and "-"
---@param columns string[]
---@return grpo.Csv
function Trainer:csv(name, columns) end

---Prints on the screen above the progress line.
---@param ... any
function Trainer:print(...) end
