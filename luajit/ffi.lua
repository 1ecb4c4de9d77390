--- libgrpo for LuaJIT: models, sampling, training with rewards that are functions (docs/luajit.md).
-- `make` puts the declarations of grpo.h where they are loaded below.
--
-- Three things are easy to get wrong over a C library, and are handled here.  An error must not
-- leave a callback, so it is kept, and raised once the library has returned.  A call that makes
-- callbacks must not be compiled, so the JIT is off in this file and only here.  A callback frees
-- no handle, so handles that the collector finds in one are freed after the call.
if not jit then
  error("grpo.ffi: this is not LuaJIT, whose ffi it needs; stock Lua has require \"grpo\"", 0)
end
jit.off(true, true)
local ffi = require "ffi"

if not pcall(ffi.typeof, "grpo_context") then
  ffi.cdef [[
@DECLARATIONS@
  ]]
end

local here = debug.getinfo(1, "S").source
local folder = here:match("^@(.*)/[^/]*$") or "."

-- The library has Lua 5.4 inside, whose names LuaJIT has too: each must see its own first, which
-- ffi.load cannot ask for.
local function load_alone(path)
  if ffi.os == "Linux" then
    pcall(ffi.cdef, "void *dlopen(const char *path, int flags);")
    ffi.C.dlopen(path, 0x2 + 0x8) -- RTLD_NOW, RTLD_DEEPBIND; ffi.load says why it failed
  end
  return ffi.load(path)
end

-- the library of this build or of this prefix, else the one that the system finds
local function load_library()
  local asked = os.getenv("GRPO_LIBRARY")
  if asked then return load_alone(asked) end
  for _, place in ipairs { "/../../", "/../../../../lib/" } do
    local path = folder .. place .. "libgrpo.so.1"
    local file = io.open(path, "rb")
    if file then file:close() return load_alone(path) end
  end
  return load_alone("libgrpo.so.1")
end
local lib = load_library()

---- errors ----------------------------------------------------------------------------------------

local Error = {}
Error.__index = Error
function Error:__tostring() return self.where .. self.message end

local function fail(code, message)
  local where, level = "", 2
  local info = debug.getinfo(level, "Sl")
  while info and (info.source == here or info.what == "C") do
    level = level + 1
    info = debug.getinfo(level, "Sl")
  end
  if info and info.currentline > 0 then
    where = ("%s:%d: "):format(info.short_src, info.currentline)
  end
  error(setmetatable({ code = code, message = message, where = where }, Error), 0)
end

---- calls and callbacks ---------------------------------------------------------------------------

-- While the library runs, Ctrl-C waits: luajit's handler sets a hook, which would raise its error
-- in the first line of the next callback, through the library.  It is let in where pcall is around.
local block, unblock = function() end, function() end
if ffi.os == "Linux" then
  pcall(ffi.cdef, "int pthread_sigmask(int how, const void *set, void *before);")
  local interrupt = ffi.new("uint64_t[16]", { 2 }) -- a sigset_t with SIGINT, which is 2 there
  block = function() ffi.C.pthread_sigmask(0, interrupt, nil) end
  unblock = function() ffi.C.pthread_sigmask(1, interrupt, nil) end
end

local depth = 0 -- calls of the library that are running, one within the callback of another
local raised -- { what a callback raised }
local late = {} -- handles to free once no call is running

-- Callbacks are scarce in LuaJIT, so each kind has one, and `user` is the number of a function.
local functions, number = {}, 0

local function register(f)
  number = number + 1
  functions[number] = f
  return number
end

local function user(n) return ffi.cast("void *", n) end

local function free_one(one)
  one.free(one.handle)
  for _, n in ipairs(one.numbers) do functions[n] = nil end
end

local function free_late()
  while depth == 0 and late[1] do free_one(table.remove(late)) end
end

