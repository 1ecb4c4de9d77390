-- rewards/repetition.lua - a penalty for saying the same thing again.

local options = require "grpo.options"

---@class rewards.repetition
local repetition = {}

-- Puts 1, 2, ... in order of first appearance in the place of the first `count` items, equal
-- numbers for equal items; returns how many differ.  With `other`, an item is the pair of
-- items[i] and other[i + shift], both whole numbers, those of `other` at most `most`.
local function number(items, count, other, shift, most)
  local seen, distinct = {}, 0
  for i = 1, count do
    local key = items[i]
    if other then key = key * (most + 1) + other[i + shift] end
    local id = seen[key]
    if not id then
      distinct = distinct + 1
      id = distinct
      seen[key] = id
    end
    items[i] = id
  end
  return distinct
end

-- The share of n-grams that had occurred before.  An n-gram becomes a number by joining the
-- numbers of two shorter ones, so the work grows with the logarithm of n: 1, 2, 4, 5 for n = 5.
local function repeated_share(items, n)
  local count = #items
  if count < n then return 0 end
  local words = number(items, count)
  local grams, distinct, size = table.move(items, 1, count, 1, {}), words, 1
  local bit = 1
  while bit * 2 <= n do bit = bit * 2 end
  while bit > 1 do
    bit = bit // 2
    distinct = number(grams, count - 2 * size + 1, grams, size, distinct)
    size = 2 * size
    if n & bit ~= 0 then
      distinct = number(grams, count - size, items, size, words)
      size = size + 1
    end
  end
  return 1 - distinct / (count - n + 1)
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
