-- data.sampler: the script's own choice of the rows that a step trains on.
--
-- It remembers p.state, plain data that every checkpoint holds.  After each step the state
-- is encoded, and the next step begins with what these bytes say.  So a run that resumes meets the
-- same values, and the same order of keys within a table of integers, as one that did not stop.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local name_problem = require "grpo.base.name_problem"
local options = require "grpo.options"
local origins = require "grpo.options.origins"
local row_checksum = require "grpo.options.row_checksum"
local sorted_pairs = require "grpo.base.sorted"

local row_sampler = {}

local fields = { "sample", "observe" }
local streams = { sample = 3, observe = 4 } -- behind those of scoring/row_random.lua

-- Checks the option data.sampler.  complain(path, format, ...) raises.
function row_sampler.check(option, complain)
  if option == nil or type(option) == "function" then return end
  if getmetatable(option) == nil then
    options.check_names(option, fields, "data.sampler", complain)
  end
  if type(option.sample) ~= "function" then
    complain("data.sampler.sample", "got %s, want function(self, p) -> a list of p.n rows",
      type(option.sample))
  end
  if option.observe ~= nil and type(option.observe) ~= "function" then
    complain("data.sampler.observe", "got %s, want function(self, p, groups)", type(option.observe))
  end
end

local Sampler = {}
Sampler.__index = Sampler

local NOTHING = core.state_encode({})

-- The sampler of a stage, also where its options name none: a reload may bring one.
-- steps: of the stage, for a p before its first step.
function row_sampler.new(config, steps)
  local sampler = setmetatable({ config = config, saved = NOTHING }, Sampler)
  sampler:begin { step = 0, steps = steps or 1, tokens = 0, update = 0, updates = steps or 1,
    update_tokens = 0, fraction = 0.0, metrics = {} }
  return sampler
end

function Sampler:is_used()
  return self.config.data.sampler ~= nil
end

-- A step of the stage begins, or is tried again.  p: the argument of schedules.
function Sampler:begin(p)
  self.p, self.round = p, 0
  self.state = core.state_decode(self.saved)
end

-- The step is done: its state is what the next one, and a checkpoint, begin with.
function Sampler:commit()
  if self:is_used() then self.saved = core.state_encode(self.state, "data.sampler: p.state") end
end

function Sampler:complain(format, ...)
  errors.raise_at(origins.position(self.config, "data.sampler"), "EARG",
    "data.sampler: " .. format, ...)
end

-- The argument of the sampler's functions.  taken: rows that the stage has taken so far.
function Sampler:argument(name, taken)
  local config, p = self.config, {}
  for key, value in pairs(self.p) do p[key] = value end
  p.taken, p.size, p.dataset, p.state = taken, #config.data.train, config.data.train, self.state
  p.rng = core.rng(config.seed, "user", 0, taken, streams[name])
  return p
end

-- Calls the function `name` under the limits of hooks; math.random uses p.rng.
function Sampler:call(name, p, ...)
  local option = self.config.data.sampler
  local path, arguments = "data.sampler", table.pack(p, ...)
  local f = option
  if type(option) == "table" then
    f, path, arguments = option[name], path .. "." .. name, table.pack(option, p, ...)
  end
  core.reseed_math(p.rng)
  local ok, result = core.limited(self.config.limits.hook, path, f, table.unpack(arguments))
  core.reseed_math(nil)
  if not ok then error(errors.naming(path, result), 0) end
  local state = rawget(p, "state") -- p may have a metatable by now
  if type(state) ~= "table" then
    self:complain("p.state is a %s, want a table", type(state))
  end
  self.state = state
  return result
end

-- An item of the sampler's list: { index = a row of data.train } or { row = one that it made }.
function Sampler:pick(i, item)
  if type(item) == "table" then return { row = item } end
  local size = #self.config.data.train
  local index = type(item) == "number" and math.tointeger(item)
  if index and index >= 1 and index <= size then return { index = index } end
  self:complain("item %d of its list is %s, want the number of a row of data.train, 1 to %d, or a "
    .. "row", i, type(item) == "number" and tostring(item) or "a " .. type(item), size)
end

-- Asks for n rows: a list of picks.
function Sampler:ask(n, taken)
  self.round = self.round + 1
  local p = self:argument("sample", taken)
  p.n, p.round = n, self.round
  local list, picks = self:call("sample", p), {}
  if type(list) ~= "table" then
    self:complain("returned %s, want a list of %d rows",
      list == nil and "nothing" or "a " .. type(list), n)
  end
  for i = 1, rawlen(list) do picks[i] = self:pick(i, rawget(list, i)) end
  if #picks ~= n then
    self:complain("returned %d rows, want p.n = %d of them", #picks, n)
  end
  return picks
end

-- Tells the sampler what became of the step's rows.  metrics: of this step.  Returns the numbers
-- that it wants to be metrics of the step, by name.
function Sampler:observe(metrics, groups, taken)
  local option = self.config.data.sampler
  if type(option) ~= "table" or not option.observe then return {} end
  local p = self:argument("observe", taken)
  p.metrics = metrics
  local numbers = self:call("observe", p, groups)
  if numbers == nil then return {} end
  if type(numbers) ~= "table" then
    self:complain("observe returned a %s, want nothing, or a table of numbers by name",
      type(numbers))
  end
  local named, plain = {}, {}
  for name, value in next, numbers do plain[name] = value end
  for name, value in sorted_pairs(plain) do
    local problem = type(name) ~= "string" and "is a " .. type(name) or name_problem(name)
    if problem then self:complain("observe returned a number whose name %s", problem) end
    if type(value) ~= "number" then
      self:complain("observe returned a %s as %s, want a number", type(value), name)
    end
    named["sampler/" .. name] = value
  end
  return named
end

local function said(pick)
  return pick.index and ("row %d"):format(pick.index) or "a row of its own"
end

-- Asks twice for the first rows of a stage, and forgets them.  Returns the picks, and a sentence if
-- the second answer was another one.
function Sampler:rehearse(n, taken)
  local answers = {}
  for i = 1, 2 do
    self:begin(self.p)
    answers[i] = self:ask(n, taken)
    core.state_encode(self.state, "data.sampler: p.state")
  end
  self:begin(self.p)
  for i, first in ipairs(answers[1]) do
    local second = answers[2][i]
    local same = first.index == second.index and (first.index
      or row_checksum.of(first.row) == row_checksum.of(second.row))
    if not same then
      return answers[1], ("data.sampler: item %d of its list was %s and then %s for the same p, so "
        .. "a resume would not continue with the same rows; keep what it remembers in p.state, and "
        .. "take random numbers from p.rng or math.random"):format(i, said(first), said(second))
    end
  end
  return answers[1]
end

return row_sampler
