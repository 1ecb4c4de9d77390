-- A trainer's workers: who has joined, what they are sent, and who is dropped.
--
-- Nothing here waits.  serve() is called between two steps and, every few milliseconds, while the
-- engine samples; an update is not interrupted for workers.

local core = require "grpo.core"
local display = require "grpo.runs.display"
local errors = require "grpo.base.errors"
local messages = require "grpo.workers.messages"
local shares = require "grpo.workers.shares"
local shipping = require "grpo.workers.shipping"

local kinds = messages.kinds

local MOST = 64 -- connections
local MESSAGES = 64 -- of one worker that are taken before the others have their turn
local WAITING = 4 * messages.PIECE -- bytes on the way to a worker
local BEHIND = 3 -- updates of the weights that a worker may have waiting
local HANDSHAKE = 10 -- seconds
local REFUSALS = 20 -- lines about connections that were refused

local pool = {}

local Pool = {}
Pool.__index = Pool

-- ---- opening and closing ---------------------------------------------------------------------

function Pool:say(format, ...)
  local line = display.clean(format:format(...)):gsub("%c", " ") -- a worker may have sent it
  self.tr.view:line(line)
  if self.tr.directory then self.tr.directory:note(line) end
end

-- Begins to listen where workers.listen says.
function pool.open(tr)
  local options = tr.experiment.config.workers
  local host, port = messages.address(options.listen)
  local token = messages.token(options.token_file, "workers.token_file")
  local listener, message, code = core.messages.listen(host, port)
  if not listener then errors.raise_plain(code, "workers.listen: %s", message) end
  return pool.new(tr, options, token, listener, host)
end

-- options: those of the section workers.  listener: has accept, port and close, as core.messages
-- gives them.
function pool.new(tr, options, token, listener, host)
  return setmetatable({ tr = tr, options = options, token = token, listener = listener,
    host = host, peers = {}, shipping = shipping.new(tr), next_task = 1, refusals = 0,
    ahead = {}, -- shares of rollouts of the following steps, in order
    completions = 0, from_workers = 0, from_ahead = 0, checked = 0, sent = 0, came = 0 }, Pool)
end

-- Says where workers can join.
function Pool:announce()
  local host = self.host:find(":", 1, true) and "[" .. self.host .. "]" or self.host
  self:say("workers can join: grpo worker --connect %s:%d", host, self.listener:port())
end

function Pool:close()
  for _, peer in ipairs(self:joined()) do
    peer.wire:send(kinds.over, messages.encode { why = "the run is over" })
    peer.wire:next()
  end
  for _, peer in ipairs(self.peers) do self:close_wire(peer) end
  self.peers = {}
  self.listener:close()
  self.shipping:forget()
  if self.from_workers > 0 then
    self:say("workers sampled %d of %d completions, %d of which were sampled once more; %.2f MiB "
      .. "went to them and %.2f MiB came", self.from_workers, self.completions, self.checked,
      self.sent / 2 ^ 20, self.came / 2 ^ 20)
  end
  if self.from_ahead > 0 then
    self:say("workers sampled %d completions ahead of their step", self.from_ahead)
  end
end

function Pool:close_wire(peer)
  self.sent, self.came = self.sent + peer.wire:sent(), self.came + peer.wire:came()
  peer.wire:close()
end

-- ---- who is there ----------------------------------------------------------------------------

