-- Tools and environments: forms of calls, failures, limits, episodes, and training with them.

local grpo = require "grpo"
local core = require "grpo.core"
local tools = require "grpo.options.tools"
local tiny = require "tests.lua.tiny"
local turns = require "grpo.scoring.turns"

local message_of, weights = tiny.message_of, tiny.weights

local function complain(path, format, ...) error(path .. ": " .. format:format(...), 0) end

-- ---- forms of calls -----------------------------------------------------------------------------

describe("a form of calls", function()
  it("reads json between <tool_call> and </tool_call>", function()
    local read = tools.form("json").read
    local calls = read('let me see <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
    assert.same({ { name = "add", arguments = { a = 1 } } }, calls)
    assert.is_nil(read("no call at all"))
    assert.matches("not valid JSON", read("<tool_call>{name: add}</tool_call>")[1].error)
    assert.matches("a call is", read("<tool_call>[1, 2]</tool_call>")[1].error)
    assert.matches("not an object",
      read('<tool_call>{"name": "add", "arguments": 3}</tool_call>')[1].error)
    assert.matches("<tool_call> is missing", read('{"name": "add"}</tool_call>')[1].error)
    assert.same({}, read('<tool_call>{"name": "now"}</tool_call>')[1].arguments)
  end)

  it("reads several calls of one chat turn, and Llama's bare object", function()
    local read = tools.form("chat").read
    local calls = read('<tool_call>\n{"name": "a", "arguments": '
      .. '{}}\n</tool_call>\n<tool_call>\n{"name": "b", '
      .. '"arguments": {"x": [1]}}\n</tool_call><|im_end|>')
    assert.equal(2, #calls)
    assert.equal("b", calls[2].name)
    assert.equal("a", read('{"name": "a", "parameters": {"x": 1}}<|eot_id|>')[1].name)
    assert.is_nil(read('{"x": 1}'))
    assert.is_nil(read("the set {1}"))
    assert.matches("</tool_call> is missing", read('<tool_call>{"name": "a"}<|im_end|>')[1].error)
  end)

  it("reads <<name argument>>", function()
    local read = tools.form("compact").read
    assert.same({ { name = "calc", argument = "5+3" } }, read("so <<calc 5+3>>"))
    assert.same({ { name = "calc", argument = "2*2" } }, read("<<a <<calc 2*2>>"))
    assert.same({ { name = "now", argument = "" } }, read("<<now>>"))
    assert.matches("a call is", read("1 >> 2")[1].error)
    assert.is_nil(read("1 < 2"))
    assert.same({ { name = "b", argument = "x > y" } }, read("<<a 1>> <<<b \n x > y >>>> <<c"))
    assert.same({ { name = "b", argument = "" } }, read("<<a << b>>"))
  end)

  it("reads any text within the limits of a reward", function()
    local within = { instructions = 1e7, memory = 2 ^ 26 }
    for _, part in ipairs { "<tool_call>", "<<a ", "<<", "<<a>", " ", "<|a|>", "{", "} " } do
      for _, name in ipairs { "chat", "json", "compact" } do
        local ok, err = core.limited(within, name, tools.form(name).read, part:rep(5000))
        assert.is_true(ok, name .. " " .. part .. ": " .. tostring(err))
        ok, err = core.limited(within, name, tools.form(name).read,
          "<<a" .. (" "):rep(20000) .. part:rep(5000) .. ">>")
        assert.is_true(ok, name .. " " .. part .. ": " .. tostring(err))
      end
    end
  end)
end)

-- ---- calls --------------------------------------------------------------------------------------

local limits = { instructions = 1e6, memory = 2 ^ 22, seconds = 5 }
local list = tools.list({
  add = { description = "adds", parameters = { a = "number", b = "number" },
    fn = function(arguments) return arguments.a + arguments.b end },
  echo = { parameters = { text = "string" }, fn = function(arguments) return arguments.text end },
  bad = function() error("it broke") end,
  none = function() return nil, "nothing found" end,
  loop = function() while true do end end,
  hungry = function() return ("x"):rep(2 ^ 30) end,
  odd = function() return print end,
  rows = function() return { 1, 2, { a = "b" } } end,
  half = function() return 0.5 end,
  nan = function() return 0 / 0 end,
  round = function() local t = {} t[1] = t return t end,
  writes = function(_, c) c.state.n = 1 end,
  endless = function() return tiny.endless { 5, tiny.endless { a = 1 } } end,
  reason = function() return nil, tiny.endless() end,
  shared = function()
    local t = {}
    for _ = 1, 60 do t = { t, t } end
    return t
  end,
}, complain)

local function answer(call)
  return tools.call(list, call, limits, { rng = core.rng(1, "turn", 0, 0, 1),
    state = require("grpo.scoring.rollout").read_only({}) })
end

describe("a call of a tool", function()
  it("gives text: strings as they are, whole numbers without a point, tables as JSON", function()
    assert.equal("5", (answer { name = "add", arguments = { a = 2, b = 3 } }))
    assert.equal("5", (answer { name = "add", arguments = { a = 2.5, b = 2.5 } }))
    assert.equal("hi", (answer { name = "echo", argument = "hi" }))
    assert.equal('[1, 2, {"a": "b"}]', (answer { name = "rows", arguments = {} }))
    assert.equal("0.5", (answer { name = "half", arguments = {} }))
    assert.equal("nan", (answer { name = "nan", arguments = {} }))
    assert.is_false(select(2, answer { name = "half", arguments = {} }))
  end)

  local failures = {
    { { error = "the call is not valid JSON" }, "error: the call is not valid JSON" },
    { { name = "sub", arguments = {} }, "error: there is no tool 'sub'" },
    { { name = "add", arguments = { a = 1 } }, "error: argument 'b' is missing" },
    { { name = "add", arguments = { a = 1, b = "x" } },
      "error: argument 'b' is not of type number" },
    { { name = "add", arguments = { a = 1, b = 2, c = 3 } }, "error: there is no argument 'c'" },
    { { name = "bad", arguments = {} }, "error: it broke" },
    { { name = "none", arguments = {} }, "error: nothing found" },
    { { name = "odd", arguments = {} }, "error: the result is a function" },
    { { name = "round", arguments = {} },
      "error: the result cannot be written as JSON: nested deeper than 200 (a table inside "
        .. "itself?)" },
    { { name = "writes", arguments = {} },
      "error: c.state is read-only here; change tr.state in a hook" },
  }
  for _, case in ipairs(failures) do
    it("that goes wrong is a text for the model: " .. case[2], function()
      local text, failed = answer(case[1])
      assert.equal(case[2], text)
      assert.is_true(failed)
    end)
  end

  it("that runs away is stopped by its budget", function()
    local text, failed = answer { name = "loop", arguments = {} }
    assert.matches("^error: .*used up its 1000000 instructions", text)
    assert.is_true(failed)
    text, failed = answer { name = "hungry", arguments = {} }
    assert.matches("^error: .*memory", text)
    assert.is_true(failed)
    for _, name in ipairs { "reason", "shared" } do
      text, failed = answer { name = name, arguments = {} }
      assert.matches("^error: .*used up its 1000000 instructions", text)
      assert.is_true(failed)
    end
    assert.equal('[5, {"a": 1}]', (answer { name = "endless", arguments = {} }))
  end)

  it("that outlasts the wall clock ends the run", function()
    local ok, err = pcall(tools.call, list, { name = "loop", arguments = {} }, { seconds = 0.05 },
      { rng = core.rng(1, "turn", 0, 0, 1) })
    assert.is_false(ok)
    assert.is_true(err.fatal)
  end)
end)

-- ---- experiments --------------------------------------------------------------------------------

local shape = tiny.llama { num_attention_heads = 4, num_key_value_heads = 2,
  max_position_embeddings = 64, tie_word_embeddings = true, initializer_range = 0.3 }

-- "x" calls a tool, with what the turn said before it; the answer stands in brackets.
local with_x = {
  stop = { "x" },
  read = function(text)
    return text:find "x" and { { name = "count", arguments = { text = text } } } or nil
  end,
  write = function(result) return "[" .. result .. "]" end,
}

local experiment = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = shape,
      tokenizer = grpo.tokenizer.chars("abcx[]0123456789!? errothisnvdly:'k") },
    data = { train = grpo.data.generate(function()
      return { prompt = "ab" }
    end, { n = 64 }), max_prompt_tokens = 8 },
    tools = { count = { parameters = { text = "string" }, fn = function(arguments)
      return #arguments.text
    end } },
    turns = { format = with_x, max = 4 },
    sampling = { group_size = 4, max_new_tokens = 40 },
    rewards = { { name = "as", fn = function(text) return select(2, text:gsub("a", "")) end } },
    train = { steps = 3, prompts_per_step = 2, lr = 1e-3 },
  }
