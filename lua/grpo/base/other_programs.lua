-- Names and texts of other programs, as far as extensions know them.  They are asked only where
-- something has failed, and where somebody asks for help.

local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local options = require "grpo.options"

local other_programs = {}

-- The answer of the first extension that has one, of at most two values; nil without one.
-- question: the name of a function of the kind other_programs (extensions.lua).
function other_programs.ask(question, ...)
  for _, row in ipairs(extensions.rows "other_programs") do
    local answer, more = row[question](...)
    if answer ~= nil then return answer, more end
  end
end

-- The end of a message about a name that is not there, "; NAME is ... here", or nil.
function other_programs.hint(name)
  local ours = other_programs.ask("called_here", name)
  return ours and ("; %s is %s here"):format(name, ours)
end

-- Raises: the table `of` has no function `name`; known: those that it has.
function other_programs.refuse(of, name, known)
  local ours = other_programs.ask("called_here", name)
  if ours then errors.raise("EARG", "%s.%s is %s here", of, name, ours) end
  errors.raise("EARG", "%s.%s: there is no such function, %s", of, tostring(name),
    options.advice(name, known))
end

-- Returns a message about a text that does not compile, with what Lua wants instead, as far as that
-- is known; second, lines to paste in place of what another program wants there, or nil.
function other_programs.explained(problem, text)
  local message, block = other_programs.ask("explained", problem, text)
  return message or problem, block
end

return other_programs
