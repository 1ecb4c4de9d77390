-- grpo.judge: a reward that asks a model, a program or an address what it thinks of a completion.
--
-- A question is what the judge is asked about one completion; its key stands for it and for the
-- judge.  What was answered before, in this process or in the run that is resumed, is not asked
-- again (answers.lua).  Questions of a step are under way side by side.  One that gets no answer
-- becomes what on_error says, and costs a line.

local answers = require "grpo.judge.answers"
local core = require "grpo.core"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local options = require "grpo.options"
local replies = require "grpo.judge.replies"
local verdicts = require "grpo.judge.verdicts"

local judge = {}

local methods = {}
local Judge = { __index = methods, __name = "grpo.Judge" }

local spec = {
  model = { type = "any" }, command = { type = "string|table" }, url = { type = "string" },
  prompt = { type = "string|function" }, verdicts = { type = "table" },
  parse = { type = "function" },
  max_new_tokens = { type = "integer", default = 256, min = 1, max = 1048576 },
  dtype = { type = "string" }, quantize = { type = "string" }, compute = { type = "string" },
  tokenizer = { type = "any" }, key_env = { type = "string" }, request = { type = "table" },
  in_flight = { type = "integer", default = 8, min = 1, max = core.http_places },
  timeout = { type = "number", default = 60, above = 0, max = 86400 },
  retries = { type = "integer", default = 2, min = 0, max = 100 },
  backoff = { type = "number", default = 1, min = 0, max = 3600 },
  on_error = { type = "string|number", default = "skip" },
}

-- ---- the options --------------------------------------------------------------------

local function complain(format, ...) errors.raise("EARG", "judge" .. format, ...) end

local function check_verdicts(grades)
  if next(grades) == nil then complain(".verdicts: is empty; want { yes = 1, no = 0 }") end
  for name, grade in pairs(grades) do
    if type(name) ~= "string" or name == "" or type(grade) ~= "number"
      or not replies.number(grade) then
      complain(".verdicts: want numbers by verdict, as { yes = 1, no = 0 }; digits are "
        .. "written [\"1\"] = 1")
    end
  end
end

local function check_command(o)
  local command = o.command
  if #command == 0 then complain(".command: is empty") end
  for _, word in ipairs(type(command) == "table" and command or {}) do
    if type(word) ~= "string" then complain(".command: want a list of strings") end
  end
  if o.verdicts then
    complain(".verdicts: are weighed by a model; a command gives a score, or an answer for parse")
  end
end

local function check(o)
  if o.verdicts and o.parse then complain(": give verdicts or parse, not both") end
  if o.verdicts then check_verdicts(o.verdicts) end
  if o.command and (o.url or o.model) or not (o.command or o.url or o.model) then
    complain(": give one of model (a model of this process), command, and url (where model is a "
      .. "name there)")
  end
  local kind = type(o.model)
  if kind ~= "nil" and kind ~= "string" and (o.url or kind ~= "userdata") then
    complain(".model: got a %s, want %s", kind, o.url and "the name of a model there, a string"
      or "the path of a model, or a model")
  end
  if o.command then return check_command(o) end
  if not o.prompt then complain(".prompt: is missing; want a text with {prompt} and {completion}, "
    .. "or function(c) -> string or messages") end
  if not o.verdicts and not o.parse then
    complain(": give verdicts = { yes = 1, no = 0 }, or parse = function(answer, c) -> number")
  end
end

local function check_on_error(policy)
  if type(policy) == "number" and replies.number(policy) then return end
  if policy ~= "skip" and policy ~= "stop" then
    complain(".on_error: got %s, want \"skip\", \"stop\" or a number", tostring(policy))
  end
end

-- ---- questions -----------------------------------------------------------------------

-- The text of a template: {prompt}, {completion}, or a field of the row.
local function filled(template, c)
  return (template:gsub("{([%a_][%w_]*)}", function(name)
    if name == "prompt" then return c.plain_prompt or c.prompt end
    if name == "completion" then return c.text end
    local value = type(c.row) == "table" and c.row[name] or nil
    return (type(value) == "string" or type(value) == "number") and tostring(value) or nil
  end))
end

local function prompt_of(o, c)
  if type(o.prompt) == "string" then return filled(o.prompt, c) end
  local prompt = o.prompt(c)
  if type(prompt) == "string" or type(prompt) == "table" then return prompt end
  error(("judge.prompt: the function returned a %s, want a string or messages"):format(
    type(prompt)), 0)
end

-- A row without what JSON cannot hold.
local function plain_row(row)
  if type(row) ~= "table" then return row end
  local copy = {}
  for name, value in pairs(row) do
    if pcall(core.json_encode, value) then copy[name] = value end
  end
  return copy
end

