-- Settings files: the options of an experiment as JSON or YAML, with names and texts where a script
-- has functions: datasets by their files, prompts as templates, rewards by name, schedules as text.
--
-- Nothing in a file is trusted: its size and depth are limited, and an error is one line with the
-- file and the field.

local core = require "grpo.core"
local datasets = require "grpo.options.settings.datasets"
local errors = require "grpo.base.errors"
local files_read = require "grpo.base.files_read"
local options = require "grpo.options"
local origins = require "grpo.options.origins"
local rewards = require "grpo.options.settings.rewards"
local samplers = require "grpo.options.settings.samplers"
local sorted_pairs = require "grpo.base.sorted"
local templates = require "grpo.options.settings.templates"
local text_formats = require "grpo.base.text_formats"

local settings = {}

local LARGEST = 1 << 20 -- bytes of a file

-- ---- the text ------------------------------------------------------------------------------

-- The format of a file of settings (base/text_formats.lua), by its name; nil for another file.
-- home: where a run's saved copy came from.
function settings.kind(path, home)
  if home and path:find("/main%.lua$") then path = home end
  return text_formats.of(path)
end

-- Leaves out the fields that are null.
local function without_nulls(t)
  local copy = {}
  for key, value in pairs(t) do
    if value ~= core.json_null then copy[key] = value end
  end
  return copy
end

-- The object that a text holds.
local function object_of(text, path, format)
  if #text > LARGEST then
    errors.raise_plain("EARG", "%s: it has %d bytes; a file of settings has at most %d", path,
      #text, LARGEST)
  end
  local ok, value = pcall(format and format.decode or core.json_decode_row, text, path)
  if not ok then -- without the line of this file
    local message = tostring(value)
    local at = message:find(path, 1, true)
    local code = type(value) == "table" and value.code or "EFORMAT"
    errors.raise_plain(code, "%s", at and message:sub(at) or message)
  end
  if type(value) ~= "table" or #value > 0 then
    errors.raise_plain("EARG", "%s: want an object of options", path)
  end
  return value
end

-- ---- from names to values ------------------------------------------------------------------

local tokenizers = {}

function tokenizers.bytes() return core.tokenizer_bytes() end

function tokenizers.chars(_, text) return core.tokenizer_chars(text) end

function tokenizers.bpe(spec, text)
  return core.tokenizer_train({ text }, { kind = "bpe", vocab_size = spec.vocab_size })
end

-- { kind = "bytes" }, { kind = "chars", text = or path = }, { kind = "bpe", path =, vocab_size = }
local function tokenizer_of(spec, path, complain)
  options.check_names(spec, { "kind", "text", "path", "vocab_size" }, path, complain)
  local make = tokenizers[spec.kind]
  if not make then complain(path .. ".kind", "want bytes, chars or bpe") end
  local text = spec.text
  if spec.path then
    if type(spec.path) ~= "string" then complain(path .. ".path", "want the name of a file") end
    local message
    text, message = core.fs.read(spec.path)
    if not text then complain(path .. ".path", "%s", message) end
    files_read.add(spec.path)
  end
  if spec.kind ~= "bytes" and type(text) ~= "string" then
    complain(path, "want text, or the path of a file with it")
  end
  local ok, made = pcall(make, spec, text)
  if not ok then complain(path, "%s", (tostring(made):gsub("^[^\n]-:%d+: ", ""))) end
  return made
end

local function template_of(value, path, complain)
  local make = type(value) == "table" and templates.messages or templates.text
  local made, problem = make(value)
  if not made then complain(path, "%s", problem) end
  return made
end

-- Functions that convert the value of an option, by its path.
local converters = {
  ["data.train"] = datasets.of,
  ["data.eval"] = datasets.of,
  ["data.prompt"] = template_of,
  ["data.sampler"] = samplers.of,
  ["data.target"] = template_of,
  ["eval.metric"] = rewards.named,
  ["rewards"] = rewards.of,
}

converters["model.tokenizer"] = function(value, path, complain)
  return type(value) == "table" and tokenizer_of(value, path, complain) or value
end

local sections = { data = true, eval = true, model = true }

-- The value of a converter.  Its errors get the line of the file that asked for it, and the field.
local function converted(converter, value, field, complain, file)
  local ok, made = pcall(converter, value, field, complain)
  if ok then return made end
  local text = tostring(made)
  if text:sub(1, #file + 1) == file .. ":" then error(made, 0) end
  errors.raise_at(origins.line(file, field), type(made) == "table" and made.code or "EARG",
    "%s: %s", field, text)
end

-- prefix: "" or "stages[1]."; file: the name of the file.
local function convert(fields, prefix, complain, file)
  local made = {}
  for name, value in sorted_pairs(without_nulls(fields)) do
    local converter = converters[name]
    if converter then
      value = converted(converter, value, prefix .. name, complain, file)
    elseif sections[name] and type(value) == "table" then
      local section = {}
      for key, inner in sorted_pairs(without_nulls(value)) do
        local path = name .. "." .. tostring(key)
        section[key] = converters[path]
          and converted(converters[path], inner, prefix .. path, complain, file) or inner
      end
      value = section
    elseif type(value) == "table" and name ~= "stages" then
      value = without_nulls(value)
    end
    made[name] = value
  end
  return made
end

-- The options that a file describes, as a script would give them to grpo.experiment.
function settings.fields(text, path, format)
  local value = object_of(text, path, format)
  local function complain(field, message, ...)
    errors.raise_at(origins.line(path, field), "EARG", "%s: " .. message, field, ...)
  end
  local made = convert(value, "", complain, path)
  if type(made.stages) == "table" then
    local stages = {}
    for i, stage in ipairs(made.stages) do
      local prefix = ("stages[%d]."):format(i)
      stages[i] = type(stage) == "table" and convert(stage, prefix, complain, path) or stage
    end
    made.stages = stages
  end
  return made
end

return settings
