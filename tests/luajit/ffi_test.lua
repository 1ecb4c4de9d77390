-- grpo.ffi in LuaJIT, with the traps of callbacks: luajit ffi_test.lua DIRECTORY.  TAP on stdout.
local grpo = require "grpo.ffi"
io.stdout:setvbuf "line"
local work = arg[1]
local number = 0

local function check(name, problem)
  number = number + 1
  print((problem and "not ok " or "ok ") .. number .. " - " .. name)
  if problem then print("# " .. tostring(problem)) end
end
local function is(name, got, want)
  check(name, got ~= want and ("got " .. tostring(got) .. ", want " .. tostring(want)) or nil)
end
-- the code and the text of the error that a call raises
local function refused(f, ...)
  local ok, e = pcall(f, ...)
  if ok then return "nothing", "no error" end
  return type(e) == "table" and e.code or "text", tostring(e)
end
local function says(name, code, pattern, f, ...)
  local c, text = refused(f, ...)
  check(name, not (c == code and text:find(pattern)) and c .. ": " .. text or nil)
end

local letters = "abcdefgh"
local prompts = {}
for letter in letters:gmatch "." do prompts[#prompts + 1] = letter end
local config = {
  model_type = "llama", hidden_size = 16, intermediate_size = 32, num_hidden_layers = 1,
  num_attention_heads = 2,
  max_position_embeddings = 32, initializer_range = 0.1,
}
local context = grpo.context { threads = 1 }
local function new_model(c)
  return c:model { config = config, tokenizer = c:chars(letters), seed = 1 }
end
local model = new_model(context)

---- tokens, sampling, scores
local tokenizer = model.tokenizer
is("a text goes to ids and back", tokenizer:decode(tokenizer:encode "fade"), "fade")
is("a token has an id", tokenizer:id "b", 1)
is("and one that is not there has none", tokenizer:id "zebra", nil)
is("a chat template renders messages", tokenizer:chat({ { role = "user", content = 'a "b"\n' } },
  { chat_template = "{{ messages[0]['role'] }}: {{ messages[0]['content'] }}" }), 'user: a "b"\n')
local samples = model:generate({ "a", "b" }, { n = 3, max_new_tokens = 5, seed = 2,
  stop = { "c" } })
is("completions of each prompt", #samples, 6)
is("know their prompt", samples[4].prompt .. samples[4].index, "21")
local scores = model:score("a", samples[1].ids)
check("a score is the log-probability of sampling",
  math.abs(scores[1] - samples[1].logprobs[1]) > 1e-5 and scores[1] or nil)
local heard = 0
says("on_token may end the call", "ECANCELED", "cancel", model.generate, model, { "a" },
  { max_new_tokens = 9, on_token = function() heard = heard + 1 return heard < 2 end })
is("after the token that it was called for", heard, 2)

---- what is wrong is said at the caller's line
says("an option that there is not", "EARG",
  "ffi_test.lua:%d+: grpo_sampling: there is no option 'temprature'",
  function() model:generate({ "a" }, { temprature = 1 }) end)
says("a value that does not fit", "EARG", "grpo_sampling.top_k: a table does not fit",
  model.generate, model, { "a" },
  { top_k = {} })
says("a number that the field would cut", "EARG", "max_new_tokens: 1.5 does not fit",
  model.generate, model, { "a" }, { max_new_tokens = 1.5 })
says("and one that it would wrap", "EARG", "does not fit", model.generate, model, { "a" },
  { max_new_tokens = 2 ^ 32 + 1 })
says("an id that is not whole", "EARG", "token 1 is 1.5", model.generate, model, { { 1.5 } })
says("no prompts at all", "EARG", "prompts is a nil", model.generate, model)
says("an option that a context lacks", "EARG", "no option 'thread'", grpo.context, { thread = 1 })
says("a file that is not there", "ENOENT", "no such model", context.model, context,
  work .. "/nothing")
says("a prompt of another type", "EARG", "a prompt is a boolean", model.generate, model, { true })
says("a config that is no JSON", "EARG", "a function cannot be JSON", context.model, context,
  { config = { model_type = print } })

---- steps
local function repeats(sample)
  local _, hits = sample.text:gsub(prompts[sample.prompt], "")
  return hits / 8
end
local settings = { max_prompt_tokens = 1, max_new_tokens = 8 }
local lr = { lr = 1e-2 }
local trainer = model:trainer(settings)
local whole = trainer:step { prompts = prompts, reward = repeats, update = lr }
local other = new_model(context):trainer(settings)
other:begin { prompts = prompts, reward = repeats, update = lr }
local parts, metrics = 0
repeat
  metrics = other:advance(200)
  parts = parts + 1
  collectgarbage() -- nothing that the step needs is garbage
until metrics
check("a step in parts has several", parts < 3 and parts or nil)
is("and the bits of a whole one", metrics.grad_norm, whole.grad_norm)
says("an error in a reward ends the step, with its own text", "text",
  "^.*ffi_test.lua:%d+: boom$", trainer.step,
  trainer, { prompts = prompts, reward = function() error "boom" end, update = lr })
says("an error that is a table comes through", "odd", "table", trainer.step, trainer,
  { prompts = prompts, reward = function() error { code = "odd" } end })
says("a reward that is not a number", "text", "returned a string", trainer.step, trainer,
  { prompts = prompts, reward = function() return "1" end })
says("a yield cannot leave a reward", "text", "yield", function()
  local thread = coroutine.create(function()
    trainer:step { prompts = prompts, reward = coroutine.yield }
  end)
  local _, e = coroutine.resume(thread)
  error(tostring(e), 0)
end)
is("the trainer works after all this", type(trainer:step { prompts = prompts, reward = repeats,
  update = lr }.loss),
  "number")
local inside = coroutine.wrap(function()
  coroutine.yield(type(trainer:step { prompts = prompts, reward = repeats, update = lr }.loss))
end)
is("a step within a coroutine", inside(), "number")
says("a call that the library refuses in a callback", "EARG",
  "another call is using this context", trainer.step, trainer,
  { prompts = prompts, reward = function() context:chars "xyz" end })

-- handles that become garbage in a callback
local freed = trainer:step {
  prompts = prompts, update = lr,
  reward = function(sample)
    if sample.index == 1 then tokenizer:encode "abc" end
    collectgarbage()
    return repeats(sample)
  end,
}
is("the collector may run in a reward", type(freed.loss), "number")
do
  local garbage = new_model(context) -- luacheck: ignore
  garbage = nil -- luacheck: ignore
end
local after = trainer:step {
  prompts = prompts, update = lr,
    reward = function(s) collectgarbage() collectgarbage() return repeats(s) end,
}
is("and find a model that nothing holds", type(after.loss), "number")

-- compiled loops around calls, and compiled rewards
local function hot(sample)
  local sum = 0
  for i = 1, 300 do sum = sum + (sample.ids[1] * i) % 7 end
  return sum / 1000
end
local short = { n = 2, max_new_tokens = 2 }
for _ = 1, 60 do trainer:step { prompts = { "a", "b" }, sampling = short, reward = hot } end
for _ = 1, 300 do tokenizer:encode "abc" end
is("sixty steps in a loop", trainer.steps, 65)
-- each made callbacks of its own once: LuaJIT has about a thousand
for _ = 1, 1200 do model:generate({ "a" }, { max_new_tokens = 1, on_token = function() end }) end
check("twelve hundred functions as callbacks")

trainer:step {
  prompts = prompts, reward = repeats, update = { lr = 1e-3, loss = "dapo" },
    advantages = { scale = "none" },
}
local examples = { { prompt = "a", target = "aaaa" }, { prompt = "b", target = { 1, 1 } } }
local loss = trainer:step { examples = examples, update = lr }.loss
check("examples are learned", loss <= 0 and loss or nil)
local kl = new_model(context):trainer { max_prompt_tokens = 1, max_new_tokens = 4,
  reference = true }
is("a reference gives a kl", type(kl:step { prompts = prompts, reward = repeats,
  update = { lr = 1e-2, loss = { kl = 0.1 } } }.kl),
  "number")

---- files
trainer:save(work .. "/trainer")
local again = context:model(work .. "/trainer")
local continued = again:trainer(settings)
continued:load(work .. "/trainer")
continued.steps = trainer.steps
local step = { prompts = prompts, reward = repeats, update = lr }
is("what was saved continues with the same bits", continued:step(step).grad_norm,
  trainer:step(step).grad_norm)
local adapted = new_model(context):lora { rank = 2, targets = "q_proj" }
adapted:save(work .. "/adapter")
check("an adapter is saved alone",
  not io.open(work .. "/adapter/adapter_config.json") and "no adapter_config.json" or nil)
adapted:save(work .. "/merged", { merge = true, dtype = "bf16" })
is("and merged", context:model(work .. "/merged"):generate("a",
  { max_new_tokens = 1 })[1].prompt, 1)

---- notices and progress
local told = {}
local watched = grpo.context { threads = 1, progress = function(what) told[what] = true end }
local seen = new_model(watched)
seen:save(work .. "/seen")
check("progress is told", not told.save and "no save" or nil)
local stops = grpo.context { threads = 1, progress = function(what) return what ~= "load" end }
says("and ends a call", "ECANCELED", "cancel", stops.model, stops, work .. "/seen")
local breaks = grpo.context { progress = function() error "no progress" end }
says("an error in it is raised", "text", "no progress", breaks.model, breaks, work .. "/seen")

local told_late = 0
local orphan = new_model(grpo.context { threads = 1,
  progress = function() told_late = told_late + 1 end })
collectgarbage() collectgarbage()
orphan:generate({ "a" }, { max_new_tokens = 2 })
check("a model keeps the callbacks of its context", told_late == 0 and "none" or nil)

---- runs
local script = [[
local grpo = require "grpo"
print("rows: " .. grpo.host.rows(8, "a")[1].answer)
return grpo.experiment {
  model = { path = grpo.args.model },
  data = { train = grpo.data.list(grpo.host.rows(8, "a")), max_prompt_tokens = 1 },
  sampling = { group_size = 4, max_new_tokens = 4 },
  rewards = {},
  train = { steps = 9, prompts_per_step = 4 },
}
]]
local lines, fields, groups, tokens = {}, {}, 0, 0
local logs = grpo.context { threads = 1, log = function(line) lines[#lines + 1] = line end }
local late
local ended = logs:run {
  script = script, args = { "model=" .. work .. "/seen" }, overrides = { "train.lr=1e-3" },
    directory = work .. "/runs",
  functions = {
    rows = function(json)
      local rows = {}
      for i, letter in ipairs(prompts) do rows[i] = { prompt = letter, answer = json } end
      return rows
    end,
  },
  rewards = {
    row = function(sample)
      fields[sample.row.answer or "none"], late = true, sample
      return sample.row.nothing == nil and repeats(sample) or 0
    end,
    all = {
      kind = "group", weight = 0.5,
      fn = function(list) groups = #list return { 1, nil, 0, true } end,
    },
    each = { kind = "token", fn = function(s) tokens = #s.ids local r = {} for i = 1,
      #s.ids do r[i] = 0 end return r end },
  },
  on_step = function(n, m) return not (n == 3 and m.reward) end,
}
is("a run ends when on_step says so", ended.steps .. tostring(ended.stopped), "3true")
is("its rows come from here, and its fields are read", fields['[8, "a"]'], true)
is("a field is not read after the reward", late.row.answer, nil)
is("a group", groups, 4)
check("tokens", tokens == 0 and "none" or nil)
check("its notices reach the log", not table.concat(lines,
  "\n"):find 'rows: %[8, "a"%]' and table.concat(lines, "\n") or nil)
local resumed = { resume = ended.directory, max_steps = 4, functions = {}, rewards = {} }
says("a resume needs the same functions", "EARG", "row", logs.run, logs, resumed)
says("a reward that fails ends the run", "text", "too hard", logs.run, logs, {
  script = script, args = { "model=" .. work .. "/seen" },
    functions = { rows = function() return { { prompt = "a", answer = "a" } } end },
  rewards = { row = function() error "too hard" end },
})
local silent = grpo.context { log = function() error "no log" end }
says("an error in the log", "text", "no log", silent.run, silent, {
  script = script, args = { "model=" .. work .. "/seen" },
    functions = { rows = function() return { { prompt = "a", answer = "a" } } end },
  rewards = { row = function() return 1 end }, max_steps = 1,
})
print("1.." .. number)
