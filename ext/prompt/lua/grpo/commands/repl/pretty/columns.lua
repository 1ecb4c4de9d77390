-- Tables of columns at the prompt.

local paint = require "grpo.commands.repl.pretty.paint"

-- Shows columns { head =, right = boolean, colour = function(row) or nil, [i] = text } as a table.
-- The last column gets the remaining width.
local function columns_text(look, list, indent)
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

return columns_text
