-- Names of options in TRL, transformers, PEFT and verl, and what they are here.  The rows are in
-- foreign_names.lua.

local foreign_names = require "grpo.options.foreign_names"
local literal = require "grpo.base.literal"
local options = require "grpo.options"

local source, number_source = literal.of, literal.of_number

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
      row.program, row.whole = list.program, list.program ~= SHORTENED
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

-- The name that another may be a misspelling of, and the option that it is here, if it is one.
function foreign.nearest(name)
  local other = options.nearest(name, foreign.names())
  return other, other and foreign.row(other)[2]
end

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

local function integer(v) return v ~= nil and math.tointeger(tonumber(v)) or nil end

-- Returns a number of updates, as TRL counts them, in steps, each of which has all iterations on
-- its rollout; nil for a share of a run of unknown length.  Second result: the updates of a step.
local function in_steps(value, beside)
  local each = integer(first_of(beside, "num_iterations", "train.iterations"))
  local number = type(value) == "number" and value or nil
  if number and number > 0 and number < 1 then
    local all = integer((beside("max_steps")))
    if not all or all < 1 then return nil end
    number = math.ceil(tonumber(("%.9g"):format(number * all)))
  end
  local updates = integer(number)
  if not updates or updates < 1 then return value, 1 end
  each = each and each > 1 and each or 1
  return -(-updates // each), each
end

-- The warm-up as parameters of a schedule, ",NAME=20" or ",warmup_ratio=0.1"; "" without one.  A
-- number of steps below 1 is a ratio, as transformers has it.
local function warmup(beside, name)
  local steps = first_of(beside, "warmup_steps", "lr_warmup_steps")
  local ratio = first_of(beside, "warmup_ratio", "lr_warmup_steps_ratio")
  if type(steps) == "number" and steps > 0 and steps < 1 then ratio, steps = steps, nil end
  if type(steps) == "number" and steps >= 1 then
    return (",%s=%d"):format(name, in_steps(steps // 1, beside))
  end
  return type(ratio) == "number" and ratio > 0 and ",warmup_ratio=" .. number_source(ratio) or ""
end

function filled.warmup(_, beside) return warmup(beside, "warmup") end

-- That of a schedule that needs one.
function filled.needed(_, beside)
  local text = warmup(beside, "warmup")
  return text == "" and ",warmup=..." or text
end

-- A schedule that consists of a warm-up alone calls its length otherwise.
function filled.rise(_, beside) return warmup(beside, "steps") end

local function kwargs(beside)
  local fields = first_of(beside, "lr_scheduler_kwargs")
  return type(fields) == "table" and fields or {}
end

-- A field of lr_scheduler_kwargs, or a name beside, as a parameter of a schedule; "" without it.
local function of_kwargs(name, ours)
  return function(_, beside)
    local v = kwargs(beside)[name] or beside(name)
    return type(v) == "number" and (",%s=%s"):format(ours, number_source(v)) or ""
  end
end

filled.cycles, filled.restarts = of_kwargs("num_cycles", "cycles"), of_kwargs("num_cycles",
  "restarts")
filled.power = of_kwargs("power", "power")

function filled.last(_, beside)
  local v = kwargs(beside).lr_end
  return type(v) == "number" and number_source(v) or "0"
end

function filled.final(_, beside)
  local rate = kwargs(beside).min_lr_rate or kwargs(beside).min_lr_ratio or beside("min_lr_ratio")
  local lr = type(rate) == "number" and tonumber(filled.lr(nil, beside))
  if not lr then return of_kwargs("min_lr", "final")(nil, beside) end
  return ",final=" .. number_source(tonumber(("%.6g"):format(rate * lr)))
end

-- The warm-up, the constant rate and the decay of transformers' warmup_stable_decay; "..." stands
-- for a length that nothing beside it says.
function filled.stable(_, beside)
  local fields, lr = kwargs(beside), filled.lr(nil, beside)
  local function steps(v) return integer((in_steps(v, beside))) end
  local all, decay = steps((beside("max_steps"))), steps(fields.num_decay_steps)
  local warm = steps(first_of(beside, "warmup_steps"))
  local ratio = first_of(beside, "warmup_ratio")
  if not warm and type(ratio) == "number" and all then warm = math.ceil(ratio * all) end
  local rest = all and decay and all - decay - (warm or 0)
  local stable = steps(fields.num_stable_steps) or rest
  local down = fields.decay_type == "linear"
    and ("linear:from=%s,to=%s"):format(lr, filled.final(nil, beside):match("[^=]+$") or "0")
    or ("cosine:peak=%s%s"):format(lr, filled.final(nil, beside))
  local items = { ("%s=%s"):format(stable or "...", lr),
    ("(%s,steps=%s)"):format(down, decay or "...") }
  if stable and stable < 1 then table.remove(items, 1) end
  if warm and warm > 0 then
    table.insert(items, 1, ("%d=(warmup:to=%s,steps=%d)"):format(warm, lr, warm))
  end
  return "chain:" .. table.concat(items, ",")
end

-- The learning rate with all that its schedule is made of.
function filled.rate(_, beside)
  local lr = first_of(beside, "train.lr", "learning_rate", "lr")
  if type(lr) == "string" and not tonumber(lr) then
    return ("%q"):format(lr .. filled.warmup(nil, beside))
  end
  local kind = first_of(beside, "lr_scheduler_type", "warmup_style")
  local code = foreign_names.schedules[kind or "linear"]
  if code == nil then code = foreign_names.schedules.linear end
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

-- The coefficient of the KL by verl's names.
function filled.kl(_, beside)
  local coef = source((beside("kl_coef"))) or "0.001"
  if beside("kl_ctrl.type") == "fixed" then return coef end
  return ('"adaptive_kl:initial=%s,target=%s,horizon=%s"'):format(coef,
    source((beside("kl_ctrl.target_kl"))) or "0.1", source((beside("kl_ctrl.horizon"))) or "10000")
end

-- A model of the Hub with its revision.
function filled.model(_, beside)
  return ("%q"):format(("%s@%s"):format(beside("model_name_or_path") or "...",
    beside("model_revision") or "main"))
end

-- A split of a dataset.
local function split_of(name, default)
  return function(_, beside)
    local config = source((beside("dataset_config")))
    return ("grpo.data.load(%s, { %ssplit = %s })"):format(source((beside("dataset_name")))
      or '"..."', config and ("config = %s, "):format(config) or "",
      source((beside(name))) or default)
  end
end

filled.train = split_of("dataset_train_split", '"train"')
filled.eval = split_of("dataset_test_split", '"test"')

-- The names and the weights of TRL's reward functions, as far as they are said.
local function rewards_beside(beside)
  local names, weights = beside("reward_funcs"), beside("reward_weights")
  if type(names) ~= "table" then names = { names } end
  if type(weights) ~= "table" then weights = { weights } end
  local list = {}
  for i = 1, math.min(math.max(#names, #weights, 1), 16) do
    local name = type(names[i]) == "string" and names[i]:match("^[%a_][%w_]*$")
    list[i] = { name = name, weight = source(weights[i]) }
  end
  return list
end

function filled.rewards(_, beside)
  local texts = {}
  for i, one in ipairs(rewards_beside(beside)) do
    local name = one.name or i == 1 and "correct" or "reward" .. i
    texts[i] = ("{ name = %q, fn = %s, weight = %s }"):format(name, name, one.weight or "1.0")
  end
  return ("{ %s, ... }"):format(table.concat(texts, ", "))
end

-- The rewards of a file of settings, where functions have names of modules.
function filled.named(_, beside)
  local texts = {}
  for i, one in ipairs(rewards_beside(beside)) do
    texts[i] = ("[%q] = %s"):format(i == 1 and "text.equals" or "mine." .. (one.name
      or "reward" .. i), one.weight or "1")
  end
  return ("{ %s }"):format(table.concat(texts, ", "))
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

-- Returns the entry of a row's `values` for a value: see foreign_names.lua.
-- Python's True, as text, is true.
local function mapped_by(row, value)
  if not row.values then return nil end
  local text = tostring(value)
  local mapped = row.values[text]
  if mapped == nil then mapped = row.values[text:lower()] end
  return mapped
end

-- How it is written here, or nil; and false where a value has no equivalent.
local function written(row, value, beside, form)
  local mapped = mapped_by(row, value)
  if mapped == false then return false end
  if mapped == "" or mapped and mapped:find("^[%l_.]+ = ") then return mapped end
  local steps = value
  if row.unit then steps = in_steps(value, beside) end
  if row.when and first_of(beside, row.when[1], row.when[2]) == row.when[3] then
    return source(value) and fill(row.when[4], value, beside) or nil
  end
  local write = form.file and row.file or form.together and row.together or row.write
  if write and value == false and not write:find("{%l+}") then return "" end
  if write then return fill(write, steps, beside) end
  if mapped then return ("%s = %s"):format(row[2], fill(mapped, value, beside)) end
  local text = not row.part and source(steps)
  return text and form.fits(row[2], steps) and ("%s = %s"):format(row[2], text) or nil
end

-- Is a switch on?  wanted: its value that is, or true for any that is not off.
local function is_on(v, wanted)
  if wanted ~= true then return tostring(v) == wanted end
  local text = tostring(v):lower()
  return text ~= "false" and text ~= "no" and text ~= "none" and tonumber(text) ~= 0
end

-- The switch beside a name that leaves it out, and its value; nil if there is none, or another is
-- on.
local function switched_off(row, beside)
  local off, value
  for _, switch in ipairs(row.only or {}) do
    local v = beside(switch[1])
    if v ~= nil then
      local its_row = foreign.row(switch[1])
      local above, other = switched_off(its_row or {}, beside)
      if is_on(v, switch[2]) and not above then return nil end
      off, value = above or switch[1], v
      if above then value = other end
    end
  end
  return off, value
end

-- A function like `beside` that finds the name itself with its value too.
local function with_itself(row, value, beside)
  local last, last_two = tail(row[1], 1), tail(row[1], 2)
  return function(name, is_option)
    if not is_option and (name == last or name == last_two) then return value end
    return beside(name, is_option)
  end
end

-- Why there is no code for a value that an option does not take.
local function refused(row, value, form)
  if row.unit and in_steps(value, function() end) == nil then
    return (", and %s is a share of all steps there; give a number of steps"):format(source(value))
  end
  local _, why = form.fits(row[2], value)
  return why and "; " .. why or ""
end

-- Is the option set already, so that a name that says the same is only removed?
local function is_set(row, beside)
  local other = not row.part or (row.write or ""):find("{prompts}", 1, true)
  return other and beside(row[2], true) ~= nil
end

-- Returns how a name is written here, or nil; second, where it is not written, the end of a
-- sentence that begins with "X is Y here"; third, true where leaving the name out changes nothing.
--   beside(name, true)    the value of another name in the same place, or nil; true: of an option
--   form.fits(option, value)   may an option here have this value?  Second result: why not
--   form.file      true: as a file of settings has it
--   form.together  true: among other names of its program
function foreign.translation(row, value, beside, form)
  if not row[2] then return nil, "" end
  beside = with_itself(row, value, beside)
  if is_set(row, beside) then return nil, ", which is set already; remove it", true end
  local switch, off = switched_off(row, beside)
  if switch then
    return nil, (", and counts for nothing with %s = %s; remove it"):format(switch,
      source(off) or "..."), true
  end
  local code
  if value ~= nil then
    code = written(row, value, beside, form)
  elseif row.part and row.write and not row.write:find("{%l+}") then
    code = row.write
  end
  if code == false then
    return nil, (", which has no equivalent of %s; see 'grpo help %s'"):format(source(value),
      row[2])
  elseif code == "" then
    return nil, (", and %s is what happens without it; remove it"):format(source(value)), true
  end
  if not code and value ~= nil and not row.part then return nil, refused(row, value, form) end
  return code, ""
end

-- A row's text that is made of several names beside it.
local function is_composed(row, form)
  local text = form.file and row.file or form.together and row.together or row.write or ""
  local name = text:match("{(%l+)}")
  return name ~= nil and name ~= "value" and name ~= "first" and name ~= "second"
end

-- Which of several codes for one option is written: the one of the highest rank.  3: it is made of
-- several names, 2: it is a value that somebody wrote, 1: it is only an example or a default.
function foreign.rank(row, value, form)
  if is_composed(row, form) then return 3 end
  local plain = row.weak or row.part and not (row.write or ""):find("{%l+}")
    and mapped_by(row, value) == nil
  return plain and 1 or 2
end

-- Does the code of a row say all that its value says?
function foreign.is_used(row, value, form)
  if type(value) == "boolean" or mapped_by(row, value) ~= nil then return true end
  local write = form.file and row.file or row.write
  if write and row.values or row.fields and type(value) ~= "table" then return false end
  return not write or write:find("{%l+}") ~= nil
end

-- Is a value one of the words that a row knows, as "steps" is?
function foreign.is_word(row, value)
  return type(value) == "boolean" or mapped_by(row, value) ~= nil
end

-- A remark about a number of updates that became a number of steps; "" without one.
function foreign.remark(row, value, beside)
  local steps, each = in_steps(row.unit and value, beside)
  return steps and each > 1 and (" (%s updates, %d in a step)"):format(source(value), each) or ""
end

-- A line about an option that is not there, and the program that has it; nil if none has it.
--   path, value      as it was written
--   beside, form     see foreign.translation
--   style(code)      how an assignment is written there
function foreign.advice(path, value, beside, form, style)
  local row = foreign.row(path)
  if not row then return nil end
  if not row[2] then return without_equivalent(path, row[3]), row.program end
  local code, said = foreign.translation(row, value, beside, form)
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
  final = ",final=0", last = "0", needed = ",warmup=100",
  stable = "chain:W=(warmup:to=LR,steps=W),S=LR,(cosine:peak=LR,steps=D)", kl = "X",
  model = "\"NAME@REVISION\"", train = "grpo.data.load(\"NAME\", { split = \"train\" })",
  eval = "grpo.data.load(\"NAME\", { split = \"test\" })",
  rewards = "{ { name = \"correct\", fn = correct, weight = 1.0 }, ... }",
  first = "0.9", second = "0.999",
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
