-- schedule.lua - numbers that change during training.
--
-- A schedule is a pure function of `p`: p.step (0 at a stage's first step), p.steps, p.tokens
-- (completion tokens trained on so far), p.fraction (0..1) and p.metrics (of the last step).
-- A plain number is allowed wherever a schedule is.
--
-- A span in `steps` or `tokens` counts from 0; the default is the whole stage.  The types of the
-- parameters are in lua/grpo/meta/schedule.lua.

local options = require "grpo.options"

local schedule = {}

local number = { type = "number", required = true }
local span = { type = "number", above = 0 }

-- Returns the part of a span that has passed, 0..1.
local function progress(p, o)
  local x
  if o.steps then
    x = p.step / o.steps
  elseif o.tokens then
    x = p.tokens / o.tokens
  elseif p.steps and p.steps > 0 then
    x = p.step / p.steps
  else
    x = p.fraction or 0
  end
  return math.min(math.max(x, 0), 1)
end

local function one_span(o, where)
  if o.steps and o.tokens then error(where .. ": give steps or tokens, not both", 3) end
end

-- Returns a schedule's value; numbers are constant schedules.
local function at(s, p)
  if type(s) == "number" then return s end
  return s(p)
end

local function is_schedule(s)
  local meta = getmetatable(s)
  if type(s) == "number" or type(s) == "function" then return true end
  return type(meta) == "table" and meta.__call ~= nil
end

--- Always v.
function schedule.constant(v)
  if type(v) ~= "number" then error("schedule.constant: wants a number, got a " .. type(v), 2) end
  return function() return v end
end

--- From `from` to `to` in a straight line, then `to`.  With power = 2, 3, ... as the distance
--- still to go to that power (the polynomial schedule of transformers).
function schedule.linear(opts)
  local o = options.check(opts, {
    from = number, to = number, steps = span, tokens = span,
    power = { type = "number", default = 1, above = 0 },
  }, "schedule.linear")
  one_span(o, "schedule.linear")
  return function(p) return o.to + (o.from - o.to) * (1 - progress(p, o)) ^ o.power end
end

--- From `from` up to `to` in a straight line, then constant.
function schedule.warmup(opts)
  local o = options.check(opts, {
    from = { type = "number", default = 0 }, to = number, steps = span, tokens = span,
  }, "schedule.warmup")
  one_span(o, "schedule.warmup")
  return function(p)
    local x = progress(p, o)
    return x < 1 and o.from + (o.to - o.from) * x or o.to
  end
end

--- Linear warm-up from 0 to `peak`, then down to `final` along a cosine: that of transformers.
--- `cycles` is the number of waves (0.5: peak to final, once); `restarts` instead is the number of
--- falls, each from the peak.  As there, a plain cosine climbs again past `steps`: chain it with a
--- constant when the stage is longer.
--- `warmup` is in steps; `steps` is the end, warm-up included, by default the stage's last step.
function schedule.cosine(opts)
  local o = options.check(opts, {
    peak = number,
    warmup = { type = "number", default = 0, min = 0 },
    steps = span,
    final = { type = "number", default = 0 },
    cycles = { type = "number", default = 0.5, above = 0 },
    restarts = { type = "integer", min = 1 },
  }, "schedule.cosine")
  return function(p)
    if p.step < o.warmup then return o.peak * p.step / math.max(1, o.warmup) end
    local total = o.steps or p.steps
    local x = (p.step - o.warmup) / math.max(1, total - o.warmup)
    local wave = 2 * o.cycles * x
    if o.restarts then
      if x >= 1 then return o.final end
      wave = o.restarts * x % 1
    end
    return o.final + (o.peak - o.final) * math.max(0, 0.5 * (1 + math.cos(math.pi * wave)))
  end
end

--- Linear warm-up to `peak`, then falling with the root of the step.
function schedule.inverse_sqrt(opts)
  local o = options.check(opts, {
    peak = number, warmup = { type = "number", required = true, above = 0 },
  }, "schedule.inverse_sqrt")
  return function(p)
    if p.step < o.warmup then return o.peak * p.step / o.warmup end
    return o.peak * math.sqrt(o.warmup / p.step)
  end
end

--- Constant pieces: from step `at` on, `value` (a number or a schedule), until the next piece.
function schedule.piecewise(pieces)
  if type(pieces) ~= "table" or #pieces == 0 then
    error("schedule.piecewise: wants a list of { at =, value = }", 2)
  end
  local list = {}
  for i, piece in ipairs(pieces) do
    local where = ("schedule.piecewise[%d]"):format(i)
    local o = options.check(piece, {
      at = { type = "number", required = true, min = 0 }, value = { required = true },
    }, where)
    if not is_schedule(o.value) then error(where .. ".value: wants a number or a schedule", 2) end
    if i > 1 and o.at <= list[i - 1].at then
      error(where .. ".at: must be more than the one before", 2)
    end
    list[i] = o
  end
  return function(p)
    local value = list[1].value
    for _, piece in ipairs(list) do
      if p.step >= piece.at then value = piece.value end
    end
    return at(value, p)
  end
end

--- One schedule after the other, each seeing its own steps counted from 0.  The last needs no
--- `steps`: it lasts to the end of the stage, and so it does if it has.
function schedule.chain(parts)
  if type(parts) ~= "table" or #parts == 0 then
    error("schedule.chain: wants a list of { schedule, steps = }", 2)
  end
  local list = {}
  for i, part in ipairs(parts) do
    local where = ("schedule.chain[%d]"):format(i)
    local o = options.check(part, {
      { required = true }, steps = { type = "integer", min = 1, required = i < #parts },
    }, where)
    if not is_schedule(o[1]) then error(where .. ": wants a number or a schedule first", 2) end
    list[i] = o
  end
  return function(p)
    local start = 0
    for i, part in ipairs(list) do
      local steps = part.steps or math.max(1, (p.steps or 0) - start)
      if p.step < start + steps or i == #list then
        local mine = { step = p.step - start, steps = steps,
          fraction = math.min((p.step - start) / steps, 1) }
        return at(part[1], setmetatable(mine, { __index = p }))
      end
      start = start + steps
    end
  end
end

--- The KL coefficient that steers KL towards `target` (1909.08593).  It reads the last step's
--- p.metrics.kl and p.metrics.beta, and p.metrics.num_sequences, so it has no state of its own.
--- `horizon` is in sequences; `sequences` are those of one step, where the metrics do not say.
function schedule.adaptive_kl(opts)
  local o = options.check(opts, {
    initial = { type = "number", required = true, above = 0 },
    target = { type = "number", required = true, above = 0 },
    horizon = { type = "number", required = true, above = 0 },
    sequences = { type = "number", default = 1, above = 0 },
  }, "schedule.adaptive_kl")
  return function(p)
    local m = p.metrics or {}
    -- A coefficient of 0 could never grow, because it is multiplied.
    if not m.kl or not m.beta or m.beta == 0 then return o.initial end
    local off = math.min(math.max(m.kl / o.target - 1, -0.2), 0.2)
    return m.beta * (1 + off * (m.num_sequences or o.sequences) / o.horizon)
  end
end

--- The product of two schedules, or of a schedule and a number.
function schedule.product(a, b)
  if not is_schedule(a) or not is_schedule(b) then
    error("schedule.product: wants two schedules or numbers", 2)
  end
  return function(p) return at(a, p) * at(b, p) end
end

return schedule
