-- The pages that an assistant may read: the guide for assistants and the page that it names.

local core = require "grpo.core"

local resources = {}

local list = {
  { uri = "grpo://SKILL.md", name = "SKILL.md", file = "docs/skill.md", mimeType = "text/markdown",
    title = "Working with grpo",
    description = "rules for an assistant that trains models with grpo" },
  { uri = "grpo://start.md", name = "start.md", file = "docs/start.md", mimeType = "text/markdown",
    title = "From nothing to a trained model",
    description = "an experiment, rewards, tests, and how to read a run" },
}

-- The list as the protocol has it.
function resources.list()
  local described = {}
  for i, one in ipairs(list) do
    described[i] = { uri = one.uri, name = one.name, title = one.title,
      description = one.description, mimeType = one.mimeType }
  end
  return described
end

-- The contents of a resource; nil if there is none of this address.
function resources.read(uri)
  for _, one in ipairs(list) do
    if one.uri == uri then
      return { uri = uri, mimeType = one.mimeType, text = core.embedded(one.file) }
    end
  end
end

-- The files of a skill: { ["SKILL.md"] = text, ... }.
function resources.skill()
  local files = {}
  for _, one in ipairs(list) do files[one.name] = core.embedded(one.file) end
  return files
end

return resources
