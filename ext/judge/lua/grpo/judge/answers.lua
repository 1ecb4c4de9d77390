-- The answers of judges in this process, and in the run (judge.jsonl).
--
-- A row is { key =, judge =, score = number or null, answer = }, or { key =, judge =, step =,
-- problem = } for a question that got no answer.  The key stands for the whole question.  A score
-- counts for every later question of that key.  A problem counts for the rest of its step.  So a
-- resume, which finds both, decides as the run did.  Rank R beside the first one writes
-- judge-R.jsonl, and believes it before those of others.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local ranks = require "grpo.base.ranks"
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
    scores[row.key] = row
  end
end

-- A row of the file; nil for a line that a kill has cut short, or that is damaged.
local function read_row(line)
  if sums.state(line) ~= "intact" then return nil end
  local ok, row = errors.try(core.json_decode, line)
  return ok and type(row) == "table" and type(row.key) == "string" and row or nil
end

-- Takes the rows of a file; others: it is another rank's, of which only what is new is taken.
local function read(file, others)
  for line in io.lines(file) do
    local row = read_row(line)
    local known = row and others and (scores[row.key] or row.problem and problems[place(row)])
    if row and not known then take(row) end
  end
end

local function write(row)
  if not path then
    waiting[#waiting + 1] = row
    return
  end
  writer = writer or errors.must(fs.append(path))
  errors.must(writer:put(sums.line(row)))
end

-- A kill may have cut the last line short.
local function end_last_line(file)
  local text = fs.read(file)
  if text == "" or text:sub(-1) == "\n" then return end
  writer = errors.must(fs.append(file))
  errors.must(writer:put("\n"))
end

-- A run begins, or is opened again; writes: it is trained here.
function answers.open(dir, writes)
  local name = ranks.first() and "judge.jsonl" or ("judge-%d.jsonl"):format(ranks.rank())
  local file = dir .. "/" .. name
  local early
  scores, problems, path, writer = {}, {}, writes and fs.isdir(dir) and file or nil, nil
  early, waiting = waiting, {}
  if fs.exists(file) then
    read(file)
    if writes then end_last_line(file) end
  end
  for _, other in ipairs(fs.list(dir) or {}) do
    if other ~= name and other:find("^judge%-?%d*%.jsonl$") then read(dir .. "/" .. other, true) end
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
