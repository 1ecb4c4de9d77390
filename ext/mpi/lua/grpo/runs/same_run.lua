-- Do all ranks train the same run?  Bits that differ from rank to rank would be taken together
-- without a word, so ranks compare what they are when they meet, and what they have loaded before
-- they train.  Threads may differ, and what is only shown.

local core = require "grpo.core"
local inputs = require "grpo.runs.inputs"
local loaded_sources = require "grpo.options.scripts.loaded_sources"
local modules = require "grpo.options.scripts.modules"
local ranks = require "grpo.base.ranks"
local script_files = require "grpo.options.scripts.script_files"
local sorted_pairs = require "grpo.base.sorted"
local stage_options = require "grpo.runs.stage_options"

local same_run = {}

local LONG = 80 -- bytes of a value that is shown

local function sum_text(size, crc)
  return size and ("%d bytes with CRC-32C %08x"):format(size, crc) or "missing"
end

local function shown(text)
  return #text <= LONG and text or sum_text(#text, core.fs.crc32c(text))
end

-- Every rank raises one error that names the first rank for which problem(its value, that of rank
-- 0) returns a sentence.
local function compare(what, value_of, problem)
  local host = core.hostname()
  local list = ranks.exchange(what, function() return { value = value_of(), host = host } end)
  for r = 2, #list do
    local text = problem(list[r].value, list[1].value)
    if text then
      local err = core.error("EARG", ("rank %d on %s: %s"):format(r - 1, list[r].host, text))
      err.of_all_ranks = true
      error(err, 0)
    end
  end
end

-- A sentence about the values { [name] = text } that differ; nil: none does.
local function difference(theirs, ours)
  local names, count = {}, 0
  for name in pairs(theirs) do names[name] = true end
  for name in pairs(ours) do names[name] = true end
  local first
  for name in sorted_pairs(names) do
    if theirs[name] ~= ours[name] then first, count = first or name, count + 1 end
  end
  if not first then return nil end
  local more = count > 1 and (", and %d more differ"):format(count - 1) or ""
  return ("%s is %s there and %s on rank 0%s, so it is not the same run; start all ranks with the "
    .. "same words and files"):format(first, theirs[first] or "not set", ours[first] or "not set",
    more)
end

-- ---- the programs ------------------------------------------------------------------------------

-- The facts that ranks must have in common to compute the same bits: { name, the difference in
-- words, what to do }.
local phrases = {
  { "version", "it is grpo %s and rank 0 is %s", "install the same version" },
  { "commit", "it was built from %s and rank 0 from %s", "build both from the same source" },
  { "lua", "its Lua files are %s and those of rank 0 are %s", "set GRPO_LUA to the same for both" },
}

-- And those that the options decide about, because portable kernels need the first one only.
local arithmetic_phrases = {
  { "kernels", "its kernels are %s and those of rank 0 are %s",
    "set GRPO_CPU to the same class for both" },
  { "blas", "its OpenBLAS is %s and that of rank 0 is %s", "use the same one for both" },
  { "libc", "its C library is %s and that of rank 0 is %s",
    "use the same system, or container, for both" },
  { "program", "its program has %s and that of rank 0 has %s", "start the same build on both" },
}

local function other_facts(list)
  return function(theirs, ours)
    for _, phrase in ipairs(list) do
      local name, what, cure = table.unpack(phrase)
      if theirs[name] ~= ours[name] then
        return ("%s, so its bits could differ; %s"):format(
          what:format(tostring(theirs[name]):sub(1, 60), tostring(ours[name]):sub(1, 60)), cure)
      end
    end
  end
end

local function facts()
  local v = core.version()
  return { version = v.version, commit = v.commit, lua = os.getenv("GRPO_LUA") or "its own" }
end

local function arithmetic_facts()
  local v, binary = core.version(), core.binary()
  if v.kernels == "portable" then return { kernels = v.kernels } end
  local crc, size
  if binary then crc, size = core.fs.checksum(binary) end
  return { kernels = v.kernels, libc = v.libc, blas = v.kernels == "blas" and v.blas or "not used",
    program = sum_text(crc and size, crc) }
end

-- The flags and the script of the command line, by their names.
local function words_of(request)
  local list = { script = request.script, ["--dir"] = request.root, ["--as"] = request.as,
    ["--steps"] = request.steps and ("%d"):format(request.steps),
    ["--resume"] = request.resume and tostring(request.resume),
    ["--force"] = request.force and "given" or nil }
  for name, value in pairs(request.args or {}) do list["--arg " .. name] = value end
  return list
end

-- request: see start.trainer
function same_run.met(request)
  if ranks.size() == 1 then return end
  compare("facts", facts, other_facts(phrases))
  compare("words", function() return words_of(request) end, difference)
end

-- ---- what they have loaded --------------------------------------------------------------------

local function add_options(list, described)
  for _, row in ipairs(stage_options.rows { { stages = stage_options.stages(described) } }) do
    local text = row.name:match("[^.]*$") ~= "threads" and stage_options.text(row[1])
    if text then list[row.name] = shown((text:gsub(": 0x%x+", ""))) end -- an address in memory
  end
end

local function add_text(list, path, text)
  if text then list[path] = sum_text(#text, core.fs.crc32c(text)) end
end

local function add_source(list, path)
  add_text(list, path, path and loaded_sources.of(path).text)
end

-- The manifest has the checksums of all files of a checkpoint.
local function add_checkpoint(list, dir)
  if not dir then return end
  local crc, size = core.fs.checksum(dir .. "/manifest.json")
  list.checkpoint = ("%s (manifest.json: %s)"):format(dir:match("[^/]*$"), sum_text(size, crc))
end

-- e: the experiment; described(e): its options; paths(e): of the files that it reads; from: the
-- checkpoint that it resumes from, nil: none
function same_run.loaded(request, e, described, paths, from)
  if ranks.size() == 1 then return end
  compare("arithmetic", arithmetic_facts, other_facts(arithmetic_phrases))
  compare("options", function()
    local list = {}
    add_options(list, described(e))
    add_source(list, request.script)
    for _, path in pairs(modules.loaded()) do add_source(list, path) end
    for path, text in pairs(script_files.texts()) do add_text(list, path, text) end
    add_checkpoint(list, from)
    for _, file in ipairs(inputs.list(paths(e))) do
      list[file.path] = sum_text(file.size, file.crc32c)
    end
    for place, sum in pairs((require("grpo.loop.row_check").first(e))) do
      list["row " .. place] = sum
    end
    return list
  end, difference)
end

return same_run
