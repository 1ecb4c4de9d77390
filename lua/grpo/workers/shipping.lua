-- The weights of a run on their way to workers: the whole model to who joins, then what each update
-- changes: an adapter whole, all weights as differences.  A copy of the trained weights says what
-- the workers have.
--
-- A worker's queue holds messages in the order in which they must come, { kind, text } or a
-- function that gives the next ones.

local core = require "grpo.core"
local messages = require "grpo.workers.messages"

local kinds, weights = messages.kinds, core.weights
local NUMBERS = messages.PIECE // 4 -- trained weights in a message

local shipping = {}

local Shipping = {}
Shipping.__index = Shipping

function shipping.new(tr)
  return setmetatable({ tr = tr, bytes = 0 }, Shipping)
end

-- The files of a tokenizer, by their names.
local function tokenizer_files(tokenizer)
  return messages.with_directory(function(dir)
    local files = {}
    tokenizer:save(dir)
    for _, name in ipairs(core.fs.list(dir)) do files[name] = core.fs.read(dir .. "/" .. name) end
    return files
  end)
end

-- Describes the model, for a worker to make an empty one.  sums: it has a base of its
-- own, which must be ours.
function Shipping:describe(sums)
  local tr = self.tr
  local model, list = tr.model, weights.list(tr.model)
  local config, adapter = weights.config(model)
  local about = { config = config, adapter = adapter, compute = model.compute, types = {},
    names = {}, sizes = {}, sums = sums and {} or nil, trained = weights.trained(model),
    tokenizer = tokenizer_files(tr.tokenizer), dtype = tr.settings.model.dtype,
    quantize = tr.settings.model.quantize }
  local count = 0
  for i, param in ipairs(list) do
    if not (adapter and param.trained) then
      count = count + 1
      about.types[i], about.names[i], about.sizes[i] = param.type, param.name, param.bytes
      if sums then about.sums[i] = self:sum(i) end
    end
  end
  return about
end

-- The sum of a parameter that never changes is taken once.
function Shipping:sum(i)
  self.sums = self.sums or {}
  self.sums[i] = self.sums[i] or weights.sum(self.tr.model, i)
  return self.sums[i]
end

-- Gives the messages with the weights that training does not change, piece by piece.
local function frozen(model)
  local list, i, at = weights.list(model), 1, 0
  return function()
    while i <= #list and (list[i].trained or at >= list[i].bytes) do i, at = i + 1, 0 end
    if i > #list then return nil end
    local n = math.min(messages.PIECE, list[i].bytes - at)
    local text = ("<I4I8"):pack(i, at) .. weights.read(model, i, at, n)
    at = at + n
    return kinds.param, text
  end
end

-- Returns the messages with the trained weights of a copy of the model's.
local function numbers(model, copy)
  local items = {}
  for from = 0, weights.trained(model) - 1, NUMBERS do
    local n = math.min(NUMBERS, weights.trained(model) - from)
    items[#items + 1] = { kinds.numbers, ("<I8"):pack(from) .. copy:get(from, n) }
  end
  return items
end

local function differences(model, snapshot)
  local items = {}
  for from = 0, weights.trained(model) - 1, NUMBERS do
    local n = math.min(NUMBERS, weights.trained(model) - from)
    items[#items + 1] = { kinds.difference, ("<I8I4"):pack(from, n)
      .. snapshot:difference(model, from, n) }
  end
  return items
end

function Shipping:closing_item()
  return { kinds.version, messages.encode { version = self.version } }
end

local function is_adapter(model)
  return select(2, weights.config(model)) ~= nil
end

-- Returns the messages that bring the copies of workers to the weights of now; nil: they have them.
function Shipping:update()
  local model = self.tr.model
  local version = weights.version(model)
  if version == self.version then return nil end
  local had = self.snapshot
  self.version, self.whole = version, nil
  if is_adapter(model) or not had then self.snapshot = weights.snapshot(model) end
  if not had then return nil end -- nobody has a copy yet
  local items
  if is_adapter(model) then
    had:close()
    items = numbers(model, self.snapshot)
  else
    items = differences(model, had)
  end
  items[#items + 1] = self:closing_item()
  local bytes = 0
  for _, item in ipairs(items) do bytes = bytes + #item[2] end
  self.bytes = bytes
  return items
end

-- Returns the messages for who joins now: it gets the weights that the others have, or are being
-- sent.
function Shipping:image(has_base)
  local items = {}
  if not has_base then items[1] = frozen(self.tr.model) end
  self.whole = self.whole or numbers(self.tr.model, self.snapshot)
  table.move(self.whole, 1, #self.whole, #items + 1, items)
  items[#items + 1] = self:closing_item()
  return items
end

-- Nobody has a copy any more.
function Shipping:forget()
  if self.snapshot then self.snapshot:close() end
  self.snapshot, self.whole, self.version = nil, nil, nil
end

return shipping
