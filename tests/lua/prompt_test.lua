-- A prompt without a terminal: it shows values as text, explains names and reads lines.

local grpo = require "grpo"
local completions = require "grpo.commands.repl.pretty.completions"
local core = require "grpo.core"
local display = require "grpo.base.display"
local explain = require "grpo.commands.repl.explain"
local lua_tokens = require "grpo.base.lua_tokens"
local paint = require "grpo.commands.repl.pretty.paint"
local pretty = require "grpo.commands.repl.pretty"
local session = require "grpo.commands.repl.session"
local tiny = require "tests.lua.tiny"
local values = require "tests.lua.prompt_values"

local plain = values.plain
local tok = values.tok
local model = values.model
local trainer = values.trainer
local completion = values.completion

-- A prompt whose results are collected; env: its variables.
local function prompt(env)
  local seen = { out = "", err = "" }
  -- a script that another test has run may have made the globals strict
  local globals = { __index = function(_, name)
    local ok, value = pcall(function() return _G[name] end)
    return ok and value or nil
  end }
  local p = session.new { env = setmetatable(env or {}, globals), look = function()
    return { width = 80, colour = false }
  end, out = function(s)
    seen.out = seen.out .. s
  end, err = function(s) seen.err = seen.err .. s end }
  return function(line)
    seen.out, seen.err = "", ""
    local more = p:run(line)
    return seen.out, seen.err, more
  end, p
end

describe("a value at the prompt", function()
  it("of completions: their rewards and their text", function()
    local c = completion("1+", {}, { reward = 1.5, rewards = { a = 1, b = grpo.none } })
    assert.equal("[a 1, b - | total 1.5 | eos, 2 tokens]\n1+", completions.one(c))
    assert.equal("1 [eos, 1 tokens] 1\n2 [eos, 1 tokens] 2",
      completions.list({ completion("1", {}), completion("2", {}) }, plain))
  end)

  it("obeys the width", function()
    local group = {}
    for i = 1, 4 do
      group[i] = completion(("1")
        :rep(100), {}, { index = i, reward = 1, rewards = { a = 1 }, advantage = 0.0 })
    end
    for _, width in ipairs { 60, 80, 120 } do
      for line in pretty.format(group, { width = width }):gmatch("[^\n]+") do
        assert.is_true(paint.columns(line) <= width, line)
      end
    end
  end)

  it("holds nothing that a terminal obeys", function()
    local bad = "a\27[31m\7\226\128\174b\194\155c\r"
    local clean = "a\\x1b[31m\\x07?b\\x9bc\\x0d"
    assert.equal(clean, pretty.format(bad, plain))
    assert.equal(clean, display.clean(bad))
    assert.equal(clean .. "\\x0a", display.name(bad .. "\n"))
    local c = completion(bad, {})
    for _, v in ipairs { c, { c, c }, { [bad] = bad, x = { bad } },
      setmetatable({}, { __tostring = function() return bad end }) } do
      local text = pretty.format(v, plain)
      assert.is_nil(text:find("[\27\7\r]"), text)
      assert.is_nil(text:find("\226\128\174", 1, true) or text:find("\194\155", 1, true), text)
    end
  end)

  it("of tables", function()
    assert.equal("{ 1, 2.5, x = { ... }, y = \"a\\nb\" }",
      (pretty.format({ 1, 2.5, x = { [1] = false }, y = "a\nb" },
      plain):gsub("{ false }", "{ ... }")))
    local loop = {}
    loop.self = loop
    assert.equal("{ self = {...} }", pretty.format(loop, plain))
  end)

  it("counts columns, not bytes", function()
    assert.equal(4, paint.columns("aé日"))
    assert.equal("日...", paint.cut("日本語テキスト", 6))
    assert.equal("ab", paint.cut("ab", 2))
  end)
end)

