-- Shared by the tests: models and experiments small enough for milliseconds, files that are there
-- for a moment, and calls that must fail.

local core = require "grpo.core"
local grpo = require "grpo"
local trainer = require "grpo.loop.trainer"

local tiny = {}

-- A copy of t with some fields changed.
function tiny.with(t, changes)
  local copy = {}
  for k, v in pairs(t) do copy[k] = v end
  for k, v in pairs(changes or {}) do copy[k] = v end
  return copy
end

-- The configuration of a Llama of one layer.
function tiny.llama(changes)
  return tiny.with({ model_type = "llama", hidden_size = 32, intermediate_size = 64,
    num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 32 }, changes)
end

function tiny.count_a(text) return select(2, text:gsub("a", "")) end

-- t, whose metamethods never end.
function tiny.endless(t)
  local meta = {}
  for name in ("index newindex pairs len tostring eq lt le call concat unm add sub mul div mod "
    .. "idiv pow close"):gmatch "%a+" do
    meta["__" .. name] = function() while true do end end
  end
  return setmetatable(t or {}, meta)
end

-- ---- failures -----------------------------------------------------------------------------------

-- The message of the error that f(...) raises.
function tiny.message_of(f, ...)
  local ok, err = pcall(f, ...)
  if ok then error("an error was expected", 2) end
  return tostring(err)
end

-- f(...) raises an error whose message has the pattern.
function tiny.refused(pattern, f, ...)
  local ok, err = pcall(f, ...)
  if ok then error("accepted: " .. pattern, 2) end
  if not tostring(err):find(pattern) then
    error(("expected an error matching %q, got %q"):format(pattern, tostring(err)), 2)
  end
end

-- f(...) raises an error of one line with these words and, if one is given, this code.
function tiny.fails(code, words, f, ...)
  local ok, err = pcall(f, ...)
  if ok then error("accepted: " .. words, 2) end
  local text = tostring(err)
  if code and (type(err) ~= "table" or err.code ~= code) then
    error(text .. ": want " .. code, 2)
  end
  if text:find(words, 1, true) and not text:find "\n" then return end
  error(text .. ": want " .. words, 2)
end

-- ---- files --------------------------------------------------------------------------------------

-- A path at which there is nothing.
function tiny.path()
  local path = os.tmpname()
  os.remove(path)
  return path
end

-- A file with this text.
function tiny.file(text)
  local path = tiny.path()
  assert(core.fs.write(path, text))
  return path
end

-- Writes a file below a directory, with the folders in its name.  Returns its path.
function tiny.put(dir, name, text)
  local path = dir .. "/" .. name
  assert(core.fs.mkdirs(path:match "^(.*)/"))
  assert(core.fs.write(path, text))
  return path
end

-- The rows of a data set.
function tiny.rows_of(ds)
  local rows = {}
  for i = 1, #ds do rows[i] = ds[i] end
  return rows
end

-- Calls f with a path at which there is nothing, and removes what it leaves there.
function tiny.temporary(f)
  local path = tiny.path()
  local ok, err = pcall(f, path)
  core.fs.remove_tree(path)
  if not ok then error(err, 0) end
end

-- The directory of data that other implementations computed (make test SHARED=DIR), or nil.
local given = os.getenv "GRPO_SHARED"
tiny.shared = given ~= "" and given or nil

-- The JSON of a file in it, or nil.
function tiny.oracle(name)
  local text = tiny.shared and core.fs.read(("%s/oracles/%s.json"):format(tiny.shared, name))
  return text and core.json_decode(text)
end

-- The cases of reward oracles whose reward is a key of `known`, with a name each; nil and why not.
function tiny.reward_oracles(known)
  local all, cases = tiny.oracle "rewards/cases", {}
  if not all then return nil, "reward oracles need GRPO_SHARED with oracles/rewards/cases.json" end
  for i, case in ipairs(all) do
    case.name = ("%d: %s (%s)"):format(i, case.reward, case.test)
    if known[case.reward] then cases[#cases + 1] = case end
  end
  return cases
end

-- ---- experiments --------------------------------------------------------------------------------

-- fields() makes the table of an experiment, and change(t) edits it.  Returns
--   experiment(change)     the experiment
--   run(change, options)   runs it to the end; the trainer, the metrics of every step
function tiny.experiments(fields)
  local function experiment(change)
    local t = fields()
    if change then change(t) end
    return grpo.experiment(t)
  end
  local function run(change, options)
    local list = {}
    local tr = trainer.new(experiment(function(t)
      if change then change(t) end
      t.hooks = t.hooks or {}
      local on_step = t.hooks.on_step
      t.hooks.on_step = function(m, tr)
        list[#list + 1] = m
        return on_step and on_step(m, tr)
      end
    end), options)
    tr:run()
    return tr, list
  end
  return experiment, run
end

-- Takes all steps of a trainer, without evaluations; the trainer and the metrics of every step.
function tiny.steps(tr)
  local list = {}
  for m in tr.step, tr do list[#list + 1] = m end
  return tr, list
end

-- The sums of a trainer's weights, as a text to compare.
function tiny.weights(tr)
  local lines = {}
  for name, tensor in tr.model:parameters() do
    lines[#lines + 1] = name .. tostring(tensor:sum():item())
  end
  return table.concat(lines, "\n")
end

-- Lua's library as the program's modules see it (src/script/environment.h).
function tiny.library()
  local fn, i = require "grpo.base.sorted", 1
  while debug.getupvalue(fn, i) ~= "_ENV" do i = i + 1 end
  return select(2, debug.getupvalue(fn, i))
end

-- A directory with a run.json and these logs.
function tiny.run_directory(logs)
  local dir = os.tmpname()
  os.remove(dir)
  assert(core.fs.mkdirs(dir))
  assert(core.fs.write(dir .. "/run.json", '{"format": 1, "name": "a", "script": "a.lua", '
    .. '"version": "0", "state": "running", "started": 1, "pid": 1, "heartbeat": 1}'))
  for name, text in pairs(logs or {}) do assert(core.fs.write(dir .. "/" .. name, text)) end
  return dir
end

-- A row of metrics.jsonl.
function tiny.metrics_row(step, reward)
  return core.json_encode { step = step, stage = 1, stage_step = step, kind = "grpo",
    reward = reward, kl = 0.5 } .. "\n"
end

function tiny.metrics_rows(first, last)
  local list = {}
  for step = first, last do
    list[#list + 1] = tiny.metrics_row(step, step / 100)
  end
  return table.concat(list)
end

function tiny.append(path, text)
  local file = assert(io.open(path, "ab"))
  file:write(text)
  file:close()
end

return tiny
