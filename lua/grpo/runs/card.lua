-- Writes the model card, README.md: the model, its training, its measured metrics.  The card does
-- not contain paths of this machine.

local core = require "grpo.core"
local history = require "grpo.runs.history"
local model_paths = require "grpo.models.paths"
local rundir = require "grpo.runs.directory"
local sorted_pairs = require "grpo.base.sorted"
local steps = require "grpo.options.stage_kinds"

local fs = core.fs
local model_card = {}

local function put(lines, ...)
  for _, line in ipairs { ... } do lines[#lines + 1] = line end
end

-- ---- the model it comes from --------------------------------------------------------------------

-- Returns the name of the model in a directory: "org/name" if that is known, else the directory's.
function model_card.name_of(dir)
  local repo = dir:match("models%-%-([^/]+)/snapshots/")
  if repo then return (repo:gsub("%-%-", "/", 1)) end
  local known = model_paths.read_json(dir .. "/config.json")._name_or_path
  if type(known) == "string" and known:find("^[%w][%w._-]*/[%w._-]+$") and not fs.exists(known) then
    return known
  end
  return (fs.realpath(dir) or dir):gsub("/+$", ""):match("[^/]+$"):gsub("%.gguf$", "")
end

-- Returns the lines about the licence in the front matter of a directory's model card.
local function licence_lines(dir)
  local text = dir and fs.read(dir .. "/README.md")
  local front = text and text:gsub("\r", ""):match("^%-%-%-\n(.-)\n%-%-%-")
  local lines = {}
  for line in ((front or "") .. "\n"):gmatch("([^\n]*)\n") do
    if line:find("^license[%w_]*:") then lines[#lines + 1] = line end
  end
  return lines
end

-- ---- how it was trained -------------------------------------------------------------------------

-- The settings that the card shows, in this order; the run's config.json has all of them.
local settings = {
  "train.loss", "train.steps", "train.epochs", "train.lr", "train.kl", "train.clip",
  "train.clip_high", "train.prompts_per_step", "sampling.group_size", "train.iterations",
  "sampling.max_new_tokens", "data.max_prompt_tokens", "sampling.temperature", "sampling.top_p",
  "sampling.top_k", "train.advantage.scale", "train.max_grad_norm", "train.optimizer.name",
  "train.optimizer.weight_decay", "model.lora.rank", "model.lora.alpha", "model.lora.dropout",
  "model.lora.targets", "model.quantize", "model.chat_template_kwargs", "seed",
}

-- The settings that only stages with sampling read.
local only_sampled = {}
for _, path in ipairs { "train.loss", "train.kl", "train.clip", "train.clip_high",
    "sampling.group_size", "train.iterations", "sampling.temperature", "sampling.top_p",
    "sampling.top_k", "train.advantage.scale" } do
  only_sampled[path] = true
end

local function shown(value)
  if type(value) == "table" then
    local list = {}
    for i, v in ipairs(value) do list[i] = tostring(v) end
    for name, v in sorted_pairs(#list == 0 and value or {}) do
      list[#list + 1] = ("%s = %s"):format(name,
        type(v) == "table" and core.json_encode(v) or tostring(v))
    end
    return #list > 0 and table.concat(list, ", ") or nil
  end
  if type(value) == "string" and value:find("^function") then return "a schedule" end
  return value ~= nil and tostring(value) or nil
end

local function stage_lines(stage, lines)
  local options, method = stage.options or {}, steps[stage.kind]
  put(lines, "### " .. method.title, "", "| setting | value |", "|---|---|")
  local function show(path)
    local option = options[path]
    local value = type(option) == "table" and shown(option.value)
    local read = (method.samples or not only_sampled[path])
      and not (method.ignores and method.ignores[path])
    if value and read then put(lines, ("| `%s` | %s |"):format(path, value)) end
  end
  for _, path in ipairs(method.card or {}) do show(path) end
  for _, path in ipairs(settings) do show(path) end
  local rewards = options.rewards and options.rewards.value
  if method.samples and type(rewards) == "table" then
    local names = {}
    for key, entry in sorted_pairs(rewards) do
      local name = type(entry) == "table" and entry.name or type(key) == "string" and key
        or "reward" .. key
      local weight = type(entry) == "table" and tonumber(entry.weight) or nil
      names[#names + 1] = weight and ("%s (weight %g)"):format(name, weight) or tostring(name)
    end
    lines[#lines + 1] = ("| rewards | %s |"):format(table.concat(names, ", "))
  end
  lines[#lines + 1] = ""
end

local function metric_lines(run, step, lines)
  local report
  for _, row in history.rows(run, "eval") do
    if not step or row.step <= step then report = row end
  end
  if report then
    put(lines, ("## Evaluation (%d held-out rows, step %d)"):format(report.n or 0, report.step), "",
      "| metric | value |", "|---|---|")
    for name, value in sorted_pairs(report) do
      if type(value) == "number" and name:find("^eval/") then
        lines[#lines + 1] = ("| `%s` | %.4f |"):format(name, value)
      end
    end
    lines[#lines + 1] = ""
  end
  local row
  for _, one in history.rows(run, "metrics") do row = one end
  if row and type(row.reward) == "number" then
    put(lines, ("Mean reward of the last training step (%d): %.4f."):format(row.step, row.reward),
      "")
  end
end

-- ---- the whole card -----------------------------------------------------------------------------

local function front_matter(o, base)
  local lines = { "---" }
  if base then lines[#lines + 1] = "base_model: " .. base end
  put(lines, "library_name: " .. (o.adapter and "peft" or "transformers"),
    "pipeline_tag: text-generation", table.unpack(licence_lines(o.base)))
  put(lines, "tags:")
  for _, tag in ipairs(o.tags) do put(lines, "- " .. tag) end
  put(lines, "---", "")
  return lines
end

-- Returns the text of the card.  Fields of o:
--   name      the model's name
--   base      directory of the model it was made from, or nil; base_name replaces its name
--   run, step run directory and step of the checkpoint, or nil
--   adapter   whether it is an adapter
--   tags      list of strings
--   note      a sentence, or nil
function model_card.text(o)
  local base = o.base_name or (o.base and model_card.name_of(o.base))
  local lines = front_matter(o, base)
  put(lines, "# " .. o.name, "")
  local config = o.run and rundir.read(o.run, "config")
  local made = config
    and (base and ("Trained from `%s`"):format(base) or "Trained from random weights")
    or base and ("Made from `%s`"):format(base) or "A language model, written"
  put(lines, ("%s with grpo %s%s."):format(made, core.version().version,
    o.step and (", %d step%s"):format(o.step, o.step == 1 and "" or "s") or ""), o.note)
  put(lines, "")
  if config then
    put(lines, "## Training", "")
    for _, stage in ipairs(config.stages or {}) do stage_lines(stage, lines) end
    metric_lines(o.run, o.step, lines)
  end
  return (table.concat(lines, "\n"):gsub("\n+$", "\n"))
end

return model_card
