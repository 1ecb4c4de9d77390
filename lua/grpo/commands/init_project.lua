local core = require "grpo.core"
local install_dir = require "grpo.base.install_dir"
local sorted_pairs = require "grpo.base.sorted"

local command = {
  name = "init",
  summary = "write a small project to start from",
  arguments = {
    { name = "DIR", type = "dir", optional = true,
      doc = "where to write it (default: the current directory)" },
  },
  flags = {},
  about = {
    "Writes an experiment, a reward with its test, a README, and .luarc.json. With .luarc.json the "
      .. "Lua language server completes and checks options, rewards and the interface in any "
      .. "editor. Files that exist are never overwritten.",
  },
}

local files = {}

files["experiment.lua"] = [[
-- Teach a small model sums: first from a teacher who is wrong half of the time, then from the
-- reward alone.
-- Run:   grpo run experiment.lua          Try:   grpo check experiment.lua

local grpo = require "grpo"
local sums = require "sums"

-- Makes rows on the fly: rng() gives numbers in [0, 1).  A fifth of all sums is held out, to see
-- whether the model learns to add or only to remember.
local function problems(held_out)
  return function(rng)
    local a, b
    repeat
      a, b = math.floor(rng() * 10), math.floor(rng() * 10)
    until ((a + 2 * b) % 5 == 0) == held_out
    local slip = rng() < 0.5 and 1 or 0
    return { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b), slip = slip }
  end
end

-- The teacher's answer, which is one too many half of the time.  The reward knows better.
local function demonstration(row)
  return tostring(tonumber(row.answer) + row.slip)
end

return grpo.experiment {
  name = "sums",
  model = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 172,
      num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,
      max_position_embeddings = 64, tie_word_embeddings = true },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  },
  data = {
    train = grpo.data.generate(problems(false), { seed = 1, n = 100000 }),
    eval = grpo.data.generate(problems(true), { seed = 2, n = 100 }),
    target = demonstration,
    max_prompt_tokens = 8,
  },
  sampling = { max_new_tokens = 4 },
  rewards = { { name = "correct", fn = sums.correct } },
  stages = {
    { kind = "sft", train = { steps = 200, prompts_per_step = 64, lr = 3e-3 } },
    { kind = "grpo", train = { steps = 60, prompts_per_step = 32, lr = 1e-3 } },
  },
}
]]

files["sums.lua"] = [[
-- Rewards for experiment.lua.  A reward is a function(text, row, c) -> number, boolean or nil.

local sums = {}

function sums.correct(text, row)
  return text:match("^%s*(%-?%d+)%s*$") == row.answer
end

return sums
]]

files["sums_test.lua"] = [[
-- Run:   grpo test .
local sums = require "sums"

describe("sums.correct", function()
  it("compares the whole answer", function()
    assert.is_true(sums.correct("12", { answer = "12" }))
    assert.is_false(sums.correct("121", { answer = "12" }))
    assert.is_false(sums.correct("", { answer = "12" }))
  end)
end)
]]

files["README.md"] = [[
# A first experiment

    grpo check experiment.lua      shows prompts, samples and rewards; estimates memory and time
    grpo test .                    runs the reward's tests
    grpo run experiment.lua        trains; prints the run directory
    grpo runs                      lists runs
    grpo generate runs/sums-001 "3+4="

Change the reward in `sums.lua`, add a case to `sums_test.lua`, run again.
]]

local function must(ok, message)
  if not ok then error(core.error("EIO", message), 0) end
end

-- Annotations for the Lua language server: the installed ones if there are any, else copies of
-- those inside the program.  Returns the directory as .luarc.json names it, and the files to write.
local function annotations()
  local installed, copies = install_dir.directory(), {}
  if installed then return installed, copies end
  for _, name in ipairs(core.embedded_names()) do
    if name:find("^lua/grpo/meta/") or name:find("^rewards/") then
      copies[".grpo/" .. name] = core.embedded(name)
    end
  end
  return ".grpo", copies
end

-- The editor's settings: where the annotations are, and that runs are not sources.
local function luarc(library)
  return ([[
{
  "runtime.version": "Lua 5.4",
  "workspace.library": [%s],
  "workspace.checkThirdParty": false,
  "workspace.ignoreDir": ["runs", ".grpo"]
}
]]):format(core.json_encode(library))
end

function command.run(o)
  local dir = o.words[1] or "."
  local library, copies = annotations()
  files[".luarc.json"] = luarc(library)
  if core.fs.exists(dir) and not core.fs.isdir(dir) then
    error(core.error("EARG", ("init: %s is a file, want a directory"):format(dir)), 0)
  end
  must(core.fs.mkdirs(dir))
  for name in sorted_pairs(files) do
    if core.fs.exists(dir .. "/" .. name) then
      error(core.error("EARG", ("init: %s/%s exists already, so nothing was written"):format(dir,
        name)), 0)
    end
  end
  for name, text in sorted_pairs(copies) do
    must(core.fs.mkdirs(dir .. "/" .. name:match("^(.*)/")))
    must(core.fs.write(dir .. "/" .. name, text))
  end
  for name, text in sorted_pairs(files) do
    must(core.fs.write(dir .. "/" .. name, text))
    core.out(dir .. "/" .. name .. "\n")
  end
  local first = dir == "." and "" or ("cd %s && "):format(dir)
  core.err(("next: %sgrpo check experiment.lua && grpo run experiment.lua\n"):format(first))
end

return command
