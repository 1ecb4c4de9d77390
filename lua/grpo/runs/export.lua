-- Writes a model for other programs: a directory that transformers loads, a PEFT adapter, or a
-- file of an extension's format with a model or with an adapter alone.  Everything is written under
-- a temporary name and then renamed, so that an incomplete export never has the final name.

local core = require "grpo.core"
local model_card = require "grpo.runs.card"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local places = require "grpo.data.places"
local loading = require "grpo.models.loading"
local model_paths = require "grpo.models.paths"
local model_run = require "grpo.runs.model_run"
local json = require "grpo.jinja.json"
local rundir = require "grpo.runs.directory"
local values = require "grpo.jinja.values"

local fs = core.fs
local export = {}

local must = errors.must

-- ---- where the model comes from -----------------------------------------------------------------

-- Describes the model to export: { place =, run =, step =, base = directory of the base model or
-- nil, base_name = its name if it is not here, name = }
local function source_of(path, base)
  local source = { place = model_paths.find(path, base), run = model_paths.run_of(path) }
  if source.run then rundir.verified(source.run) end
  local dir = source.place.adapter or source.place.path
  source.step = math.tointeger(model_paths.read_json(dir .. "/trainer.json").step)
  if source.place.adapter then
    source.base = source.place.path
  elseif source.run then
    local from = model_run.option(source.run, "model.path")
    local ok, place = pcall(places.place, from)
    from = ok and place or from
    source.base = type(from) == "string" and fs.exists(from) and from or nil
    source.base_name = type(from) == "string" and not source.base and from:match("[^/]+/*$") or nil
  else
    source.base = source.place.path
  end
  source.name = source.run and (fs.realpath(source.run) or source.run):match("[^/]+$")
    or model_card.name_of(source.place.name and source.place.path or path)
  return source
end

-- Returns the type that weights are written in by default: the base model's.
local function own_dtype(source)
  local config = source.base and model_paths.read_json(source.base .. "/config.json") or {}
  local names = { bfloat16 = "bf16", float16 = "f16" }
  return names[config.torch_dtype or config.dtype] or "f32"
end

-- Returns the Jinja text of the run's or the tokenizer's chat template, or nil; and whether it is
-- the run's.
local function template_of(source, model)
  local given = model_run.option(source.run, "model.chat_template")
  if type(given) == "string" and given:find("{[{%%#]") then return given, true end
  local own = model.tokenizer and model.tokenizer.chat_template
  return type(own) == "string" and own or nil
end

-- Returns the base model's name for a published adapter: a public name if one is known, else the
-- name in the adapter's own configuration.
local function public_base(source)
  local known = model_card.name_of(source.base)
  local named = model_paths.read_json(source.place.adapter
    .. "/adapter_config.json").base_model_name_or_path
  local usable = type(named) == "string" and named ~= "" and named:sub(1, 1) ~= "/"
  return not known:find("/") and usable and named or known
end

-- ---- the files beside the weights ---------------------------------------------------------------

-- Sets one field of a JSON file; its other fields and their order stay.
local function set_field(path, key, value)
  local ok, object = pcall(json.read, fs.read(path) or "{}")
  if not ok or values.kind(object) ~= "dict" or object.map[key] == value then return end
  values.put(object, key, value)
  local unlimited = { line = 1, steps = math.huge, limit = math.huge, max_text = math.huge }
  must(fs.write(path,
    json.write(unlimited, object, { comma = ",", colon = ": ", indent = "  " }) .. "\n"))
end

-- Writes the chat template to a file of its own, for newer readers, and into tokenizer_config.json,
-- for older ones.  Named templates of the tokenizer's stay, unless the run had another one.
local function write_template(dir, template, is_the_runs)
  if not template then return end
  local written = model_paths.read_json(dir .. "/tokenizer_config.json").chat_template
  if is_the_runs then
    fs.remove_tree(dir .. "/additional_chat_templates")
  elseif type(written) == "table" and not fs.exists(dir .. "/chat_template.jinja") then
    return
  end
  must(fs.write(dir .. "/chat_template.jinja", template))
  set_field(dir .. "/tokenizer_config.json", "chat_template", template)
end

-- Copies the base model's recommended sampling options.
local function write_generation_config(dir, base)
  local text = base and fs.read(base .. "/generation_config.json")
  if text then must(fs.write(dir .. "/generation_config.json", text)) end
end

