-- Two evaluations of the same held-out rows, compared row by row.

local errors = require "grpo.base.errors"
local row_checksum = require "grpo.options.row_checksum"
local sorted_pairs = require "grpo.base.sorted"
local statistics = require "grpo.statistics"

local paired = {}

-- Rows that both reports have must be the same ones.
local function check_rows(a, b)
  local common = 0
  for number, row in sorted_pairs(a.rows) do
    local other = b.rows[number]
    if other ~= nil and row_checksum.of(row) ~= row_checksum.of(other) then
      errors.raise_plain("EARG", "eval: row %d of data.eval is not the same for both, so there is "
        .. "nothing to compare; give both the same data.eval", number)
    end
    common = common + (other ~= nil and 1 or 0)
  end
  if common == 0 then
    errors.raise_plain("EARG", "eval: no held-out row was measured with both, so there is nothing "
      .. "to compare; look at data.eval and data.max_prompt_tokens")
  end
end

-- Returns the values of the rows that both have, as two lists.
local function pairs_of(a, b)
  local before, after = {}, {}
  for number, value in sorted_pairs(a) do
    if b[number] ~= nil then
      before[#before + 1], after[#after + 1] = value, b[number]
    end
  end
  return before, after
end

--- Compares what two reports of tr:evaluate say of the rows that both have measured.  For each name
--- of by_row that both have: { name =, n = rows, a = mean, b = mean, difference = b - a, low =,
--- high = (95 %, bootstrap over rows), p =, exact =, higher =, lower = (statistics.paired_test) }.
---@param a table
---@param b table
---@return table[]
function paired.compare(a, b)
  check_rows(a, b)
  local list = {}
  for name, of_a in sorted_pairs(a.by_row) do
    local before, after = pairs_of(of_a, b.by_row[name] or {})
    if #before > 0 then
      local one = statistics.paired_test(before, after)
      local found = statistics.paired_bootstrap(before, after)
      one.name, one.n, one.a, one.b = name, #before, statistics.mean(before),
        statistics.mean(after)
      one.difference, one.low, one.high = found.difference, found.low, found.high
      list[#list + 1] = one
    end
  end
  return list
end

return paired
