-- Any text in the places of a run's files that a report shows: the report has the same tags as with
-- a harmless text, and no control character of the text reaches the terminal.
local core = require "grpo.core"
local display = require "grpo.base.display"
local expect = require "expect"
local history = require "grpo.runs.history"
local page = require "grpo.report.html".page

local root = expect.directory()

local function json(path, value)
  expect.put(root .. path, core.json_encode(value) .. "\n")
end

local function lines(path, ...)
  local list = {}
  for i, row in ipairs { ... } do list[i] = core.json_encode(row) .. "\n" end
  expect.put(root .. path, table.concat(list))
end

-- The tags of a page, without the values of attributes.
local function tags(text)
  local list = {}
  for tag in text:gmatch("<[^>]*>?") do
    list[#list + 1] = tag:gsub('"[^"]*"', '""'):gsub("=[^%s\">]+", "=")
  end
  return table.concat(list, "\n")
end

local function page_with(text)
  local dir = "/run-001"
  assert(core.fs.mkdirs(root .. dir))
  local value = { value = text, origin = text }
  json(dir .. "/run.json", { format = 1, state = text, name = text, script = text, step = 2 })
  json(dir .. "/config.json", { options = { ["model.path"] = value, seed = value },
    stages = { { kind = "grpo", options = { ["train.loss"] = value } } } })
  json(dir .. "/env.json", { seed = text, kernels = text, version = text, commit = text })
  expect.put(root .. dir .. "/run.log", core.json_decode(core.json_encode(text)) .. "\n")
  local metrics = { step = 1, stage = 1, stage_step = 1, reward = 0.5, loss = 1 }
  metrics["rewards/" .. text:sub(1, 30) .. "/mean"] = 0.25
  local later = { step = 2, stage = 1, stage_step = 2, reward = 0.6, loss = 0.5 }
  later["rewards/" .. text:sub(1, 30) .. "/mean"] = 0.5
  lines(dir .. "/metrics.jsonl", metrics, later)
  lines(dir .. "/eval.jsonl", { step = 1, n = 1, label = text, accuracy = 0.5 })
  lines(dir .. "/completions.jsonl", { step = 1, prompt_index = 0, index = 0, prompt = text,
    text = text, rewards = { [text] = 1 }, reward = 1, finish = text, length = 3 })
  local run = history.open(root .. dir)
  local _, row = history.rows(root .. dir, "completions")()
  expect.truth(not display.turns_text(row):find("[\0-\8\11-\31\127]"), "a control character")
  return page(run, 10)
end

local dull = { ["<"] = "a", [">"] = "a", ["&"] = "a", ['"'] = "a", ["'"] = "a" }

return function(input)
  if input == "" then return end
  local text = page_with(input)
  expect.equal(tags(text), tags(page_with((input:gsub("[<>&\"']", dull)))), "tags")
  expect.truth(utf8.len(text, 1, -1, true), "the page is not UTF-8")
end
