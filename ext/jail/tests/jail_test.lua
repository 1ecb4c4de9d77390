-- grpo.jail: what tasks give and what they may ask for.  tests/os/test_jail.c has the attacks.
local core = require "grpo.core"
local grpo = require "grpo"

local no_jail = grpo.jail.problem()

local function runs(name, f)
  it(name, function()
    if no_jail then pending(no_jail) end
    f()
  end)
end

local function sh(script, more)
  local task = { command = { "sh", "-c", script } }
  for name, v in pairs(more or {}) do task[name] = v end
  return grpo.jail.run(task)
end

describe("grpo.jail", function()
  runs("runs a program with files, input and variables", function()
    local r = sh("cat a/b.txt; cat; echo $X; echo no >&2; exit 3",
      { files = { ["a/b.txt"] = "1\n" }, input = "2\n\0", env = { X = "3" } })
    assert.same({ ended = "exit", code = 3, ok = false, output = "1\n2\n\0" .. "3\n",
      errors = "no\n", seconds = r.seconds }, r)
    assert.is_true(sh("exit 0").ok)
  end)

  runs("passes on no variable of its own", function()
    assert.equal("HOME LANG PATH PWD PYTHONDONTWRITEBYTECODE PYTHONHASHSEED TMPDIR",
      (sh("env | sort | sed 's/=.*//' | tr '\\n' ' '").output:gsub(" OLDPWD", "")
        :gsub(" SHLVL", ""):gsub(" _", ""):gsub("%s+$", "")))
  end)

  runs("gives results in the order of the tasks", function()
    local tasks, outputs = {}, {}
    for i = 1, 5 do tasks[i] = { command = { "echo", tostring(i) } } end
    for i, r in ipairs(grpo.jail.run_all(tasks, { at_once = 2 })) do outputs[i] = r.output end
    assert.same({ "1\n", "2\n", "3\n", "4\n", "5\n" }, outputs)
    assert.same({}, grpo.jail.run_all {})
  end)

  runs("says how a program ended", function()
    assert.equal("signal", sh("kill -9 $$").ended)
    assert.equal("wall", sh("sleep 99", { wall_seconds = 0.3 }).ended)
    assert.equal("output", sh("yes", { output_bytes = 10 }).ended)
    assert.equal("cpu", sh("while :; do :; done", { seconds = 0.3, wall_seconds = 60 }).ended)
  end)

  runs("does not count the time of programs for the reward that waits for them", function()
    local limits = core.limits { seconds = 0.5 }
    local ok, ended = core.limited(limits, "reward", function()
      return sh("sleep 99", { wall_seconds = 1 }).ended
    end)
    assert.equal("wall", ended)
    assert.is_true(ok)
  end)

  runs("names what is wrong", function()
    local function fails(task, pattern)
      assert.error_matches(function() grpo.jail.run(task) end, pattern)
    end
    fails({ command = {} }, "jail.command: is empty")
    fails({ command = { 7 } }, "jail.command%[1%]: got number, want a string")
    fails({ command = { "a\0b" } }, "without a zero byte")
    fails({ command = { "no-such-program" } }, "cannot run 'no%-such%-program'")
    fails({ command = { "sh" }, memory = 5 },
      "jail.memory: unknown option, did you mean 'memory_mib'%?")
    fails({ command = { "sh" }, files = { ["../x"] = "" } }, "cannot be named '../x'")
    fails({ command = { "sh" }, files = { x = 5 } }, "got number, want its text")
    fails({ command = { "sh" }, read = { "etc" } }, "want an absolute path")
    assert.matches("cannot run 'nothing'", grpo.jail.problem { command = { "nothing" } })
  end)
end)
