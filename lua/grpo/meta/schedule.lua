---@meta grpo.schedule
-- require "grpo.schedule": numbers that change during training.  A schedule is a
-- function(p) -> number, called once a step; a plain number is allowed wherever a schedule is.  A
-- span in steps or tokens counts from 0; the default is the whole stage.

---@class grpo.ScheduleArgument
---@field step integer 0 at a stage's first step
---@field steps integer steps of the stage
---@field tokens integer completion tokens trained on so far
---@field fraction number 0 to 1
---@field metrics table<string, number> of the step before; {} at first

---@alias grpo.Schedule fun(p: grpo.ScheduleArgument): number

---@class grpo.schedule
local schedule = {}

---Always v.
---@param v number
---@return grpo.Schedule
function schedule.constant(v) end

---From `from` to `to` in a straight line (with `power`: a polynomial), then `to`.
---@param opts { from: number, to: number, steps?: number, tokens?: number, power?: number }
---@return grpo.Schedule
function schedule.linear(opts) end

---From `from` (default 0) up to `to`, then constant.
---@param opts { to: number, from?: number, steps?: number, tokens?: number }
---@return grpo.Schedule
function schedule.warmup(opts) end

---Linear warm-up from 0 to `peak`, then down to `final` along a cosine; `restarts` is the number of
---falls, each from the peak.
---@param opts { peak: number, warmup?: number, steps?: number, final?: number, cycles?: number, restarts?: integer }
---@return grpo.Schedule
function schedule.cosine(opts) end

---Linear warm-up to `peak`, then falling with the root of the step.
---@param opts { peak: number, warmup: number }
---@return grpo.Schedule
function schedule.inverse_sqrt(opts) end

---From step `at` on, `value`, until the next piece.
---@param pieces { at: number, value: number|grpo.Schedule }[]
---@return grpo.Schedule
function schedule.piecewise(pieces) end

---One schedule after the other, each counting its own steps from 0; the last needs no `steps`.
---@param parts { [1]: number|grpo.Schedule, steps?: integer }[]
---@return grpo.Schedule
function schedule.chain(parts) end

---The KL coefficient that steers KL towards `target` (1909.08593).
---@param opts { initial: number, target: number, horizon: number, sequences?: number }
---@return grpo.Schedule
function schedule.adaptive_kl(opts) end

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

return schedule