local function write_card(dir, source, o)
  local tags = { "grpo" }
  if source.place.adapter then tags[#tags + 1] = "lora" end
  if o.quantize then tags[#tags + 1] = "4-bit" end
  tags[#tags + 1] = "text-generation"
  local merged = o.merge and source.place.adapter
    and "The low-rank adapter is merged into the weights." or nil
  must(fs.write(dir .. "/README.md", model_card.text { name = source.name, base = source.base,
    base_name = source.base_name, run = source.run, step = source.step,
    adapter = o.format == "adapter", tags = tags, note = merged }))
end

-- ---- the formats --------------------------------------------------------------------------------

local writers = {}

local rows = extensions.rows "model_formats"

local function row_of_ending(target)
  for _, row in ipairs(rows) do
    if target:sub(-#row.ending) == row.ending then return row end
  end
end

function writers.hf(model, source, target, o)
  must(fs.mkdirs(target))
  local dtype = o.quantize or o.dtype or own_dtype(source)
  model:save(target, { dtype = dtype, merge = o.merge and source.place.adapter and true or nil })
  local stored = { f32 = "float32", bf16 = "bfloat16", f16 = "float16" }
  set_field(target .. "/config.json", "torch_dtype", stored[dtype] or "bfloat16")
  write_generation_config(target, source.base)
  write_template(target, template_of(source, model))
  write_card(target, source, o)
end

function writers.adapter(model, source, target, o)
  if row_of_ending(target) then return model:save(target, { format = "adapter" }) end
  must(fs.mkdirs(target))
  model:save(target, { format = "adapter", base_name = public_base(source) })
  if model.tokenizer then model.tokenizer:save(target) end
  write_template(target, template_of(source, model))
  write_card(target, source, o)
end

local quantize_of = { hf = { "nf4" }, adapter = {} }

for _, row in ipairs(rows) do
  quantize_of[row.name] = row.quantize
  writers[row.name] = function(model, source, target, o)
    model:save(target, { format = row.name, dtype = o.quantize or o.dtype or own_dtype(source),
      merge = o.merge and source.place.adapter and true or nil })
  end
end

-- Refuses a type that a format cannot hold.
local function check_quantize(o)
  local known = quantize_of[o.format]
  for _, name in ipairs(known) do
    if name == o.quantize then return end
  end
  local way_out = "use " .. table.concat(known, " or ")
  if o.format == "hf" then
    local others = ""
    for _, row in ipairs(rows) do
      others = others .. (", %s are for --format %s"):format(table.concat(row.quantize, ", "),
        row.name)
    end
    way_out = way_out .. (" (int8 is for loading only%s)"):format(others)
  end
  errors.raise("EARG", "--quantize %s: --format %s cannot hold it; %s", o.quantize, o.format,
    way_out)
end

-- Refuses contradictory flags before anything is loaded.
local function check(source, o)
  if o.format == "adapter" and not source.place.adapter then
    errors.raise("EARG", "--format adapter: %s has no adapter; use --format hf", o.path)
  end
  if o.format == "adapter" and (o.merge or o.dtype or o.quantize) then
    errors.raise("EARG", "--%s: has no meaning for an adapter alone; use --format hf --merge",
      o.merge and "merge" or o.dtype and "dtype" or "quantize")
  end
  if o.format ~= "adapter" and source.place.adapter and not o.merge then
    errors.raise("EARG", "%s: is an adapter; use --merge to write it merged into its base, or "
      .. "--format adapter to write it by itself",
      o.path)
  end
  if o.quantize then check_quantize(o) end
  if o.quantize and o.dtype then
    errors.raise("EARG", "--dtype: --quantize %s decides it; leave one out", o.quantize)
  end
end

-- Tells whether a directory holds a model's files and nothing else, so that replacing it loses
-- nothing more.
local function is_plain_model(dir)
  local names = fs.list(dir) or {}
  for _, name in ipairs(names) do
    if fs.isdir(dir .. "/" .. name) then return false end
  end
  return #names == 0 or fs.exists(dir .. "/config.json") or fs.exists(dir .. "/adapter_config.json")
end

-- Tells whether the target is one of the exported model's files or a folder above one.
local function holds_source(target, source, path)
  local full = fs.realpath(target)
  for _, read in pairs { path, source.place.path, source.place.adapter, source.run, source.base } do
    local real = fs.realpath(read)
    if full and real and (real .. "/"):sub(1, #full + 1) == full .. "/" then return true end
  end
end

-- Refuses an OUT that may not be written or replaced, before anything is loaded.
local function check_target(target, source, o)
  local name = target:match("[^/]+$")
  if not name or name == "." or name == ".." then
    errors.raise("EARG",
      "%s: is not a name for a model; give a new directory, or a file ending in .gguf",
      o.target == "" and "OUT" or o.target)
  end
  if not fs.exists(target) then
    if fs.readlink(target) then
      errors.raise("EARG", "%s: is a link that leads nowhere; remove it", o.target)
    end
    return
  end
  if not o.force then errors.raise("EARG", "%s: exists already; --force replaces it", o.target) end
  if holds_source(target, source, o.path) then
    errors.raise("EARG", "%s: holds the model that is exported; write it elsewhere", o.target)
  end
  if fs.isdir(target) and not is_plain_model(target) then
    errors.raise("EARG",
      "%s: holds more than a model, so --force does not replace it; give another name",
      o.target)
  end
end

local function replace(temporary, target, force)
  local old = temporary .. ".old"
  local replaced = force and fs.exists(target)
  if replaced then must(fs.rename(target, old)) end
  must(fs.rename(temporary, target))
  if replaced then fs.remove_tree(old) end
end

-- o: { path =, target =, format =, merge =, quantize =, dtype =, force =, base = }
-- format: "hf", "adapter" or an extension's; nil: as the target's ending says
function export.write(o)
  local source = source_of(o.path, o.base)
  o.format = o.format or (row_of_ending(o.target) or { name = "hf" }).name
  local target = o.target:gsub("/+$", "")
  check(source, o)
  check_target(target, source, o)
  local model = loading.open(o.path, { base = o.base, grow = true })
  local parent, name = target:match("^(.*/)([^/]+)$")
  local temporary = (parent or "") .. ".tmp-" .. (name or target)
  if parent then must(fs.mkdirs(parent)) end
  fs.remove_tree(temporary)
  local ok, err = pcall(writers[o.format], model, source, temporary, o)
  if ok then ok, err = pcall(replace, temporary, target, o.force) end
  if ok then return end
  fs.remove_tree(temporary)
  if type(err) == "table" and err.message then -- name the target, not the temporary directory
    local at, last = err.message:find(temporary, 1, true)
    if at then err.message = err.message:sub(1, at - 1) .. target .. err.message:sub(last + 1) end
  end
  error(err, 0)
end

return export
