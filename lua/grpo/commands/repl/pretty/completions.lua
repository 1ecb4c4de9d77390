-- Recognises completions, lists of them and batches at the prompt, and shows them as plain text; an
-- extension shows them in colours and as tables.

local core = require "grpo.core"
local display = require "grpo.base.display"
local extensions = require "grpo.base.extensions"
local paint = require "grpo.commands.repl.pretty.paint"
local sorted_pairs = require "grpo.base.sorted"

local completions = {}

local MOST = 40 -- lines of a list

function completions.is_one(v)
  return type(v) == "table" and type(rawget(v, "text")) == "string"
    and type(rawget(v, "finish")) == "string"
end

-- Tells whether a table is a list of completions, of one prompt or several.
function completions.is_list(v)
  return type(v) == "table" and completions.is_one(rawget(v, 1)) and getmetatable(v) == nil
end

function completions.is_batch(v)
  return type(v) == "table" and completions.is_list(rawget(v, "completions"))
    and getmetatable(v) == nil
end

-- Returns the text of a completion, which an extension may colour by the probabilities of its
-- tokens.
function completions.text(c, look)
  local row = extensions.rows("completion_texts")[1]
  return row and row.text(c, look) or display.clean(c.text)
end

-- Returns "[digits 1, format - | total 1.2 | eos, 3 tokens]".
local function head(c)
  local parts, rewards = {}, {}
  for name, r in sorted_pairs(c.rewards or {}) do
    rewards[#rewards + 1] = ("%s %s"):format(name, r == core.none and "-" or paint.number(r))
  end
  if rewards[1] then parts[1] = table.concat(rewards, ", ") end
  if c.reward then parts[#parts + 1] = "total " .. paint.number(c.reward) end
  parts[#parts + 1] = ("%s, %d tokens"):format(c.finish, c.length or (c.ids and #c.ids) or 0)
  return "[" .. display.clean(table.concat(parts, " | ")) .. "]"
end

function completions.one(c)
  return head(c) .. "\n" .. display.clean(c.text)
end

-- Shows one line for each completion.
function completions.list(cs, look)
  local lines = {}
  for i = 1, math.min(#cs, MOST) do
    local text = ("%d %s %s"):format(i, head(cs[i]), paint.one_line(cs[i].text))
    lines[i] = paint.cut(text, look.width - 1)
  end
  if #cs > MOST then lines[#lines + 1] = ("... %d more"):format(#cs - MOST) end
  return table.concat(lines, "\n")
end

function completions.batch(batch, look)
  return completions.list(batch.completions, look)
end

return completions
