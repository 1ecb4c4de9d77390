-- rewards/repetition.lua - a penalty for saying the same thing again.

local options = require "grpo.options"

local repetition = {}

-- Numbers equal items equally, 1, 2, ... in order of appearance; returns their number too.
-- Works in place, so that a megabyte of text needs one list and one table.
local function number(list, count)
  local seen, distinct = {}, 0
  for i = 1, count do
    local id = seen[list[i]]
    if not id then
      distinct = distinct + 1
      id = distinct
      seen[list[i]] = id
    end
    list[i] = id
  end
  return distinct
end

-- The share of n-grams that had occurred before.  An n-gram becomes a number by joining, n - 1
-- times, the number of a shorter one with that of the item that follows it.
local function repeated_share(items, n)
  local total = #items - n + 1
  if total < 1 then return 0 end
  local base = number(items, #items) + 1
  local grams, distinct = table.move(items, 1, total, 1, {}), base - 1
  for k = 1, n - 1 do
    for i = 1, total do grams[i] = grams[i] * base + items[i + k] end
    distinct = number(grams, total)
  end
  if n == 1 then distinct = number(grams, total) end
  return 1 - distinct / total
end

--- max_penalty times the share of n-grams that are repetitions: 0 when all differ (2502.03373).
--- Over the completion's tokens where c.ids is there, else, or with unit = "words", over its
--- words in lower case.
---@param opts { n: integer, max_penalty: number, unit: "tokens"|"words"? }
---   max_penalty: what a text of nothing but repetition approaches; not above 0
---@return fun(text: string, row: table, c: table): number
function repetition.ngram(opts)
  local o = options.check(opts, {
    n = { type = "integer", default = 3, min = 1, max = 1000 },
    max_penalty = { type = "number", default = -1.0, max = 0 },
    unit = { type = "string", default = "tokens", one_of = { "tokens", "words" } },
  }, "repetition.ngram")
  return function(text, _, c)
    local items
    if o.unit == "tokens" and c and c.ids then
      items = table.move(c.ids, 1, #c.ids, 1, {})
    else
      items = {}
      for word in text:lower():gmatch("%S+") do items[#items + 1] = word end
    end
    return repeated_share(items, o.n) * o.max_penalty
  end
end

return repetition
