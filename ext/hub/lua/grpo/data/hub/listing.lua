-- Reads what the Hub says about a repository: its commit and the list of its files.  Nothing in it
-- is trusted: names become paths below a snapshot, sums become names of blobs.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local glob = require "grpo.base.glob"

local listing = {
  MAX_PAGE = 32 << 20, -- bytes
  MAX_FILES = 100000,
}

local MAX_NAME, MAX_PART, MAX_SIZE = 1024, 255, 1 << 50

local function refuse(what, format, ...)
  errors.raise_plain("EFORMAT", what .. ": " .. format, ...)
end

local function decode(text, what)
  if #text > listing.MAX_PAGE then refuse(what, "has %d bytes, which is too long", #text) end
  local value = core.json_decode(text, what)
  return type(value) == "table" and value or refuse(what, "is not an object or a list")
end

-- Returns the reason why a file name of the server is not written, or nil.
function listing.name_problem(name)
  if type(name) ~= "string" or name == "" then return "is empty" end
  if #name > MAX_NAME then return "is too long" end
  if name:find("[%z\1-\31\127]") then return "holds a control character" end
  if name:find("[\\:]") then return "holds a backslash or a colon" end
  if not utf8.len(name) then return "is not UTF-8" end
  if name:find("^/") or name:find("/$") or name:find("//", 1, true) then
    return "begins or ends with a slash, or has two in a row"
  end
  for part in name:gmatch("[^/]+") do
    if part == "." or part == ".." then return "leads out of its directory" end
    if #part > MAX_PART then return "is too long" end
    if part:find("^%.tmp") or part:find("[ .]$") then return "is reserved" end
  end
end

local function is_sum(text, digits)
  return type(text) == "string" and #text == digits and not text:find("[^0-9a-f]")
end

-- Returns the commit of an answer to /api/models/NAME/revision/REVISION.
function listing.commit(text, what)
  local sha = decode(text, what).sha
  if not is_sum(sha, 40) then refuse(what, "names no commit") end
  return sha
end

-- A file: { name =, size =, sum =, kind = "sha1" (of git, whose sum includes a header) | "sha256" }
local function file_of(entry, what)
  local problem = listing.name_problem(entry.path)
  if problem then
    refuse(what, "the name of a file %s (%q)", problem, tostring(entry.path):sub(1, 80))
  end
  local lfs = type(entry.lfs) == "table" and entry.lfs or nil
  local sum, size = lfs and lfs.oid or not lfs and entry.oid, lfs and lfs.size or entry.size
  if type(sum) == "string" then sum = sum:gsub("^sha256:", "") end
  if not is_sum(sum, lfs and 64 or 40) then refuse(what, "%s has no sum", entry.path) end
  size = math.tointeger(size)
  if not size or size < 0 or size > MAX_SIZE then refuse(what, "%s has no size", entry.path) end
  return { name = entry.path, size = size, sum = sum, kind = lfs and "sha256" or "sha1" }
end

-- Adds the files of one page of /api/models/NAME/tree/COMMIT?recursive=true to `files`, which is a
-- list and has each file under its name too.
function listing.add_page(files, text, what)
  for _, entry in ipairs(decode(text, what)) do
    if type(entry) ~= "table" then refuse(what, "an entry is not an object") end
    if entry.type == "file" then
      local file = file_of(entry, what)
      if files[file.name] then refuse(what, "%s is listed twice", file.name) end
      if #files == listing.MAX_FILES then
        refuse(what, "has more than %d files", listing.MAX_FILES)
      end
      files[#files + 1], files[file.name] = file, file
    elseif entry.type ~= "directory" then
      refuse(what, "an entry is neither a file nor a directory")
    end
  end
end

-- Raises if a file has the name of another one's directory.
function listing.check(files, what)
  for _, file in ipairs(files) do
    local at = 0
    repeat
      at = file.name:find("/", at + 1, true)
      if at and files[file.name:sub(1, at - 1)] then
        refuse(what, "%s is a file and a directory", file.name:sub(1, at - 1))
      end
    until not at
  end
end

-- Returns the address of the next page in the header Link, or nil.
function listing.next_page(link)
  for address, parameters in (link or ""):gmatch("<([^<>]*)>([^,<]*)") do
    if parameters:find('rel%s*=%s*"?next"?') then return address end
  end
end

-- ---- which files -------------------------------------------------------------------------------

-- Weights in forms that grpo does not read; a repository often has them beside safetensors.
local other_weights = { "%.bin$", "%.pt$", "%.pth$", "%.ckpt$", "%.h5$", "%.msgpack$", "%.ot$",
  "%.onnx$", "%.onnx_data$", "%.tflite$", "%.mlmodel$", "%.mlpackage/", "%.npz$", "%.gguf$",
  "^consolidated%..*safetensors$", "%.bin%.index%.json$", "%.pth%.index%.json$" }

local function is_other_weight(name)
  for _, pattern in ipairs(other_weights) do
    if name:lower():find(pattern) then return true end
  end
  return false
end

local function some(files, test)
  for _, file in ipairs(files) do
    if test(file.name) then return true end
  end
  return false
end

local function with(files, test)
  local list = {}
  for _, file in ipairs(files) do
    if test(file.name) then list[#list + 1] = file end
  end
  return list
end

local function ends_in_gguf(name) return name:lower():find("%.gguf$") ~= nil end

-- Returns the files to bring, in the order in which they become visible: what tells that a model is
-- complete comes last.  include: patterns, or an empty list for all that grpo reads.
function listing.select(files, kind, include, what)
  local list = files
  if #include > 0 then
    local matchers = {}
    for i, pattern in ipairs(include) do matchers[i] = glob.matcher(pattern, "!") end
    list = with(files, function(name)
      for _, matches in ipairs(matchers) do
        if matches(name) then return true end
      end
      return false
    end)
    if #list == 0 then
      errors.raise_plain("EARG", "%s: none of its %d files matches --include %s", what, #files,
        table.concat(include, " --include "))
    end
  elseif kind == "model" then
    local safetensors = some(files, function(name)
      return name:find("^model.*%.safetensors$") or name == "adapter_model.safetensors"
    end)
    if safetensors then
      list = with(files, function(name) return not is_other_weight(name) end)
    elseif #with(files, ends_in_gguf) > 1 then
      errors.raise_plain("EARG", "%s: has %d .gguf files, of which one is enough; choose with "
        .. "--include, for instance --include '%s'", what, #with(files, ends_in_gguf),
        with(files, ends_in_gguf)[1].name)
    end
  end
  local last = { ["model.safetensors.index.json"] = 1, ["adapter_config.json"] = 2,
    ["config.json"] = 3 }
  list = table.move(list, 1, #list, 1, {})
  table.sort(list, function(a, b)
    local x, y = last[a.name] or 0, last[b.name] or 0
    if x ~= y then return x < y end
    return a.name < b.name
  end)
  return list
end

return listing
