local core = require "grpo.core"
local extensions = require "grpo.base.extensions"
local flags = require "grpo.commands.flags"

local command = {
  name = "doctor",
  summary = "show versions, CPU, kernels and memory, for a bug report",
  arguments = {},
  flags = { flags.json },
  about = { "Shows versions, the CPU, the kernels in use and the memory, as a bug report needs." },
}

function command.version_text()
  local v = core.version()
  local others = {}
  for _, row in ipairs(extensions.rows "libraries") do
    if row.brief then others[#others + 1] = ("; %s: %s"):format(row.label, row.name()) end
  end
  return (("grpo %s (%s)\nkernels: %s; OpenBLAS: %s; Lua: %s; PCRE2: %s%s\n")
    :format(v.version, v.commit, core.kernels(), v.blas, v.lua, v.pcre2,
    table.concat(others)))
end

function command.run(o)
  local rows = core.doctor()
  for _, row in ipairs(extensions.rows "libraries") do
    if row.key then rows[#rows + 1] = { row.label, row.name() } end
  end
  for _, row in ipairs(extensions.rows "machine") do rows[#rows + 1] = { row[1], row[2]() } end
  if o.flags.json then
    local t = {}
    for _, row in ipairs(rows) do t[row[1]] = row[2] end
    core.out(core.json_encode(t) .. "\n")
    return 0
  end
  for _, row in ipairs(rows) do core.out(("%-20s %s\n"):format(row[1], tostring(row[2]))) end
end

return command
