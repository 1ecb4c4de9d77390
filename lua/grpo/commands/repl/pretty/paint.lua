-- Layout of text at the prompt: its width, cutting, colours, tables of columns.
--
-- A look is { width = columns, colour = boolean, utf8 = are characters beyond ASCII shown?,
-- tokenizer = the session's or nil }.

local core = require "grpo.core"
local display = require "grpo.base.display"
local terminal = require "grpo.base.terminal"
local text_width = require "grpo.base.text_width"

local paint = { columns = text_width.columns, cut = text_width.cut, pad = text_width.pad }

-- Returns the look of standard output.
function paint.look()
  return { width = core.term_width(), colour = terminal.has_colour(1), utf8 = terminal.is_utf8() }
end

local codes = { bold = "1", dim = "2", red = "31", green = "32", yellow = "33", magenta = "35",
  cyan = "36" }

function paint.colour(look, name, text)
  if not (look.colour and name) then return text end
  return ("\27[%sm%s\27[0m"):format(codes[name], text)
end

-- Returns a text on one line without terminal control sequences.
function paint.one_line(text)
  return (display.clean(text):gsub("%s*\n%s*", " / "):gsub("\t", " "))
end

-- Shows columns { head =, right = boolean, colour = function(row) or nil, [i] = text } as a table.
-- The last column gets the remaining width.
function paint.columns_text(look, list, indent)
  indent = indent or ""
  local widths, used, lines = {}, #indent, {}
  for k, column in ipairs(list) do
    local most = paint.columns(column.head)
    for i = 1, #column do most = math.max(most, paint.columns(column[i])) end
    if k == #list then most = math.max(12, math.min(most, look.width - used - 1)) end
    widths[k], used = most, used + most + 2
  end
  local function line(text_of, colour_of)
    local parts = {}
    for k, column in ipairs(list) do
      local text = paint.pad(paint.cut(text_of(column), widths[k]), widths[k], column.right)
      if k == #list and not column.right then text = text:gsub("%s+$", "") end
      parts[k] = paint.colour(look, colour_of(column), text)
    end
    lines[#lines + 1] = indent .. table.concat(parts, "  ")
  end
  line(function(column) return column.head end, function() return "dim" end)
  for i = 1, #list[1] do
    line(function(column) return column[i] end,
      function(column) return column.colour and column.colour(i) end)
  end
  return table.concat(lines, "\n")
end

-- Returns a number with 4 significant digits; whole numbers are not rounded.
function paint.number(v)
  if type(v) ~= "number" then return "-" end
  if math.type(v) == "integer" then return tostring(v) end
  if v == math.floor(v) and math.abs(v) < 1e6 then return ("%d"):format(v) end
  return v == v and ("%.4g"):format(v) or "nan"
end

return paint
