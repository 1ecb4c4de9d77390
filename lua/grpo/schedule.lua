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

-- ---- schedules as text -------------------------------------------------------------------------
--
--   schedule = NUMBER | NAME [":" item {"," item}]
--   item     = [KEY "="] value
--   value    = NUMBER | WORD | "(" schedule ")"
--
-- NAME is a function of this module, and KEY a field of its options.  constant and product have
-- values without keys.  In piecewise KEY is the step from which a value holds, in chain the number
-- of steps that it lasts, which the last one may leave out:
--   cosine:peak=1e-4,warmup=20      piecewise:0=1e-4,100=5e-5      product:2,(linear:from=1,to=0)
--   chain:20=(warmup:to=1e-4),100=1e-4,(linear:from=1e-4,to=0)

local LONGEST, DEEPEST = 2000, 8 -- bytes of a text, schedules within one another

local texts = setmetatable({}, { __mode = "k" }) -- [schedule] = the text that it was made of

local function refuse(part, format, ...)
  error({ part = part, message = format:format(...) }, 0)
end

-- Splits at the commas that stand outside of parentheses.
local function items_of(text)
  local list, depth, from = {}, 0, 1
  for place, sign in text:gmatch("()([(),])") do
    depth = depth + (sign == "(" and 1 or sign == ")" and -1 or 0)
    if depth < 0 then break end
    if sign == "," and depth == 0 then
      list[#list + 1], from = text:sub(from, place - 1), place + 1
    end
  end
  if depth ~= 0 then refuse(text, "its parentheses do not match") end
  list[#list + 1] = text:sub(from)
  return list
end

-- A number in decimal digits; nil for other texts.
local function number_of(text)
  return text:find("^[-+.%deE]+$") and tonumber(text) or nil
end

local read -- (text, depth) -> a number or a schedule

local function value_of(text, depth)
  local inner = text:match("^%((.*)%)$")
  if inner then return read(inner, depth + 1) end
  local value = number_of(text)
  if value and value - value ~= 0 then refuse(text, "is not finite") end
  if value then return math.tointeger(value) or value end
  if text:find("^[%a_]+$") then return text end
  refuse(text, "want a number, a word or a schedule in parentheses")
end

local function step_of(item)
  local step = math.tointeger(number_of(item.key or ""))
  if not step then
    refuse(item.key or item.text, "want a whole number of steps and a = before the value")
  end
  return step
end

-- From the items of a text, { { key =, value =, text = }, ... }, to the arguments of the function.
local arguments = {}

function arguments.constant(items)
  if #items ~= 1 or items[1].key then refuse("constant", "want one number, as in constant:1e-4") end
  return items[1].value
end

function arguments.product(items)
  if #items ~= 2 or items[1].key or items[2].key then
    refuse("product", "want two values without a =, as in product:2,(cosine:peak=1)")
  end
  return items[1].value, items[2].value
end

function arguments.piecewise(items)
  local list = {}
  for i, item in ipairs(items) do list[i] = { at = step_of(item), value = item.value } end
  return list
end

function arguments.chain(items)
  local list = {}
  for i, item in ipairs(items) do
    list[i] = { item.value, steps = (item.key or i < #items) and step_of(item) or nil }
  end
  return list
end

local function named(name, items)
  local o = {}
  for _, item in ipairs(items) do
    if not item.key then refuse(item.text, "want NAME=VALUE in %s", name) end
    if o[item.key] ~= nil then refuse(item.key, "is given twice") end
    o[item.key] = item.value
  end
  return o
end

local function names()
  local list = {}
  for name in pairs(schedule) do
    if name ~= "parse" and name ~= "text" then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

function read(text, depth)
  text = text:match("^%s*(.-)%s*$")
  if depth > DEEPEST then refuse(text, "more than %d schedules within one another", DEEPEST) end
  if number_of(text) then return value_of(text, depth) end
  local name, colon, rest = text:match("^([%w_]*)%s*(:?)(.*)$")
  if not options.among(name, names()) or colon == "" and rest ~= "" then
    refuse(text, "is not a schedule, %s", options.advice(name, names()))
  end
  local items = {}
  for i, item in ipairs(colon == ":" and items_of(rest) or {}) do
    local key, value = item:match("^%s*([%w_]+)%s*=%s*(.-)%s*$")
    value = value or item:match("^%s*(.-)%s*$")
    if value == "" then refuse(text, "item %d is empty", i) end
    items[i] = { key = key, value = value_of(value, depth), text = value }
  end
  local made = table.pack(pcall(schedule[name], (arguments[name] or function(list)
    return named(name, list)
  end)(items)))
  if made[1] then return made[2] end
  -- the constructor's own words, without the line that called it
  local message = tostring(made[2]):gsub("^[^\n]-:%d+: ", ""):gsub("^schedule%.%w+[.:]? ?", "")
  refuse(name, "%s", message)
end

--- The schedule that a text says, or its number; nil and why there is none.
---@param text string
---@return number|grpo.Schedule|nil
---@return string|nil
function schedule.parse(text)
  if type(text) ~= "string" then return nil, "want a text, got a " .. type(text) end
  if #text > LONGEST then return nil, ("a schedule's text has at most %d bytes"):format(LONGEST) end
  local ok, result = pcall(read, text, 0)
  if not ok and type(result) ~= "table" then error(result, 0) end
  if not ok then
    local part = #result.part > 60 and result.part:sub(1, 57) .. "..." or result.part
    return nil, ("%s: %s"):format(part, result.message)
  end
  if type(result) == "function" then texts[result] = text end
  return result
end

--- The text that a schedule was made of; nil if a script made it.
---@param s grpo.Schedule
---@return string|nil
function schedule.text(s)
  return texts[s]
end

return schedule
