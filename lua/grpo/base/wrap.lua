-- Wraps text to lines of at most `width` columns: paragraphs, and lists of items with their texts.

local wrap = {}

-- Joins words to lines; each line except the first begins with `indent` spaces.
function wrap.words(words, width, indent)
  local lines, line = {}, nil
  for _, word in ipairs(words) do
    if line and utf8.len(line) + 1 + utf8.len(word) > width - indent then
      lines[#lines + 1], line = line, nil
    end
    line = line and line .. " " .. word or word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n" .. (" "):rep(indent))
end

function wrap.paragraph(text, width, indent)
  local words = {}
  for word in text:gmatch("%S+") do words[#words + 1] = word end
  return wrap.words(words, width, indent or 0)
end

local WIDEST = 18 -- a wider item gets a line of its own

-- Aligns the texts of rows { item, text } in one column; an item may have no text.
function wrap.list(rows, width)
  local column, lines = 6, {}
  for _, row in ipairs(rows) do
    if row[2] and #row[1] <= WIDEST then column = math.max(column, #row[1] + 4) end
  end
  for i, row in ipairs(rows) do
    lines[i] = "  " .. row[1]
    if row[2] then
      local alone = #row[1] + 4 > column
      lines[i] = lines[i] .. (alone and "\n" .. (" "):rep(column)
        or (" "):rep(column - #lines[i])) .. wrap.paragraph(row[2], width, column)
    end
  end
  return table.concat(lines, "\n")
end

return wrap
