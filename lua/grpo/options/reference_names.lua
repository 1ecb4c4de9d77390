-- The names that the option reference may have beside a model's path and false: "initial",
-- "random", and those that extensions add, the rows `references`.

local extensions = require "grpo.base.extensions"

local reference_names = { list = { "initial", "policy" }, added = {} } -- added[name]: the row

for _, row in ipairs(extensions.rows "references") do
  table.insert(reference_names.list, row.name)
  reference_names.added[row.name] = row
end
table.insert(reference_names.list, "random")

-- The values of the option, for messages.
reference_names.wanted = ("\"%s\", a model's path or false")
  :format(table.concat(reference_names.list, "\", \""))

return reference_names
