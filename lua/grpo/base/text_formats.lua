-- text_formats: texts that hold one value: JSON, and what extensions add (rows of the kind
-- text_formats of base/extensions.lua).

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"

local text_formats = {}

local json = { name = "json", endings = { "json" }, decode = core.json_decode_row }

-- The format of a file, by the ending of its name; nil: of no such file.
function text_formats.of(path)
  local ending = path:match "%.(%a+)$"
  local rows = extensions.rows "text_formats"
  rows[#rows + 1] = json
  for _, row in ipairs(rows) do
    for _, known in ipairs(row.endings) do
      if known == ending then return row end
    end
  end
end

-- Returns why a path is not that of a file of settings: it is that of a script.
function text_formats.problem(path)
  return path:find "%.lua$" and ("%s is refused, because it is a script and not a file of "
    .. "settings; write it as JSON, or require it as a module"):format(path) or nil
end

-- The value of a text in the format `name`; what: whose text it is, for errors.
function text_formats.decode(name, text, what)
  for _, row in ipairs(extensions.rows "text_formats") do
    if row.name == name then return row.decode(text, what) end
  end
  errors.raise_plain("EARG", "%s: it holds %s, which this grpo was built without", what,
    name:upper())
end

return text_formats
