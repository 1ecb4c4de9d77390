-- A judge that is a program: it reads a line of JSON for each question, and writes one for each
-- answer, in any order:
--   { "id": 1, "prompt": ..., "completion": ..., "row": ... }
--   { "id": 1, "score": 0.5 } or { "id": 1, "answer": "text" } or { "id": 1, "error": "text" }

local core = require "grpo.core"
local Queue = require "grpo.judge.queue"
local replies = require "grpo.judge.replies"

local MOST_STRAY = 100 -- answers in a row to what nobody asks: the program does not read questions

local Command = {}
Command.__index = Command

function Command.new(o)
  local words = type(o.command) == "string" and { "sh", "-c", o.command } or o.command
  return setmetatable({ o = o, words = words, last_id = 0, pending = {},
    source = table.concat(words, " ") }, Command)
end

function Command:close()
  if self.program then self.program:close() end
  self.program, self.pending = nil, {}
end

-- Sends question i.
function Command:send(question, i)
  if not self.program then self.program, self.stray = core.line_program(self.words), 0 end
  self.last_id = self.last_id + 1
  local line = question.fields
  line.id = self.last_id
  self.program:send(core.json_encode(line))
  self.pending[#self.pending + 1] = { id = line.id, i = i, until_ = core.clock() + self.o.timeout }
end

local function take_pending(list, id)
  for k, one in ipairs(list) do
    if one.id == id then return table.remove(list, k) end
  end
end

-- A line has come.  One that cannot be read counts as the answer to the oldest question.  A second
-- answer to a question counts for nothing.
function Command:receive(queue, line)
  local reply = replies.line(line)
  if reply and reply.id <= self.last_id then
    local one = take_pending(self.pending, reply.id)
    self.stray = one and 0 or self.stray + 1
    if self.stray > MOST_STRAY then self:fail_all(queue, "it answers what nobody asks") end
    if not one then return end
    local result, problem = replies.of_program(reply)
    if result then queue:done(one.i, result) else queue:failed(one.i, problem) end
    return
  end
  local oldest = table.remove(self.pending, 1)
  if oldest then
    queue:failed(oldest.i, "it wrote what is not an answer: " .. line:sub(1, 60))
  end
end

-- The program has ended, or does not answer: another one gets the questions.
function Command:fail_all(queue, problem)
  local list = self.pending
  self:close()
  for _, one in ipairs(list) do queue:failed(one.i, problem) end
end

-- Answers questions { fields = }: { score = }, { answer = } or { problem = } for each.
function Command:ask(questions)
  local queue = Queue.new(#questions, self.o)
  if #self.pending > 0 then self:close() end -- an error has ended the call before
  while queue.left > 0 do
    Queue.check_signal()
    while #self.pending < self.o.in_flight do
      local i = queue:next()
      if not i then break end
      self:send(questions[i], i)
    end
    local first = self.pending[1]
    if not first then
      queue:rest()
    else
      local left = math.max(0.0, first.until_ - core.clock())
      local line, problem = self.program:step(queue:pause(left, #self.pending))
      if line then
        self:receive(queue, line)
      elseif problem then
        self:fail_all(queue, problem)
      elseif core.clock() >= first.until_ then
        self:fail_all(queue, ("it has not answered within %g seconds"):format(self.o.timeout))
      end
    end
  end
  return queue.results
end

return Command
