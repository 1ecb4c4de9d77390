-- Are rows functions of their numbers?  Some rows are asked for twice when a run begins, and their
-- checksums are kept, so that a resume notices rows that another process makes differently.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local row_checksum = require "grpo.options.row_checksum"
local row_random = require "grpo.scoring.row_random"
local sorted_pairs = require "grpo.base.sorted"

local row_check = {}

local ROWS = 8 -- of each dataset

-- The rows that are asked for: the first, the last, and some between, always the same ones.
function row_check.chosen(n)
  local list = {}
  if n <= ROWS then
    for i = 1, n do list[i] = i end
    return list
  end
  list[1] = 1
  for i = 1, ROWS - 2 do list[#list + 1] = 2 + core.permute(1, n - 2, i - 1) end
  list[#list + 1] = n
  return list
end

local function row_of(dataset, i)
  return dataset[i]
end

-- The checksum of a row; nil if the row cannot be made, which another check reports.
local function sum_of(config, dataset, i, held_out)
  local ok, row = errors.try(row_random.during, config, "row", i - 1, held_out, row_of, dataset, i)
  return ok and row_checksum.of(row) or nil
end

-- Asks for rows, forwards and then backwards.  Returns { [row] = sum } and the first row that
-- differed, or nil.
local function ask(config, dataset, held_out)
  local list, sums, differs = row_check.chosen(#dataset), {}, nil
  for _, i in ipairs(list) do sums[i] = sum_of(config, dataset, i, held_out) end
  for k = #list, 1, -1 do
    local i = list[k]
    if sum_of(config, dataset, i, held_out) ~= sums[i] then differs = i end
  end
  return sums, differs
end

local ADVICE = "make rows from their numbers, what their functions are given and math.random "
  .. "alone, so that a resume, replay and eval see the same ones"

-- Iterates over the datasets of an experiment, each once: "data.train" or "data.eval", config,
-- dataset.
local function datasets(e)
  local list, met = {}, {}
  for _, spec in ipairs(e.stages) do
    for _, part in ipairs { "train", "eval" } do
      local dataset = spec.config.data[part]
      if dataset and not met[dataset] then
        met[dataset], list[#list + 1] = true, { "data." .. part, spec.config, dataset }
      end
    end
  end
  return list
end

local function text_of(sum)
  return ("%08x"):format(sum)
end

-- Returns sums to keep, { ["dataset/row"] = sum }, and sentences about rows that differed when they
-- were asked for again.
function row_check.first(e)
  local kept, notes = {}, {}
  for number, one in ipairs(datasets(e)) do
    local name, config, dataset = table.unpack(one)
    local sums, differs = ask(config, dataset, name == "data.eval")
    for i, sum in pairs(differs and {} or sums) do
      kept[("%d/%d"):format(number, i)] = text_of(sum)
    end
    if differs then
      notes[#notes + 1] = ("%s: row %d was another one when it was asked for again; %s"):format(
        name, differs, ADVICE)
    end
  end
  return kept, notes
end

-- Returns a sentence if a row is not what it was when the run began.  kept: of row_check.first.
function row_check.change(e, kept)
  local list = datasets(e)
  for place, was in sorted_pairs(kept or {}) do
    local number, row = place:match("^(%d+)/(%d+)$")
    local name, config, dataset = table.unpack(list[tonumber(number)] or {})
    local sum = dataset and sum_of(config, dataset, tonumber(row), name == "data.eval")
    if sum and text_of(sum) ~= was then
      return ("%s: row %s is not the one that the run began with, because it does not depend on "
        .. "its number alone, or something else that it is made from has changed; %s"):format(name,
        row, ADVICE)
    end
  end
end

return row_check
