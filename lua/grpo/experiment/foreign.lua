-- Names of options in TRL, transformers, PEFT and verl, and what they are here.  The rows are in
-- foreign_names.lua.

local foreign_names = require "grpo.experiment.foreign_names"

local foreign = {}

-- ---- finding a row -----------------------------------------------------------------------------

local SHORTENED = "verl" -- its long names are known by their last one or two parts too

local by_name, by_end, by_section -- made at first use

local function tail(name, parts)
  return name:match("([^.]+" .. ("%.[^.]+"):rep(parts - 1) .. ")$")
end

-- Adds the last parts of the dotted names of a list; one that two rows share leads to neither,
-- unless they lead to the same option.
local function add_ends(list)
  for _, row in ipairs(list.rows) do
    for parts = 1, 2 do
      local last = row[1]:find(".", 1, true) and tail(row[1], parts)
      if last and (parts == 2 or last:find("_", 1, true)) then
        local other = by_end[last]
        if other and other[2] ~= row[2] then row = false end
        if other == nil or not row then by_end[last] = row end
      end
      if not row then break end
    end
  end
end

local function index()
  by_name, by_end, by_section = {}, {}, {}
  for _, list in ipairs(foreign_names.lists) do
    for _, row in ipairs(list.rows) do
      row.program = list.program
      local verl_root = list.program == SHORTENED and not row[1]:find(".", 1, true)
      local known = verl_root and by_section or by_name
      known[row[1]] = known[row[1]] or row
      if list.program == SHORTENED then by_section[row[1]] = by_section[row[1]] or row end
    end
    if list.program == SHORTENED then add_ends(list) end
  end
end

-- The row of an option by its path, such as "train.beta": of its whole path, of an end of it, or of
-- the section of verl's that holds it; nil without one.
function foreign.row(path)
  if not by_name then index() end
  if by_section[path] then return by_section[path] end
  local section, rest = path:match("^(.+)%.[^.]+$"), path
  while rest and not by_section[path:match("^[^.]+")] do
    local row = by_name[rest] or by_end[rest]
    if row then return row end
    rest = rest:match("^[^.]+%.(.+)$")
  end
  while section do
    if by_section[section] then return by_section[section] end
    section = section:match("^(.+)%.[^.]+$")
  end
end

