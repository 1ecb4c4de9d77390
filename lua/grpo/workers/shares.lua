-- One rollout, shared by a trainer and its workers.
--
-- It is cut into tasks: completions first + 1 .. first + n of some groups.  Everybody takes a share
-- by the speed that was seen of it, the trainer too.  Who has nothing left to do takes a task that
-- another one has not finished yet; the first result counts, because all have the same bits.  So a
-- worker that is slow, silent or gone delays nothing but its own share, which is made again.
--
-- Workers get all tasks of a rollout at once if it is sampled ahead of its step
-- (workers.staleness), while the trainer updates and serves nobody.  At its step the trainer takes
-- those that have not come, the last ones first.
--
-- Some of what workers have sent, chosen at random when it is there, is sampled once more; a worker
-- whose completions have other bits is dropped, and all that it made of this rollout is made again.

local core = require "grpo.core"
local messages = require "grpo.workers.messages"
local truncated = require "grpo.train.truncated"

local kinds = messages.kinds
local HOLDERS = 2 -- of one task
local PIECES = 4 -- tasks of a worker in a rollout that it samples ahead
local SLOWEST = 1e6 -- seconds for a task, as far as a worker is believed

local shares = {}

local Share = {}
Share.__index = Share

-- slots: the groups of a batch that are to be sampled, of which options.prompts[i] is the prompt of
-- slots[i], with the weights that the model has now.
function shares.new(pool, engine, slots, options)
  return setmetatable({ pool = pool, engine = engine, slots = slots, options = options,
    n = options.n, tasks = {}, arrivals = {}, checks = {}, begun = {}, next_slot = 1,
    next_sample = 0, sizes = engine:sizes(), version = core.weights.version(pool.tr.model) }, Share)
end

-- ---- tasks -----------------------------------------------------------------------------------

-- The options of engine:rollout for some of the prompts.
function Share:options_of(places, first, n)
  local o = self.options
  local part = { prompts = {}, index = o.index and {}, targets = o.targets and {}, n = n,
    first = first, sampling = o.sampling, seed = o.seed, step = o.step, stream = o.stream }
  for i, place in ipairs(places) do
    part.prompts[i] = o.prompts[place]
    if o.index then part.index[i] = o.index[place] end
    if o.targets then part.targets[i] = o.targets[place] or false end
  end
  return part
end