local function fields_of(o, c)
  if o.prompt then return { prompt = prompt_of(o, c), completion = c.text } end
  return { prompt = c.plain_prompt or c.prompt, completion = c.text, row = plain_row(c.row) }
end

-- { key =, prompt = } of a model, { key =, fields = } of a command.
function methods:question(c)
  local o = self.o
  local question = o.command and { fields = fields_of(o, c) } or { prompt = prompt_of(o, c) }
  question.key = core.judge_key(self.identity .. core.json_encode(question))
  return question
end

-- ---- answers -------------------------------------------------------------------------

-- The row of judge.jsonl for what came of a question.
function methods:row_of(question, result, step)
  local row = { key = question.key, judge = self.source, answer = result.answer,
    problem = result.problem }
  if result.score == core.none then
    row.score = core.json_null
  elseif result.score then
    row.score = result.score
  elseif result.logprobs then
    row.score = verdicts.expected(self.o.verdicts, result.logprobs)
    row.answer = row.answer or verdicts.likeliest(self.o.verdicts, result.logprobs)
    if not row.score then row.problem = "no verdict is possible" end
  end
  if row.problem then
    row.step = step
    self:say(row.problem)
  end
  return row
end

-- The score that a row stands for, a number or core.none; nil and why there is none.  What parse
-- finds is not kept, so that a changed one reads kept answers.
function methods:score_of(row, c)
  if row.problem then return nil, row.problem end
  if row.score ~= nil then return row.score ~= core.json_null and row.score or core.none end
  if not self.o.parse then return nil, "it gave an answer, and there is no parse to read it" end
  local score = replies.number(self.o.parse(row.answer, c))
  if score then return score end
  return nil, ("parse found no number in: %s"):format(row.answer:sub(1, 60))
end

-- Says what is wrong, the first time and then ever more rarely.
function methods:say(problem)
  self.failures = self.failures + 1
  if self.failures & (self.failures - 1) ~= 0 then return end
  local text = ("note: judge: %s: no answer (%d so far): %s"):format(self.source, self.failures,
    problem)
  core.notice((display.clean(text):gsub("\n", " ")))
end

-- Asks the questions of a group that are not known, each text once, and keeps what comes.
function methods:ask(questions, step)
  local unknown, seen = {}, {}
  for _, question in ipairs(questions) do
    if not seen[question.key] and not answers.find(question.key, step) then
      seen[question.key], unknown[#unknown + 1] = true, question
    end
  end
  if #unknown == 0 then return end
  for k, result in ipairs(self.who:ask(unknown)) do
    answers.keep(self:row_of(unknown[k], result, step))
  end
end

-- The value and the columns of a completion.
function methods:value(row, c)
  local score, problem = self:score_of(row, c)
  if score ~= nil then return score, row.answer and { answer = row.answer } end
  if self.o.on_error == "stop" then errors.raise_plain("ESCRIPT", "judge: %s", problem) end
  return self.o.on_error == "skip" and core.none or self.o.on_error,
    { answer = row.answer, problem = problem, counts = { silent = 1 } }
end

-- Asks about all completions of a step together; group() then finds the answers.
function methods:prepare_all(cs)
  local questions = {}
  for i, c in ipairs(cs) do questions[i] = self:question(c) end
  if #cs > 0 then self:ask(questions, cs[1].step) end
end

function methods:group(cs)
  local questions, list, columns, step = {}, {}, {}, cs[1].step
  for i, c in ipairs(cs) do questions[i] = self:question(c) end
  self:ask(questions, step)
  for i, question in ipairs(questions) do
    list[i], columns[i] = self:value(answers.find(question.key, step), cs[i])
  end
  return list, columns
end

function Judge.__tostring(self) return "grpo.Judge of " .. self.source end

local function asked(o)
  if o.command then return require("grpo.judge.command").new(o) end
  if o.url then return require("grpo.judge.endpoint").new(o) end
  return require("grpo.judge.model").new(o)
end

-- Two judges with the same text give the same answers to one question.
local function identity_of(o, source)
  local parts = { source = source, verdicts = o.verdicts, request = o.request,
    max_new_tokens = o.max_new_tokens, dtype = o.dtype, quantize = o.quantize, compute = o.compute,
    name = o.url and o.model or nil }
  return core.json_encode(parts)
end

function judge.new(opts)
  local o = options.check(opts, spec, "judge")
  check(o)
  check_on_error(o.on_error)
  local self = setmetatable({ o = o, who = asked(o), failures = 0 }, Judge)
  self.source = self.who.source
  self.identity = identity_of(o, self.source)
  function self.group_fn(_, _, cs) return self:group(cs) end
  function self.prepare(cs) self:prepare_all(cs) end
  return self
end

return judge
