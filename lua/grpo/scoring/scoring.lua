-- From completions to reward columns: calls the reward functions, one protected and limited call
-- each.
--
-- The values that an entry (options/reward_entries.lua) returns are checked here: a number or
-- boolean, nil ("does not apply"), never NaN or an infinity.

local advice = require "grpo.options.scripts.advice"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local number_text = require "grpo.base.number_text"
local plain_copy = require "grpo.base.plain_copy"
local ranks = require "grpo.base.ranks"
local reward_entries = require "grpo.options.reward_entries"
local schedule_value = require "grpo.options.schedule_value"

local scoring = {}

local LARGEST = core.largest_reward
local fields = core.completion_fields -- of what core.keep_completion returns
local TEXT, ROW, RNG, LENGTH, REWARDS, GIVEN = fields.text, fields.row, fields.rng, fields.length,
  fields.rewards, fields.given

-- ---- one value -------------------------------------------------------------------

local function number_of(v, what)
  if v == nil or v == core.none then return core.none end
  if v == true then return 1 end
  if v == false then return 0 end
  if type(v) ~= "number" then
    error(("%s returned a %s; a reward is a number, a boolean or nil"):format(what, type(v)), 0)
  end
  if v ~= v or v == math.huge or v == -math.huge then
    local e = core.error("ESCRIPT", ("%s returned %s; a reward must be finite"):format(what,
      number_text(v)))
    e.nonfinite = true
    error(e, 0)
  end
  if math.abs(v) > LARGEST then
    error(("%s returned %g; a reward is at most %g in size, because advantages sum squares")
      :format(what, v, LARGEST), 0)
  end
  return v
end

local function shorten(text)
  text = text:gsub("%s+", " ")
  return #text > 60 and text:sub(1, 57) .. "..." or text
end

