-- Any file of settings, as JSON and as YAML: refused with one line that begins with the file, or
-- options that grpo.experiment takes or refuses.
local core = require "grpo.core"
local data = require "grpo.data"
local expect = require "expect"
local experiment = require "grpo.experiment"
local settings = require "grpo.settings"

-- Files and modules are the machine's, so a fuzzed name must not open one.
local function without_files(f, ...)
  local real_read, real_require = core.fs.read, require
  core.fs.read = function(path) return nil, path .. ": no such file", "ENOENT" end
  _G.require = function(name)
    if name:find("^rewards%.[%w_]+$") or package.loaded[name] then return real_require(name) end
    error(("module '%s' not found"):format(name), 0)
  end
  local results = table.pack(pcall(f, ...))
  core.fs.read, _G.require = real_read, real_require
  return table.unpack(results, 1, results.n)
end

local function try(text, path, kind)
  local inputs = data.inputs
  data.inputs = {}
  local ok, fields = without_files(settings.fields, text, path, kind)
  if not ok then
    expect.refused(fields, nil, nil)
  else
    local fine, problem = without_files(experiment.new, fields, { path = path, where = path,
      overrides = {}, rewards = {} })
    if not fine then expect.refused(problem) end
  end
  data.inputs = inputs
end

return function(input)
  try(input, "input.json", "json")
  if core.version().yaml ~= "none" then try(input, "input.yaml", "yaml") end
end
