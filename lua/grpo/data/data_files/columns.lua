-- columns = { "question", answer = "solution" }: the columns to read, and further names for some.
-- With names alone, columns = { answer = "solution" }, the others are there too.

local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"

local columns = {}

-- Returns the columns to keep, or nil for all, and the further names (new -> column).
-- complain(format, ...) raises.
function columns.parse(spec, complain)
  local kept, renamed = #spec > 0 and {} or nil, {}
  for new, old in sorted_pairs(spec) do
    if type(old) ~= "string" or not (type(new) == "string" or math.type(new) == "integer") then
      complain("want names: { \"column\", new = \"column\" }")
    end
    if type(new) == "string" then renamed[new] = old else kept[new] = old end
  end
  return kept, renamed
end

-- Returns the columns that both name.
function columns.wanted(kept, renamed)
  local wanted = table.move(kept or {}, 1, #(kept or {}), 1, {})
  for _, old in sorted_pairs(renamed) do wanted[#wanted + 1] = old end
  return wanted
end

-- Complains of a name that is not among the columns that are there.
function columns.check(kept, renamed, known, name, complain)
  for _, old in ipairs(columns.wanted(kept, renamed)) do
    if not options.among(old, known) then
      local hint = options.hint(old, known)
      complain("%s has no column '%s'%s its columns are: %s", name, old, hint == "" and ";" or hint,
        table.concat(known, ", ", 1, math.min(#known, 30)))
    end
  end
end

-- Returns a function that makes such a row of one as the file has it.
function columns.mapping(kept, renamed)
  return function(row)
    local made = {}
    if kept then
      for _, name in ipairs(kept) do made[name] = row[name] end
    else
      for name, value in pairs(row) do made[name] = value end
    end
    for new, old in pairs(renamed) do made[new] = row[old] end
    return made
  end
end

-- The names that the rows of a list have, sorted.
function columns.of_rows(rows)
  local seen, names = {}, {}
  for _, row in ipairs(rows) do
    for name in next, row do
      if not seen[name] and type(name) == "string" then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)
  return names
end

return columns
