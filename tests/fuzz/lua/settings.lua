-- Any file of settings, as JSON and as YAML: refused with one line that begins with the file, or
-- options that grpo.experiment takes or refuses.
local core = require "grpo.core"
local files_read = require "grpo.base.files_read"
local expect = require "expect"
local experiment = require "grpo.options.experiment"
local settings = require "grpo.options.settings"

-- Files and modules are the machine's, so a fuzzed name must not open one.
local function without_files(f, ...)
  local real_read, real_require = core.fs.read, require
  local function no_file(path) return nil, path .. ": no such file", "ENOENT" end
  local function find(name)
    local own = name:find("^rewards%.[%w_]+$") or name:find("^grpo%.[%w_.]+$")
    if not own and not package.loaded[name] then
      error(("module '%s' not found"):format(name), 0)
    end
    local fake_require = _G.require
    core.fs.read, _G.require = real_read, real_require -- one of ours requires others
    local ok, module = pcall(real_require, name)
    core.fs.read, _G.require = no_file, fake_require
    return ok and module or error(module, 0)
  end
  core.fs.read, _G.require = no_file, find
  local results = table.pack(pcall(f, ...))
  core.fs.read, _G.require = real_read, real_require
  return table.unpack(results, 1, results.n)
end

local function try(text, path)
  local read = files_read.paths
  files_read.paths = {}
  local ok, fields = without_files(settings.fields, text, path, settings.kind(path))
  if not ok then
    expect.refused(fields, nil, nil)
  else
    local fine, problem = without_files(experiment.new, fields, { path = path, where = path,
      overrides = {}, rewards = {} })
    if not fine then expect.refused(problem) end
  end
  files_read.paths = read
end

return function(input)
  for _, path in ipairs { "input.json", "input.yaml" } do
    if settings.kind(path) then try(input, path) end
  end
end
