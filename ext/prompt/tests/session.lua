-- Run by `grpo repl`: types the lines of a document's ```session block again and prints prompts,
-- answers and errors as the document has them.  Environment: DOCUMENT.
local session = require "grpo.commands.repl.session"
local file = assert(io.open(os.getenv("DOCUMENT")))
local block = file:read("a"):match("```session\n(.-)```")
file:close()
local function put(text) io.write(text) end
local prompt = session.new { env = _ENV, out = put, err = put, look = function()
  return { width = 100, colour = false }
end }
_ENV.print = function(...)
  for i = 1, select("#", ...) do put((i > 1 and "\t" or "") .. tostring((select(i, ...)))) end
  put("\n")
end
local pending
for line in block:gmatch("([^\n]*)\n") do
  local typed = line:match("^>>? (.*)$")
  if typed then
    put(line .. "\n")
    local text = pending and pending .. "\n" .. typed or typed
    pending = prompt:run(text) and text or nil
  end
end
