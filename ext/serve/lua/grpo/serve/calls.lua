-- The calls of tools in a completion, read as a run's rollouts read them (turns.format = "chat").

local core = require "grpo.core"
local tools = require "grpo.options.tools"

local calls = {}

-- Returns the calls in OpenAI's form and the text before them; nil if there are none, or if one
-- cannot be read: then the whole text is the answer.  id: begins their names.
function calls.read(text, shown, id)
  local list = tools.form("chat").read(text)
  if not list then return nil end
  local made = {}
  for i, call in ipairs(list) do
    if call.error then return nil end
    made[i] = { id = ("call_%s_%d"):format(id, i), type = "function", index = i - 1,
      ["function"] = { name = call.name, arguments = next(call.arguments) == nil and "{}"
        or core.json_encode(call.arguments) } }
  end
  local before = (shown:match("^(.-)<tool_call>") or ""):gsub("%s+$", "")
  return made, before
end

return calls