--- A handle that the collector frees, and with it the functions of these numbers.
local function owned(handle, free, numbers)
  return ffi.gc(handle, function(h)
    local one = { free = free, handle = h, numbers = numbers or {} }
    if depth == 0 then free_one(one) else late[#late + 1] = one end
  end)
end

local function call(f, ...)
  depth = depth + 1
  block()
  local fits, status = pcall(f, ...)
  depth = depth - 1
  local thrown = raised
  raised = nil
  if depth == 0 then unblock() end
  if not fits then fail("EARG", tostring(status)) end
  -- the last failure of this thread, since one of a context is not told of a call that it refused
  local message = status ~= 0 and ffi.string(lib.grpo_message(nil))
  free_late()
  if thrown and (thrown.ends or status ~= 0) then error(thrown[1], 0) end
  if status ~= 0 then fail(ffi.string(lib.grpo_status_name(status)), message) end
end

--- The handle that a function writes to its last argument; numbers: of functions that live as long.
local function make_with(numbers, kind, f, ...)
  local out = ffi.new(kind .. " *[1]")
  local arguments = { n = select("#", ...), ... }
  arguments[arguments.n + 1] = out
  call(f, unpack(arguments, 1, arguments.n + 1))
  return owned(out[0], lib[kind .. "_free"], numbers)
end
local function make(...) return make_with(nil, ...) end

local function let_in(f, ...)
  unblock()
  local status = f(...) or 0
  block()
  return status
end

local function function_of(n) return functions[tonumber(ffi.cast("intptr_t", n))] end

-- ends: the call ends with what was raised, even if the library would continue
local function keep_raised(what, ends)
  if raised and raised.ends then return end
  raised = { what, ends = ends or tostring(what):find("interrupted!", 1, true) ~= nil }
end

local function callback(kind, failed)
  return ffi.cast(kind, function(n, ...)
    if raised and raised.ends then return failed end
    local ok, status = pcall(let_in, function_of(n), ...)
    block()
    if ok and status == 0 then return 0 end
    if not ok then keep_raised(status) end
    return failed
  end)
end

local on_reward = callback("grpo_reward_fn", lib.GRPO_ESCRIPT)
local on_group = callback("grpo_group_reward_fn", lib.GRPO_ESCRIPT)
local on_tokens = callback("grpo_token_reward_fn", lib.GRPO_ESCRIPT)
local on_call = callback("grpo_call_fn", lib.GRPO_ESCRIPT)
local on_step = callback("grpo_step_fn", lib.GRPO_ESCRIPT)
local on_token = callback("grpo_token_fn", lib.GRPO_ECANCELED)
local on_progress = callback("grpo_progress_fn", lib.GRPO_ECANCELED)
local on_log = ffi.cast("grpo_log_fn", function(n, ...)
  local ok, message = pcall(let_in, function_of(n), ...)
  block()
  if not ok then keep_raised(message, true) end
end)

---- values ----------------------------------------------------------------------------------------

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\" }
local function json(v)
  if type(v) == "string" then
    local function escaped(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end
    return '"' .. v:gsub('[%c"\\]', escaped) .. '"'
  elseif type(v) == "number" and v == v and math.abs(v) < math.huge then
    return ("%.17g"):format(v)
  elseif type(v) == "boolean" then
    return tostring(v)
  elseif type(v) ~= "table" then
    fail("EARG", ("a %s cannot be JSON, because it is neither text, a finite number, a boolean " ..
      "nor a table"):format(type(v)))
  end
  local out = {}
  if v[1] ~= nil then
    for i, one in ipairs(v) do out[i] = json(one) end
    return "[" .. table.concat(out, ",") .. "]"
  end
  for key, one in pairs(v) do out[#out + 1] = json(tostring(key)) .. ":" .. json(one) end
  table.sort(out)
  return "{" .. table.concat(out, ",") .. "}"
end

local function strings(list, keep)
  local array = ffi.new("const char *[?]", #list + 1)
  for i, text in ipairs(list) do array[i - 1] = text end
  keep[#keep + 1] = { list, array }
  return array, #list
end

-- a number that a field has cut: a float keeps seven digits, an integer field a whole number
local function is_cut(given, kept)
  return type(given) == "number" and kept ~= nil and given == given and
    math.abs(given - kept) > 1e-6 * math.abs(given)
end

--- A struct of options with its defaults and what is given; keep: a list that must live as long.
local function options(kind, given, keep)
  local o = ffi.new(kind)
  keep[#keep + 1] = { o, given }
  call(lib[kind .. "_init"], o, ffi.sizeof(kind))
  for name, value in pairs(given or {}) do
    if not pcall(function() return o[name] end) then
      fail("EARG", ("%s: there is no option '%s', because the struct of grpo.h has none; " ..
        "see its fields"):format(kind, name))
    end
    if not pcall(function() o[name] = value end) then
      fail("EARG", ("%s.%s: a %s does not fit; see grpo.h"):format(kind, name, type(value)))
    end
    if is_cut(value, tonumber(o[name])) then
      fail("EARG", ("%s.%s: %.17g does not fit, because the field takes whole numbers of its " ..
        "size; see grpo.h"):format(kind, name, value))
    end
  end
  return o
end

-- a copy of t without these fields, which the struct lacks
local function without(t, ...)
  local copy = {}
  for key, value in pairs(t or {}) do copy[key] = value end
  for _, name in ipairs { ... } do copy[name] = nil end
  return copy
end

--- The array that a function writes, which is first asked for its length.
local function growing(element, f, ...)
  local n = ffi.new("size_t[1]")
  local arguments = { n = select("#", ...), ... }
  local function write(out, capacity)
    local all = { unpack(arguments, 1, arguments.n) }
    local k = arguments.n
    all[k + 1], all[k + 2], all[k + 3] = out, capacity, n
    call(f, unpack(all, 1, k + 3))
  end
  write(nil, 0)
  local out = ffi.new(element .. "[?]", n[0] + 1)
  write(out, n[0] + 1)
  return out, tonumber(n[0])
end

local function sample_of(s)
  local sample = { ids = {}, logprobs = {} }
  sample.prompt, sample.index = tonumber(s.prompt) + 1, tonumber(s.index) + 1
  for i = 0, tonumber(s.length) - 1 do
    sample.ids[i + 1] = s.ids[i]
    if s.logprobs ~= nil then sample.logprobs[i + 1] = s.logprobs[i] end
  end
  if s.text ~= nil then sample.text = ffi.string(s.text, s.text_length) end
  if s.finish ~= nil then sample.finish = ffi.string(s.finish) end
  return sample
end

local function metrics_of(m)
  local out = {}
  for i = 0, tonumber(m.count) - 1 do out[ffi.string(m.items[i].name)] = m.items[i].value end
  return out
end

local function number_of(value, what)
  if value == nil then return 0 / 0 end -- it does not apply
  if type(value) == "boolean" then return value and 1 or 0 end
  if type(value) ~= "number" then
    error(("the reward %s returned a %s, because it must return a number, or nil where it does " ..
      "not apply"):format(what, type(value)), 0)
  end
  return value
end

---- tokenizers ------------------------------------------------------------------------------------

local Tokenizer = {}
Tokenizer.__index = Tokenizer

-- An object holds its context, whose callbacks must live as long.
local function tokenizer(context, handle)
  return setmetatable({ context = context, handle = handle }, Tokenizer)
end

--- Token ids of a text; special: with the tokenizer's own begin and end tokens.
function Tokenizer:encode(text, special)
  local out, n = growing("int32_t", lib.grpo_tokenizer_encode, self.handle, text, #text,
    special and lib.GRPO_ADD_SPECIAL or 0)
  local ids = {}
  for i = 1, n do ids[i] = out[i - 1] end
  return ids
end

function Tokenizer:decode(ids, with_special)
  local array = ffi.new("int32_t[?]", #ids + 1, ids)
  local out, n = growing("char", lib.grpo_tokenizer_decode, self.handle, array, #ids,
    with_special and 0 or 1)
  return ffi.string(out, n)
end

--- The text that the chat template makes of messages; template: options of grpo_tokenizer_chat.
function Tokenizer:chat(messages, template)
  local out, n = growing("char", lib.grpo_tokenizer_chat, self.handle, json(messages),
    json(template or { generation_prompt = true }))
  return ffi.string(out, n)
end

--- The id of a token, or nil.
function Tokenizer:id(token)
  local id = ffi.new("int32_t[1]")
  call(lib.grpo_tokenizer_id, self.handle, token, id)
  return id[0] >= 0 and id[0] or nil
end

---- models ----------------------------------------------------------------------------------------

local Model = {}
Model.__index = Model

local function need_tokenizer(model)
  return model.tokenizer or fail("EARG",
    "the model has no tokenizer, because none was given or found; give ids, or a tokenizer")
end

-- a prompt is text, messages or token ids
local function ids_of(model, prompt)
  if type(prompt) == "table" and type(prompt[1]) == "number" then return prompt end
  if type(prompt) == "table" then
    local t = need_tokenizer(model)
    return t:encode(t:chat(prompt))
  end
  if type(prompt) ~= "string" then
    fail("EARG", "a prompt is a " .. type(prompt) .. "; give text, messages or token ids")
  end
  return need_tokenizer(model):encode(prompt, true)
end

-- the array of a list of ids
local function ids_array(list, keep)
  for i, id in ipairs(list) do
    if type(id) ~= "number" or id % 1 ~= 0 or id < 0 or id >= 2 ^ 31 then
      fail("EARG", ("token %d is %s; give ids, which are whole numbers from 0"):format(i,
        tostring(id)))
    end
  end
  local array = ffi.new("int32_t[?]", #list + 1, list)
  keep[#keep + 1] = array
  return array
end

local function prompts_of(model, prompts, keep)
  if type(prompts) == "string" then prompts = { prompts } end
  if type(prompts) ~= "table" then
    fail("EARG", "prompts is a " .. type(prompts) .. "; give a text, or a list of prompts")
  end
  local array = ffi.new("grpo_prompt[?]", #prompts + 1)
  keep[#keep + 1] = array
  for i, prompt in ipairs(prompts) do
    local list = ids_of(model, prompt)
    local ids = ids_array(list, keep)
    array[i - 1].ids, array[i - 1].length, array[i - 1].index = ids, #list, i - 1
  end
  return array, #prompts
end

local function sampling_of(given, keep)
  local o = options("grpo_sampling", without(given, "stop", "on_token"), keep)
  if given and given.stop then o.stop, o.stops = strings(given.stop, keep) end
  return o
end

--- Completions of each prompt, one prompt after another: { text, ids, logprobs, finish, prompt,
-- index }.  sampling: the fields of grpo_sampling, such as n, max_new_tokens, temperature; stop is
-- a list, and on_token(sample) is called after each token: false ends the call with ECANCELED.
function Model:generate(prompts, sampling)
  local keep = {}
  local array, count = prompts_of(self, prompts, keep)
  local o, n = sampling_of(sampling, keep), nil
  if sampling and sampling.on_token then
    n = register(function(s)
      return sampling.on_token(sample_of(s)) == false and lib.GRPO_ECANCELED or 0
    end)
    o.on_token, o.on_token_user = on_token, user(n)
  end
  local done, samples = pcall(make, "grpo_samples", lib.grpo_generate, self.handle,
    self.tokenizer and self.tokenizer.handle, array, count, o)
  if n then functions[n] = nil end
  if not done then error(samples, 0) end
  local list, s = {}, ffi.new("grpo_sample", { size = ffi.sizeof("grpo_sample") })
  for i = 0, tonumber(lib.grpo_samples_count(samples)) - 1 do
    call(lib.grpo_samples_at, samples, i, s)
    list[i + 1] = sample_of(s)
  end
  return list
end

--- The log-probabilities, at temperature 1, of the tokens of a completion after its prompt.
function Model:score(prompt, completion)
  local ids = {}
  for _, id in ipairs(ids_of(self, prompt)) do ids[#ids + 1] = id end
  local first = #ids
  local after = type(completion) == "table" and completion
    or need_tokenizer(self):encode(completion)
  for _, id in ipairs(after) do ids[#ids + 1] = id end
  if first == 0 or #after == 0 then return {} end
  local out, logprobs = ffi.new("float[?]", #ids), {}
  call(lib.grpo_model_logprobs, self.handle, ids_array(ids, {}), #ids, out, #ids - 1)
  for i = 1, #after do logprobs[i] = out[first + i - 2] end
  return logprobs
end

--- Adds an adapter, which alone is trained from now on: { rank = 8, alpha = 16, dropout = 0,
-- targets =, seed = }.
function Model:lora(o)
  call(lib.grpo_model_add_lora, self.handle, o.rank or 8, o.alpha or 16, o.dropout or 0, o.targets,
    o.seed or 0)
  return self
end

--- Writes what transformers, PEFT and llama.cpp read; o: format, dtype, merge, as in
-- grpo_export_options.
function Model:save(path, o)
  local keep = {}
  local export = options("grpo_export_options", o, keep)
  if export.tokenizer == nil and self.tokenizer then export.tokenizer = self.tokenizer.handle end
  call(lib.grpo_model_export, self.handle, path, export)
end

---- trainers --------------------------------------------------------------------------------------

local Trainer = {}
Trainer.__index = Trainer

--- o: the fields of grpo_trainer_options, and reference: true for a frozen copy of the model, or
-- another model.
function Model:trainer(o)
  local reference = o and o.reference
  if reference == true then
    reference = { handle = make("grpo_model", lib.grpo_model_clone, self.handle) }
  end
  local numbers = {}
  local handle = make_with(numbers, "grpo_trainer", lib.grpo_trainer_new, self.handle,
    reference and reference.handle or nil, self.tokenizer and self.tokenizer.handle,
    options("grpo_trainer_options", without(o, "reference"), {}))
  return setmetatable({ model = self, handle = handle, steps = 0, numbers = numbers }, Trainer)
end

local function update_of(given, keep)
  local o = options("grpo_update_options", without(given, "loss"), keep)
  local loss = given and given.loss
  if type(loss) == "string" then loss = { loss = loss } end
  if loss then o.loss = options("grpo_loss_options", loss, keep) end
  return o
end

local function examples_of(model, examples, keep)
  local array = ffi.new("grpo_example[?]", #examples + 1)
  keep[#keep + 1] = array
  for i, e in ipairs(examples) do
    local prompt = ids_of(model, e.prompt)
    local target = type(e.target) == "table" and e.target or need_tokenizer(model):encode(e.target)
    array[i - 1] = { ids_array(prompt, keep), #prompt, ids_array(target, keep), #target }
  end
  return array, #examples
end

--- Begins a step: { prompts =, reward = function(sample), sampling =, advantages =,
-- update = { lr =, loss = } }, or a supervised one: { examples = { { prompt =, target = } },
-- update = }.
function Trainer:begin(step)
  local keep = {}
  local s = options("grpo_step", nil, keep)
  s.update = update_of(step.update, keep)
  if step.examples then
    s.examples, s.example_count = examples_of(self.model, step.examples, keep)
  else
    local reward = step.reward or fail("EARG",
      "the step has no reward; give reward = function(sample) return NUMBER end")
    s.prompts, s.count = prompts_of(self.model, step.prompts or {}, keep)
    local sampling = sampling_of(step.sampling, keep)
    if not (step.sampling and step.sampling.step) then sampling.step = self.steps end
    s.sampling, s.advantages = sampling, options("grpo_advantage_options", step.advantages, keep)
    functions[self.numbers[1] or 0] = nil
    self.numbers[1] = register(function(sample, out)
      out[0] = number_of(reward(sample_of(sample)), "of the step")
    end)
    s.reward, s.user = on_reward, user(self.numbers[1])
  end
  call(lib.grpo_trainer_begin, self.handle, s)
  self.step_data = keep
end

--- Works on the step for about `budget_us` microseconds (0: to its end).  Returns its metrics once
-- it is done, and nil before.
function Trainer:advance(budget_us)
  local done, metrics = ffi.new("int32_t[1]"), ffi.new("const grpo_metrics *[1]")
  call(lib.grpo_trainer_advance, self.handle, budget_us or 0, done, metrics)
  if done[0] == 0 then return nil end
  self.steps, self.step_data = self.steps + 1, nil
  return metrics_of(metrics[0])
end

--- A whole step: its metrics.
function Trainer:step(step)
  self:begin(step)
  return self:advance(0)
end

--- Writes weights or adapter, tokenizer and the optimizer's state; load reads the last.
function Trainer:save(directory) call(lib.grpo_trainer_save, self.handle, directory) end
function Trainer:load(directory) call(lib.grpo_trainer_load, self.handle, directory) end

---- contexts and runs -----------------------------------------------------------------------------

local Context = {}
Context.__index = Context

--- A context, from which all else is made: { threads =, log = function(line, is_warning),
-- progress = function(what, done, of) }.  A progress that returns false ends the call with
-- ECANCELED.
local function context(o)
  o = o or {}
  local c = options("grpo_context_options", without(o, "log", "progress"), {})
  local kept = {}
  if o.log then
    kept[1] = register(function(level, line)
      o.log(ffi.string(line), level == lib.GRPO_LOG_WARNING)
    end)
    c.log, c.log_user = on_log, user(kept[1])
  end
  -- always there, so that Ctrl-C is let in now and then
  kept[#kept + 1] = register(function(what, done, of)
    if not o.progress then return 0 end
    local answer = o.progress(ffi.string(what), tonumber(done), tonumber(of))
    return answer == false and lib.GRPO_ECANCELED or 0
  end)
  c.progress, c.progress_user = on_progress, user(kept[#kept])
  return setmetatable({ handle = make_with(kept, "grpo_context", lib.grpo_context_new, c) },
    Context)
end

--- path: what grpo_tokenizer_load takes.
function Context:tokenizer(path)
  return tokenizer(self, make("grpo_tokenizer", lib.grpo_tokenizer_load, self.handle, path))
end
--- The distinct characters of the text are the tokens; without a text, the bytes.
function Context:chars(text)
  local handle = text and make("grpo_tokenizer", lib.grpo_tokenizer_chars, self.handle, text, #text)
  return tokenizer(self, handle or make("grpo_tokenizer", lib.grpo_tokenizer_bytes, self.handle))
end

--- Loads a model: a path, and { storage =, compute =, tokenizer = another one, or false for none }.
-- Or makes one with random weights: { config = the table of a config.json, tokenizer =, seed = }.
function Context:model(path, o)
  if type(path) == "table" then path, o = nil, path end
  local rest = options("grpo_model_options", without(o, "tokenizer", "config"), {})
  local given = o and o.tokenizer
  local m = setmetatable({ context = self, tokenizer = given or nil }, Model)
  if path then
    m.handle = make("grpo_model", lib.grpo_model_load, self.handle, path, rest)
    if given == nil then m.tokenizer = self:tokenizer(path) end
  else
    m.handle = make("grpo_model", lib.grpo_model_new, self.handle, json(o.config),
      given and given.handle, rest)
  end
  return m
end

-- row.NAME is a field of the dataset's row, as text, while the reward runs
local function row_of(s, live)
  return setmetatable({}, { __index = function(_, name)
    local text = live[1] and lib.grpo_sample_field(s, name)
    return text ~= nil and text and ffi.string(text) or nil
  end })
end

local function judged(f, s)
  local live = { true }
  local sample = sample_of(s)
  sample.row = row_of(s, live)
  local value = f(sample)
  live[1] = false
  return value
end

local function list_into(values, count, out, name)
  if type(values) ~= "table" then
    error(("the reward %s returned a %s, because it must return a list of %d numbers"):format(
      name, type(values), count), 0)
  end
  for i = 1, count do out[i - 1] = number_of(values[i], name) end
end

local rewards = {
  sample = function(name, f)
    return "", on_reward, function(s, out) out[0] = number_of(judged(f, s), name) end
  end,
  token = function(name, f)
    return "token_", on_tokens, function(s, out)
      list_into(judged(f, s), tonumber(s.length), out, name)
    end
  end,
  group = function(name, f)
    return "group_", on_group, function(all, count, out)
      local live, samples = { true }, {}
      for i = 1, tonumber(count) do
        samples[i] = sample_of(all[i - 1])
        samples[i].row = row_of(all[i - 1], live)
      end
      local values = f(samples)
      live[1] = false
      list_into(values, tonumber(count), out, name)
    end
  end,
}

local function equip(run, o, kept)
  local function add(f, ...)
    kept[#kept + 1] = register(f)
    return user(kept[#kept]), ...
  end
  for name, r in pairs(o.rewards or {}) do
    if type(r) == "function" then r = { fn = r } end
    local kind = rewards[r.kind or "sample"] or fail("EARG",
      ("reward %s: there is no kind '%s'; take sample, group or token")
      :format(name, tostring(r.kind)))
    local which, c, f = kind(name, r.fn)
    call(lib["grpo_run_add_" .. which .. "reward"], run, name, r.weight or 1, c, (add(f)))
  end
  for name, f in pairs(o.functions or {}) do
    call(lib.grpo_run_add_function, run, name, on_call, (add(function(arguments, answer)
      local value = f(ffi.string(arguments))
      if value == nil then return 0 end
      local text = json(value)
      return lib.grpo_answer_json(answer, text, #text)
    end)))
  end
  if o.on_step then
    call(lib.grpo_run_on_step, run, on_step, (add(function(step, metrics)
      if o.on_step(tonumber(step), metrics_of(metrics)) == false then lib.grpo_run_stop(run) end
    end)))
  end
end

--- Runs an experiment script: path or script, directory, resume, max_steps, the lists overrides
-- ("train.lr=1e-5") and args, rewards = { NAME = function(sample), or { fn =, weight =,
-- kind = "group" or "token" } }, functions = { NAME = function(json) }, and
-- on_step = function(step, metrics), which ends the run by returning false.
-- Returns { steps, stopped, directory }.
function Context:run(o)
  local keep, kept = {}, {}
  local plain = without(o, "overrides", "args", "rewards", "functions", "on_step")
  local given = options("grpo_run_options", plain, keep)
  given.overrides, given.override_count = strings(o.overrides or {}, keep)
  given.args, given.arg_count = strings(o.args or {}, keep)
  local run = make("grpo_run", lib.grpo_run_new, self.handle, given)
  local done, problem = pcall(function()
    equip(run, o, kept)
    call(lib.grpo_run_execute, run)
  end)
  for _, n in ipairs(kept) do functions[n] = nil end
  if not done then error(problem, 0) end
  local steps, stopped = ffi.new("int64_t[1]"), ffi.new("int32_t[1]")
  local directory = ffi.new("const char *[1]")
  call(lib.grpo_run_result, run, steps, stopped, directory)
  return {
    steps = tonumber(steps[0]), stopped = stopped[0] ~= 0, directory = ffi.string(directory[0]),
  }
end

return {
  context = context, lib = lib, ffi = ffi, json = json, version = ffi.string(lib.grpo_version()),
  Error = Error, Context = Context, Tokenizer = Tokenizer, Model = Model, Trainer = Trainer,
}