-- The names of all programs that have no dots, sorted.
function foreign.names()
  if not by_name then index() end
  local names = {}
  for name in pairs(by_name) do names[#names + 1] = not name:find(".", 1, true) and name or nil end
  table.sort(names)
  return names
end

-- ---- values as Lua source ----------------------------------------------------------------------

local function number_source(v)
  if math.type(v) == "integer" then return tostring(v) end
  for digits = 1, 17 do
    local text = ("%%.%dg"):format(digits):format(v)
    if tonumber(text) == v then
      return (text:gsub("e%+0*", "e"):gsub("e%-0*", "e-"))
    end
  end
  return tostring(v)
end

-- The source of a number, a boolean, a short string or a list of these; nil for anything else.
local function source(v)
  if type(v) == "number" then return number_source(v) end
  if type(v) == "boolean" then return tostring(v) end
  if type(v) == "string" and #v <= 60 and not v:find("%c") then return ("%q"):format(v) end
  if type(v) ~= "table" or #v == 0 or #v > 16 or getmetatable(v) then return nil end
  local items = {}
  for i, item in ipairs(v) do
    items[i] = type(item) ~= "table" and source(item)
    if not items[i] then return nil end
  end
  return "{ " .. table.concat(items, ", ") .. " }"
end

foreign.source = source

-- ---- what is filled in -------------------------------------------------------------------------

-- beside(name) is the value of another name that stands in the same table or in the experiment; nil
-- if there is none.

local function first_of(beside, ...)
  for _, name in ipairs { ... } do
    local v = beside(name, name:find(".", 1, true) ~= nil)
    if v ~= nil then return v end
  end
end

local filled = {}

function filled.value(value) return source(value) end

-- The learning rate as a number.
function filled.lr(_, beside)
  local lr = first_of(beside, "learning_rate", "train.lr", "lr")
  return type(lr) == "number" and number_source(lr) or tonumber(lr) and lr or "1e-6"
end

-- The warm-up as parameters of a schedule, ",NAME=20" or ",warmup_ratio=0.1"; "" without one.  A
-- number of steps below 1 is a ratio, as transformers has it.
local function warmup(beside, name)
  local steps = first_of(beside, "warmup_steps", "lr_warmup_steps")
  local ratio = first_of(beside, "warmup_ratio", "lr_warmup_steps_ratio")
  if type(steps) == "number" and steps > 0 and steps < 1 then ratio, steps = steps, nil end
  if type(steps) == "number" and steps >= 1 then return (",%s=%d"):format(name, steps // 1) end
  return type(ratio) == "number" and ratio > 0 and ",warmup_ratio=" .. number_source(ratio) or ""
end

function filled.warmup(_, beside) return warmup(beside, "warmup") end

-- A schedule that consists of a warm-up alone calls its length otherwise.
function filled.rise(_, beside) return warmup(beside, "steps") end

local function kwargs(beside)
  local fields = first_of(beside, "lr_scheduler_kwargs")
  return type(fields) == "table" and fields or {}
end

-- A field of lr_scheduler_kwargs as a parameter of a schedule; "" without it.
local function of_kwargs(name, ours)
  return function(_, beside)
    local v = kwargs(beside)[name]
    return type(v) == "number" and (",%s=%s"):format(ours, number_source(v)) or ""
  end
end

filled.cycles, filled.restarts = of_kwargs("num_cycles", "cycles"), of_kwargs("num_cycles",
  "restarts")
filled.power = of_kwargs("power", "power")

function filled.final(_, beside)
  local rate = kwargs(beside).min_lr_rate
  local lr = type(rate) == "number" and tonumber(filled.lr(nil, beside))
  if not lr then return of_kwargs("min_lr", "final")(nil, beside) end
  return ",final=" .. number_source(tonumber(("%.6g"):format(rate * lr)))
end

-- The learning rate with all that its schedule is made of.
function filled.rate(_, beside)
  local lr = first_of(beside, "train.lr", "learning_rate", "lr")
  if type(lr) == "string" and not tonumber(lr) then
    return ("%q"):format(lr .. filled.warmup(nil, beside))
  end
  local kind = first_of(beside, "lr_scheduler_type", "warmup_style")
  local code = foreign_names.schedules[kind or "linear"]
  if not code then return filled.lr(nil, beside) end
  local text = foreign.fill(code, nil, beside)
  -- without a length there is no warm-up
  return text:find("^\"warmup:to=[^,]*\"$") and filled.lr(nil, beside) or text
end

-- The first and the second of a list of two numbers.
function filled.first(value) return type(value) == "table" and source(value[1]) or "0.9" end
function filled.second(value) return type(value) == "table" and source(value[2]) or "0.999" end

-- Prompts of a step, from what counts completions.  Those that are not given have TRL's defaults.
function filled.prompts(_, beside)
  local completions = first_of(beside, "generation_batch_size")
  local each = first_of(beside, "per_device_train_batch_size") or 8
  local group = first_of(beside, "num_generations", "sampling.group_size") or 8
  local factor = first_of(beside, "gradient_accumulation_steps") or 1
  if not completions and math.type(each) and math.type(factor) then completions = each * factor end
  local prompts = math.type(completions) and math.type(group) and group > 0 and completions / group
  return prompts and prompts >= 1 and prompts % 1 == 0 and ("%d"):format(prompts)
    or "completions of a step / sampling.group_size"
end

function foreign.fill(text, value, beside)
  return (text:gsub("{(%l+)}", function(name)
    return filled[name] and (filled[name](value, beside) or "...") or nil
  end))
end

local fill = foreign.fill

-- ---- what is said ------------------------------------------------------------------------------

-- The reason why there is no equivalent, with what to do.
local function without_equivalent(path, reason)
  local why, instead = reason:match("^(.-); (.*)$")
  return ("%s has no equivalent here, because %s; remove it%s"):format(path, why or reason,
    instead and (" (%s)"):format(instead) or "")
end

-- How it is written here, or nil; and false where a value has no equivalent.
local function written(row, value, beside, fits)
  local mapped
  if row.values then mapped = row.values[tostring(value)] end
  if mapped == false then return false end
  if mapped == "" or mapped and mapped:find("^[%l_.]+ = ") then return mapped end
  if row.write then return fill(row.write, value, beside) end
  if mapped then return ("%s = %s"):format(row[2], fill(mapped, value, beside)) end
  local text = not row.part and source(value)
  return text and fits(row[2], value) and ("%s = %s"):format(row[2], text) or nil
end

-- Is the option set already, so that a name that says the same is only removed?
local function is_set(row, beside)
  local other = not row.part or (row.write or ""):find("{prompts}", 1, true)
  return other and beside(row[2], true) ~= nil
end

-- Returns how a name is written here, or nil; second, where it is not written, the end of a
-- sentence that begins with "X is Y here".
--   beside(name, true)    the value of another name in the same place, or nil; true: of an option
--   fits(option, value)   may an option here have this value?
function foreign.translation(row, value, beside, fits)
  if not row[2] then return nil, "" end
  if is_set(row, beside) then return nil, ", which is set already; remove it" end
  local code
  if value ~= nil then
    code = written(row, value, beside, fits)
  elseif row.part and row.write and not row.write:find("{", 1, true) then
    code = row.write
  end
  if code == false then
    return nil, (", which has no equivalent of %s; see 'grpo help %s'"):format(source(value),
      row[2])
  elseif code == "" then
    return nil, (", and %s is what happens without it; remove it"):format(source(value))
  end
  return code, ""
end

-- A line about an option that is not there, and the program that has it; nil if none has it.
--   path, value      as it was written
--   beside, fits     see foreign.translation
--   style(code)      how an assignment is written there
function foreign.advice(path, value, beside, fits, style)
  local row = foreign.row(path)
  if not row then return nil end
  if not row[2] then return without_equivalent(path, row[3]), row.program end
  local code, said = foreign.translation(row, value, beside, fits)
  local note = not is_set(row, beside) and row[3]
  return ("%s is %s%s here%s%s"):format(path, row.part and "a part of " or "", row[2],
    code and "; write " .. style(code) or said, note and ". " .. note:gsub("%.$", "") or ""),
    row.program
end

-- Returns what there is to say of a name, as text, and the option that it is or belongs to here.
function foreign.explanation(name)
  local row = foreign.row(name)
  if not row then return nil end
  if not row[2] then return without_equivalent(name, row[3]) end
  local part = row.part and "a part of " or ""
  return ("%s of %s is %s%s here. %s"):format(name, row.program, part, row[2], foreign.about(row)),
    row[2]
end

-- A sentence about a name alone, and the option that it is here, if an option takes its value; nil
-- if no program has it.
function foreign.advice_on_name(name)
  local row = foreign.row(name)
  if not row then return nil end
  if not row[2] then return without_equivalent(name, row[3]) end
  return ("%s is %s%s here"):format(name, row.part and "a part of " or "", row[2]),
    not row.part and row[2] or nil
end

-- The rest of "got VALUE", for a value that an option here does not take; nil if no program has it.
function foreign.value_advice(option, value)
  local known = foreign_names.values[option]
  local ours = known and known[tostring(value)]
  if ours == nil and known and type(value) == "string" then ours = known[value:lower()] end
  if not ours then return nil end
  if type(ours) == "table" then
    return (", which is not one of its values, because %s"):format(ours[2])
  end
  return (", which is %s here; write %s = %s"):format(ours, option, ours)
end

-- ---- the whole table ---------------------------------------------------------------------------

-- "a: x, b: y" for values that are called otherwise here.
local function values_text(values)
  local names, texts = {}, {}
  for name, ours in pairs(values or {}) do
    if not ours or ours ~= ("%q"):format(name) and ours ~= name then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do
    local ours = values[name]
    texts[i] = ("%s: %s"):format(name, not ours and "none" or ours == "" and "leave it out" or ours)
  end
  return #texts > 0 and table.concat(texts, ", ") or nil
end

-- The placeholders of what is written here, for reading.
local shown = { value = "X", lr = "LR", rate = "\"linear:from=LR,to=0\"", warmup = "",
  rise = ",warmup_ratio=0.1", cycles = "", restarts = ",restarts=1", power = ",power=1",
  final = ",final=0", first = "0.9", second = "0.999",
  prompts = "completions of a step / sampling.group_size" }

-- A sentence or more about a row: its note, how it is written, and its values.
function foreign.about(row)
  local parts = {}
  if not row[2] then return "no equivalent, because " .. row[3] end
  parts[1] = row[3]
  if row.write then
    parts[#parts + 1] = ("Write %s."):format((row.write:gsub("{(%l+)}", shown)))
  end
  local values = values_text(row.values)
  if values then parts[#parts + 1] = ("Values: %s."):format((values:gsub("{(%l+)}", shown))) end
  return table.concat(parts, " ")
end

-- The rows of some programs, in the order of the file: { program =, name =, ours = or false,
-- about = text, part =, values = }.
function foreign.rows(...)
  local wanted, found = {}, {}
  for _, program in ipairs { ... } do wanted[program] = true end
  for _, list in ipairs(foreign_names.lists) do
    for _, row in ipairs(wanted[list.program] and list.rows or {}) do
      found[#found + 1] = { program = list.program, name = row[1], ours = row[2],
        about = foreign.about(row), part = row.part, values = row.values }
    end
  end
  return found
end

return foreign
