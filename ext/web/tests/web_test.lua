-- grpo.web, which the page calls through C: a run that gives control back after each step.

local core = require "grpo.core"
local tiny = require "tests.lua.tiny"
local web = require "grpo.web"

local fs = core.fs

-- REWARD is the place of the reward's body.
local text = [[
local grpo = require "grpo"
local experiment = grpo.experiment {
  name = "tiny",
  model = {
    config = { model_type = "llama", hidden_size = 16, intermediate_size = 32,
      num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 32 },
    tokenizer = grpo.tokenizer.chars("abcdefgh "),
  },
  data = { train = grpo.data.list { { prompt = "a" }, { prompt = "b" } },
    eval = grpo.data.list { { prompt = "c" } }, max_prompt_tokens = 4 },
  sampling = { group_size = 4, max_new_tokens = 4 },
  rewards = { { name = "as", fn = function(text, row)
    REWARD
  end } },
  train = { steps = 4, prompts_per_step = 2, lr = 1e-2 },
}
return experiment
]]

local function script(reward)
  return (text:gsub("REWARD", function() return reward end))
end

local counts = script "return select(2, text:gsub('a', '')) + (row.prompt == 'b' and 10 or 0)"

local function start(request)
  return web.start(core.json_encode(request))
end

local function events() return core.json_decode(web.events()) end

