-- tools/gen-options.lua - docs/options.md and lua/grpo/meta/options.lua from the table of options,
-- and the index of docs/lua-api.md.
--
--   make options          (./grpo repl <tools/gen-options.lua; OUT=DIR writes below DIR)
--
-- The rows are those of lua/grpo/options/option_rows.lua; a test holds the committed files to
-- what this writes.

local core = require "grpo.core"
local extensions = require "grpo.base.extensions"
local option_rows = require "grpo.options.option_rows"
local steps = require "grpo.options.stage_kinds"

local out = os.getenv("OUT") or "."

-- Types for editors that are more precise than the table's own.
local precise = {
  ["model.config"] = "string|table",
  ["model.tokenizer"] = "string|grpo.Tokenizer",
  ["model.chat_template"] = "string|fun(messages: grpo.Message[], opts: table): string",
  ["data.prompt"] = "fun(row: table): string|grpo.Message[]",
  ["data.target"] = "fun(row: table): string|string[]",
  ["data.sampler"] = "grpo.Sampler|grpo.SamplerFunction",
  ["tools"] = "table<string, grpo.Tool|function|table<string, grpo.Tool>>",
  ["environment"] = "grpo.Environment|fun(row: table, rng: fun(): number): number|boolean|nil",
  ["turns.format"] = '"auto"|"chat"|"json"|"compact"|grpo.CallForm',
  ["sampling.stop"] = "string|string[]",
  ["rewards"] = "table<string|integer, grpo.RewardFunction|grpo.RewardEntry>",
  ["reward.clip"] = "number[]",
  ["train.loss"] = "grpo.LossName|fun(t: grpo.LossInput): grpo.Tensor",
  ["train.optimizer.no_decay"] = "string[]",
  ["eval.pass_at"] = "integer[]",
  ["eval.metric"] = "fun(text: string, row: table, c: grpo.Completion): number|boolean",
  ["hooks.on_start"] = "fun(tr: grpo.Trainer): string?",
  ["hooks.on_rollout"] = "fun(batch: grpo.RolloutBatch, tr: grpo.Trainer): string?",
  ["hooks.on_step"] = "fun(metrics: table<string, number>, tr: grpo.Trainer): string?",
  ["hooks.on_eval"] = "fun(report: table<string, number>, tr: grpo.Trainer): string?",
  ["hooks.on_checkpoint"] = "fun(path: string, tr: grpo.Trainer): string?",
  ["hooks.on_reload"] = "fun(files: string[], tr: grpo.Trainer): string?",
  ["hooks.on_error"] = "fun(err: grpo.Error, tr: grpo.Trainer)",
  ["hooks.on_end"] = "fun(tr: grpo.Trainer, why: string)",
  ["stages"] = "grpo.Stage[]",
}

local cats_type = {
  int = "integer", number = "number", boolean = "boolean", string = "string",
  schedule = "number|grpo.Schedule|string",
  ["function"] = "function", table = "table", list = "any[]", dataset = "grpo.Dataset", any = "any",
}

-- ---- values as text ---------------------------------------------------------------------

local function number_text(v)
  if math.type(v) == "integer" then return tostring(v) end
  if v == math.floor(v) and math.abs(v) < 1e15 then
    local i = math.tointeger(v)
    return i >= 1000000 and ("%g"):format(v):gsub("e%+0*", "e") or tostring(i)
  end
  for digits = 1, 17 do
    local s = ("%." .. digits .. "g"):format(v)
    if tonumber(s) == v then return (s:gsub("e%-0*", "e-"):gsub("e%+0*", "e")) end
  end
end

local function value_text(v)
  if type(v) == "number" then return number_text(v) end
  if type(v) == "string" then return ('"%s"'):format(v) end
  if type(v) ~= "table" then return tostring(v) end
  local items = {}
  for i, item in ipairs(v) do items[i] = value_text(item) end
  return #items == 0 and "{}" or "{ " .. table.concat(items, ", ") .. " }"
