---@meta grpo.schedule
-- require "grpo.schedule": numbers that change during training.  A schedule is a
-- function(p) -> number; a plain number is allowed wherever a schedule is.  `over` is what it
-- counts: "step" (the default: it is called once a step), "update" or "tokens" (it is called before
-- each update).  A span in steps, updates or tokens counts from 0; the default is the whole stage.

---@class grpo.ScheduleArgument
---@field step integer 0 at a stage's first step
---@field steps integer steps of the stage
---@field update integer updates of the stage before this one
---@field updates integer updates of the stage
---@field update_tokens integer tokens that these updates trained on; one counts once in each of them
---@field tokens integer completion tokens of the steps before; each counts once
---@field fraction number 0 to 1
---@field metrics table<string, number> of the step before; {} at first

---@alias grpo.Schedule fun(p: grpo.ScheduleArgument): number
---@alias grpo.ScheduleUnit "step"|"update"|"tokens"

---@class grpo.schedule
local schedule = {}

---Always v.
---@param v number
---@return grpo.Schedule
function schedule.constant(v) end

---From `from` to `to` in a straight line (with `power`: a polynomial), then `to`; with a warm-up
---from 0 to `from` before.  warmup_ratio is the warm-up's share of the whole.
---@param opts { from: number, to: number, over?: grpo.ScheduleUnit, steps?: number, updates?: number, tokens?: number, warmup?: number, warmup_ratio?: number, power?: number }
---@return grpo.Schedule
function schedule.linear(opts) end

---From `from` (default 0) up to `to`, then constant.  The span is that of the rise; warmup_ratio
---instead is its share of the stage.
---@param opts { to: number, from?: number, over?: grpo.ScheduleUnit, steps?: number, updates?: number, tokens?: number, warmup_ratio?: number }
---@return grpo.Schedule
function schedule.warmup(opts) end

---Linear warm-up from 0 to `peak`, then down to `final` along a cosine; `restarts` is the number of
---falls, each from the peak.  warmup_ratio is the warm-up's share of the whole.
---@param opts { peak: number, over?: grpo.ScheduleUnit, warmup?: number, warmup_ratio?: number, steps?: number, updates?: number, tokens?: number, final?: number, cycles?: number, restarts?: integer }
---@return grpo.Schedule
function schedule.cosine(opts) end

---Linear warm-up to `peak`, then falling with the root of the step, update or token.
---@param opts { peak: number, warmup?: number, warmup_ratio?: number, over?: grpo.ScheduleUnit }
---@return grpo.Schedule
function schedule.inverse_sqrt(opts) end

---From step `at` on, `value`, until the next piece; over = "update" or "tokens" may stand beside
---the pieces.
---@param pieces { [integer]: { at: number, value: number|grpo.Schedule }, over?: grpo.ScheduleUnit }
---@return grpo.Schedule
function schedule.piecewise(pieces) end

---One schedule after the other, each counting its own steps from 0; the last needs no `steps`;
---over = "update" or "tokens" may stand beside the parts.
---@param parts { [integer]: { [1]: number|grpo.Schedule, steps?: integer }, over?: grpo.ScheduleUnit }
---@return grpo.Schedule
function schedule.chain(parts) end

---The KL coefficient that steers KL towards `target` (1909.08593).
---@param opts { initial: number, target: number, horizon: number, sequences?: number }
---@return grpo.Schedule
function schedule.adaptive_kl(opts) end

---The coefficient of the entropy bonus (`train.entropy`) that keeps the entropy from falling below
---`target`, in nats per token (2505.22312): applied after a step whose entropy is at most that, and
---`delta` more after each.
---@param opts { initial?: number, target: number, delta?: number, min?: number, max?: number }
---@return grpo.Schedule
function schedule.adaptive_entropy(opts) end

---@param a number|grpo.Schedule
---@param b number|grpo.Schedule
---@return grpo.Schedule
function schedule.product(a, b) end

---The schedule that a text says, such as "cosine:peak=1e-4,warmup=20", or its number; nil and why
---there is none.
---@param text string
---@return number|grpo.Schedule|nil
---@return string|nil
function schedule.parse(text) end

---The text that a schedule was made of; nil if a script made it.
---@param s grpo.Schedule
---@return string|nil
function schedule.text(s) end

---A schedule of your own that counts updates or tokens: f(p) is called before each update.
---@param unit grpo.ScheduleUnit
---@param f grpo.Schedule
---@return grpo.Schedule
function schedule.over(unit, f) end

---Whether a schedule is called before each update, and not once a step.
---@param s number|grpo.Schedule
---@return boolean
function schedule.is_per_update(s) end

return schedule
