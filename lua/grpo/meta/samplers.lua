---@meta grpo.samplers
-- The option data.sampler, and the ready ones of require "grpo.samplers".

---The argument of a sampler: that of schedules, and more.
---@class grpo.SamplerArgument: grpo.ScheduleArgument
---@field n integer rows that are wanted now (sample only)
---@field round integer 1 at the first call of a step; more when rows are replaced (sample only)
---@field taken integer rows that the stage has taken so far
---@field size integer rows of data.train
---@field dataset grpo.Dataset data.train
---@field state table yours: plain data, {} at a stage's beginning, in every checkpoint
---@field rng fun(): number a seeded stream of this call's own; math.random uses it

---The outcome of a group of completions, or of a demonstration, which has index and row alone.
---@class grpo.Outcome
---@field index integer|nil number of its row in data.train; nil for a row that the sampler made
---@field row table
---@field rewards number[] totals of the completions that have one
---@field mean number|nil of these
---@field std number of these
---@field means table<string, number> mean of each reward entry that applies
---@field zero_advantage boolean|nil every advantage is 0: the group teaches nothing; nil in PPO
---@field replaced boolean train.skip_zero_std_groups replaced it, so that it was not trained on

---A list of p.n numbers of rows of data.train, or rows.
---@alias grpo.SamplerFunction fun(p: grpo.SamplerArgument): (integer|table)[]

---@class grpo.Sampler
---@field sample fun(self: grpo.Sampler, p: grpo.SamplerArgument): (integer|table)[]
---@field observe? fun(self: grpo.Sampler, p: grpo.SamplerArgument, groups: grpo.Outcome[]): table<string, number>? numbers become metrics sampler/NAME

---@class grpo.samplers
local samplers = {}

---Prefers rows by the share of their completions that pass: 1 - rate ("failure") or
---rate (1 - rate) ("learnability", the default).
---@param opts? { reward?: string, prefer?: "failure"|"learnability", floor?: number, pace?: number } default: the total reward, "learnability", 0.05, 0.5
---@return grpo.Sampler
function samplers.by_pass_rate(opts) end

---Samples from the easiest share of the rows, which grows from `from` to 1 over the share `over` of
---the stage.
---@param opts { difficulty: fun(row: table): number, from?: number, over?: number } default 0.1, 0.8
---@return grpo.Sampler
function samplers.easy_to_hard(opts) end

return samplers
