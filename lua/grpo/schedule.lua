-- schedule.lua - numbers that change during training.
--
-- A schedule is a pure function of `p`: p.step (0 at a stage's first step), p.steps, p.update
-- (updates of the stage before this one), p.updates, p.update_tokens (tokens that these updates
-- trained on, each as often as one did), p.tokens (completion tokens of the steps before),
-- p.fraction (0..1) and p.metrics (of the last step).  A plain number is allowed wherever a
-- schedule is.
--
-- `over` is what a schedule counts: "step" (the default), "update" or "tokens".  A schedule over
-- updates or tokens is evaluated before each update, another once a step.  A span in `steps`,
-- `updates` or `tokens` counts from 0; the default is the whole stage.  The types of the parameters
-- are in lua/grpo/meta/schedule.lua.

local options = require "grpo.options"

local schedule = {}

-- ---- what is counted ---------------------------------------------------------------------------

local number = { type = "number", required = true }
local span = { type = "number", above = 0 }
local ratio = { type = "number", min = 0, max = 1 }
local over = { type = "string", one_of = { "step", "update", "tokens" } }

-- By unit: the fields of p with the place and the end, and the option that names the end.  "once":
-- p.tokens, which does not change between the updates of a step.
local units = {
  step = { at = "step", total = "steps", span = "steps" },
  update = { at = "update", total = "updates", span = "updates" },
  tokens = { at = "update_tokens", span = "tokens" },
  once = { at = "tokens", span = "tokens" },
}

-- [schedule] = true: it is evaluated before each update.
local evaluated_often = setmetatable({}, { __mode = "k" })

-- Marks f as evaluated before each update if `unit` or one of the schedules in it asks for that.
local function mark(f, unit, ...)
  local often = unit == "update" or unit == "tokens"
  for i = 1, select("#", ...) do often = often or evaluated_often[(select(i, ...))] end
  evaluated_often[f] = often or nil
  return f
end

-- Checks the spans of o and returns what it counts, with its end: { at =, total =, last = or nil }.
-- needs_end: without a span or a planned number there is no schedule.
local function counted(o, where, needs_end)
  local given
  for _, name in ipairs { "steps", "updates", "tokens" } do
    if o[name] and given then
      error(("%s: give %s or %s, not both"):format(where, given, name), 3)
    end
    given = o[name] and name or given
  end
  local unit = o.over or given == "updates" and "update" or given == "tokens" and "once" or "step"
  if given and given ~= units[unit].span then
    error(("%s.%s: over = \"%s\" counts %s; give %s"):format(where, given, unit, units[unit].span,
      units[unit].span), 3)
  end
  if needs_end and not given and not units[unit].total then
    error(("%s.tokens: is required, because a run does not know its tokens beforehand"):format(
      where), 3)
  end
  return { unit = unit, at = units[unit].at, total = units[unit].total, last = given and o[given] }
end

-- The place of p, and its end or nil.
local function place(p, c)
  return p[c.at] or 0, c.last or c.total and p[c.total]
end

-- The length of a warm-up: `warmup`, or warmup_ratio of the whole, rounded up as transformers does.
local function warmup_of(o, total)
  return o.warmup_ratio and math.ceil(o.warmup_ratio * (total or 0)) or o.warmup or 0
end

-- Before a stage begins (p.too_long is there) it is told of a warm-up that it has no time for.
local function note_warmup(p, warmup, c)
  local time = c.total and p[c.total]
  if p.too_long and time and warmup > time then
    p.too_long(("its warm-up takes %g %ss, but the stage has %g, so it never ends; make it "
      .. "shorter, or give warmup_ratio"):format(warmup, c.unit, time))
  end
end

local function one_warmup(o, where, level)
  if o.warmup and o.warmup_ratio then
    error(where .. ": give warmup or warmup_ratio, not both", level + 1)
  end
end

local function within(x)
  return math.min(math.max(x, 0), 1)
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

--- A schedule of your own that counts updates or tokens: f(p) is called before each update, and not
--- once a step.
function schedule.over(unit, f)
  if not units[unit] or unit == "once" then
    error(('schedule.over: wants "step", "update" or "tokens", got %s'):format(tostring(unit)), 2)
  end
  if type(f) ~= "function" then
    error("schedule.over: wants a function(p), got a " .. type(f), 2)
  end
  return mark(function(p) return f(p) end, unit)
end

--- Whether a schedule is evaluated before each update, and not once a step.
function schedule.is_per_update(s)
  return s ~= nil and evaluated_often[s] == true
end

-- ---- the schedules -----------------------------------------------------------------------------

--- Always v.
function schedule.constant(v)
  if type(v) ~= "number" then error("schedule.constant: wants a number, got a " .. type(v), 2) end
  return function() return v end
end

-- The part of the way from the end of the warm-up to the end that has passed, 0..1.
local function progress(p, now, total, warmup)
  if not total or total <= 0 then return within(p.fraction or 0) end
  if total <= warmup then return 1 end
  return within((now - warmup) / (total - warmup))
end

-- Rises from 0 to `top` during the warm-up; later its value is after(now, total, warmup, p).
local function after_warmup(o, where, top, after)
  one_warmup(o, where, 3)
  local c = counted(o, where, true)
  return mark(function(p)
    local now, total = place(p, c)
    local warmup = warmup_of(o, total)
    note_warmup(p, warmup, c)
    if now < warmup then return top * now / math.max(1, warmup) end
    return after(now, total, warmup, p)
  end, c.unit)
end

--- From `from` to `to` in a straight line, then `to`.  With power = 2, 3, ... as the distance
--- still to go to that power (the polynomial schedule of transformers).  With a warm-up it rises
--- from 0 to `from` first, and the end counts the warm-up too.
function schedule.linear(opts)
  local where = "schedule.linear"
  local o = options.check(opts, {
    from = number, to = number, over = over, steps = span, updates = span, tokens = span,
    warmup = { type = "number", min = 0 }, warmup_ratio = ratio,
    power = { type = "number", default = 1, above = 0 },
  }, where)
  return after_warmup(o, where, o.from, function(now, total, warmup, p)
    return o.to + (o.from - o.to) * (1 - progress(p, now, total, warmup)) ^ o.power
  end)
end

--- From `from` up to `to` in a straight line, then constant.  The span is that of the rise;
--- warmup_ratio instead is its share of the stage.
function schedule.warmup(opts)
  local where = "schedule.warmup"
  local o = options.check(opts, {
    from = { type = "number", default = 0 }, to = number, over = over, steps = span,
    updates = span, tokens = span, warmup_ratio = ratio,
  }, where)
  local c = counted(o, where, true)
  if o.warmup_ratio and c.last then
    error(("%s: give %s or warmup_ratio, not both"):format(where, units[c.unit].span), 2)
  end
  return mark(function(p)
    local now, total = place(p, c)
    if o.warmup_ratio then total = math.max(1, warmup_of(o, total)) end
    note_warmup(p, total or 0, c)
    local x = progress(p, now, total, 0)
    return x < 1 and o.from + (o.to - o.from) * x or o.to
  end, c.unit)
end

--- Linear warm-up from 0 to `peak`, then down to `final` along a cosine: that of transformers.
--- `cycles` is the number of waves (0.5: peak to final, once); `restarts` instead is the number of
--- falls, each from the peak.  As there, a plain cosine climbs again past its end: chain it with a
--- constant when the stage is longer.
--- `warmup` counts what `over` says, or warmup_ratio is its share of the whole; the end, `steps`,
--- `updates` or `tokens`, includes the warm-up and is by default the stage's.
function schedule.cosine(opts)
  local where = "schedule.cosine"
  local o = options.check(opts, {
    peak = number,
    warmup = { type = "number", min = 0 }, warmup_ratio = ratio,
    over = over, steps = span, updates = span, tokens = span,
    final = { type = "number", default = 0 },
    cycles = { type = "number", default = 0.5, above = 0 },
    restarts = { type = "integer", min = 1 },
  }, where)
  return after_warmup(o, where, o.peak, function(now, total, warmup)
    local x = (now - warmup) / math.max(1, total - warmup)
    local wave = 2 * o.cycles * x
    if o.restarts then
      if x >= 1 then return o.final end
      wave = o.restarts * x % 1
    end
    return o.final + (o.peak - o.final) * math.max(0, 0.5 * (1 + math.cos(math.pi * wave)))
  end)
end

--- Linear warm-up to `peak`, then falling with the root of the step, update or token.
function schedule.inverse_sqrt(opts)
  local where = "schedule.inverse_sqrt"
  local o = options.check(opts, {
    peak = number, warmup = span, warmup_ratio = ratio, over = over,
  }, where)
  one_warmup(o, where, 2)
  if not o.warmup and not o.warmup_ratio then error(where .. ".warmup: is required", 2) end
  local c = counted(o, where, o.warmup_ratio ~= nil)
  return mark(function(p)
    local now, total = place(p, c)
    local warmup = o.warmup or math.max(1, warmup_of(o, total))
    note_warmup(p, warmup, c)
    if now < warmup then return o.peak * now / warmup end
    return o.peak * math.sqrt(warmup / now)
  end, c.unit)
end

-- The list of a piecewise or chain without its option `over`, and what it counts.
local function pieces_of(list, where)
  local c = counted(options.check({ over = list.over }, { over = over }, where, 4), where)
  local rest = {}
  for key, value in pairs(list) do
    if key ~= "over" then rest[key] = value end
  end
  return rest, c
end

--- Constant pieces: from step `at` on, `value` (a number or a schedule), until the next piece.
--- With over = "update" or "tokens" beside the pieces, `at` counts that.
function schedule.piecewise(pieces)
  local where = "schedule.piecewise"
  if type(pieces) ~= "table" or #pieces == 0 then
    error(where .. ": wants a list of { at =, value = }", 2)
  end
  local given, c = pieces_of(pieces, where)
  local list, values = {}, {}
  for i, piece in ipairs(given) do
    local name = ("%s[%d]"):format(where, i)
    local o = options.check(piece, {
      at = { type = "number", required = true, min = 0 }, value = { required = true },
    }, name)
    if not is_schedule(o.value) then error(name .. ".value: wants a number or a schedule", 2) end
    if i > 1 and o.at <= list[i - 1].at then
      error(name .. ".at: must be more than the one before", 2)
    end
    list[i], values[i] = o, o.value
  end
  return mark(function(p)
    local now, value = place(p, c), list[1].value
    for _, piece in ipairs(list) do
      if now >= piece.at then value = piece.value end
    end
    return at(value, p)
  end, c.unit, table.unpack(values))
end

--- One schedule after the other, each seeing its own steps counted from 0.  The last needs no
--- `steps`: it lasts to the end of the stage, and so it does if it has.  With over = "update" or
--- "tokens" beside the parts, `steps` is a number of these, and that is what is counted from 0.
function schedule.chain(parts)
  local where = "schedule.chain"
  if type(parts) ~= "table" or #parts == 0 then
    error(where .. ": wants a list of { schedule, steps = }", 2)
  end
  local given, c = pieces_of(parts, where)
  local list, inner = {}, {}
  for i, part in ipairs(given) do
    local name = ("%s[%d]"):format(where, i)
    local o = options.check(part, {
      { required = true }, steps = { type = "integer", min = 1, required = i < #given },
    }, name)
    if not is_schedule(o[1]) then error(name .. ": wants a number or a schedule first", 2) end
    list[i], inner[i] = o, o[1]
  end
  return mark(function(p)
    local now, total = place(p, c)
    local start = 0
    for i, part in ipairs(list) do
      local length = part.steps or math.max(1, (total or 0) - start)
      if now < start + length or i == #list then
        local mine = { [c.at] = now - start, fraction = math.min((now - start) / length, 1) }
        if c.total then mine[c.total] = length end
        return at(part[1], setmetatable(mine, { __index = p }))
      end
      start = start + length
    end
  end, c.unit, table.unpack(inner))
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

--- The coefficient of an entropy bonus that keeps the entropy from falling below `target`
--- (Skywork-OR1, 2505.22312).  After a step whose entropy is at most `target` it rises by `delta`,
--- and after another it falls by as much, within `min` and `max`.  It is applied only after a step
--- of the first kind; otherwise the value is 0.  The second result is the coefficient, which
--- becomes p.metrics.entropy_coef, so the schedule has no state of its own.
function schedule.adaptive_entropy(opts)
  local where = "schedule.adaptive_entropy"
  local o = options.check(opts, {
    initial = { type = "number", default = 0 },
    target = { type = "number", required = true },
    delta = { type = "number", default = 0.005, min = 0 },
    min = { type = "number", default = 0 }, max = { type = "number", default = 1 },
  }, where)
  if o.min > o.max then error(("%s.min: %g is above max, %g"):format(where, o.min, o.max), 2) end
  return function(p)
    local m = p.metrics or {}
    local coef = m.entropy_coef
    if not coef or not m.entropy then return 0.0, o.initial end
    if m.entropy > o.target then return 0.0, math.max(coef - o.delta, o.min) end
    coef = math.min(coef + o.delta, o.max)
    return coef, coef
  end
end

--- The product of two schedules, or of a schedule and a number.
function schedule.product(a, b)
  if not is_schedule(a) or not is_schedule(b) then
    error("schedule.product: wants two schedules or numbers", 2)
  end
  return mark(function(p) return at(a, p) * at(b, p) end, nil, a, b)
end

-- ---- schedules as text -------------------------------------------------------------------------
--
--   schedule = NUMBER | NAME [":" item {"," item}]
--   item     = [KEY "="] value
--   value    = NUMBER | WORD | "(" schedule ")"
--
-- NAME is a function of this module, and KEY a field of its options.  constant and product have
-- values without keys.  In piecewise KEY is the step from which a value holds, in chain the number
-- of steps that it lasts, which the last one may leave out; over=update counts updates there:
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
  for spot, sign in text:gmatch("()([(),])") do
    depth = depth + (sign == "(" and 1 or sign == ")" and -1 or 0)
    if depth < 0 then break end
    if sign == "," and depth == 0 then
      list[#list + 1], from = text:sub(from, spot - 1), spot + 1
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

-- Moves the item over=UNIT of a list to the list's field.
local function take_over(items, list)
  for i, item in ipairs(items) do
    if item.key == "over" then list.over = table.remove(items, i).value end
  end
  return list
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
  local list = take_over(items, {})
  for i, item in ipairs(items) do list[i] = { at = step_of(item), value = item.value } end
  return list
end

function arguments.chain(items)
  local list = take_over(items, {})
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

local not_in_texts = { parse = true, text = true, over = true, is_per_update = true }

local function names()
  local list = {}
  for name in pairs(schedule) do
    if not not_in_texts[name] then list[#list + 1] = name end
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
    if value == "" then refuse((text:gsub(":$", "")), "item %d is empty", i) end
    items[i] = { key = key, value = value_of(value, depth), text = value }
  end
  local made = table.pack(pcall(schedule[name], (arguments[name] or function(list)
    return named(name, list)
  end)(items)))
  if made[1] then return made[2] end
  -- the constructor's own words, without the line that called it
  local message = tostring(made[2]):gsub("^[^\n]-:%d+: ", ""):gsub("^schedule%.[%w_]+[.:]? ?", "")
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
