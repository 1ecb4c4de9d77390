-- tasks/verse.lua - a generated text for experiments without a text of their own: speeches in the
-- layout of a play, made by a small grammar from its own words.  It has spelling, number, a kind of
-- metre and recurring names, which a model of characters can learn.

local core = require "grpo.core"

local verse = {}

local speakers = {
  "MIRA", "OLD TOMAS", "FIRST SAILOR", "SECOND SAILOR", "THE WIDOW", "CAPTAIN", "A CHILD", "MILLER",
}
local nouns = {
  "river", "stone", "lantern", "winter", "harbour", "field", "crown", "shadow", "garden", "bell",
  "storm", "road", "candle", "mountain", "sparrow", "mirror", "thread", "bridge", "orchard",
  "letter",
}
local adjectives = {
  "old", "silent", "golden", "bitter", "hollow", "gentle", "weary", "broken", "distant", "pale",
  "restless", "early",
}
local verbs = { { "sings", "sing" }, { "waits", "wait" }, { "burns", "burn" }, { "turns", "turn" },
  { "sleeps", "sleep" }, { "falls", "fall" }, { "answers", "answer" }, { "wanders", "wander" } }
local places = { "under", "beyond", "beside", "above", "before", "within" }
local openings = { "O ", "And yet ", "Now ", "I know that ", "They say ", "Tell me why ", "" , "" }

local function pick(rng, list) return list[math.floor(rng() * #list) + 1] end

-- "the old river", or rivers; second result: is it one?
local function noun_phrase(rng)
  local one = rng() < 0.6
  local noun = pick(rng, nouns)
  local word = rng() < 0.5 and pick(rng, adjectives) .. " " .. noun or noun
  if one then return (rng() < 0.7 and "the " or "this ") .. word, true end
  return (rng() < 0.5 and "the " or "these ") .. word .. "s", false
end

local function line(rng)
  local subject, one = noun_phrase(rng)
  local text = pick(rng, openings) .. subject .. " " .. pick(rng, verbs)[one and 1 or 2]
  if rng() < 0.7 then text = text .. " " .. pick(rng, places) .. " " .. noun_phrase(rng) end
  return text:sub(1, 1):upper() .. text:sub(2) .. pick(rng, { ",", ",", ";", ".", "?", "!" })
end

--- About `n` characters (default 200,000), the same for the same seed.
---@param opts? { n: integer?, seed: integer? }
---@return string
function verse.text(opts)
  local n, seed = opts and opts.n or 200000, opts and opts.seed or 0
  local rng = core.rng(seed, "task", 0, 0, 0)
  local parts, length = {}, 0
  while length < n do
    local speech = { pick(rng, speakers) .. ":" }
    for _ = 1, 1 + math.floor(rng() * 5) do speech[#speech + 1] = line(rng) end
    speech[#speech] = speech[#speech]:sub(1, -2) .. "."
    parts[#parts + 1] = table.concat(speech, "\n") .. "\n"
    length = length + #parts[#parts] + 1
  end
  return table.concat(parts, "\n")
end

return verse
