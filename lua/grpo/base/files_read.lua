-- The files that scripts and options had read so far, for the inputs.json of a run.

local core = require "grpo.core"

local fs = core.fs
local files_read = { paths = {} } -- { [path] = true }

function files_read.add(path)
  files_read.paths[path] = true
end

local function add_from(path, patterns)
  if not fs.isdir(path) and fs.exists(path) then files_read.add(path) end
  for _, name in ipairs(fs.list(path) or {}) do
    for _, pattern in ipairs(patterns) do
      if name:find(pattern) then files_read.add(path .. "/" .. name) end
    end
  end
end

-- Adds the files of a model, or the file that it is.
function files_read.add_model(path)
  add_from(path, { "%.json$", "%.jinja$", "%.safetensors$" })
end

-- Adds what a path to a model stands for: place, as grpo.models.paths finds it.
function files_read.add_place(place)
  files_read.add_model(place.path)
  if place.adapter then files_read.add_model(place.adapter) end
end

-- Adds the files of a tokenizer, which may stand beside a model's weights.
function files_read.add_tokenizer(path)
  add_from(path, { "^tokenizer.*%.json$", "^special_tokens_map%.json$", "^added_tokens%.json$",
    "%.jinja$" })
end

return files_read
