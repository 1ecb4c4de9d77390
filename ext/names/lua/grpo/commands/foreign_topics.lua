-- The help of names of other programs.

local foreign = require "grpo.options.foreign"
local foreign_functions = require "grpo.base.foreign_functions"
local usage = require "grpo.commands.usage"
local wrap = require "grpo.base.wrap"

local foreign_topics = {}

-- Topics that are tables of their own: names of other programs.
local topics = { ["from-trl"] = { "TRL", "transformers", "PEFT" }, ["from-verl"] = { "verl" } }

-- Returns the table of a topic as text, or nil for an unknown topic.
function foreign_topics.text(topic)
  local lines = {}
  for _, program in ipairs(topics[topic] or {}) do
    local rows = {}
    for i, row in ipairs(foreign.rows(program)) do
      local ours = row.ours and row.ours .. (row.about ~= "" and ". " or "") or ""
      rows[i] = { row.name, ours .. row.about }
    end
    lines[#lines + 1] = ("Options of %s, and what they are here:\n%s"):format(program,
      wrap.list(rows, usage.width()))
  end
  return lines[1] and table.concat(lines, "\n\n")
end

-- The text about a name, or nil; second, the option that it is here, or nil.
function foreign_topics.explanation(name)
  local advice, ours = foreign.explanation(name)
  local class = not advice and foreign_functions.called_here(name)
  if not class then return advice, ours end
  return ("%s is %s here. 'grpo help from-trl' lists the names of TRL."):format(name, class)
end

return foreign_topics
