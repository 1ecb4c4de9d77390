-- Calls of this program in a process of its own, so that what it prints is caught, and an error in
-- a script ends the call and not the server.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local program = {}

local SECONDS = 600
local MOST_BYTES = 100000 -- of what is shown; the end is what matters
local LAST_SECONDS = 5 -- that a call has to end when it is told to

-- A file for the output that nobody else has.
local function output_file()
  local path = os.tmpname()
  return path
end

-- The end of a text, from the beginning of a line.
local function last_part(text)
  if #text <= MOST_BYTES then return text end
  local rest = text:sub(-MOST_BYTES)
  return "... (the beginning is left out)\n" .. rest:sub((rest:find("\n", 1, true) or 0) + 1)
end

local function wait(child)
  local till = core.clock() + SECONDS
  local pause = 0.005
  while true do
    local status = child:poll()
    if status then return status end
    if core.signal_waits() or core.clock() > till then
      child:signal(core.clock() > till + LAST_SECONDS and "KILL" or "TERM")
    end
    core.process.sleep(pause)
    pause = math.min(pause * 1.5, 0.2)
  end
end

-- Runs `grpo WORDS`; returns what it printed on both outputs, and its exit status.
function program.run(words)
  local path = output_file()
  local all = table.move(words, 1, #words, 2, { core.binary() })
  local child, message, code = core.process.start(all, path)
  if not child then
    os.remove(path)
    errors.raise_plain(code, "%s", message)
  end
  local status = wait(child)
  local text = core.fs.read(path) or ""
  os.remove(path)
  return last_part(text), status
end

return program
