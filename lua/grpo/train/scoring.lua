-- From completions to reward columns: calls the reward functions, one protected and limited call
-- each.
--
-- An entry is { name=, weight=, fn= | group_fn= | token_fn= }.  What it returns is
-- checked here: a number or boolean, nil ("does not apply"), never NaN or an infinity.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"
local schedule_value = require "grpo.experiment.schedule_value"

local scoring = {}

local entry_fields = { "name", "weight", "fn", "group_fn", "token_fn" }

local function complain(where, format, ...)
  error(errors.new("EARG", format:format(...), where), 0)
end

local function check_entry(entry, where)
  for key in pairs(entry) do
    if not options.among(key, entry_fields) then
      complain(where, "rewards.%s.%s: unknown option%s", entry.name, tostring(key),
        options.hint(key, entry_fields))
    end
  end
  local kinds = 0
  for _, kind in ipairs { "fn", "group_fn", "token_fn" } do
    local f = entry[kind]
    if f ~= nil then kinds = kinds + 1 end
    if f ~= nil and type(f) ~= "function" then
      complain(where, "rewards.%s.%s: got %s, want a function", entry.name, kind, type(f))
    end
  end
  if kinds ~= 1 then
    complain(where, "rewards.%s: want exactly one of fn, group_fn and token_fn", entry.name)
  end
  local weight = entry.weight
  if weight ~= nil and type(weight) ~= "function"
    and (type(weight) ~= "number" or weight - weight ~= 0) then
    complain(where, "rewards.%s.weight: got %s, want a finite number or a schedule", entry.name,
      tostring(weight))
  end
end

