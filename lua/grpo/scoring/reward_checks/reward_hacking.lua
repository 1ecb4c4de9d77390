-- Signs that a policy earns its reward in an unintended way: a sentence, and the completion that
-- shows it.
--
--   held_out     the reward rises while the held-out metric falls (held_out.lua)
--   saturated    nearly all completions earn the highest value of one entry, and another has not
--                risen
--   length       completions grow (or shrink) and within groups the longer (shorter) ones win
--   repetition   the winners repeat themselves more than at first
--   one_string   the same text wins in most groups, whatever the prompt, or is all that is left
--   nothing      an entry gives nil where 0 must have been meant
--
-- A sign must hold for WINDOW steps in a row.  It is told once, and again only after it was gone,
-- AGAIN steps later at the earliest.

local core = require "grpo.core"
local held_out = require "grpo.scoring.reward_checks.held_out"
local note_entry = require "grpo.base.note_entry"
local sorted_pairs = require "grpo.base.sorted"
local statistics = require "grpo.statistics"

local reward_hacking = {}

local WINDOW, AGAIN = 5, 100
local GRAM, CHARACTERS = 4, 8 -- lengths of runs: in words, and where there are no words

local Detector = {}
Detector.__index = Detector

function reward_hacking.detector()
  return setmetatable({ held = {}, told = {} }, Detector)
end

-- ---- statistics of completions -------------------------------------------------------

