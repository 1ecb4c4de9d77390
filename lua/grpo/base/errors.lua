-- Errors that carry a code (and so an exit status) and the user's own source line.
--
--   errors.raise("EARG", "sampling.top_p: 2 is out of range, want 0..1")
--
-- The message becomes "script.lua:14: sampling.top_p: ..." when a user's script
-- is on the call stack.

local core = require "grpo.core"

local errors = {}

-- The user's source line, "script.lua:14", or nil outside any script.
function errors.where()
  return core.where()
end

-- An error object as the C side makes them; its tostring is its message.  That is one line: names
-- and values in it may hold any character.
function errors.new(code, message, where)
  message = message:gsub("%c", function(ch) return ("\\%d"):format(ch:byte()) end)
  return core.error(code, where and (where .. ": " .. message) or message)
end

-- Adds lines to an error that stand below its own line wherever it is shown whole.
function errors.with_block(err, block)
  if block then err.message, err.block = err.message .. "\n" .. block, block end
  return err
end

local function formatted(format, ...)
  return select("#", ...) > 0 and format:format(...) or format
end

function errors.raise(code, format, ...)
  error(errors.new(code, formatted(format, ...), errors.where()), 0)
end

-- Raises with a position of the caller's choice ("script.lua:14", or nil for none).
function errors.raise_at(where, code, format, ...)
  error(errors.new(code, format:format(...), where), 0)
end

-- Raises without a source line: for errors in files, whose message names the place itself.
function errors.raise_plain(code, format, ...)
  error(errors.new(code, formatted(format, ...)), 0)
end

-- Returns a function(code, format, ...) that raises the errors of a command, which its name begins.
function errors.of(command)
  return function(code, format, ...)
    errors.raise_plain(code, command .. ": " .. format, ...)
  end
end

-- The numbers of the system that `io` returns.
local codes = { [12] = "ENOMEM" }

-- Returns `ok` if it is true; else raises the message that a function of core.fs or io returned
-- with it.
function errors.must(ok, message, code)
  if ok then return ok end
  if type(code) == "number" then code = codes[code] end
  return errors.raise_plain(code or "EIO", "%s", tostring(message))
end

-- Is this an error because memory was missing?
function errors.is_no_memory(err)
  if type(err) == "table" then return err.code == "ENOMEM" end
  return err == "not enough memory" -- raised by Lua itself
end

local function tried(ok, ...)
  if not ok and errors.is_no_memory(...) then error((...), 0) end
  return ok, ...
end

-- pcall of a function whose failure means that its input is wrong.  An error because memory was
-- missing says nothing about the input, and is raised again.
function errors.try(f, ...)
  return tried(pcall(f, ...))
end

-- Returns an error as one line. If a module was not found, the line says where it was searched.
function errors.line(err)
  local text = tostring(err)
  local head, places = text:match("^([^\n]*module '[^'\n]*' not found):\n(.*)")
  if not head then return (text:match("^[^\n]*")) end
  local first = places:match("no file '([^'\n]*)'")
  return ("%s; it is looked for beside the script%s, in lua/ and in grpo"):format(head,
    first and (" (%s)"):format(first) or "")
end

-- Puts `name`, the option that holds the function which raised `err`, in front of its message.
-- An error without a code of its own gets `code`.  Without `code` all become errors of the script,
-- unless there was no memory.
function errors.naming(name, err, code)
  local text = tostring(err)
  local own = type(err) == "table" and err.code ~= "ESCRIPT" and err.code
  if text:find(name .. ":", 1, true) then return err end
  if not code and own ~= "ENOMEM" then own = nil end
  local named = core.error(own or code or "ESCRIPT", name .. ": " .. text)
  if type(err) == "table" then named.fatal, named.traceback = err.fatal, err.traceback end
  return named
end

return errors
