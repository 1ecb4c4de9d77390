-- The extension jail: grpo.jail, which rewards.code needs.

-- Programs that rewards of the script run, in lines.
local function programs()
  local jail = package.loaded["grpo.jail"]
  return jail and jail.needed or {}
end

local function maker() return require("grpo.jail").problem() or "bubblewrap" end

return {
  names = { { name = "jail", load = function() return require "grpo.jail" end } },
  machine = { { "jail for code", maker } },
  checks = { { name = "rewards run in a jail", lines = programs } },
}
