-- Layout of text at the prompt: its width, cutting, colours.
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

-- Returns a text in quotes, on one line.
function paint.quoted(text)
  return (("%q"):format(display.clean(text)):gsub("\\\n", "\\n"):gsub("\\\\", "\\"))
end

-- Returns a number with 4 significant digits; whole numbers are not rounded.
function paint.number(v)
  if type(v) ~= "number" then return "-" end
  if math.type(v) == "integer" then return tostring(v) end
  if v == math.floor(v) and math.abs(v) < 1e6 then return ("%d"):format(v) end
  return v == v and ("%.4g"):format(v) or "nan"
end

return paint
