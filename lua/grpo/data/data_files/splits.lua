-- The configurations and splits of a directory of data files, as the `datasets` library finds them:
-- from `configs` of README.md, else from the names of directories and files.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local globs = require "grpo.data.data_files.globs"
local sorted_pairs = require "grpo.base.sorted"
local text_formats = require "grpo.base.text_formats"

local splits = {}

local keywords = {
  { "train", "train", "training" },
  { "validation", "validation", "valid", "dev", "val" },
  { "test", "test", "testing", "eval", "evaluation" },
}
local in_directory = { "**/%s/**", "**/%s[-._ 0-9]*/**", "**/*[-._ 0-9]%s/**",
  "**/*[-._ 0-9]%s[-._ 0-9]*/**" }
local in_file = { "**/%s[-._ 0-9]*", "**/*[-._ 0-9]%s[-._ 0-9]*" }

-- Appends the files that match a pattern and are not there yet; returns how many match.
local function add_matches(list, files, pattern)
  local count, matches = 0, globs.matcher(pattern)
  for _, path in ipairs(files) do
    if matches(path) then
      count = count + 1
      if not list[path] then
        list[path] = true
        list[#list + 1] = path
      end
    end
  end
  return count
end

local function new_split(found, name)
  for _, split in ipairs(found) do
    if split.name == name then return split end
  end
  found[#found + 1] = { name = name, files = {} }
  return found[#found]
end

-- data/train-00000-of-00002.parquet
local function sharded(files)
  local found = {}
  for _, path in ipairs(files) do
    local name = path:match("^data/([%w_]+)%-%d%d%d%d%d%-of%-%d%d%d%d%d.*%.")
    if name then table.insert(new_split(found, name).files, path) end
  end
  return found
end

local function by_keywords(files, patterns)
  local found = {}
  for _, words in ipairs(keywords) do
    local list = {}
    for i = 2, #words do
      for _, pattern in ipairs(patterns) do add_matches(list, files, pattern:format(words[i])) end
    end
    if #list > 0 then found[#found + 1] = { name = words[1], files = list } end
  end
  return found
end

-- The splits that the names of files tell; all files are "train" if they tell none.
local function by_names(files)
  for _, find in ipairs { sharded, function(f) return by_keywords(f, in_directory) end,
    function(f) return by_keywords(f, in_file) end } do
    local found = find(files)
    if #found > 0 then return found end
  end
  return #files > 0 and { { name = "train", files = files } } or {}
end

-- ---- README.md ----------------------------------------------------------------------------------

-- Returns the list `configs` of a directory's README.md, or nil.
local function configs_of(dir)
  local text = core.fs.exists(dir .. "/README.md") and core.fs.read(dir .. "/README.md")
  local head = text and text:gsub("\r\n", "\n"):match("^\239?\187?\191?%-%-%-\n(.-\n)%-%-%-")
  local block = head and ("\n" .. head):match("\n(configs:[^\n]*\n.*)")
  if not block then return nil end
  local stop = block:find("\n[^%s%-#]") -- the next key
  local value = text_formats.decode("yaml", stop and block:sub(1, stop) or block,
    dir .. "/README.md")
  return type(value.configs) == "table" and #value.configs > 0 and value.configs or nil
end

-- Returns the patterns of a `data_files` entry by split: a list of { name, patterns }.
local function patterns_of(data_files)
  local list = {}
  local function add(name, path)
    list[#list + 1] = { name = tostring(name),
      patterns = type(path) == "table" and path or { path } }
  end
  if type(data_files) ~= "table" then
    add("train", data_files)
  elseif #data_files == 0 then
    for name, path in sorted_pairs(data_files) do add(name, path) end
  elseif type(data_files[1]) ~= "table" then
    add("train", data_files)
  else
    for _, entry in ipairs(data_files) do add(entry.split or "train", entry.path) end
  end
  return list
end

local function by_patterns(files, data_files)
  local found = {}
  for _, entry in ipairs(patterns_of(data_files)) do
    local split = new_split(found, entry.name)
    split.patterns = entry.patterns
    for _, pattern in ipairs(entry.patterns) do
      add_matches(split.files, files, tostring(pattern):gsub("^%./", ""))
    end
  end
  return found
end

local function below(files, dir)
  local list = {}
  for _, path in ipairs(files) do
    if path:sub(1, #dir + 1) == dir .. "/" then list[#list + 1] = path:sub(#dir + 2) end
  end
  return list
end

local function of_config(files, config)
  local prefix = type(config.data_dir) == "string" and config.data_dir:gsub("/$", "")
  local found
  if prefix then files = below(files, prefix) end
  if config.data_files and config.data_files ~= core.json_null then
    found = by_patterns(files, config.data_files)
  else
    found = by_names(files)
  end
  for _, split in ipairs(prefix and found or {}) do
    for i, path in ipairs(split.files) do split.files[i] = prefix .. "/" .. path end
  end
  return found
end

-- ---- the directory ------------------------------------------------------------------------------

-- Returns the configurations of a directory: a list of { name, default, splits = list of { name,
-- files, patterns } }, where files are paths relative to it.  is_data(path): can it be read?
function splits.of(dir, is_data)
  local files = {}
  for _, path in ipairs(globs.files_below(dir)) do
    if is_data(path) and not path:find("^__") and not path:find("/__", 1, true) then
      files[#files + 1] = path
    end
  end
  local configs = configs_of(dir)
  if not configs then return { { name = "default", default = true, splits = by_names(files) } } end
  local list = {}
  for i, config in ipairs(configs) do
    if type(config) ~= "table" then
      errors.raise("EFORMAT", "%s/README.md: entry %d of configs is not an object", dir, i)
    end
    list[i] = { name = tostring(config.config_name or "default"), splits = of_config(files, config),
      default = config.default == true or config.config_name == "default" or #configs == 1 }
  end
  return list
end

return splits
