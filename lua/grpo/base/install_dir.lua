-- Where the files that come with grpo are on this machine: annotations for editors, examples, experiments, settings.
-- What a run needs is inside the program; these are for people and their tools.

local core = require "grpo.core"

local install_dir = {}

local MARK = "/lua/grpo/meta/grpo.lua"
local found, installed -- found: false when there is none

local function look()
  local named = os.getenv("GRPO_SHARE")
  if named and named ~= "" then
    if core.fs.exists(named .. MARK) then return named, true end
    local what = core.fs.exists(named) and "has no " .. MARK:sub(2) or "no such directory"
    error(core.error("ENOENT",
      ("GRPO_SHARE=%s: %s; want the share/grpo of an installation, or no GRPO_SHARE"):format(named, what)), 0)
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

-- PREFIX/share/grpo of PREFIX/bin/grpo or PREFIX/lib/lua/5.4/grpo.so, and true; the source tree of build/release/grpo,
-- and false; or nil.  GRPO_SHARE names another.
function install_dir.directory()
  if found == nil then found, installed = look() end
  return found or nil, installed
end

-- `path` itself, or the file of that name that came with grpo ("experiments/gsm8k.lua") when there is none here.
function install_dir.find(path)
  local root = path:find("^[^/]") and not core.fs.exists(path) and install_dir.directory()
  local there = root and root .. "/" .. path
  return there and core.fs.exists(there) and there or path
end

return install_dir