-- The rewards option as a list of entries: list items in order ("reward1", ...), then named ones by
-- name.
function scoring.entries(rewards, where)
  local list, names = {}, {}
  for i, v in ipairs(rewards or {}) do
    local entry = type(v) == "function" and { fn = v } or v
    if type(entry) ~= "table" then
      complain(where, "rewards[%d]: got %s, want a function or an entry", i, type(v))
    end
    list[#list + 1] = { name = entry.name or "reward" .. i, source = entry }
  end
  for name in pairs(rewards or {}) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local v = rewards[name]
    local entry = type(v) == "function" and { fn = v } or v
    if type(entry) ~= "table" then
      complain(where, "rewards.%s: got %s, want a function or an entry", name, type(v))
    end
    list[#list + 1] = { name = entry.name or name, source = entry }
  end
  local seen = {}
  for i, item in ipairs(list) do
    if type(item.name) ~= "string" or item.name == "" then
      complain(where, "rewards: the name of entry %d is %s, want a string", i,
        item.name == "" and "empty" or type(item.name))
    end
    local entry = { name = item.name }
    for k, v in pairs(item.source) do entry[k] = v end
    check_entry(entry, where)
    entry.label = "rewards." .. entry.name -- in messages
    if seen[entry.name] then complain(where, "rewards: two entries are named '%s'", entry.name) end
    seen[entry.name] = true
    list[i] = entry
  end
  return list
end

-- The sum of the rewards that the environment gave; nil if there is no environment.
function scoring.of_environment(_, _, c)
  return c.environment and c.environment.reward
end

-- A host's entries beside those of the script: in place of one of the same name, else after them.
function scoring.with_host(list, entries)
  for _, entry in ipairs(entries) do
    local at = #list + 1
    for i, own in ipairs(list) do
      if own.name == entry.name then at = i end
    end
    list[at] = entry
  end
  return list
end

-- ---- one value -------------------------------------------------------------------

local function number_of(v, what)
  if v == nil or v == core.none then return core.none end
  if v == true then return 1 end
  if v == false then return 0 end
  if type(v) ~= "number" then
    error(("%s returned a %s; a reward is a number, a boolean or nil"):format(what, type(v)), 0)
  end
  if v ~= v or v == math.huge or v == -math.huge then
    error(("%s returned %s; a reward must be finite"):format(what, tostring(v)), 0)
  end
  return v
end

local function shorten(text)
  text = text:gsub("%s+", " ")
  return #text > 60 and text:sub(1, 57) .. "..." or text
end

-- An error with the name of the reward and the completion that it failed on.
local function failure(entry, c, err)
  local name = "rewards." .. entry.name .. ": "
  local text = tostring(err)
  local at = text:find(name, 1, true)
  if at then text = text:sub(1, at - 1) .. text:sub(at + #name) end
  if type(err) == "table" and err.code == "ELIMIT"
    and not text:find("is not available in rewards", 1, true) then
    text = text
      .. ": a loop that does not end?  If not, raise limits.reward, or set reward.on_error"
  end
  local message = ("%s%s (completion: \"%s\")"):format(name, text, shorten(c.text))
  local e = core.error("ESCRIPT", message)
  e.fatal = type(err) == "table" and err.fatal or nil
  e.traceback = type(err) == "table" and err.traceback or nil
  return e
end

-- Each call has c.rng as math.random's stream.
local function call(limits, entry, f, c, ...)
  core.reseed_math(c.rng)
  return core.limited(limits, entry.label or "rewards." .. entry.name, f, ...)
end

local function definition(f)
  local info = debug.getinfo(f, "S")
  if info.what == "C" then return "the host" end
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

-- The columns beside a reward go into completions.jsonl; what JSON cannot hold is refused here,
-- where it came from.
local function keep_extra(c, entry, extra)
  local ok, problem = pcall(core.json_encode, extra)
  if type(extra) ~= "table" or not ok then
    error(("%s: the columns (second result): %s"):format(definition(entry.fn),
      ok and "got a " .. type(extra) .. ", want a table" or tostring(problem)), 0)
  end
  c.extra = c.extra or {}
  for k, v in pairs(extra) do c.extra[entry.name .. "." .. tostring(k)] = v end
end

local kinds = {}

function kinds.fn(entry, limits, cs, fail)
  for _, c in ipairs(cs) do
    local ok, value, extra = call(limits, entry, entry.fn, c, c.text, c.row, c)
    local finite = ok and type(value) == "number" and value - value == 0 -- as nearly always
    if ok and not finite then
      ok, value = pcall(number_of, value, definition(entry.fn) .. ": the function")
    end
    if ok and extra ~= nil then
      local kept, problem = pcall(keep_extra, c, entry, extra)
      if not kept then ok, value = false, problem end
    end
    c.rewards[entry.name] = ok and value or fail(entry, c, value)
  end
end

function kinds.group_fn(entry, limits, cs, fail)
  local groups = {}
  for _, c in ipairs(cs) do
    if c.index == 1 then groups[#groups + 1] = c.group end
  end
  for _, group in ipairs(groups) do
    local texts = {}
    for i, c in ipairs(group) do texts[i] = c.text end
    local ok, list = call(limits, entry, entry.group_fn, group[1], texts, group[1].row, group)
    if ok and type(list) ~= "table" then
      ok, list = false,
        ("%s: group_fn returned a %s, want a list"):format(definition(entry.group_fn), type(list))
    elseif ok and #list ~= #texts then
      ok, list = false, ("%s: group_fn returned %d values for %d completions; grpo.none says "
        .. "\"does not apply\""):format(definition(entry.group_fn), #list, #texts)
    end
    for i, c in ipairs(group) do
      local good, value = ok, list
      if ok then
        good, value = pcall(number_of, list[i], definition(entry.group_fn) .. ": item " .. i)
      end
      c.rewards[entry.name] = good and value or fail(entry, c, value)
    end
  end
end

function kinds.token_fn(entry, limits, cs, fail)
  for _, c in ipairs(cs) do
    local ok, list = call(limits, entry, entry.token_fn, c, c)
    if ok and (type(list) ~= "table" or #list ~= c.length) then
      ok, list = false, ("%s: token_fn returned %s, want a list of %d numbers"):format(
        definition(entry.token_fn), type(list) == "table" and #list .. " values"
        or "a " .. type(list), c.length)
    end
    local sum, values = 0.0, {}
    for i = 1, ok and c.length or 0 do
      local good, value = pcall(number_of, list[i], definition(entry.token_fn) .. ": token " .. i)
      if not good then ok, list = false, value break end
      values[i] = value == core.none and 0.0 or value
      sum = sum + values[i]
    end
    if ok then
      c.token_rewards = c.token_rewards or {}
      c.token_rewards[entry.name] = values
      c.rewards[entry.name] = sum
    else
      c.rewards[entry.name] = fail(entry, c, list)
    end
  end
end

-- Fills c.rewards[name] (core.none where an entry does not apply) for every completion.
-- on_error: "stop" raises; "zero" counts 0; "skip" leaves the entry out.  Returns the number of
-- errors and the seconds each entry took.
function scoring.score(entries, cs, limits, on_error)
  local errors_seen, seconds = 0, {}
  limits = core.limits(limits)
  local function fail(entry, c, err)
    local e = failure(entry, c, err)
    if on_error == "stop" or e.fatal then
      core.reseed_math(nil)
      error(e, 0)
    end
    errors_seen = errors_seen + 1
    c.errors = c.errors or {}
    c.errors[entry.name] = tostring(e)
    return on_error == "zero" and 0.0 or core.none
  end
  for _, entry in ipairs(entries) do
    local started = core.clock()
    local kind = entry.fn and "fn" or entry.group_fn and "group_fn" or "token_fn"
    kinds[kind](entry, limits, cs, fail)
    seconds[entry.name] = core.clock() - started
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
  local failures, seconds = scoring.score(entries, completions, config.limits.reward,
    config.reward.on_error)
  for _, c in ipairs(completions) do
    c.reward = core.total_reward(c.rewards, entries, weights, config.reward.clip)
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