describe("a line", function()
  it("shows values, keeps the last one, and is quiet with ;", function()
    local run = prompt()
    assert.equal("3\n", (run("1 + 2")))
    assert.equal("4\n", (run("_ + 1")))
    assert.equal("", (run("5;")))
    assert.equal("", (run("5; -- said")))
    assert.equal("5\n", (run("_")))
    assert.equal("1\n2\n", (run("1, 2")))
    assert.equal("7\n", (run("= 7")))
    assert.equal("x;\n", (run("'x;'")))
  end)

  it("makes locals that survive, outside blocks only", function()
    local run = prompt()
    run("local a, b <const> = 1, 2; local function f() local c = 3 return c end")
    assert.equal("1\n2\n3\n", (run("a, b, f()")))
    run("for i = 1, 2 do local d = i end")
    assert.equal("nil\n", (run("d")))
    assert.equal("\n c = nil", "\n" .. lua_tokens.without_locals("local c"))
    assert.equal("local f <close> = g()", lua_tokens.without_locals("local f <close> = g()"))
    assert.equal("s = 'local x = 1' -- local y",
      lua_tokens.without_locals("s = 'local x = 1' -- local y"))
    assert.equal("if x then local a = 1 elseif y then local b end  c = 1",
      lua_tokens.without_locals(
      "if x then local a = 1 elseif y then local b end local c = 1"))
  end)

  it("goes on while it is only a beginning", function()
    local run = prompt()
    local _, err, more = run("function g()")
    assert.is_true(more)
    assert.equal("", err)
    _, err, more = run("x +* y")
    assert.is_true(not more)
    assert.matches("near '%+'", err)
  end)

  it("has commands", function()
    local run, p = prompt { tok = tok }
    local out, err = run(".time 1 + 1")
    assert.equal("2\n", out)
    assert.matches("^%([%d.]+ %l?s%)\n$", err)
    assert.matches("Ctrl%-C", (run(".help")))
    assert.matches("^grpo%.zeros%(shape, opts%)", (run(".help grpo.zeros")))
    assert.matches("no command %.tme", select(2, run(".tme 1")))
    run(".quit")
    assert.is_true(p.done)
  end)

  it("says what a raised table held", function()
    local run = prompt()
    assert.equal("a table was raised as an error: {}\n", select(2, run("error({})")))
    assert.equal("a table was raised as an error: { 1 = x, b = table, code = 5 }\n",
      select(2, run("error({ code = 5, b = {}, 'x' })")))
    assert.matches("{ a = 1, b = 1, c = 1, d = 1, %.%.%. }",
      select(2, run("error{ a = 1, e = 1, c = 1, d = 1, b = 1 }")))
  end)
end)

describe("?NAME", function()
  local env = { grpo = grpo, m = model, tok = tok, tr = trainer() }
  for name, wanted in pairs {
    ["m:generate"] = "^m:generate%(prompts, opts%) %-> grpo%.Generated%[%].*temperature: number  "
      .. "0 is greedy",
    ["grpo.zeros"] = "^grpo%.zeros%(shape, opts%) %-> grpo%.Tensor\n",
    ["tr:step"] = "^tr:step%(%) %-> .*\n  One step, a rollout with all its updates",
    ["train.lr"] = "^option train%.lr ",
    ["clip_high"] = "^option train%.clip_high .*live: tr%.config",
    ["m"] = "^grpo%.Model.*:generate%(prompts, opts%)",
    ["Completion"] = "^grpo%.Completion.*%.logprobs  number%[%]",
    ["logprobs"] = "grpo%.Completion%.logprobs: number",
    ["worst"] = "^worst%(n%).*lowest",
    ["genrate"] = "did you mean 'generate'",
  } do
    it("of " .. name, function() assert.matches(wanted, explain.about(name, env)) end)
  end
end)

describe("the annotations of the prompt's functions", function()
  it("name exactly those that there are", function()
    local there, annotated = { show = true }, {}
    local server = core.embedded("lua/grpo/commands/repl/attached.lua")
    for name in server:gmatch("\n  function env%.([%w_]+)%(") do there[name] = true end
    there.print = nil -- Lua's
    for name in core.embedded("lua/grpo/meta/session.lua"):gmatch("\nfunction ([%w_]+)%(") do
      annotated[name] = true
    end
    assert.same(there, annotated)
    assert(load(core.embedded("lua/grpo/meta/session.lua")))
  end)
end)

