-- The grammar that a request binds its completions to: its own, one of JSON, or that of a call.

local core = require "grpo.core"
local refusal = require "grpo.serve.refusal"
local schema = require "grpo.serve.schema"

local bound = {}

-- The tools of which one must be called.
local function forced_tools(request)
  local choice = request.tool_choice
  if choice == "required" then return request.tools end
  for _, tool in ipairs(request.tools or {}) do
    if tool["function"].name == choice.name then return { tool } end
  end
  refusal.field("tool_choice", "'%s' is not among the tools", choice.name)
end

-- Returns the forms that schema.grammar takes, and the field that asks for them; nil for any text.
local function forms_of(request, tools)
  local choice, format = request.tool_choice, request.response_format
  local forced = choice == "required" or type(choice) == "table"
  if forced and not tools then refusal.field("tool_choice", "there are no tools to call") end
  if format and (forced or request.grammar) then
    refusal.field("response_format", "stands beside %s, and a text has one form; leave one out",
      forced and "a tool_choice that forces a call" or "a grammar")
  end
  if forced then return { tools = forced_tools(request) }, "tool_choice" end
  if not format then return nil end
  return { object = format.object, schema = format.schema, tools = tools and request.tools or nil },
    "response_format"
end

-- tools: whether the request may call some; session: that it belongs to, or nil.
function bound.grammar(server, request, tools, session)
  local forms, field = forms_of(request, tools)
  local text, problem = request.grammar, nil
  if text and forms then
    refusal.field("grammar", "stands beside a tool_choice that forces a call; leave one out")
  end
  if forms then text, problem = schema.grammar(forms) end
  if not text and not problem then return nil end
  field = field or "grammar"
  if session then
    refusal.field(field, "a session samples as its run does, which learns from it; leave it out")
  end
  if not problem then
    local ok, found = pcall(core.grammar_problem, text, false, server.tokenizer)
    problem = not ok and tostring(found) or found
  end
  if problem then refusal.field(field, "%s", (problem:gsub("^[^\n]-:%d+: ", ""))) end
  return text
end

return bound