end)

local function run(change) return tiny.steps(grpo.trainer(experiment(change))) end

local function with_environment(t)
  t.tools, t.turns = nil, { max = 4 }
  t.sampling.stop = { "a", "b", "c", "x" }
end

describe("training with tools", function()
  it("puts answers in, masks them, and tells how often there were calls", function()
    local tr, steps = run()
    local calls, put_in = 0, 0
    for _, m in ipairs(steps) do
      assert.equal(0, m.ratio_max_deviation)
      assert.equal(0, m["tools/failure_frequency"])
      calls = calls + m["tools/call_frequency"]
    end
    assert.is_true(calls > 0)
    local drawn = 0
    for _, c in ipairs(tr.batch.completions) do
      local at = 1
      for _, part in ipairs(c.parts) do -- the turns are the completion, without a gap
        assert.equal(at, part.first)
        for k = part.first, part.last do
          assert.equal(part.role == "assistant", c.sampled[k])
          put_in = put_in + (c.sampled[k] and 0 or 1)
          drawn = drawn + (c.sampled[k] and 1 or 0)
        end
        if part.role == "tool" then
          assert.equal("[" .. part.calls[1].result .. "]", part.text)
          assert.equal(#part.calls[1].arguments.text, tonumber(part.calls[1].result))
        end
        at = part.last + 1
      end
      assert.equal(c.length + 1, at)
      assert.is_true(c.turns <= 4)
    end
    assert.is_true(put_in > 0)
    assert.equal(drawn, steps[#steps].trained_tokens)
    assert.near(drawn / 8, steps[#steps]["completions/mean_length"], 1e-9)
  end)

  it("is the same however it is cut, kept and resumed", function()
    local whole, list_a = run()
    local cut = run(function(t) t.train.micro_batch_tokens = 60 end)
    local kept, list_b = run(function(t) t.train.reuse_rollout = true end)
    local plain = run(function(t) t.train.reuse_rollout = false end)
    assert.equal(weights(whole), weights(cut))
    assert.equal(weights(whole), weights(kept))
    assert.equal(weights(whole), weights(plain))
    assert.equal(list_a[3].loss, list_b[3].loss)
    local dir = tiny.path()
    local half = grpo.trainer(experiment())
    half:step()
    half:save(dir)
    local resumed = require("grpo.loop.trainer").new(experiment(), { from = dir })
    resumed:step()
    resumed:step()
    core.fs.remove_tree(dir)
    assert.equal(weights(whole), weights(resumed))
  end)

  it("continues when tools fail, and counts that", function()
    local _, steps = run(function(t) t.tools.count.fn = function() error("no") end end)
    assert.equal(1, steps[1]["tools/failure_frequency"])
    local tr = run(function(t)
      t.tools.count.fn = function() while true do end end
      t.limits = { tool = { instructions = 50000 } }
    end)
    local failed
    for _, c in ipairs(tr.batch.completions) do
      for _, part in ipairs(c.parts) do
        failed = failed or part.calls and part.calls[1].failed and part.calls[1]
      end
    end
    assert.matches("its 50000 instr", failed.result) -- what this tokenizer can say of it
  end)

  it("goes on whatever a tool says or does to what it was given", function()
    for _, fn in ipairs {
      function(arguments, c)
        c.parts[1], c.parts, c.rng, c.turn, arguments.text = nil, nil, nil, 99, nil return "1"
      end,
      function(_, c) c.parts[1].last = 7 return "1" end,
      -- bytes that are not text, with a tokenizer of characters
      function() return "\xff1\x80\x80 \xe2\x80" end,
      function() return "{" end, -- no such character
      function() return "" end,
    } do
      local _, steps = run(function(t) t.tools.count.fn = fn end)
      assert.equal(3, #steps)
    end
  end)

  it("names a form's function that fails", function()
    local function failing(name, f)
      return message_of(run, function(t)
        t.turns.format = { stop = { "x" }, read = with_x.read, write = with_x.write }
        t.turns.format[name] = f
      end)
    end
    assert.matches("turns.format.read: .*turns_test.lua:%d+: cannot",
      failing("read", function() error "cannot" end))
    assert.matches("turns.format.read: returned a number, want nil or a list",
      failing("read", function() return 5 end))
    assert.matches("turns.format.read: item 1 is a string, want",
      failing("read", function() return { "count" } end))
    assert.matches("turns.format.write: .*turns_test.lua:%d+: cannot",
      failing("write", function(text) return text == "" and "" or error "cannot" end))
    assert.matches("turns.format.write: returned nil, want a string",
      failing("write", function(text) return text == "" and "" or nil end))
  end)

  it("has no c.environment, and writes empty arguments as an object", function()
    local tr = run(function(t)
      t.turns.format = { stop = with_x.stop, write = with_x.write,
        read = function(text) return text:find "x" and { { name = "count" } } or nil end }
      t.tools.count = function() return "1" end
    end)
    local calls = 0
    for _, c in ipairs(tr.batch.completions) do
      assert.is_nil(c.environment)
      for _, part in ipairs(c.parts) do
        if part.calls then
          calls = calls + 1
          assert.equal("{}", grpo.json.encode(part.calls[1].arguments))
        end
      end
    end
    assert.is_true(calls > 0)
  end)

  it("gives tools random numbers of their own: the same in every run", function()
    local function noisy(t)
      t.tools.count.fn = function(_, c) return math.floor(c.rng() * 100 + math.random() * 10) end
    end
    assert.equal(weights((run(noisy))), weights((run(noisy))))
  end)

  it("ends after turns.max turns, the last call unanswered", function()
    local tr = run(function(t) t.turns.max = 1 end)
    for _, c in ipairs(tr.batch.completions) do assert.equal(1, #c.parts) end
  end)

  it("ignores dense rewards on injected tokens, and takes kl from the reward without them",
    function()
    local function dense(at_put_in)
      return function(t)
        t.rewards = { { name = "dense", token_fn = function(c)
          local list_of = {}
          for k = 1, c.length do list_of[k] = c.sampled[k] and c.ids[k] % 3 or at_put_in end
          return list_of
        end } }
      end
    end
    assert.equal(weights((run(dense(0)))), weights((run(dense(1000)))))
    local _, steps = run(function(t)
      t.train.kl, t.train.kl_in, t.train.kl_estimator = 0.1, "reward", "k1"
    end)
    assert.equal(3, #steps)
  end)

  it("evaluates with tools", function()
    local tr = grpo.trainer(experiment(function(t)
      t.data.eval = grpo.data.list { { prompt = "ab" }, { prompt = "ba" }, { prompt = "cc" } }
      t.eval = { group_size = 2 }
      t.turns.max = 3
    end))
    local report = tr:evaluate()
    assert.is_true(report["eval/tools/call_frequency"] ~= nil)
    assert.equal("assistant", report.samples[1].parts[1].role)
    assert.equal(report["eval/accuracy"], tr:evaluate()["eval/accuracy"])
  end)

  it("replaces groups without spread", function()
    local _, steps = run(function(t)
      t.rewards = { function(text) return text:find "x" and 1 or 0 end }
      t.train.skip_zero_std_groups = true
    end)
    assert.equal(0, steps[3].ratio_max_deviation)
  end)
end)

-- ---- environments -------------------------------------------------------------------------------

-- Says the secret's parity after every turn; a reward for each "a".
local as_functions = {
  reset = function(_, rng) return { secret = math.floor(rng() * 10), left = 3 }, "?" end,
  step = function(state, action)
    state.left = state.left - 1
    local reward = action:find "a" and 1 or 0
    if state.left == 0 then return nil, reward end
    return tostring(state.secret), reward
  end,
}

local function as_coroutine(_, rng)
  local secret = math.floor(rng() * 10)
  local action = coroutine.yield("?")
  for _ = 1, 2 do
    action = coroutine.yield(tostring(secret), action:find "a" and 1 or 0)
  end
  return action:find "a" and 1 or 0
end

describe("an environment", function()
  local function playing(environment, more)
    return function(t)
      with_environment(t)
      t.environment, t.rewards = environment, nil
      if more then more(t) end
    end
  end

  it("is the reward where none is given, and its first observation the end of the prompt",
    function()
    local tr, steps = run(playing(as_functions))
    local c = tr.batch.completions[1]
    assert.equal("ab?", c.prompt)
    assert.equal(c.environment.reward, c.rewards.environment)
    assert.equal(c.environment.reward, c.reward)
    assert.is_true(steps[1]["completions/mean_turns"] > 1)
    assert.is_nil(steps[1]["tools/call_frequency"])
    local finished = 0
    for _, other in ipairs(tr.batch.completions) do
      assert.is_true(other.environment.turns <= 4)
      finished = finished + (other.environment.done and 1 or 0)
    end
    assert.is_true(finished > 0)
  end)

  it("may be a coroutine: the same run", function()
    local a, b = run(playing(as_functions)), run(playing(as_coroutine))
    assert.equal(weights(a), weights(b))
    assert.equal(#a.batch.completions[1].parts, #b.batch.completions[1].parts)
  end)

  it("begins alike for a whole group, and differently for each prompt", function()
    local seen = {}
    run(playing({ reset = function(row, rng)
      local n = math.floor(rng() * 1000)
      seen[row] = seen[row] or {}
      seen[row][n] = true
      return {}, tostring(n % 10)
    end, step = function() end }))
    local different = {}
    for _, numbers in pairs(seen) do
      for n in pairs(numbers) do different[n] = true end
    end
    assert.is_truthy(next(different) and next(different, (next(different))))
  end)

  it("lets go of every state once", function()
    local open, most = {}, 0
    local function leaving(step) return {
      reset = function()
        local state = { left = 3, secret = 5 }
        open[state] = 1
        most = most + 1
        return state, "?"
      end,
      step = step, close = function(state) open[state] = open[state] - 1 end,
    } end
    run(playing(leaving(as_functions.step)))
    run(playing(leaving(function() return "?" end), function(t) t.turns.max = 2 end))
    run(playing(leaving(function() error "broken" end),
      function(t) t.reward = { on_error = "skip" } end))
    assert.is_true(most > 20)
    for _, left in pairs(open) do assert.equal(0, left) end
    assert.matches("environment.close: .*stuck", message_of(run, playing {
      reset = as_functions.reset, step = as_functions.step,
      close = function() error "stuck" end }))
    assert.matches("environment.close: got boolean, want a function", message_of(run, playing {
      reset = as_functions.reset, step = as_functions.step, close = true }))
  end)

  it("that is not the same twice is refused", function()
    local count = 0
    assert.matches("two different first observations", message_of(run, playing({
      reset = function()
        count = count + 1 return {}, tostring(count % 10)
      end, step = function() end })))
  end)

  it("that fails does as reward.on_error says", function()
    local broken = { reset = as_functions.reset, step = function() error("broken") end }
    local err = message_of(run, playing(broken))
    assert.matches("environment.step: .*turns_test.lua:%d+: broken %(the model said:", err)
    local tr, steps = run(playing(broken, function(t) t.reward = { on_error = "zero" } end))
    assert.equal(3, #steps)
    local errors_seen = 0
    for _, c in ipairs(tr.batch.completions) do
      assert.equal(0, c.reward)
      errors_seen = errors_seen + (c.errors and c.errors.environment and 1 or 0)
    end
    assert.is_true(errors_seen > 0)
    assert.equal(errors_seen, steps[3].reward_errors)
    tr = run(playing(broken, function(t) t.reward = { on_error = "skip" } end))
    for _, c in ipairs(tr.batch.completions) do
      if c.errors then assert.is_nil(c.reward) end
    end
  end)

  it("returns strings and finite numbers", function()
    local function step(f) return { reset = as_functions.reset, step = f } end
    assert.matches("observation is a number", message_of(run, playing(step(function()
      return 3
    end))))
    assert.matches("reward is %-?nan", message_of(run, playing(step(function()
      return nil, 0 / 0
    end))))
    assert.matches("reward is a table", message_of(run, playing(step(function()
      return nil, {}
    end))))
    assert.matches("before its first coroutine.yield", message_of(run, playing(function()
      return 1
    end)))
  end)

  it("in a loop is stopped by its budget", function()
    local err = message_of(run, playing({ reset = as_functions.reset, step = function()
      while true do end
    end },
      function(t) t.limits = { tool = { instructions = 20000 } } end))
    assert.matches("used up its 20000 instructions", err)
    err = message_of(run, playing(function() coroutine.yield("?") while true do end end,
      function(t) t.limits = { tool = { instructions = 20000 } } end))
    assert.matches("used up its 20000 instructions", err)
  end)

  it("and tools go together", function()
    local tr = run(function(t)
      t.sampling.stop = { "a" }
      t.environment, t.rewards = as_functions, nil
    end)
    local roles = {}
    for _, c in ipairs(tr.batch.completions) do
      for _, part in ipairs(c.parts) do roles[part.role] = true end
    end
    assert.same({ assistant = true, tool = true, environment = true }, roles)
  end)
end)

-- ---- what a chat template makes of turns --------------------------------------------------------

local qwen = tiny.shared and tiny.shared .. "/oracles/tokenizers/qwen2_5_small"

describe("advantages of turns", function()
  -- A walk over the states 0 to 3: "a" goes right, another letter left; 3 pays 1 and ends.
  local function walk(key)
    return { reset = function() return { at = 1 }, "1", key(1) end,
      step = function(state, action)
        state.at = math.max(0, state.at + (action:find "a" and 1 or -1))
        if state.at == 3 then return nil, 1 end
        return tostring(state.at), state.at == 0 and -0.25 or 0, key(state.at)
      end }
  end

  local function walked(more, key)
    return run(function(t)
      with_environment(t)
      t.environment, t.rewards, t.turns = walk(key or function() end), nil, { max = 6 }
      t.sampling.group_size = 8
      t.train.advantage = { turn_weight = 0.5, turn_discount = 0.9 }
      if more then more(t) end
    end)
  end

  -- The formula, written a second time: lists of turns by state, in a group.
  local function expected(group, o)
    local by_state, want = {}, {}
    for i, c in ipairs(group) do
      local value = 0
      for k = #c.parts, 1, -1 do
        local part = c.parts[k]
        if part.role == "assistant" then
          value = (part.reward or 0) + 0.9 * value
          local same = by_state[part.state] or {}
          by_state[part.state], same[#same + 1] = same, { i, part, value }
        end
      end
    end
    for _, same in pairs(by_state) do
      local sum, squares = 0, 0
      for _, turn in ipairs(same) do sum = sum + turn[3] end
      local mean = sum / #same
      for _, turn in ipairs(same) do squares = squares + (turn[3] - mean) ^ 2 end
      local std = math.sqrt(squares / math.max(1, #same - 1))
      for _, turn in ipairs(same) do
        local a = (turn[3] - mean) / (o.plain and 1 or std + 1e-4)
        want[turn[1]] = want[turn[1]] or {}
        for t = turn[2].first, turn[2].last do want[turn[1]][t] = a end
      end
    end
    return want
  end

  local function agrees(tr, o)
    local compared = 0
    for _, first in ipairs(tr.batch.completions) do
      if first.index == 1 then
        local rewards = {}
        for i, c in ipairs(first.group) do rewards[i] = c.reward end
        local whole = core.advantages(rewards,
          { group = #rewards, scale = o.plain and "none" or "group" })
        for i, wanted in ipairs(expected(first.group, o)) do
          local c = first.group[i]
          for t = 1, c.length do
            local of_turn = wanted[t] and 0.5 * wanted[t] or 0
            assert.near(whole[i] + of_turn, c.advantage[t], 1e-9)
            compared = compared + (of_turn ~= 0 and 1 or 0)
          end
        end
      end
    end
    assert.is_true(compared > 20)
  end

  it("are those among turns from the same state", function()
    local tr, steps = walked()
    agrees(tr, {})
    for _, m in ipairs(steps) do assert.equal(0, m.ratio_max_deviation) end
    agrees(walked(function(t) t.train.advantage.scale = "none" end), { plain = true })
    local without = walked(function(t) t.train.advantage = {} end)
    assert.is_true(weights(without) ~= weights(tr))
  end)

  it("know a state by its key", function()
    local observed, keyed = walked(), walked(nil, function(at) return at end)
    assert.equal(weights(observed), weights(keyed))
    local one = walked(nil, function() return "anywhere" end)
    assert.is_true(weights(one) ~= weights(observed))
    agrees(one, {})
    for _, c in ipairs(one.batch.completions) do assert.equal("anywhere", c.parts[1].state) end
    assert.matches("environment.reset: the key of the state is a table",
      message_of(walked, nil, function() return {} end))
  end)

  it("want an environment", function()
    assert.matches("train.advantage.turn_weight: turns get their rewards from an environment",
      message_of(run, function(t) t.train.advantage = { turn_weight = 1 } end))
  end)

  it("want a loss with a term for each token", function()
    for _, loss in ipairs { "gmpo", "rloo" } do
      assert.matches("train.advantage.turn_weight: the loss " .. loss .. " has one term",
        message_of(walked, function(t) t.train.loss = loss end))
    end
  end)
end)

describe("turns in a chat", function()
  it("continue as the template renders the whole conversation", function()
    if not qwen then return end -- needs a tokenizer with a chat template
    local tokenizer = grpo.tokenizer.load(qwen)
    local e = experiment(function(t)
      t.model.tokenizer = tokenizer
      t.turns = { max = 4 }
      t.data.prompt = function() return { { role = "user", content = "How many?" } } end
      t.data.max_prompt_tokens = 32
      t.environment = function() coroutine.yield(" Begin.") coroutine.yield("Go on.") return 1 end
    end)
    local config = e.stages[1].config
    local prompt = require("grpo.scoring.prompts").render(config, tokenizer, { prompt = "x" }, 0)
    prompt.row, prompt.number = {}, 0
    local o = { sampling = config.sampling }
    turns.options(config, { prompt }, 1, { seed = 3, step = 0, state = {}, tokenizer = tokenizer },
      o)
    local said = '<tool_call>\n{"name": "count", "arguments": {"text": "abc"}}\n</tool_call>'
    local turn = tokenizer:encode(said .. "<|im_end|>")
    local reply = tokenizer:decode(o.on_turn(1, 1, turn, "eos", 1), { skip_special = false })
    local messages = { prompt.messages[1], { role = "assistant", content = said },
      { role = "tool", content = "3" } }
    assert.equal("How many? Begin.", messages[1].content)
    assert.equal(turns.rendered(config, tokenizer, messages, true), prompt.text .. said
      .. "<|im_end|>" .. reply)
    local second = tokenizer:encode("It is 3.<|im_end|>")
    reply = tokenizer:decode(o.on_turn(1, 1, second, "eos", 1), { skip_special = false })
    messages[#messages + 1] = { role = "assistant", content = "It is 3." }
    messages[#messages + 1] = { role = "user", content = "Go on." }
    local whole = turns.rendered(config, tokenizer, messages, true)
    assert.equal(reply, whole:sub(-#reply))
    -- the tools are in the prompt
    assert.is_true(prompt.text:find("\"name\": \"count\"", 1, true) ~= nil)
  end)
end)

describe("a target of several texts", function()
  it("is learned where the model speaks", function()
    local tokenizer = grpo.tokenizer.chars("ab[]")
    local function loss(target)
      local tr = grpo.trainer(experiment(function(t)
        t.model.tokenizer, t.tools, t.turns, t.sampling.max_new_tokens = tokenizer, nil, nil, 10
        t.data.target = function() return target end
        t.stages = { { kind = "sft", train = { steps = 1, prompts_per_step = 3 } } }
      end))
      local m = tr:step()
      return m.loss, m.trained_tokens
    end
    local _, all = loss("ab[b]a")
    local _, some = loss { "ab", "[b]", "a" }
    assert.equal(3 * 7, all) -- and the end token
    assert.equal(3 * 4, some)
    assert.matches("item 2 is a number", message_of(loss, { "a", 3 }))
  end)
end)
