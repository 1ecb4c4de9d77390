-- The terminal of the process as the environment describes it.

local terminal = {}

-- Returns a variable of the environment; nil also if it is empty.
local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

-- Are characters beyond ASCII shown?  The locale says so.
function terminal.is_utf8()
  local locale = variable "LC_ALL" or variable "LC_CTYPE" or variable "LANG" or "C"
  return locale:lower():find("utf%-?8") ~= nil
end

-- Does the terminal of this descriptor take escape sequences?
function terminal.takes_escapes(fd)
  return require "grpo.core".isatty(fd) and os.getenv("TERM") ~= "dumb"
end

-- https://no-color.org: any value but an empty one
function terminal.has_colour(fd)
  return terminal.takes_escapes(fd) and not variable "NO_COLOR"
end

-- Does a terminal that becomes narrower wrap the lines that it shows already?  xterm, rxvt and the
-- console cut them instead.
function terminal.wraps_again()
  if variable "TMUX" then return true end
  local kind = variable "TERM" or ""
  if variable "XTERM_VERSION" then return false end
  return kind:find("^xterm") ~= nil or kind:find("^alacritty") ~= nil or kind:find("^foot") ~= nil
end

return terminal
