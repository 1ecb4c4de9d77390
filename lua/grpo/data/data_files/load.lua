-- grpo.data.load: the files of a split, of a dataset of the Hub, a directory or a file.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local foreign = require "grpo.data.data_files.foreign"
local globs = require "grpo.data.data_files.globs"
local options = require "grpo.options"
local places = require "grpo.data.places"
local splits = require "grpo.data.data_files.splits"

local load = {}

local ignored = { ["config.json"] = true, ["dataset_info.json"] = true,
  ["dataset_infos.json"] = true, ["dataset_dict.json"] = true, ["state.json"] = true }

local function raise(format, ...) errors.raise("EARG", "grpo.data.load: " .. format, ...) end

local function names_of(list)
  local names = {}
  for i, one in ipairs(list) do names[i] = one.name end
  return names
end

-- ---- one configuration, one split ---------------------------------------------------------------

local function choose_config(configs, wanted, name)
  local names = names_of(configs)
  for _, config in ipairs(configs) do
    if config.name == wanted or not wanted and config.default then return config end
  end
  if not wanted then
    raise("%s has several configurations; choose one by config = \"...\": %s", name,
      table.concat(names, ", "))
  end
  return raise("%s has no configuration '%s'%s it has: %s", name, wanted,
    options.hint(wanted, names) == "" and ";" or options.hint(wanted, names),
    table.concat(names, ", "))
end

local function choose_split(config, wanted, name)
  local names = names_of(config.splits)
  if not wanted and #names == 1 then return config.splits[1] end
  for _, split in ipairs(config.splits) do
    if split.name == (wanted or "train") then return split end
  end
  if not wanted then
    raise("%s has several splits; choose one by split = \"...\": %s", name,
      table.concat(names, ", "))
  end
  local hint = options.hint(wanted, names)
  return raise("%s has no split '%s'%s it has: %s", name, wanted, hint == "" and ";" or hint,
    table.concat(names, ", "))
end

-- The format that most files have; others of the split, such as pictures, are left out.
local function common_format(files, format_of)
  local counts, best = {}, nil
  for _, path in ipairs(files) do
    local format = format_of(path)
    counts[format] = (counts[format] or 0) + 1
    if not best or counts[format] > counts[best] then best = format end
  end
  local kept = {}
  for _, path in ipairs(files) do
    if format_of(path) == best then kept[#kept + 1] = path end
  end
  return best, kept
end

-- Says why a directory has no data: files in another format, a loading script, nothing at all.
local function no_data(dir, name, way_out)
  for _, path in ipairs(globs.files_below(dir)) do
    local text = path:find("%.md$") or path:find("%.py$")
    local f = not text and io.open(dir .. "/" .. path, "rb")
    local kind, advice = foreign.of(f and f:read(2048) or "", dir .. "/" .. path)
    if f then f:close() end
    if kind then
      errors.raise("EFORMAT", "grpo.data.load: %s holds %s, which is %s; %s", name, path, kind,
        advice)
    end
  end
  local script = core.fs.exists(("%s/%s.py"):format(dir, name:match("[^/]+$") or ""))
  return errors.raise("ENOENT", "grpo.data.load: %s %s%s", name, script
    and "is made by a Python script, which is not run; load it with the datasets library, and "
    .. "write it with to_parquet" or "has no Parquet, JSON, CSV or TSV file", way_out)
end

-- ---- a directory -------------------------------------------------------------------------------

-- The directory of the split that save_to_disk wrote into a dictionary of splits, and its name: the
-- one that is asked for, train, or the first.
local function saved_split(dir, wanted)
  local text = core.fs.read(dir .. "/dataset_dict.json")
  local ok, value = pcall(core.json_decode, text or "")
  local names, name = ok and type(value) == "table" and value.splits, nil
  for _, split in ipairs(type(names) == "table" and names or {}) do
    if type(split) == "string" and split:find("^[%w_.]+$")
        and (not name or split == wanted or split == "train" and name ~= wanted) then
      name = split
    end
  end
  name = name or "train"
  return dir .. "/" .. name, name
end

-- Refuses a dataset as save_to_disk writes it, which is an Arrow stream.
local function refuse_saved(dir, split)
  local from, into = dir, "rows"
  if core.fs.exists(dir .. "/dataset_dict.json") then
    from, into = saved_split(dir, split)
  elseif not core.fs.exists(dir .. "/state.json") then
    return
  end
  errors.raise("EFORMAT", "grpo.data.load: %s was written by save_to_disk as Arrow streams, which "
    .. "are not read; %s", dir, foreign.by_datasets("load_from_disk", "load_from_disk(%s)", from,
    into .. ".parquet"))
end

-- Returns the format and the files of a split.  way_out: the end of messages that miss a file.
local function of_directory(dir, name, o, format_of, way_out)
  refuse_saved(dir, o.split)
  local configs = splits.of(dir, function(path)
    return format_of(path) ~= nil and not ignored[path:match("[^/]+$")]
  end)
  if #configs == 1 and #configs[1].splits == 0 then no_data(dir, name, way_out) end
  local config = choose_config(configs, o.config, name)
  local split = choose_split(config, o.split,
    #configs > 1 and ("%s (%s)"):format(name, config.name) or name)
  if #split.files == 0 then
    errors.raise("ENOENT", "grpo.data.load: the files of %s, split %s, are not in %s: no file "
      .. "matches '%s'%s", name, split.name, dir, table.concat(split.patterns or {}, "', '"),
      way_out)
  end
  local format, kept = common_format(split.files, format_of)
  for i, path in ipairs(kept) do kept[i] = dir .. "/" .. path end
  return format, kept
end

-- ---- a name ------------------------------------------------------------------------------------

-- The format of a file whose name does not say it, by its first bytes.
local function sniff(path)
  local f = io.open(path, "rb")
  local head = f and f:read(65536) or ""
  if f then f:close() end
  local kind, way_out, format = foreign.of(head, path)
  if format then return format end
  if kind then errors.raise("EFORMAT", "%s: it is %s; %s", path, kind, way_out) end
  if head:find("^[%s\239\187\191]*[%[{]") then return "json" end
  return raise("the name of %s does not say its format; call grpo.data.csv or another reader", path)
end

-- "train[:100]" -> "train", the rows to skip, the row to stop before (nil: the end)
local function slice_of(split)
  if not split or not split:find("[", 1, true) then return split, 0, nil end
  local name, from, to = split:match("^(.-)%[(%d*):(%d*)%]$")
  if not name then
    raise("split = '%s': want a name, or rows by number as in \"train[100:200]\"", split)
  end
  return name, tonumber(from) or 0, tonumber(to)
end

-- Returns format, files, the dataset's name, and the rows to take: from, to (nil: all).
-- format_of(path): by the ending of a name.
function load.resolve(name, o, format_of)
  local from, to
  o.split, from, to = slice_of(o.split)
  local one = type(name) == "string"
  if one and core.fs.isdir(name) then
    local format, files = of_directory(name, name, o, format_of, "")
    return format, files, name, from, to
  end
  if one and not globs.is_pattern(name) and not core.fs.exists(name) and not format_of(name) then
    local dir = places.snapshot(name, { kind = "dataset", revision = o.revision })
    local format, files = of_directory(dir, name, o, format_of,
      ("; bring them with: grpo pull --dataset %s"):format(name))
    return format, files, name, from, to
  end
  for _, option in ipairs { "config", "revision" } do
    if o[option] then raise("%s belongs to a directory or a name of the Hub", option) end
  end
  local first = one and name or name[1]
  return format_of(tostring(first)) or sniff(tostring(first)), name, nil, from, to
end

return load
