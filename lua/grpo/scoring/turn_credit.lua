-- Advantages of turns: GiGPO (2505.10978).  The turns of a group that began in the same state of
-- the environment are compared with one another, by their discounted returns; each turn's advantage
-- is added to those of its tokens.

local core = require "grpo.core"
local statistics = require "grpo.statistics"

local turn_credit = {}

local TINY = 1e-4 -- added to a standard deviation, as in core.advantages

-- The turns of the model in one group, in order, as { c =, part =, value = return }.
local function turns_of(group, discount)
  local list = {}
  for _, c in ipairs(group) do
    local at, value = #list + 1, 0.0
    for i = #c.parts, 1, -1 do
      local part = c.parts[i]
      if part.role == "assistant" then
        value = (part.reward or 0.0) + discount * value
        table.insert(list, at, { c = c, part = part, value = value })
      end
    end
  end
  return list
end

-- Sets turn.advantage of these turns, all from one state.  deviation: of the whole step's returns,
-- with scale = "batch".
local function compare(turns, o, deviation)
  local returns = {}
  for i, turn in ipairs(turns) do returns[i] = turn.value end
  local list = core.advantages(returns, { group = #turns, baseline = o.baseline,
    scale = deviation and "none" or o.scale })
  for i, turn in ipairs(turns) do
    turn.advantage = deviation and list[i] / (deviation + TINY) or list[i]
  end
end

-- Adds turn.advantage to the tokens of the turn.
local function spread(turn, weight)
  local c, part = turn.c, turn.part
  if type(c.advantage) ~= "table" then
    local whole, list = c.advantage, {}
    for t = 1, c.length do list[t] = whole end
    c.advantage = list
  end
  for t = part.first, math.min(part.last, c.length) do
    c.advantage[t] = c.advantage[t] + weight * turn.advantage
  end
end

-- Adds the advantages of turns to c.advantage, which becomes a list with a number for each token.
-- o: the options train.advantage.
function turn_credit.add(o, completions)
  if o.turn_weight == 0 then return end
  local by_state, returns = {}, {}
  for _, c in ipairs(completions) do
    for _, turn in ipairs(c.index == 1 and turns_of(c.group, o.turn_discount) or {}) do
      local state = ("%p %s"):format(c.group, turn.part.state)
      if not by_state[state] then
        by_state[state] = {}
        by_state[#by_state + 1] = by_state[state]
      end
      table.insert(by_state[state], turn)
      returns[#returns + 1] = turn.value
    end
  end
  local whole = o.scale == "batch" and o.baseline ~= "none" and #returns > 1
  local deviation = whole and statistics.std(returns) or nil
  for _, turns in ipairs(by_state) do
    compare(turns, o, deviation)
    for _, turn in ipairs(turns) do spread(turn, o.turn_weight) end
  end
end

return turn_credit
