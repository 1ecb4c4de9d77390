-- Views of completions with their tokens' probabilities, of groups as tables of rewards and
-- advantages, and of batches.

local columns_text = require "grpo.commands.repl.pretty.columns"
local core = require "grpo.core"
local display = require "grpo.base.display"
local paint = require "grpo.commands.repl.pretty.paint"
local sorted_pairs = require "grpo.base.sorted"
local statistics = require "grpo.statistics"
local text_stream = require "grpo.models.text_stream"

local rollouts = {}

local MOST_GROUPS = 4

-- ---- a completion -------------------------------------------------------------------------------

-- Returns the pieces of text that the tokens make, { text =, first =, last = }; nil when the pieces
-- do not add up to the completion's text.
function rollouts.pieces(tokenizer, ids, text)
  local stream, list, from, all = text_stream.new(tokenizer), {}, 1, {}
  for i, id in ipairs(ids) do
    local ok, piece = pcall(stream.put, stream, id)
    if not ok then return nil end
    if piece ~= "" then
      list[#list + 1], from = { text = piece, first = from, last = i }, i + 1
      all[#all + 1] = piece
    end
  end
  local rest = stream:finish()
  if rest ~= "" then
    list[#list + 1], all[#all + 1] = { text = rest, first = from, last = #ids }, rest
  end
  return (text == nil or table.concat(all) == text) and list or nil
end

local steps = { { 0.9 }, { 0.5, "green" }, { 0.2, "yellow" }, { 0.05, "magenta" }, { -1, "red" } }
local LOW = 0.2 -- without colours, less probable pieces are marked with brackets

-- Returns the name of the colour of a probability, or nil.
function rollouts.colour_of(p)
  for _, step in ipairs(steps) do
    if p >= step[1] then return step[2] end
  end
end

-- Colours one piece; each line of it is coloured separately.
local function piece_text(look, text, p)
  text = display.clean(text)
  if not look.colour then return p < LOW and text:find("%S") and "‹" .. text .. "›" or text end
  local name = rollouts.colour_of(p)
  return name and (text:gsub("[^\n]+", function(part) return paint.colour(look, name, part) end))
    or text
end

local function least_logprob(c, piece)
  local least = 0.0
  for i = piece.first, math.min(piece.last, #c.logprobs) do
    least = math.min(least, c.logprobs[i])
  end
  return least
end

-- Returns the text coloured by its tokens' probabilities, and the key to the colours; without
-- tokens only the text.
function rollouts.coloured_text(c, look)
  local known = look.tokenizer and type(c.ids) == "table" and type(c.logprobs) == "table"
    and #c.ids > 0
    and #c.ids == #c.logprobs
  local pieces = known and rollouts.pieces(look.tokenizer, c.ids, c.text)
  if not pieces then return display.clean(c.text) end
  local parts = {}
  for i, piece in ipairs(pieces) do
    parts[i] = piece_text(look, piece.text, math.exp(least_logprob(c, piece)))
  end
  local key = "‹ ›: a token of probability below 0.2"
  if look.colour then
    key = ("probability: 0.9 or more, %s, %s, %s, %s"):format(paint.colour(look, "green", "0.5"),
      paint.colour(look, "yellow", "0.2"), paint.colour(look, "magenta", "0.05"),
      paint.colour(look, "red", "less"))
  end
  return table.concat(parts), key
end

local function rewards_text(c)
  local parts = {}
  for name, r in sorted_pairs(c.rewards or {}) do
    parts[#parts + 1] = ("%s %s"):format(name, r == core.none and "-" or paint.number(r))
  end
  return table.concat(parts, ", ")
end

-- Returns the advantage; the mean of advantages per token.
local function advantage_of(c)
  if type(c.advantage) == "table" then return statistics.mean(c.advantage) end
  return c.advantage
end

local function head_text(c)
  local parts = {}
  if c.rewards and next(c.rewards) ~= nil then parts[#parts + 1] = rewards_text(c) end
  if c.reward then parts[#parts + 1] = "total " .. paint.number(c.reward) end
  if c.advantage then parts[#parts + 1] = ("advantage %+.4g"):format(advantage_of(c)) end
  parts[#parts + 1] = ("%s, %d tokens"):format(c.finish, c.length or (c.ids and #c.ids) or 0)
  if type(c.logprobs) == "table" and #c.logprobs > 0 then
    parts[#parts + 1] = ("mean log-probability %.3f"):format(statistics.mean(c.logprobs))
  end
  return "[" .. display.clean(table.concat(parts, " | ")) .. "]"
end

function rollouts.completion(c, look)
  local text, key = rollouts.coloured_text(c, look)
  local lines = { paint.colour(look, "cyan", head_text(c)) }
  if type(c.prompt) == "string" then
    lines[#lines + 1] = paint.colour(look, "dim",
      paint.cut("prompt: " .. paint.one_line(c.prompt), look.width - 1))
  end
  lines[#lines + 1] = "  " .. text:gsub("\n", "\n  ")
  if key then
    lines[#lines + 1] = paint.colour(not look.colour and look or { colour = false }, "dim", key)
  end
  return table.concat(lines, "\n")
end

-- ---- groups and batches -------------------------------------------------------------------------

local function reward_names(cs)
  local names, seen = {}, {}
  for _, c in ipairs(cs) do
    for name in sorted_pairs(c.rewards or {}) do
      if not seen[name] then names[#names + 1], seen[name] = name, true end
    end
  end
  return names
end

local function column(head, cs, value, colour)
  local list = { head = head, right = true, colour = colour }
  for i, c in ipairs(cs) do list[i] = value(c, i) end
  return list
end

-- Shows a table with a line for each completion; further: more columns before the text.
function rollouts.table(cs, look, further, indent)
  local list = { column("#", cs, function(c, i) return tostring(c.index or i) end) }
  for _, name in ipairs(reward_names(cs)) do
    list[#list + 1] = column(paint.cut(paint.one_line(name), 14), cs, function(c)
      return paint.number(c.rewards[name] ~= core.none and c.rewards[name] or nil)
    end)
  end
  if cs[1].rewards then
    list[#list + 1] = column("total", cs, function(c) return paint.number(c.reward) end)
    list[#list + 1] = column("advantage", cs, function(c)
      local a = advantage_of(c)
      return a and ("%+.3f"):format(a) or "-"
    end, function(i)
      local a = advantage_of(cs[i]) or 0
      return a > 0 and "green" or a < 0 and "red" or nil
    end)
  end
  for _, one in ipairs(further or {}) do list[#list + 1] = one end
  list[#list + 1] = column("length", cs,
    function(c) return tostring(c.length or (c.ids and #c.ids) or 0) end)
  list[#list + 1] = column("finish", cs, function(c) return c.finish end,
    function(i) return cs[i].finish == "length" and "yellow" or nil end)
  local texts = column("text", cs, function(c) return paint.one_line(c.text) end)
  texts.right = false
  list[#list + 1] = texts
  return columns_text(look, list, indent)
end

function rollouts.prompt_line(c, look, label)
  return paint.colour(look, "dim",
    paint.cut((label or "prompt: ") .. paint.one_line(c.prompt or ""), look.width - 1))
end

-- Returns lists of completions, one for each prompt, in their order.
function rollouts.groups(cs)
  local groups, by_group = {}, {}
  for _, c in ipairs(cs) do
    local key = c.group or c.prompt
    if not by_group[key] then
      groups[#groups + 1] = {}
      by_group[key] = groups[#groups]
    end
    table.insert(by_group[key], c)
  end
  return groups
end

function rollouts.list(cs, look)
  if #cs == 1 then return rollouts.completion(cs[1], look) end
  local groups = rollouts.groups(cs)
  local lines = {}
  for g = 1, math.min(#groups, MOST_GROUPS) do
    local c = groups[g][1]
    if type(c.prompt) == "string" then
      lines[#lines + 1] = rollouts.prompt_line(c, look,
        #groups > 1 and ("prompt %d: "):format(g) or nil)
    end
    lines[#lines + 1] = rollouts.table(groups[g], look, nil, #groups > 1 and "  " or nil)
  end
  if #groups > MOST_GROUPS then
    lines[#lines + 1] = ("... %d more prompts"):format(#groups - MOST_GROUPS)
  end
  return table.concat(lines, "\n")
end

function rollouts.batch(batch, look)
  local cs, totals, flat = batch.completions, {}, 0
  local groups = rollouts.groups(cs)
  for _, group in ipairs(groups) do
    local same = true
    for _, c in ipairs(group) do
      if c.reward then totals[#totals + 1] = c.reward end
      same = same and c.reward == group[1].reward
    end
    if same then flat = flat + 1 end
  end
  local head = ("%d completions of %d prompts, %d groups mixed"):format(#cs, #groups,
    #groups - flat)
  if batch.step then head = ("batch of step %d: "):format(batch.step + 1) .. head end
  if #totals > 0 then
    head = head .. (", mean reward %s"):format(paint.number(statistics.mean(totals)))
  end
  return paint.colour(look, "bold", head) .. "\n" .. rollouts.list(cs, look)
end

return rollouts
