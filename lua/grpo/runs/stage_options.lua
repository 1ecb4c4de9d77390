-- The options of runs by stage.  What stands at the top level of a script is only a layer below its
-- stages, so its values need not be those of any step.

local core = require "grpo.core"
local sorted_pairs = require "grpo.base.sorted"

local stage_options = {}

-- The stages of a run by its config.json: a list of { kind =, options = { [path] = { value =,
-- origin = } } }.
function stage_options.stages(config)
  if not config then return {} end
  return config.stages and #config.stages > 0 and config.stages or { { options = config.options } }
end

local function option_of(stage, name)
  return stage and stage.options and stage.options[name]
end

-- The value of an option as text, exactly; nil if the option has none.
function stage_options.text(option)
  local v = option and option.value
  if v == nil or v == core.json_null then return nil end
  return type(v) == "string" and v or core.json_encode(v)
end

local function sorted_names(runs)
  local names = {}
  for _, run in ipairs(runs) do
    for _, stage in ipairs(run.stages) do
      for name in pairs(stage.options or {}) do names[name] = true end
    end
  end
  return sorted_pairs(names)
end

-- The option of all stages of a run, with all its origins; nil if no stage has it, false if the
-- stages differ.
local function shared(run, name)
  local origins, seen = {}, {}
  local first = option_of(run.stages[1], name)
  for _, stage in ipairs(run.stages) do
    local option = option_of(stage, name)
    if stage_options.text(option) ~= stage_options.text(first) then return false end
    local origin = option and option.origin
    if origin and not seen[origin] then
      seen[origin], origins[#origins + 1] = true, origin
    end
  end
  return first and { value = first.value, origin = table.concat(origins, ", ") }
end

-- A list of { name =, [i] = the option of run i or nil }, sorted by name.  An option that is equal
-- in all stages of each run has one row, any other one for each stage: "stages.2.train.lr".
function stage_options.rows(runs)
  local rows, most = {}, 0
  for _, run in ipairs(runs) do most = math.max(most, #run.stages) end
  for name in sorted_names(runs) do
    local row, differ = { name = name }, false
    for i, run in ipairs(runs) do
      row[i] = shared(run, name)
      differ = differ or row[i] == false
    end
    rows[#rows + 1] = not differ and row or nil
    for index = 1, differ and most or 0 do
      row = { name = ("stages.%d.%s"):format(index, name) }
      for i, run in ipairs(runs) do row[i] = option_of(run.stages[index], name) end
      rows[#rows + 1] = row
    end
  end
  return rows
end

-- The kinds of a run's stages: "sft, grpo".
function stage_options.kinds(run)
  local kinds = {}
  for i, stage in ipairs(run.stages) do kinds[i] = stage.kind or "?" end
  return table.concat(kinds, ", ")
end

return stage_options