-- Returns the completion with the highest reward of each group whose rewards differ.
local function winners(cs)
  local list = {}
  for _, c in ipairs(cs) do
    if c.index == 1 then
      local best, lowest
      for _, member in ipairs(c.group) do
        if member.reward and (not best or member.reward > best.reward) then best = member end
        if member.reward and (not lowest or member.reward < lowest) then lowest = member.reward end
      end
      if best and best.reward > lowest then list[#list + 1] = best end
    end
  end
  return list
end

-- Returns the words of a text, or its characters if it hardly has any; the length of a run of them,
-- and a name for it.
local function units(text)
  local list = {}
  for word in text:gmatch("%S+") do list[#list + 1] = word end
  if #text < 20 * #list then return list, GRAM, "four words" end
  list = {}
  for character in text:gmatch("[^\x80-\xbf][\x80-\xbf]*") do list[#list + 1] = character end
  return list, CHARACTERS, "eight characters"
end

-- Returns the share of a text's runs (of four words) that occurred before, and the name of runs.
function reward_hacking.repetition(text)
  local list, n, what = units(text)
  local seen, again, count = {}, 0, 0
  for i = n, #list do
    local gram = table.concat(list, " ", i - n + 1, i)
    again, count = again + (seen[gram] and 1 or 0), count + 1
    seen[gram] = true
  end
  return count > 0 and again / count or 0.0, what
end

-- Returns the correlation of length and reward within groups; 0 where either never differs.
local function length_pays(cs)
  local xy, xx, yy = 0.0, 0.0, 0.0
  for _, c in ipairs(cs) do
    if c.index == 1 then
      local lengths, rewards = {}, {}
      for _, member in ipairs(c.group) do
        if member.reward then
          lengths[#lengths + 1], rewards[#rewards + 1] = member.length, member.reward
        end
      end
      local x, y = statistics.mean(lengths), statistics.mean(rewards)
      for i = 1, #lengths do
        local dx, dy = lengths[i] - x, rewards[i] - y
        xy, xx, yy = xy + dx * dy, xx + dx * dx, yy + dy * dy
      end
    end
  end
  return xx > 0 and yy > 0 and xy / math.sqrt(xx * yy) or 0.0
end

-- Returns the text that most groups' winners share, on different prompts, and their number.
local function commonest(list)
  local count, prompts, first = {}, {}, {}
  local best
  for _, c in ipairs(list) do
    local text = c.text:gsub("%s+", " ")
    if not prompts[c.prompt .. "\0" .. text] then
      prompts[c.prompt .. "\0" .. text] = true
      count[text], first[text] = (count[text] or 0) + 1, first[text] or c
      if not best or count[text] > count[best] then best = text end
    end
  end
  return best and first[best], best and count[best] or 0
end

local function extreme(list, field, sign)
  local found
  for _, c in ipairs(list) do
    if c[field] and (not found or sign * c[field] > sign * found[field]) then found = c end
  end
  return found
end

-- ---- rules: each returns a sentence and the completion that shows it, or nothing -----------

local rules = {}

-- Is an entry within a twentieth of its range of its highest value?
local function is_full(m)
  return m.mean >= m.highest - 0.05 * (m.highest - m.lowest)
end

-- Could an entry be higher?  One that never gave more than 0 may be a penalty, unless its name says
-- that it is what is wanted.
local function not_full(entry, m)
  return m.mean < m.highest or m.highest <= 0 and entry.name:find("correct") ~= nil
end

function rules.saturated(now, then_, cs, config)
  if #config.reward_entries < 2 then return end
  for _, entry in ipairs(config.reward_entries) do
    local name = entry.name
    local m, first = now["rewards/" .. name], then_["rewards/" .. name]
    if m and first and is_full(m) and m.mean > first.mean then
      for _, other in ipairs(config.reward_entries) do
        local o, before = now["rewards/" .. other.name], then_["rewards/" .. other.name]
        if other ~= entry and o and before and o.mean <= before.mean and not_full(other, o) then
          return ("reward '%s' is at its highest for %s completion, while '%s' is no higher than "
            .. "at first: it teaches nothing more, and may be easier to get than you meant; lower "
            .. "its weight or make it harder, and give '%s' easier prompts, partial credit or "
            .. "demonstrations first")
            :format(name, m.std == 0 and "every" or "nearly every", other.name, other.name),
            extreme(cs, "reward", 1) or cs[1]
        end
      end
    end
  end
end

function rules.length(now, then_, cs)
  local factor = now.length / math.max(then_.length, 1)
  if now.reward <= then_.reward then return end
  if factor > 2 and now.length - then_.length > 8 and now.pays > 0.5 then
    return ("completions have grown from %.0f to %.0f tokens, and within groups the longer ones "
      .. "win (correlation "
      .. "%.2f): is the reward paid for length?"):format(then_.length, now.length, now.pays),
      extreme(winners(cs), "length", 1)
  elseif factor < 0.5 and then_.length - now.length > 8 and now.pays < -0.5 then
    return ("completions have shrunk from %.0f to %.0f tokens, and within groups the shorter ones "
      .. "win (correlation "
      .. "%.2f): does the reward ask for anything?"):format(then_.length, now.length, now.pays),
      extreme(winners(cs), "length", -1)
  end
end

function rules.repetition(now, then_, cs)
  if now.repetition < 0.5 or now.repetition < then_.repetition + 0.2 then return end
  local worst, most, what
  for _, c in ipairs(winners(cs)) do
    local share, runs = reward_hacking.repetition(c.text)
    if not most or share > most then worst, most, what = c, share, runs end
  end
  return ("the completions that win repeat themselves: %.0f %% of their runs of %s came before, "
    .. "%.0f %% at first; "
    .. "try rewards.repetition")
      :format(100 * now.repetition, what or "four words", 100 * then_.repetition), worst
end

function rules.one_string(now, then_, cs)
  local list = winners(cs)
  local c, count = commonest(list)
  if #list >= 4 and count >= 4 and count >= 0.75 * #list then
    return ("the same text wins in %d of %d groups, whatever the prompt: the reward does not look "
      .. "at the question")
      :format(count, #list), c
  end
  if now.reward <= then_.reward then return end
  c = commonest(cs) -- most groups may be tied by now
  local same = 0
  for _, other in ipairs(cs) do same = same + (c and other.text == c.text and 1 or 0) end
  if select(2, commonest(cs)) < 4 or same < 0.9 * #cs then return end
  return ("%d of %d completions are the same text, whatever the prompt: the reward does not look "
    .. "at the question")
    :format(same, #cs), c
end

-- nil beside a single number in a group depends on the text, so 0 was meant.
function rules.nothing(_, _, cs, config)
  for _, entry in ipairs(config.reward_entries) do
    local missing, only, mixed, example = 0, nil, 0, nil
    for _, c in ipairs(cs) do
      local r, given = c.rewards[entry.name], 0
      if r == core.none and not (c.errors and c.errors[entry.name]) then
        missing, example = missing + 1, c
      end
      if type(r) == "number" then only = (only == nil or only == r) and r end
      for _, member in ipairs(c.index == 1 and c.group or {}) do
        if type(member.rewards[entry.name]) == "number" then given = given + 1 end
      end
      if given > 0 and given < #c.group then mixed = mixed + 1 end
    end
    if only and only ~= 0 and missing >= 0.25 * #cs and mixed >= 2 then
      return ("reward '%s' gives nil for %d of %d completions and %.4g for all others: nil leaves "
        .. "a completion out, as "
        .. "if it had not been asked; for a wrong one return 0 or false")
          :format(entry.name, missing, #cs, only),
        example
    end
  end
end

-- Returns the names of all notes.
function reward_hacking.names()
  local names = { "held_out" }
  for name in sorted_pairs(rules) do names[#names + 1] = name end
  return names
end

-- ---- over time -------------------------------------------------------------------------

-- highest, lowest: the values of each entry so far in the stage.
local function observe(metrics, cs, config, highest, lowest)
  local repetition, list = 0.0, winners(cs)
  for _, c in ipairs(list) do repetition = repetition + reward_hacking.repetition(c.text) end
  local o = { reward = metrics.reward or 0, length = metrics["completions/mean_length"] or 0,
    pays = length_pays(cs), repetition = #list > 0 and repetition / #list or nil }
  for _, entry in ipairs(config.reward_entries) do
    local name = "rewards/" .. entry.name
    local mean, std = metrics[name .. "/mean"], metrics[name .. "/std"]
    if mean and mean == mean then
      for _, c in ipairs(cs) do
        local r = c.rewards[entry.name]
        if r ~= core.none and r ~= nil then
          highest[name] = math.max(highest[name] or r, r)
          lowest[name] = math.min(lowest[name] or r, r)
        end
      end
      o[name] = { mean = mean, std = std == std and std or 0, highest = highest[name],
        lowest = lowest[name] }
    end
  end
  return o
end

-- Returns the mean of observations, field by field.
local function average(list)
  local sum = {}
  for _, o in ipairs(list) do
    for name, v in sorted_pairs(o) do
      if type(v) == "number" then
        sum[name] = (sum[name] or 0) + v / #list
      else
        sum[name] = sum[name] or { mean = 0, std = 0 }
        sum[name].mean, sum[name].std = sum[name].mean + v.mean / #list,
          sum[name].std + v.std / #list
        sum[name].highest, sum[name].lowest = v.highest, v.lowest
      end
    end
  end
  sum.repetition = sum.repetition or 0.0
  return sum
end

local function shorten(text)
  text = text:gsub("%s+", " ")
  return #text > 120 and text:sub(1, 117) .. "..." or text
end

local function sentence(line, c)
  if not c then return line end
  return ("%s%s For instance (reward %.4g) \"%s\" to the prompt \"%s\""):format(line,
    line:find("%?$") and "" or ".", c.reward or 0, shorten(c.text), shorten(c.prompt))
end

function Detector:reset(stage)
  self.stage, self.first, self.last, self.highest, self.lowest = stage, {}, {}, {}, {}
  self.held, self.told, self.gone, self.active = {}, {}, {}, {}
  if self.best then self.best.reward = nil end -- another stage's rewards may be others
end

function Detector:tell(name, step, line, c, lines)
  if not line then
    self.held[name], self.gone[name] = 0, (self.gone[name] or 0) + 1
    if self.gone[name] >= WINDOW then self.active[name] = nil end
    return
  end
  self.held[name], self.gone[name] = (self.held[name] or 0) + 1, 0
  local told = self.told[name]
  if self.held[name] >= WINDOW and not self.active[name] and (not told or step - told >= AGAIN) then
    self.told[name], self.active[name] = step, true
    lines[#lines + 1] = note_entry.added(sentence(line, c), name)
  end
end

-- Returns the lines to show after a step.  cs: its completions, with rewards.
function Detector:step(metrics, cs, config)
  local lines = {}
  if self.stage ~= metrics.stage then self:reset(metrics.stage) end
  local o = observe(metrics, cs, config, self.highest, self.lowest)
  if #self.first < WINDOW then self.first[#self.first + 1] = o end
  self.last[#self.last + 1] = o
  if #self.last > WINDOW then table.remove(self.last, 1) end
  if #self.first < WINDOW then return lines end
  local then_, now = average(self.first), average(self.last)
  for name, rule in sorted_pairs(rules) do
    local line, c = rule(now, then_, cs, config)
    self:tell(name, metrics.step or 0, line, c, lines)
  end
  return lines
end

-- Returns the lines to show after an evaluation.  The metric has fallen when its 95 % interval is
-- below that of the best one.  context: see held_out.facts.
function Detector:evaluation(report, context)
  if not report["eval/accuracy"] then return {} end
  local begun = self.last and #self.last > 0
  local best = self.best
  local now = held_out.facts(report, begun and average(self.last).reward or nil, context)
  if not best or now.low >= best.low then self.best = now end
  if not best or not begun or report["eval/accuracy/high"] >= best.low then return {} end
  best.reward = best.reward or self.first[1].reward
  local line, c = held_out.explain(best, now, report.samples)
  if not line then return {} end
  self.best = now -- told once for each fall
  return { note_entry.added(sentence(line, c), "held_out") }
end

return reward_hacking
