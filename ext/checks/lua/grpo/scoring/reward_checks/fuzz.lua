-- `grpo test --fuzz`: rewards called with degenerate text, and with random mixtures of its pieces.

local core = require "grpo.core"
local display = require "grpo.base.display"
local degenerate_texts = require "grpo.scoring.reward_checks.degenerate_texts"
local scoring = require "grpo.scoring.scoring"
local rollout = require "grpo.scoring.rollout"
local row_checks = require "grpo.scoring.reward_checks.row_checks"
local script = require "grpo.loop.script"

local fuzz = {}

local MOST_PIECES, PIECE_BYTES = 12, 40
local generous = { instructions = 50000000, memory = 256 << 20, seconds = 10 }

-- Returns a text of random pieces of the degenerate texts and of the rows.
local function mixture(rng, pieces)
  local parts = {}
  for i = 1, 1 + math.floor(rng() * MOST_PIECES) do
    local text = pieces[1 + math.floor(rng() * #pieces)]
    local from = 1 + math.floor(rng() * #text)
    parts[i] = text:sub(from, from + math.floor(rng() * PIECE_BYTES))
  end
  return table.concat(parts)
end

local function strings_of(row, list)
  if type(row) == "string" then
    list[#list + 1] = row
  elseif type(row) == "table" then
    for _, v in pairs(row) do strings_of(v, list) end
  end
end

local function texts_of(rows, seed, count)
  local list, pieces = degenerate_texts.texts(), {}
  for _, item in ipairs(list) do pieces[#pieces + 1] = item.text:sub(1, 400) end
  local own = {}
  for _, row in ipairs(rows) do strings_of(row, own) end
  table.sort(own)
  for _, s in ipairs(own) do pieces[#pieces + 1] = s end
  local rng = core.rng(seed, "user", 0, 0, 0)
  for i = 1, count do list[#list + 1] = { name = "mixture " .. i, text = mixture(rng, pieces) } end
  return list
end

-- Returns an entry that gave two different values for one text, and the values.
local function differing(entries, c, again)
  for _, entry in ipairs(entries) do
    local v, w = c.rewards[entry.name], again.rewards[entry.name]
    if v ~= w and not (c.errors and c.errors[entry.name])
      and not (again.errors and again.errors[entry.name]) then
      return entry, v, w
    end
  end
end

-- Calls the entries with one text, twice.  tell(key, sentence, ...): a failure; each key is told
-- once.
local function try(entries, item, original, limits, tell)
  local row = row_checks.copy(original)
  local c = rollout.made { text = item.text, row = row }
  -- another stream of math.random
  local again = rollout.made({ text = item.text, row = row_checks.copy(original) }, 1)
  scoring.score(entries, { c }, limits, "skip")
  scoring.score(entries, { again }, limits, "skip")
  local entry, v, w = differing(entries, c, again)
  if entry then
    tell(entry, "on %s: rewards.%s gives %s, then %s: it depends on more than its arguments",
      item.name, entry.name, tostring(v), tostring(w))
  end
  local changer, sentence = row_checks.changed(entries, original, row, function(one, mine)
    scoring.score({ one }, { rollout.made { text = item.text, row = mine } }, limits, "skip")
  end)
  if changer then tell(changer.name .. " row", "on %s: rewards.%s", item.name, sentence) end
  for _, failed in ipairs(entries) do
    local message = c.errors and c.errors[failed.name]
    if message then
      tell(failed.name .. (message:match("[^%s:]+:%d+:") or ""), "on %s: %s", item.name,
        display.clean(message))
    end
  end
end

-- path: an experiment or a file of rewards.  { rewards = how many, texts = how many, failures =
-- sentences, one for each reward and line }
function fuzz.run(path, count, o)
  local entries, e = script.rewards(path, o.args)
  local config = e and e.stages[#e.stages].config
  local rows = {}
  for i = 1, config and math.min(5, #config.data.train) or 0 do rows[i] = config.data.train[i] end
  if #rows == 0 then rows[1] = { prompt = "", answer = "42" } end
  local limits = config and config.limits.reward or generous
  local texts, failures, seen = texts_of(rows, config and config.seed or 0, count), {}, {}
  local function tell(key, format, ...)
    if not seen[key] then failures[#failures + 1] = format:format(...) end
    seen[key] = true
  end
  for k, item in ipairs(texts) do try(entries, item, rows[(k - 1) % #rows + 1], limits, tell) end
  return { rewards = #entries, texts = #texts, failures = failures }
end

return fuzz
