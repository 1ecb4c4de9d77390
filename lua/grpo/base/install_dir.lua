-- Finds the files that come with grpo on this machine: annotations for editors, examples,
-- experiments, settings.  They are for people and their tools; a run needs only the program.

local core = require "grpo.core"

local install_dir = {}

local MARK = "/lua/grpo/meta/grpo.lua"
local found, installed -- found is false if there is no such directory, nil before the search

local function look()
  local named = os.getenv("GRPO_SHARE")
  if named and named ~= "" then
    if core.fs.exists(named .. MARK) then return named, true end
    local problem = core.fs.exists(named) and "has no " .. MARK:sub(2) or "no such directory"
    error(core.error("ENOENT", ("GRPO_SHARE=%s: %s; set it to the share/grpo of an installation, "
      .. "or unset it"):format(named, problem)), 0)
  end
  local at = core.binary()
  for _ = 1, 5 do
    at = at and at:match("^(.*)/[^/]*$")
    if not at then break end
    if core.fs.exists(at .. "/share/grpo" .. MARK) then return at .. "/share/grpo", true end
    if core.fs.exists(at .. MARK) then return at, false end
  end
  return false, false
end

-- Returns the directory and whether it is an installation's: PREFIX/share/grpo and true for
-- PREFIX/bin/grpo or PREFIX/lib/lua/5.4/grpo.so, the source tree and false for build/release/grpo,
-- nil if there is neither.  GRPO_SHARE overrides the search.
function install_dir.directory()
  if found == nil then found, installed = look() end
  return found or nil, installed
end

-- Returns `path`, or the file of that name that came with grpo ("experiments/gsm8k.lua") if only
-- that one exists.
function install_dir.find(path)
  local root = path:find("^[^/]") and not core.fs.exists(path) and install_dir.directory()
  local there = root and root .. "/" .. path
  return there and core.fs.exists(there) and there or path
end

return install_dir
