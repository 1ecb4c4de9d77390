-- The answers of judges in this process, and in the run (judge.jsonl).
--
-- A row is { key =, judge =, score = number or null, answer = }, or { key =, judge =, step =,
-- problem = } for a question that got no answer.  The key stands for the whole question.  A score
-- counts for every later question of that key.  A problem counts for the rest of its step.  So a
-- resume, which finds both, decides as the run did.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local sums = require "grpo.loop.sums"

local fs = core.fs
local answers = {}

local scores, problems = {}, {} -- [key] = row, [key .. "@" .. step] = row
local waiting = {}              -- rows that came before there was a run
local path, writer              -- of the run that is trained

local function place(row)
  return ("%s@%d"):format(row.key, row.step)
end

local function take(row)
  if row.problem then
    problems[place(row)] = row
  else
    scores[row.key] = scores[row.key] or row
  end
end

-- A row of the file; nil for a line that a kill has cut short, or that is damaged.
local function read_row(line)
  if sums.state(line) ~= "intact" then return nil end
  local ok, row = errors.try(core.json_decode, line)
  return ok and type(row) == "table" and type(row.key) == "string" and row or nil
end

local function read(file)
  local damaged = 0
  for line in io.lines(file) do
    local row = read_row(line)
    if row then take(row) else damaged = damaged + 1 end
  end
  return damaged
end

local function write(row)
  if not path then
    waiting[#waiting + 1] = row
    return
  end
  writer = writer or errors.must(fs.append(path))
  errors.must(writer:put(sums.line(row)))
end

-- A run begins, or is opened again; writes: it is trained here.
function answers.open(dir, writes)
  local file = dir .. "/judge.jsonl"
  scores, problems, path, writer = {}, {}, writes and file or nil, nil
  local early
  early, waiting = waiting, {}
  if fs.exists(file) then
    local damaged = read(file)
    local text = damaged > 0 and writes and fs.read(file)
    if text and text:sub(-1) ~= "\n" then
      writer = errors.must(fs.append(file))
      errors.must(writer:put("\n"))
    end
  end
  for _, row in ipairs(early) do
    if not scores[row.key] then
      take(row)
      if writes then write(row) end
    end
  end
end

-- Returns the row of a question in this step; nil: it is to be asked.
function answers.find(key, step)
  return problems[place { key = key, step = step }] or scores[key]
end

function answers.keep(row)
  take(row)
  write(row)
end

return answers