function Share:left()
  return (#self.slots - self.next_slot + 1) * self.n - self.next_sample
end

-- A task of about `amount` completions that nobody has yet: whole groups, or a part of one.
function Share:cut(amount)
  local groups, first, n = 1, self.next_sample, math.min(amount, self.n - self.next_sample)
  if first == 0 and amount >= self.n then
    groups = math.min(math.floor(amount / self.n + 0.5), #self.slots - self.next_slot + 1)
    n = self.n
  end
  local places, slots = {}, {}
  for i = 1, groups do
    places[i] = self.next_slot + i - 1
    slots[i] = self.slots[places[i]]
  end
  self.next_sample = first + n
  if self.next_sample == self.n then
    self.next_slot, self.next_sample = self.next_slot + groups, 0
  end
  local task = { share = self, id = self.pool.next_task, places = places, slots = slots,
    first = first, n = n,
    size = groups * n, holders = {}, options = self:options_of(places, first, n) }
  self.pool.next_task = task.id + 1
  self.tasks[#self.tasks + 1] = task
  return task
end

-- How fast a worker is, or the trainer (self.pool): completions a second, as far as is known.
local function speed_of(self, who)
  if who.speed then return who.speed end
  local sum, n = 0.0, 0
  local all = self.pool:joined("ready")
  all[#all + 1] = self.pool
  for _, one in ipairs(all) do
    if one.speed then sum, n = sum + one.speed, n + 1 end
  end
  return n > 0 and sum / n or 1.0
end

local function measured(who, task, seconds)
  if seconds ~= seconds or seconds > SLOWEST then seconds = SLOWEST end
  local now = task.size / math.max(seconds, 1e-6)
  who.speed = who.speed and (who.speed + now) / 2 or now
end

-- The share of `who` in what is left, beside those that have none yet.
function Share:amount(who)
  local mine, all = speed_of(self, who), 0.0
  local others = self.pool:joined("ready")
  others[#others + 1] = self.pool
  for _, one in ipairs(others) do
    if one ~= who and not self.begun[one] and not one.paused then
      all = all + speed_of(self, one)
    end
  end
  return math.max(1, math.ceil(self:left() * mine / (mine + all)))
end

local function holders(task)
  local n = 0
  for _ in pairs(task.holders) do n = n + 1 end
  return n
end

local function is_open(task)
  return not task.done and not task.arrived
end

-- A task for `who`: one that nobody has, or else one that others have not finished.
function Share:task_for(who, most)
  local best, fewest
  for _, task in ipairs(self.tasks) do
    local n = holders(task)
    local better = not fewest or n < fewest or n == fewest and self.is_ahead
    if is_open(task) and not task.holders[who] and n < most and better then
      best, fewest = task, n
    end
  end
  if best and fewest == 0 then return best end
  if self:left() > 0 then
    local amount = self:amount(who)
    self.begun[who] = true
    return self:cut(amount)
  end
  return best
end

-- ---- the workers' part -----------------------------------------------------------------------

local function plain(t)
  local copy = {}
  for k, v in pairs(t) do copy[k] = v end
  return copy
end

-- Returns the fields of the message of a task with these options.
local function described(o, sizes)
  local ids, targets = {}, o.targets and {}
  for i, prompt in ipairs(o.prompts) do
    ids[i] = messages.pack_ids(prompt)
    if targets then targets[i] = o.targets[i] and messages.pack_ids(o.targets[i]) end
  end
  return { prompts = ids, targets = targets, index = o.index, n = o.n, first = o.first,
    sampling = plain(o.sampling), seed = o.seed, step = o.step, stream = o.stream, sizes = sizes }
end

-- The most bytes of a result.
local function result_bytes(self, task)
  local tasked = task.options.sampling
  local filtered = self.options.stream ~= "eval" and truncated.mask_tokens(tasked) or 0
  local bitmap = self.pool.tr.model.config.vocab_size // 32 + 1
  local words = filtered > 0 and 1 + math.min(filtered, bitmap) or 0
  return 64 + task.size * (16 + tasked.max_new_tokens * (13 + 4 * words))
end

function Share:send(peer, task)
  local message = described(task.options, self.sizes)
  message.id = task.id
  peer.limit = math.max(peer.limit or messages.SHORT, result_bytes(self, task))
  peer.wire:limit(peer.limit)
  peer.tasks[#peer.tasks + 1] = task
  task.holders[peer] = true
  self.pool:put(peer, { { kinds.task, messages.encode(message) } })
end

-- Every worker that has nothing to do gets something, if there is anything.
function Share:give()
  if self.pool.shipping.version ~= self.version then return end -- they have other weights
  for _, peer in ipairs(self.pool:joined("ready")) do
    if #peer.tasks == 0 and not peer.paused then
      local task = self:task_for(peer, HOLDERS)
      if not task then return end
      self:send(peer, task)
    end
  end
end

-- Gives all tasks to the workers at once, by their speeds and in turns; it gives none later.
-- Returns false if no worker can take one.
function Share:hand_out()
  local peers, quota, all, rest = {}, {}, 0.0, self:left()
  for _, peer in ipairs(self.pool:joined("ready")) do
    if not peer.paused then
      peers[#peers + 1], all = peer, all + speed_of(self, peer)
    end
  end
  for _, peer in ipairs(peers) do quota[peer] = math.ceil(rest * speed_of(self, peer) / all) end
  self.is_ahead = true
  while #peers > 0 and self:left() > 0 do
    for _, peer in ipairs(peers) do
      local amount = math.max(math.ceil(quota[peer] / PIECES), math.min(self.n, quota[peer]))
      if self:left() > 0 then self:send(peer, self:cut(amount)) end
    end
  end
  return #peers > 0
end

-- Would the tasks of the two give the same completions?
function Share:is_like(other)
  return self.version == other.version and messages.encode(described(self.options, self.sizes))
    == messages.encode(described(other.options, other.sizes))
end

-- Has everything come already?
function Share:has_come()
  for _, task in ipairs(self.tasks) do
    if not task.arrived then return false end
  end
  return self:left() == 0
end

-- A worker has sent completions.
function Share:result(peer, task, seconds, bytes)
  measured(peer, task, seconds)
  if not is_open(task) then return end
  task.arrived = { peer = peer, bytes = bytes }
  self.arrivals[#self.arrivals + 1] = task
end

local function without(list, item)
  local rest = {}
  for _, one in ipairs(list) do
    if one ~= item then rest[#rest + 1] = one end
  end
  return rest
end

-- Those that still have this task need not finish it.
function Share:release(task)
  for peer in pairs(task.holders) do
    if peer ~= self.pool and peer.state == "ready" then
      peer.tasks = without(peer.tasks, task)
      self.pool:put(peer, { { kinds.drop, messages.encode { id = task.id } } })
    end
  end
  task.holders = {}
end

-- ---- checks ----------------------------------------------------------------------------------

-- A number from 0 to 1 that no worker can foretell.
local function chance()
  return (("<I8"):unpack(core.messages.random(8)) >> 11) / 2.0 ^ 53
end

-- Chooses which completions of a task that has come are sampled once more; one of a worker's first
-- task is always.
function Share:choose(task, peer)
  local share, picked = self.pool.options.check, {}
  local always = not peer.tried and math.floor(chance() * task.size) or -1
  peer.tried = true
  for i = 0, task.size - 1 do
    if chance() < share or (i == always and share > 0) then picked[#picked + 1] = i end
  end
  for _, i in ipairs(picked) do
    local group, k = i // task.n + 1, task.first + i % task.n
    self.checks[#self.checks + 1] = { task = task, peer = peer, place = task.places[group],
      number = (task.slots[group] - 1) * self.n + k + 1, sample = k + 1, slot = task.slots[group] }
  end
end

-- All that a worker made of this rollout is made again.
function Share:undo(peer)
  for _, task in ipairs(self.tasks) do
    if task.by == peer then task.done, task.by = false, nil end
    if task.arrived and task.arrived.peer == peer then task.arrived = nil end
  end
end

function Share:check()
  local list, places, numbers = {}, {}, {}
  for _, check in ipairs(self.checks) do
    if check.task.by == check.peer and check.task.done then
      list[#list + 1], places[#places + 1] = check, check.place
      numbers[#numbers + 1] = check.number
    end
  end
  self.checks = {}
  if #list == 0 then return end
  self.pool.checked = self.pool.checked + #list
  local same = self.engine:check_samples(self.record, numbers, self:options_of(places, 0, 1),
    function() self:poll() end)
  for i, check in ipairs(list) do
    if not same[i] and check.task.by == check.peer then
      self.pool:undo(check.peer)
      self.pool:dismiss(check.peer, "what it has sampled has other bits than the trainer's", (
        "completion %d of prompt %d at step %d has other bits when it is sampled here, so all that "
        .. "it made of this rollout is made again"):format(check.sample, check.slot,
        self.options.step + 1))
    end
  end
end

-- ---- the trainer's part ------------------------------------------------------------------------

function Share:poll()
  self.pool:serve()
  self:give()
end

-- Takes the completions that have come.
function Share:collect()
  local arrivals = self.arrivals
  self.arrivals = {}
  for _, task in ipairs(arrivals) do
    local arrived = task.arrived
    if arrived and not task.done then
      local ok, problem = self.engine:take_part(self.record, task.slots, task.first, task.n,
        arrived.bytes)
      task.arrived = nil
      if ok then
        task.done, task.by = true, arrived.peer
        self:release(task)
        self:choose(task, arrived.peer)
      else
        self.pool:undo(arrived.peer)
        self.pool:dismiss(arrived.peer, problem)
      end
    end
  end
end

function Share:sample_here(task)
  local started = core.clock()
  task.holders[self.pool] = true
  local done = self.engine:sample_part(self.record, task.slots, task.options, function()
    self:poll()
    return task.arrived ~= nil
  end)
  task.holders[self.pool] = nil
  if not done then return end
  measured(self.pool, task, core.clock() - started)
  task.done, task.by, task.arrived = true, nil, nil
  self:release(task)
end

function Share:is_done()
  if self:left() > 0 or #self.checks > 0 then return false end
  for _, task in ipairs(self.tasks) do
    if not task.done then return false end
  end
  return true
end

-- Samples everything.  record: a batch that engine:begin_rollout or begin_replace has begun.
function Share:run(record)
  self.record = record
  for _, peer in ipairs(self.pool:joined()) do peer.paused = nil end
  while true do
    self:collect()
    self.pool:serve()
    self:give()
    local task = self:task_for(self.pool, 1) -- that nobody has
    if not task and #self.checks > 0 then
      self:check()
    elseif not task and #self.arrivals == 0 then
      if self:is_done() then return end
      task = self:task_for(self.pool, math.huge)
    end
    if task then self:sample_here(task) end
  end
end

-- However it ended: nobody works on it any more.
function Share:finish()
  local pool = self.pool
  for _, task in ipairs(self.tasks) do
    self:release(task)
    pool.completions = pool.completions + task.size
    if task.by then pool.from_workers = pool.from_workers + task.size end
    if task.by and self.is_ahead then pool.from_ahead = pool.from_ahead + task.size end
  end
end

return shares