-- An error with the name of the reward and the completion that it failed on.
local function failure(entry, text_of_completion, err)
  local name = "rewards." .. entry.name .. ": "
  local text = tostring(err)
  local at = text:find(name, 1, true)
  if at then text = text:sub(1, at - 1) .. text:sub(at + #name) end
  if type(err) == "table" and err.code == "ELIMIT"
    and not text:find(" not available in rewards", 1, true) then
    text = text .. ": a loop that does not end?  If not, raise limits.reward"
      .. (err.fatal and ".seconds" or ", or set reward.on_error")
  end
  text = text:find("attempt to ", 1, true) and advice.on(text) or text
  local message = ("%s%s (completion: \"%s\")"):format(name, text, shorten(text_of_completion))
  local no_memory = type(err) == "table" and err.code == "ENOMEM" -- the reward did nothing wrong
  local e = core.error(no_memory and "ENOMEM" or "ESCRIPT", message)
  e.fatal = no_memory or type(err) == "table" and err.fatal or nil
  e.traceback = type(err) == "table" and err.traceback or nil
  e.nonfinite = type(err) == "table" and err.nonfinite or nil
  return e
end

-- It may take long to call all rewards, so a signal that came meanwhile ends the step here.
local function stop_at_signal()
  if not core.signal_waits() then return end
  core.reseed_math(nil)
  error(core.error("ELIMIT", "rewards: interrupted by a signal"), 0)
end

local function call(limits, entry, f, rng, ...)
  stop_at_signal()
  core.reseed_math(rng) -- the completion's own stream
  return core.limited(limits, entry.label or "rewards." .. entry.name, f, ...)
end

local function definition(f)
  local info = debug.getinfo(f, "S")
  if info.what == "C" then return "the host" end
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

local function checked_columns(extra)
  core.json_encode(extra)
  return plain_copy(extra)
end

-- The columns beside a reward go into completions.jsonl; what JSON cannot hold is refused here,
-- where it came from.  A small table may take long to write, so that this has the reward's limits.
local function keep_extra(own, entry, limits, f, extra)
  local what = definition(f) .. ": the columns (second result): "
  if type(extra) ~= "table" then error(what .. "got a " .. type(extra) .. ", want a table", 0) end
  local ok, columns = core.limited(limits, entry.label, checked_columns, extra)
  if not ok and columns.code ~= "ELIMIT" then error(what .. tostring(columns), 0) end
  if not ok then
    columns.message = what .. columns.message
    error(columns, 0)
  end
  own.extra = own.extra or {}
  for k, v in pairs(columns) do own.extra[entry.name .. "." .. tostring(k)] = v end
end

-- The kinds of entries.  Each calls give(c, value) or fail(c, err) for every completion.  A reward
-- gets the table c itself, and what it may have changed there is read from kept[c].  Lists that it
-- returns are read without their metamethods, to which its limits no longer apply.
local kinds = {}

function kinds.fn(entry, limits, cs, kept, give, fail)
  for _, c in ipairs(cs) do
    local own = kept[c]
    local ok, value, extra = call(limits, entry, entry.fn, own[RNG], own[TEXT], own[ROW], c)
    local plain = ok and type(value) == "number" and value >= -LARGEST and value <= LARGEST
    if ok and not plain then -- as it nearly never is
      ok, value = errors.try(number_of, value, definition(entry.fn) .. ": the function")
    end
    if ok and extra ~= nil then
      local stored, problem = errors.try(keep_extra, own, entry, limits, entry.fn, extra)
      if not stored then ok, value = false, problem end
    end
    if ok then give(c, value) else fail(c, value) end
  end
end

function kinds.group_fn(entry, limits, cs, kept, give, fail)
  local groups = {}
  for _, c in ipairs(cs) do
    if c.index == 1 then groups[#groups + 1] = c.group end
  end
  for _, group in ipairs(groups) do
    local texts, own, members = {}, kept[group[1]], table.move(group, 1, #group, 1, {})
    for i, c in ipairs(group) do texts[i] = kept[c][TEXT] end
    local ok, list, columns = call(limits, entry, entry.group_fn, own[RNG], texts, own[ROW], group)
    if ok and type(list) ~= "table" then
      ok, list = false,
        ("%s: group_fn returned a %s, want a list"):format(definition(entry.group_fn), type(list))
    elseif ok and rawlen(list) ~= #members then
      ok, list = false, ("%s: group_fn returned %d values for %d completions; grpo.none says "
        .. "\"does not apply\""):format(definition(entry.group_fn), rawlen(list), #members)
    elseif ok and columns ~= nil and type(columns) ~= "table" then
      ok, list = false, ("%s: group_fn: the columns (second result): got a %s, want a list"):format(
        definition(entry.group_fn), type(columns))
    end
    for i, c in ipairs(members) do
      local good, value = ok, list
      if ok then
        good, value = errors.try(number_of, rawget(list, i), definition(entry.group_fn) .. ": item "
          .. i)
      end
      local extra = good and columns and rawget(columns, i)
      if extra then
        local stored, why = errors.try(keep_extra, kept[c], entry, limits, entry.group_fn, extra)
        if not stored then good, value = false, why end
      end
      if good then give(c, value) else fail(c, value) end
    end
  end
end

-- The numbers for the tokens, none counted as 0, and their sum.
local function of_tokens(entry, list, length)
  local where = definition(entry.token_fn)
  if type(list) ~= "table" or rawlen(list) ~= length then
    error(("%s: token_fn returned %s, want a list of %d numbers"):format(where,
      type(list) == "table" and rawlen(list) .. " values" or "a " .. type(list), length), 0)
  end
  local sum, values = 0.0, {}
  for i = 1, length do
    local value = number_of(rawget(list, i), where .. ": token " .. i)
    values[i] = value == core.none and 0.0 or value
    sum = sum + values[i]
  end
  return values, number_of(sum, where .. ": token_fn, summed,")
end

function kinds.token_fn(entry, limits, cs, kept, give, fail)
  for _, c in ipairs(cs) do
    local own = kept[c]
    local ok, list = call(limits, entry, entry.token_fn, own[RNG], c)
    local sum
    if ok then ok, list, sum = errors.try(of_tokens, entry, list, own[LENGTH]) end
    if ok then
      own.token_rewards = own.token_rewards or {}
      own.token_rewards[entry.name] = list
      give(c, sum)
    else
      fail(c, list)
    end
  end
end

-- ---- all values ------------------------------------------------------------------

-- Makes the completions again what they were when they were sampled.  What a reward has changed is
-- its error.
local function restore(f, cs, kept, fail)
  for _, c in ipairs(cs) do
    local changed = core.restore_completion(c, kept[c])
    if changed then
      fail(c, ("%s: the function changed %s, which other rewards and the log read; keep what it "
        .. "computes in another field"):format(definition(f), changed))
    end
  end
end

local function score(entry, limits, cs, kept, on_error)
  local errors_seen, failed = 0, {}
  local function give(c, value)
    local own = kept[c]
    rawset(own[REWARDS], entry.name, value) -- a reward may have given it a metatable
    own[GIVEN][entry.name] = value
  end
  local function fail(c, err)
    stop_at_signal() -- it may be what ended the call
    local e = failure(entry, kept[c][TEXT], err)
    if on_error == "stop" or e.fatal then
      core.reseed_math(nil)
      error(e, 0)
    end
    if failed[c] then return end
    failed[c], errors_seen = true, errors_seen + 1
    local own = kept[c]
    own.errors = own.errors or {}
    own.errors[entry.name] = tostring(e)
    give(c, on_error == "zero" and 0.0 or core.none)
  end
  local kind, f = reward_entries.kind_of(entry)
  if entry.prepare then call(limits, entry, entry.prepare, nil, cs) end -- errors come again
  kinds[kind](entry, limits, cs, kept, give, fail)
  restore(f, cs, kept, fail)
  return errors_seen
end

-- Fills c.rewards[name] (core.none where an entry does not apply) for every completion.
-- on_error: "stop" raises; "zero" counts 0; "skip" leaves the entry out.  Returns the number of
-- errors and the seconds each entry took.
function scoring.score(entries, cs, limits, on_error)
  local errors_seen, seconds, kept = 0, {}, {}
  limits = core.limits(limits)
  cs = table.move(cs, 1, #cs, 1, {}) -- it may be a group, which rewards see
  local function keep(_, c)
    local own = core.keep_completion(c)
    own.errors, kept[c] = c.errors, own -- errors: of the environment
    return own
  end
  for _, c in ipairs(cs) do keep(kept, c) end
  setmetatable(kept, { __index = keep }) -- for others in the group
  for _, entry in ipairs(entries) do
    local started = core.clock()
    errors_seen = errors_seen + score(entry, limits, cs, kept, on_error)
    seconds[entry.name] = core.clock() - started
  end
  for c, own in pairs(kept) do
    c.errors, c.extra, c.token_rewards = own.errors, own.extra, own.token_rewards
  end
  core.reseed_math(nil)
  return errors_seen, seconds
end

-- ---- sums over the entries ---------------------------------------------------------

-- Sets c.rewards of each completion, and their weighted sum c.reward; nil where no entry applies.
-- Returns the number of errors, an environment's too, and the seconds each entry took.
function scoring.reward(config, completions, weights)
  local entries, before = config.reward_entries, 0
  for _, c in ipairs(completions) do before = before + (c.errors and 1 or 0) end
  local failures, seconds = ranks.score(entries, completions, function(own)
    return scoring.score(entries, own, config.limits.reward, config.reward.on_error)
  end)
  for _, c in ipairs(completions) do
    local total = core.total_reward(c.rewards, entries, weights, config.reward.clip)
    if total and math.abs(total) > LARGEST then
      errors.raise_at("rewards", "EARG", "the weighted sum of a completion is %g, want at most %g "
        .. "in size; lower the weights", total, LARGEST)
    end
    c.reward = total
  end
  return before + failures, seconds
end

-- The weighted rewards that token_fn entries gave to each token of c.  Injected tokens have none.
local function token_sums(entries, weights, c)
  local sums = {}
  for t = 1, c.length do sums[t] = (not c.sampled or c.sampled[t]) and 0.0 or core.none end
  for k, entry in ipairs(entries) do
    local list = c.token_rewards and c.token_rewards[entry.name]
    for t = 1, list and c.length or 0 do
      if sums[t] ~= core.none then sums[t] = sums[t] + weights[k] * list[t] end
    end
  end
  return sums
end

-- Rewards of whole completions, core.none where none applies, and of tokens: two lists, one item
-- for each completion.  nil if no entry rewards tokens.
function scoring.apart(entries, completions, weights)
  local others, their_weights, wholes, tokens = {}, {}, {}, {}
  for k, entry in ipairs(entries) do
    if not entry.token_fn then
      others[#others + 1], their_weights[#others + 1] = entry, weights[k]
    end
  end
  if #others == #entries then return nil end
  for i, c in ipairs(completions) do
    local sum = core.total_reward(c.rewards, others, their_weights)
    if c.kl_penalty and c.reward ~= nil then sum = (sum or 0.0) - c.kl_penalty end
    wholes[i], tokens[i] = sum or core.none, token_sums(entries, weights, c)
  end
  return wholes, tokens
end

-- Weights at this step: numbers, or schedules called with p.
function scoring.weights(config, p)
  local weights = {}
  for i, entry in ipairs(config.reward_entries) do
    weights[i] = schedule_value(config, ("rewards.%s.weight"):format(entry.name),
      entry.weight or 1.0, p)
  end
  return weights
end

-- c.reward of the completions to which an entry applies.
function scoring.rewards(completions)
  local list = {}
  for _, c in ipairs(completions) do list[#list + 1] = c.reward end
  return list
end

-- The rewards of one entry for the completions that it applies to.
function scoring.column(cs, name)
  local values = {}
  for _, c in ipairs(cs) do
    local r = c.rewards[name]
    if r ~= core.none then values[#values + 1] = r end
  end
  return values
end

return scoring
