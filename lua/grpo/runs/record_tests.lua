-- Completions of a run as test cases: a test file that expects the rewards recorded in the run.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local history = require "grpo.runs.history"
local experiment_script = require "grpo.loop.script"
local rollout = require "grpo.scoring.rollout"
local saved_row = require "grpo.runs.saved_row"

local record_tests = {}

-- ---- values as Lua text ----------------------------------------------------------------

local reserved = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat "
  .. "return then true "
  .. "until while"):gmatch("%a+") do reserved[word] = true end

local function literal(v, depth)
  if type(v) == "string" then
    return (("%q"):format(v):gsub("\\\n", "\\n"):gsub("\r", "\\r"):gsub("%z", "\\0"))
  end
  if type(v) ~= "table" then return v == core.json_null and "nil" or tostring(v) end
  if (depth or 0) > 8 then
    errors.raise_plain("EARG", "a row is nested too deeply to be written down")
  end
  local keys, parts = {}, {}
  for k in pairs(v) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  for i, k in ipairs(keys) do
    local plain = type(k) == "string" and k:match("^[%a_][%w_]*$") and not reserved[k]
    local name = plain and k .. " = " or ("[%s] = "):format(literal(k))
    parts[i] = (k == i and "" or name) .. literal(v[k], (depth or 0) + 1)
  end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

-- ---- choosing --------------------------------------------------------------------------

-- Chooses up to n rows, no two with the same prompt and text, in the run's order.  Every
-- combination of rewards' values occurs once before one occurs twice.  So no more than n rows of
-- each of the first n combinations can be chosen, and others are not kept.
local function choose(run, n)
  local by_score, kinds, seen = {}, {}, {}
  for _, row in history.rows(run.dir, "completions") do
    local key = literal(row.rewards)
    local list, text = by_score[key], row.prompt .. "\0" .. row.text
    local fits = list and #list < n or not list and #kinds < n
    if fits and not seen[text] and row.row and not row.errors then
      seen[text] = true
      if not list then
        list = {}
        by_score[key], kinds[#kinds + 1] = list, key
      end
      list[#list + 1] = row
    end
  end
  local chosen, round = {}, 1
  repeat
    local before = #chosen
    for _, key in ipairs(kinds) do
      if by_score[key][round] and #chosen < n then chosen[#chosen + 1] = by_score[key][round] end
    end
    round = round + 1
  until #chosen == before
  table.sort(chosen, function(a, b)
    if a.step ~= b.step then return a.step < b.step end
    if a.prompt_index ~= b.prompt_index then return a.prompt_index < b.prompt_index end
    return a.index < b.index
  end)
  return chosen
end

-- Returns the text of a test file with up to n cases.  e: the run's experiment; script: the file
-- that has its rewards now.
function record_tests.test_file(run, e, script, n)
  local rows, stage_of = choose(run, n), {}
  if #rows == 0 then
    errors.raise_plain("ENOENT", "%s: has no completion to make a test of", run.dir)
  end
  for _, row in ipairs(rows) do stage_of[row.step] = 0 end
  for _, m in history.rows(run.dir, "metrics") do
    if stage_of[m.step] then stage_of[m.step] = m.stage end
  end
  local lines = {
    ("-- %d completions of %s and what its rewards gave them."):format(#rows, run.name),
    ("-- Run:   grpo test FILE"), "",
    ('local rewards = require("grpo.recording").rewards(%s)'):format(literal(script)), "",
    "-- { step, prompt, completion, dataset row, finish, length, { reward = value } }",
    "local cases = {",
  }
  for _, row in ipairs(rows) do
    local stage = e.stages[stage_of[row.step]]
    if not stage then
      errors.raise_plain("EFORMAT", "%s: metrics.jsonl has no step %d", run.dir, row.step)
    end
    local config = stage.config
    lines[#lines + 1] = ("  { %d, %s,\n    %s,\n    %s, %q, %d,\n    %s },")
      :format(row.step, literal(row.prompt),
      literal(row.text), literal(saved_row.of(config, row, run.dir)), row.finish, row.length,
      literal(row.rewards))
  end
  table.move({
    "}", "",
    ("describe(%s, function()"):format(literal("rewards on completions of " .. run.name)),
    "  for i, case in ipairs(cases) do",
    "    local step, prompt, text, row, finish, length, want = table.unpack(case)",
    '    it(("case %d, step %d"):format(i, step), function()',
    "      for name, value in pairs(want) do",
    "        assert.near(value, rewards(name, prompt, text, row, finish, length), 1e-9)",
    "      end",
    "    end)",
    "  end",
    "end)", "",
  }, 1, 13, #lines + 1, lines)
  return table.concat(lines, "\n"), #rows
end

-- Returns the function that a recorded test calls, (name, prompt, text, row, finish, length) ->
-- number, with the present rewards of the file `script`.
function record_tests.rewards(script)
  local by_name = {}
  for _, entry in ipairs(experiment_script.rewards(script)) do by_name[entry.name] = entry end
  return function(name, prompt, text, row, finish, length)
    local entry = by_name[name]
    if not entry then error(("%s: has no reward '%s'"):format(script, name), 2) end
    if not entry.fn then
      require("grpo.test").skip(("%s looks at a group or at tokens"):format(name))
    end
    local c = rollout.made { text = text, prompt = prompt, row = row, finish = finish,
      length = length }
    core.reseed_math(c.rng)
    local value = entry.fn(text, row, c)
    core.reseed_math(nil)
    return value == true and 1 or value == false and 0 or value
  end
end

return record_tests