describe("a step's intermediates", function()
  it("are those that the update saw", function()
    local tr = trainer()
    local before = trainer()
    tr:step()
    local t = tr:inspect()
    local cs, at = tr.batch.completions, 0
    assert.equal(#t.ids, t.old_logp.shape[1])
    local kept = before.model:score({ tr.batch.prompts[1].ids }, { cs[1].ids }).logp:totable()
    local old, logp = t.old_logp:totable(), t.logp:totable()
    for k = 1, cs[1].length do assert.equal(kept[k], old[k]) end
    for i, c in ipairs(cs) do
      for k = 1, c.length do
        at = at + 1
        assert.equal(i, t.sequence[at])
        assert.near(c.logprobs[k], old[at], 1e-7)
      end
    end
    for i, r in ipairs(t.ratio:totable()) do assert.near(math.exp(logp[i] - old[i]), r, 1e-5) end
    assert.equal("number", type(t.loss))
    assert.equal(#t.ids, #t.gradient)
    local one = tr:inspect(2)
    assert.equal(cs[2].length, #one.ids)
    assert.near(old[cs[1].length + 1], one.old_logp:totable()[1], 1e-7)
    assert.error_matches(function() tr:inspect(99) end, "want the number of a completion, 1 to 8")
    assert.error_matches(function() trainer():inspect() end, "no step with completions")
  end)

  it("change nothing", function()
    local a, b = trainer(), trainer()
    for _ = 1, 3 do
      a:step()
      b:step()
      b:inspect()
      b:inspect(1)
      b:rescore(function(text) return #text end)
    end
    for _, name in ipairs { "loss", "grad_norm", "reward", "kl" } do
      assert.equal(a.metrics[name], b.metrics[name])
    end
  end)

  it("may be scored again with the same or other rewards", function()
    local tr = trainer()
    tr:step()
    local same = tr:rescore()
    assert.equal(0, same.changed)
    assert.equal(0, same.flipped)
    for i, c in ipairs(same.completions) do
      assert.equal(tr.batch.completions[i].advantage, c.advantage)
    end
    local other = tr:rescore(function(text) return -select(2, text:gsub("%d", "")) end)
    local mixed = 0
    for i, c in ipairs(other.completions) do
      local was = tr.batch.completions[i]
      assert.near(-was.advantage, c.advantage, 1e-6)
      if was.advantage ~= 0 then mixed = mixed + 1 end
      assert.is_true(was.rewards.digits ~= nil)
    end
    assert.equal(mixed, other.flipped)
    tiny.refused("tr:rescore: got number, want a reward function", tr.rescore, tr, 5)
    assert.error_matches(function() tr:rescore {} end, "got an empty table")
    local dense = tr:rescore { d = { token_fn = function(c)
      local list = {}
      for k = 1, c.length do list[k] = k end
      return list
    end } }
    assert.equal("table", type(dense.completions[1].advantage))
  end)

  it("may be scored again after they were saved, with the stage's own aggregate", function()
    local rescore = require "grpo.runs.rescore"
    local tr = trainer(function(t)
      t.rewards = { { name = "as", fn = function(text) return select(2, text:gsub("a", "")) end },
        { name = "length", weight = 3, fn = function(text) return #text end } }
      t.reward = { aggregate = "normalize_then_sum" }
    end)
    tr:step()
    local rows = {}
    for i, c in ipairs(tr.batch.completions) do
      rows[i] = { step = 1, index = c.index, text = c.text, prompt = c.prompt, length = c.length,
        finish = c.finish, advantage = c.advantage }
    end
    local config = tr.stage.config
    local cs = rescore.completions(rows, config)
    rescore.step(cs, config.reward_entries, config, tr.stage.p, "grpo")
    for i, c in ipairs(cs) do assert.equal(rows[i].advantage, c.advantage) end
  end)

  it("are there for ppo, whose advantages are the critic's", function()
    local tr = trainer(function(t)
      t.train = nil
      t.stages = { { kind = "ppo", train = { steps = 2, prompts_per_step = 2, lr = 1e-3 } } }
    end)
    tr:step()
    local t = tr:inspect()
    assert.is_nil(t.problem)
    assert.equal(#t.ids, #t.ref_logp)
    local r = tr:rescore(function(text) return #text end)
    assert.equal(0, r.flipped)
    assert.is_true(r.changed > 0)
  end)

  it("are there for a loss in Lua, a clip, every advantage", function()
    local tr = trainer(function(t)
      t.train.loss = function(l) return -(l.logp * l.advantage):sum() / l.normalizer end
      t.train.mask_truncated = true
    end)
    tr:step()
    local t = tr:inspect()
    local a, g = t.advantage:totable(), t.gradient:totable()
    for i = 1, #a do assert.near(-a[i] / t.normalizer, g[i], 1e-6) end
  end)
end)