-- The events of this kind.
local function of_kind(kind, list)
  local found = {}
  for _, e in ipairs(list or events()) do
    if e.type == kind then found[#found + 1] = e end
  end
  return found
end

-- Calls f(directory, path of the script) where the script has this text.
local function with(contents, f)
  local print, exit, setlocale = print, os.exit, os.setlocale
  tiny.temporary(function(dir)
    assert(fs.mkdirs(dir))
    assert(fs.write(dir .. "/my.lua", contents))
    local ok, problem = pcall(f, dir, dir .. "/my.lua")
    web.close()
    web.events()
    _G.print, _G.os.exit, _G.os.setlocale = print, exit, setlocale
    if not ok then error(problem, 0) end
  end)
end

local function to_the_end()
  local calls, result = 0
  repeat
    result, calls = web.advance(), calls + 1
  until result ~= 1
  return result, calls
end

local function weights(dir)
  return assert(fs.read(dir .. "/tiny-001/latest/model.safetensors"))
end

local function ended(dir, path)
  assert.equal(1, start { script = path, root = dir })
  assert.equal(0, to_the_end())
  return weights(dir)
end

describe("a run that a host drives", function()
  it("gives control back after the first evaluation and after each step", function()
    with(counts, function(dir, path)
      assert.equal(1, start { script = path, root = dir })
      assert.same({ dir .. "/tiny-001", 0, 4 }, (function(e)
        return { e.dir, e.step, e.total }
      end)(of_kind("run")[1]))
      assert.equal(1, web.advance())
      assert.equal(1, #of_kind "evaluation")
      for step = 1, 3 do
        assert.equal(1, web.advance())
        local list = events()
        assert.equal(step, of_kind("step", list)[1].step)
        local made = of_kind("completions", list)[1]
        assert.equal(4, #made.list)
        for i = 2, 4 do assert.is_true(made.list[i - 1].reward >= made.list[i].reward) end
        for _, c in ipairs(made.list) do
          assert.equal(c.text:gsub("[^a]", ""):len() + (made.prompt == "b" and 10 or 0), c.reward)
        end
      end
      assert.equal(0, web.advance())
      assert.equal("finished", of_kind("end")[1].why)
      assert.equal(0, web.advance())
    end)
  end)

  it("has the bits of one that nobody interrupts", function()
    with(counts, function(dir, path)
      local driven = ended(dir, path)
      local run = require "grpo.runs.start"
      local tr = run.trainer { script = path, root = dir .. "/other",
        view = require "grpo.base.display".silent }
      assert.equal("finished", tr:run())
      assert.equal(driven, weights(dir .. "/other"))
    end)
  end)

  it("is continued after its host died", function()
    with(counts, function(dir, path)
      local whole = ended(dir .. "/whole", path)
      start { script = path, root = dir }
      for _ = 1, 3 do assert.equal(1, web.advance()) end
      assert.equal(1, web.save())
      web.advance() -- a step that is not saved
      web.close()
      collectgarbage()
      web.events()
      assert(os.remove(path))
      assert.equal(1, start { resume = dir .. "/tiny-001" })
      local list = events()
      assert.equal(2, #of_kind("step", list))
      assert.equal(1, #of_kind("evaluation", list))
      assert.equal(counts, of_kind("script", list)[1].text)
      assert.equal(counts, (fs.read(path)))
      assert.equal(2, of_kind("run", list)[1].step)
      assert.equal(0, to_the_end())
      assert.equal(whole, weights(dir))
      web.close()
      web.events()
      assert.equal(0, start { resume = dir .. "/tiny-001" })
      assert.is_true(of_kind("run")[1].finished)
    end)
  end)

  it("is continued with another script after an error", function()
    with(script "return row.missing.field", function(dir, path)
      start { script = path, root = dir }
      assert.equal(-1, to_the_end())
      assert(fs.write(path, script "return 7"))
      web.events()
      assert.equal(1, start { resume = dir .. "/tiny-001", script = path, force = true })
      assert.equal(0, to_the_end())
      assert.equal(7, of_kind("step")[1].metrics.reward)
    end)
  end)

  it("ends after a checkpoint when it is told to", function()
    with(counts, function(dir, path)
      start { script = path, root = dir }
      for _ = 1, 2 do web.advance() end
      assert.equal(1, web.stop())
      assert.equal(0, web.advance())
      local e = of_kind("end")[1]
      assert.same({ "stopped", 1, "the page" }, { e.why, e.step, e.reason })
    end)
  end)

  it("waits while it is paused", function()
    with(counts, function(dir, path)
      start { script = path, root = dir }
      web.advance()
      events()
      assert.is_true(core.json_decode(web.line "pause()").paused)
      assert.equal(1, web.advance())
      local list = events()
      assert.equal(0, #of_kind("step", list))
      assert.is_true(of_kind("pause", list)[1].paused)
      web.line "resume()"
      web.advance()
      assert.equal(1, #of_kind "step")
    end)
  end)
end)

describe("an edit of a script that a host has written", function()
  it("counts for the next step", function()
    with(counts, function(dir, path)
      start { script = path, root = dir }
      for _ = 1, 2 do web.advance() end
      assert(fs.write(path, script "return 7"))
      events()
      web.advance()
      local list = events()
      assert.matches("^reloaded at step 1: ", of_kind("line", list)[1].text)
      assert.equal(7, of_kind("step", list)[1].metrics.reward)
    end)
  end)

  it("that has a mistake is told with its line, and the old code stays", function()
    with(counts, function(dir, path)
      start { script = path, root = dir }
      for _ = 1, 2 do web.advance() end
      for _, bad in ipairs { "return 7 +", "error 'boom'" } do
        assert(fs.write(path, script(bad)))
        events()
        assert.equal(1, web.advance())
        local list = events()
        local e = of_kind("line", list)[1]
        assert.matches("^not reloaded, the old code stays: ", e.text)
        assert.same({ path, bad:find "7" and 14 or 13 }, { e.file, e.line })
        assert.equal(1, #of_kind("step", list))
      end
    end)
  end)
end)

describe("a script that fails", function()
  for name, one in pairs {
    ["while it is compiled"] = { script "return return", 13, 0 },
    ["with an option that there is not"] = { counts:gsub("steps = 4", "stpes = 4"), 15, 0 },
    ["in a reward"] = { script "return nothing.here", 13, 1 },
    ["in a reward that does not end"] = { script "while true do end", 13, 1 },
  } do
    it("is told with its line: " .. name, function()
      with(one[1], function(dir, path)
        local result = start { script = path, root = dir }
        if one[3] == 1 then
          assert.equal(1, result)
          result = to_the_end()
        end
        assert.equal(-1, result)
        local e = of_kind("error")[1]
        assert.same({ path, one[2] }, { e.file, e.line })
        assert.equal(0, web.advance())
      end)
    end)
  end

  it("cannot end the program around it", function()
    with("os.exit(3)", function(dir, path)
      assert.equal(-1, start { script = path, root = dir })
      assert.matches("os%.exit", of_kind("error")[1].text)
    end)
  end)

  it("is told of a request that is not JSON", function()
    with(counts, function()
      assert.equal(-1, web.start "{")
      assert.equal(1, #of_kind "error")
    end)
  end)
end)

describe("the prompt of such a run", function()
  it("answers, waits for the rest of a text, and fails in one line", function()
    assert.matches("no run", core.json_decode(web.line "1").err)
    with(counts, function(dir, path)
      start { script = path, root = dir }
      web.advance()
      assert.equal("2\n", core.json_decode(web.line "#40\n1 + 1").out)
      assert.is_true(core.json_decode(web.line "function f()").more)
      local failed = core.json_decode(web.line "nothing.here")
      assert.is_true(failed.failed)
      assert.is_nil(failed.err:match "\n.")
      assert.matches("worst", core.json_decode(web.line ".help").out)
      assert.is_nil(core.json_decode(web.line ".help").out:find("Ctrl%-D"))
      web.line "tr.config.train.lr = 0.5"
      web.advance()
      assert.equal(0.5, of_kind("step")[1].metrics.learning_rate)
      assert.equal(0, to_the_end())
      assert.equal("4\n", core.json_decode(web.line "tr.step_count").out)
    end)
  end)
end)
