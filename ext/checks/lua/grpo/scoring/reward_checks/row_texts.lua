-- Texts made of what rows hold: where there are no demonstrations, one of them may be a right
-- answer.

local answer = require "grpo.answer"
local sorted_pairs = require "grpo.base.sorted"

local row_texts = {}

local DEEPEST, LONGEST = 3, 2000 -- tables in a row; bytes of a field

local forms = { "%s", "<answer>%s</answer>", "<answer>\n%s\n</answer>", "\\boxed{%s}", "#### %s" }

-- Calls visit(path, value) for each string and number in a row.
local function each_field(v, path, depth, visit)
  if type(v) == "table" and depth < DEEPEST then
    for key, field in sorted_pairs(v) do
      each_field(field, path and ("%s.%s"):format(path, key) or tostring(key), depth + 1, visit)
    end
  elseif type(v) == "number" or (type(v) == "string" and #v <= LONGEST) then
    visit(path or "the row", v)
  end
end

-- A list of { name =, text =, row = }.
function row_texts.of(rows)
  local list = {}
  for i, row in ipairs(rows) do
    each_field(row, nil, 0, function(path, value)
      for k, form in ipairs(forms) do
        local whole = k == 1 and type(value) == "string"
        local text = whole and value or form:format(answer.gold(value))
        list[#list + 1] = { name = ("%s of row %d"):format(path, i), text = text, row = row }
      end
    end)
  end
  return list
end

return row_texts