-- Those that have shown the token; state "ready": they take tasks.
function Pool:joined(state)
  local list = {}
  for _, peer in ipairs(self.peers) do
    if peer.name and (not state or peer.state == state) then list[#list + 1] = peer end
  end
  return list
end

function Pool:forget(peer)
  for i, one in ipairs(self.peers) do
    if one == peer then table.remove(self.peers, i) end
  end
  peer.state = "gone"
  self:close_wire(peer)
  if #self:joined() == 0 then self.shipping:forget() end
  for _, task in ipairs(peer.tasks) do task.holders[peer] = nil end
  peer.tasks = {}
end

local function name_of(peer)
  local address = peer.wire:address()
  return peer.name and ("%s (%s)"):format(peer.name, address) or address
end

-- The worker goes, for a reason that is its own or its network's.
function Pool:lose(peer, why)
  local name = name_of(peer)
  if peer.state == "gone" then return end
  self:forget(peer)
  if peer.name then
    self:say("worker %s: %s; its work goes to others", name, why)
  else
    self:count_refusal("a connection from %s was closed: %s", name, why)
  end
end

-- The worker is told to go.
function Pool:dismiss(peer, why, line)
  local name = peer.state == "gone" and peer.name or name_of(peer)
  if peer.state ~= "gone" then
    peer.wire:send(kinds.over, messages.encode { why = why })
    self:forget(peer)
  end
  self:say("worker %s was dropped: %s", name, line or why)
end

function Pool:count_refusal(format, ...)
  self.refusals = self.refusals + 1
  if self.refusals <= REFUSALS then self:say(format, ...) end
  if self.refusals == REFUSALS then self:say("further connections are refused without a line") end
end

function Pool:refuse(peer, why)
  local name = name_of(peer)
  peer.wire:send(kinds.refused, messages.encode { why = why })
  self:forget(peer)
  self:count_refusal("a worker at %s was refused: %s", name, why)
end

-- ---- messages of workers ---------------------------------------------------------------------

local MALFORMED = "it has sent a message that this version does not know"

-- Each takes the text of a message; returns a word if that is wrong.
local take = {}

take[kinds.join] = function(self, peer, text)
  if peer.state ~= "hello" then return MALFORMED end
  local t = messages.read(text, { protocol = "integer", nonce = "string", facts = "table",
    proof = "string", has_base = "boolean" })
  if not t or type(t.facts.host) ~= "string" or #t.nonce ~= 32 then return MALFORMED end
  local proof = messages.proof(self.token, "worker", t.nonce, peer.nonce, t.facts)
  if not messages.is_proof(t.proof, proof) then
    self:refuse(peer, "its token is not the trainer's; give both the same one")
    return
  end
  local other = t.protocol ~= messages.PROTOCOL and "it speaks another version of the protocol; "
    .. "install the same version" or messages.other_facts(t.facts, messages.facts(), "the trainer")
  if other then return self:refuse(peer, other) end
  if t.has_base and not select(2, core.weights.config(self.tr.model)) then
    self:refuse(peer, "--model names a base, but the run trains all weights; leave it out")
    return
  end
  self:welcome(peer, t)
end

take[kinds.ready] = function(self, peer)
  if peer.state ~= "receiving" then return MALFORMED end
  peer.state = "ready"
  self:say("worker %s has joined", name_of(peer))
end

-- The task of a worker that it has answered, if that was not taken from it meanwhile.
local function answered(peer, id)
  for i, task in ipairs(peer.tasks) do
    if task.id == id then
      task.holders[peer] = nil
      return table.remove(peer.tasks, i)
    end
  end
end

take[kinds.result] = function(_, peer, text)
  if peer.state ~= "ready" or #text < 16 then return MALFORMED end
  local id, seconds = ("<i8d"):unpack(text)
  local task = answered(peer, id)
  if task then task.share:result(peer, task, seconds, text:sub(17)) end
end

-- A worker cannot do a task, for want of memory for instance: it gets no other one this time.
take[kinds.failed] = function(self, peer, text)
  local t = messages.read(text, { id = "integer", why = "string" })
  if not t or peer.state ~= "ready" then return MALFORMED end
  if not answered(peer, t.id) then return end
  peer.paused = true
  if not peer.told then
    self:say("worker %s could not sample: %s", peer.name, t.why:sub(1, 200))
  end
  peer.told = true
end

take[kinds.pong] = function(_, peer)
  if not peer.name then return MALFORMED end
end

take[kinds.over] = function(self, peer, text)
  local t = messages.read(text, { why = "string" })
  self:lose(peer, t and t.why:sub(1, 200) or "it has left")
end

-- The worker has the token and computes as we do: it gets the model.
function Pool:welcome(peer, join)
  local host = join.facts.host:sub(1, 60)
  if #self:joined() == 0 then self.shipping:update() end
  peer.name, peer.state = host, "receiving"
  peer.wire:send(kinds.welcome, messages.encode {
    proof = messages.proof(self.token, "trainer", join.nonce, peer.nonce) })
  peer.wire:send(kinds.model, messages.encode(self.shipping:describe(join.has_base)))
  self:put(peer, self.shipping:image(join.has_base))
end

local function read(self, peer)
  for _ = 1, MESSAGES do
    local kind, text = peer.wire:next()
    if kind == nil then return end
    if kind == false then return self:lose(peer, text) end
    local problem = MALFORMED
    if take[kind] then problem = take[kind](self, peer, text) end
    if problem then return self:lose(peer, problem) end
    if peer.state == "gone" then return end
  end
end

-- ---- what workers are sent ---------------------------------------------------------------------

local function pump(peer)
  local queue, wire = peer.queue, peer.wire
  while peer.first <= #queue and wire:waiting() < WAITING do
    local item = queue[peer.first]
    local kind, text
    if type(item) == "function" then kind, text = item() else kind, text = item[1], item[2] end
    if kind then wire:send(kind, text) end
    if type(item) == "table" or not kind then
      queue[peer.first], peer.first = false, peer.first + 1
    end
    if kind == kinds.version then peer.behind = math.max(0, peer.behind - 1) end
  end
  if peer.first > #queue then peer.queue, peer.first = {}, 1 end
end

-- Messages go to a worker in their order, as it takes them.
function Pool.put(_, peer, items)
  for _, item in ipairs(items) do peer.queue[#peer.queue + 1] = item end
  pump(peer)
end

-- All who have a copy of the weights get those of now.
function Pool:update_weights()
  local joined = self:joined()
  if #joined == 0 then return end
  local items = self.shipping:update()
  for _, peer in ipairs(items and joined or {}) do
    peer.behind = peer.behind + 1
    if peer.behind > BEHIND then
      self:dismiss(peer, "it takes the weights more slowly than they change")
    else
      self:put(peer, items)
    end
  end
end

-- ---- serving ---------------------------------------------------------------------------------

local function accept(self)
  while true do
    local wire = self.listener:accept()
    if not wire then return end
    if #self.peers >= MOST then
      wire:close()
    else
      local peer = { wire = wire, state = "hello", nonce = messages.nonce(), queue = {}, first = 1,
        tasks = {}, heard = core.clock(), opened = core.clock(), came = 0, sent = 0, behind = 0 }
      self.peers[#self.peers + 1] = peer
      wire:send(kinds.hello, messages.encode { protocol = messages.PROTOCOL, nonce = peer.nonce })
    end
  end
end

-- Drops who says nothing.  What it takes of a queue shows that it is there, too.
local function watch(self, peer, now)
  local wire, silence = peer.wire, self.options.silence
  local came, sent = wire:came(), wire:sent()
  if came ~= peer.came or (peer.was_waiting and sent ~= peer.sent) then
    peer.heard, peer.asked = now, nil
  end
  peer.came, peer.sent, peer.was_waiting = came, sent, wire:waiting() > 0
  if not peer.name then
    if now - peer.opened > HANDSHAKE then self:lose(peer, "it has not shown a token") end
  elseif peer.asked and now - peer.asked > silence then
    local seconds = now - peer.heard
    wire:send(kinds.over, messages.encode { again = true,
      why = ("nothing was heard of it for %.0f s (workers.silence)"):format(seconds) })
    wire:next() -- as much of it goes out as the worker's side takes
    self:lose(peer, ("it has said nothing for %.0f s"):format(seconds))
  elseif not peer.asked and now - peer.heard > silence / 2 then
    peer.asked = now
    wire:send(kinds.ping, messages.encode {})
  end
end

-- Takes what has come, sends what can go.
function Pool:serve()
  accept(self)
  for _, peer in ipairs(table.move(self.peers, 1, #self.peers, 1, {})) do
    if peer.state ~= "gone" then read(self, peer) end
    if peer.state ~= "gone" then pump(peer) end
    if peer.state ~= "gone" then watch(self, peer, core.clock()) end
  end
end

-- ---- rollouts --------------------------------------------------------------------------------

-- All that a worker made of the rollouts that are not over is made again.
function Pool:undo(peer)
  if self.share then self.share:undo(peer) end
  for _, share in ipairs(self.ahead) do share:undo(peer) end
end

-- While workers have begun with later rollouts, they keep the weights of these.
local function sample(self, share, record)
  local started = core.clock()
  self:serve()
  local keeps = share:has_come() or #self.ahead > 0 and share.options.stream ~= "eval"
  if not keeps then self:update_weights() end
  self.share = share
  local ok, err = pcall(share.run, share, record)
  share:finish()
  self.share = nil
  if not ok then error(err, 0) end
  record:took(core.clock() - started)
end

local function all_slots(options)
  local slots = {}
  for slot = 1, #options.prompts do slots[slot] = slot end
  return slots
end

-- The share of a rollout that workers have begun with: nil if they have not, or with another one
-- than it has become, after a change of options for instance; the rest is then useless too.
local function take_ahead(self, share)
  local first = self.ahead[1]
  if not first or share.options.stream ~= "sample" then return nil end
  if first:is_like(share) then return table.remove(self.ahead, 1) end
  for _, one in ipairs(self.ahead) do one:finish() end
  self.ahead = {}
end

-- Does engine:rollout(options) with the workers that there are.
function Pool:rollout(options)
  local engine = self.tr.engine
  local record = engine:begin_rollout(options)
  local share = shares.new(self, engine, all_slots(options), options)
  sample(self, take_ahead(self, share) or share, record)
  return record
end

-- Workers begin with engine:rollout(options) of the step after those in self.ahead, with the
-- weights that the model has now.  false: there is none that can.
function Pool:begin_ahead(options)
  self:update_weights()
  local share = shares.new(self, self.tr.engine, all_slots(options), options)
  if not share:hand_out() then return false end
  self.ahead[#self.ahead + 1] = share
  return true
end

-- Are there workers?  again: that have been sent all weights so far, too.
function Pool:can_begin_ahead(again)
  local ready = self:joined("ready")
  for _, peer in ipairs(ready) do
    if again and peer.behind > 0 then return false end
  end
  return #ready > 0
end

-- Does engine:replace(record, slots, prompts, options) with them.
function Pool:replace(record, slots, prompts, options)
  if #slots == 0 then return end
  local engine = self.tr.engine
  engine:begin_replace(record, slots, prompts, options)
  local all = setmetatable({ prompts = prompts }, { __index = options })
  sample(self, shares.new(self, engine, slots, all), record)
end

return pool