end

local function range_text(row)
  if row.min and row.max then
    return (", %s to %s"):format(number_text(row.min), number_text(row.max))
  end
  if row.min then return (", %s or more"):format(number_text(row.min)) end
  if row.max then return (", %s or less"):format(number_text(row.max)) end
  return ""
end

local function type_text(row)
  local words = {}
  for kind in row.type:gmatch("[^|]+") do
    if kind == "enum" then
      for _, choice in ipairs(row.choices) do words[#words + 1] = ('`"%s"`'):format(choice) end
    else
      words[#words + 1] = ({ int = "whole number", schedule = "number or schedule" })[kind] or kind
    end
  end
  return table.concat(words, ", ") .. range_text(row)
end

-- ---- docs/options.md ------------------------------------------------------------------------

local rows, sections, by_section = {}, {}, {}
for _, row in ipairs(option_rows.rows) do
  if not row.added then rows[#rows + 1] = row end -- an extension documents its own
end
for _, row in ipairs(rows) do
  local section = row.path:match("^([^.]+)%.") or ""
  if not by_section[section] then
    by_section[section] = {}
    sections[#sections + 1] = section
  end
  table.insert(by_section[section], row)
end

local function markdown_row(row)
  local doc = row.doc:gsub("|", "\\|")
  if row.live then doc = doc .. " *(live)*" end
  local default = row.default ~= nil and ("`%s`")
    :format(value_text(row.default):gsub("|", "\\|")) or ""
  return ("| `%s` | %s | %s | %s |"):format(row.path, type_text(row), default, doc)
end

local md = { [[
# Options of an experiment

Written by `make options` from the rows that the program itself uses
(`lua/grpo/options/option_rows.lua`, and `*_options.def` of the engine); do not edit.

Give only the options that you change. A *live* option may be changed between two steps, through
`tr.config` in a hook. A schedule is a function(p) -> number, which is called once per step
(`grpo.schedule` has ready ones), or the text of a ready one, such as `cosine:peak=1e-4,warmup=20`
([lua-api.md](lua-api.md)). The fields of `train.sampler_correction`, `train.sync_reference` and
`model.lora` have an effect only when the script gives the table. The names of a loss and of an
optimizer change some defaults, which are listed at the end.]] }

for _, section in ipairs(sections) do
  md[#md + 1] = ("\n## %s\n\n| option | value | default | meaning |\n|---|---|---|---|"):format(
    section == "" and "The experiment itself" or section)
  for _, row in ipairs(by_section[section]) do md[#md + 1] = markdown_row(row) end
end

local function add_named_defaults(title, option, named)
  md[#md + 1] = ("\n## Defaults of %s\n\nA value in the script wins over these.\n\n"
    .. "| `%s` | defaults |\n|---|---|"):format(title, option)
  for name, defaults in grpo.sorted_pairs(named) do
    local texts = {}
    for path, value in grpo.sorted_pairs(defaults) do
      texts[#texts + 1] = ("`%s = %s`"):format(path, value_text(value))
    end
    md[#md + 1] = ("| `%s` | %s |"):format(name, table.concat(texts, ", "))
  end
end
add_named_defaults("losses", "train.loss", option_rows.loss_defaults)
add_named_defaults("optimizers", "train.optimizer.name", option_rows.optimizer_defaults)

-- ---- lua/grpo/meta/options.lua --------------------------------------------------------------

local function cats(row)
  if precise[row.path] then return precise[row.path] end
  local words = {}
  for kind in row.type:gmatch("[^|]+") do
    if kind == "enum" then
      for _, choice in ipairs(row.choices) do words[#words + 1] = ('"%s"'):format(choice) end
    else
      words[#words + 1] = cats_type[kind]
    end
  end
  return table.concat(words, "|")
end

local classes, order = {}, {}

local function class(name)
  if not classes[name] then
    classes[name] = { fields = {}, seen = {} }
    order[#order + 1] = name
  end
  return classes[name]
end

local function field(class_name, name, text)
  local c = class(class_name)
  if c.seen[name] then return end
  c.seen[name] = true
  table.insert(c.fields, ("---@field %s? %s"):format(name, text))
end

local has_children = {}
for _, row in ipairs(rows) do
  local parent = row.path:match("^(.*)%.[^.]+$")
  while parent do
    has_children[parent] = true
    parent = parent:match("^(.*)%.[^.]+$")
  end
end

class "grpo.Options"
for _, row in ipairs(rows) do
  local name, at = "grpo.Options", ""
  for part in row.path:gmatch("[^.]+") do
    at = at == "" and part or at .. "." .. part
    local inner = "grpo.Options." .. at
    if has_children[at] then
      field(name, part, inner .. (at == row.path and " " .. row.doc or ""))
    elseif at == row.path then
      local default = row.default ~= nil and (" (default %s)"):format(value_text(row.default)) or ""
      field(name, part, ("%s %s%s"):format(cats(row), row.doc, default))
    end
    name = inner
  end
end

local meta = { "---@meta _",
  "-- The fields of grpo.experiment { ... }.  Written by `make options`; do not edit." }
for _, name in ipairs(order) do
  meta[#meta + 1] = ("\n---@class %s"):format(name)
  for _, line in ipairs(classes[name].fields) do meta[#meta + 1] = line end
end
meta[#meta + 1] = '\n---@alias grpo.LossName "' .. table.concat(option_rows.losses, '"|"') .. '"'
meta[#meta + 1] = "\n---@class grpo.Stage: grpo.Options"
local kinds = steps.names() -- the core's first
meta[#meta + 1] = '---@field kind "'
  .. table.concat(kinds, '"|"', 1, #kinds - #extensions.rows "stages") .. '"|string'

-- ---- the index of docs/lua-api.md -------------------------------------------------------------

-- Names in code that the index lists: of modules, and methods of objects.
local objects = { m = true, tok = true, tr = true, ds = true, t = true, opt = true, re = true }

local function indexed_names(line)
  local names = {}
  for code in line:gmatch("`([^`]+)`") do
    for name in code:gmatch("[%a_][%w_]*[.:][%w_.:]*[%w_]") do
      local first = name:match("^[%w_]+")
      local is_method = objects[first] and name:find("^%l+:%l[%w_]*$")
      if name:find("^grpo%.[%l_.]+$") or name:find("^rewards%.[%l_.]+$") or is_method then
        names[#names + 1] = name
      end
    end
  end
  return names
end

local function anchor_of(heading)
  return (heading:lower():gsub("[^%w%s-]", ""):gsub("%s", "-"))
end

-- The page with the list of its names, each with the section that has it first in a table, else
-- first in its text.
local function with_index(text)
  local head = text:match("^(.-\n## Index\n)") or text .. "\n## Index\n"
  local place, rank, heading = {}, {}, nil
  for line in head:gmatch("[^\n]*") do
    heading = line:match("^##+ (.*)") or heading
    for _, name in ipairs(heading and indexed_names(line) or {}) do
      local r = line:find("^| `") and 1 or 2
      if not rank[name] or r < rank[name] then place[name], rank[name] = heading, r end
    end
  end
  local names, list = {}, {}
  for name in pairs(place) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    list[i] = ("[`%s`](#%s)"):format(name, anchor_of(place[name]))
  end
  return head .. "\n" .. table.concat(list, ",\n")
end

-- ---- write ------------------------------------------------------------------------------------

local function write(path, lines)
  assert(core.fs.write(out .. "/" .. path, table.concat(lines, "\n") .. "\n"))
end

write("docs/lua-api.md", { with_index(assert(core.fs.read("docs/lua-api.md"))) })
write("docs/options.md", md)
write("lua/grpo/meta/options.lua", meta)
