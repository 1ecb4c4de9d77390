-- A worker: samples for a trainer until the run is over.  docs/workers.md

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local display = require "grpo.runs.display"
local loading = require "grpo.models.loading"
local messages = require "grpo.workers.messages"

local kinds, weights = messages.kinds, core.weights
local WAIT = 0.5 -- seconds between two looks for a signal
local CONNECT = 10 -- seconds for one attempt to connect
local AGAIN = 0.5 -- seconds between two attempts
local HELD = 64 << 20 -- bytes of messages that wait until a task is done, at most
local SIGN = 0.25 -- seconds between two signs of life while they are that many

local client = {}

local Client = {}
Client.__index = Client

local fail = errors.of "worker"

local GONE = setmetatable({}, { __tostring = function() return "the trainer has gone" end })
local DROPPED = setmetatable({}, { __tostring = function() return "it may join again" end })
local STOPPED = setmetatable({}, { __tostring = function() return "a signal came" end })

-- The sentences that end a session.
local function ends(kind, why)
  error({ session = kind, why = why }, 0)
end

local function say(self, format, ...)
  if not self.options.quiet then
    core.err("grpo: worker: " .. display.clean(format:format(...)) .. "\n")
  end
end

-- ---- messages ----------------------------------------------------------------------------------

-- The next message that is there; nil: none.  What came while we sampled is first.
local function next_message(self)
  local held = table.remove(self.held, 1)
  local kind, text
  if held then
    kind, text = held[1], held[2]
    self.held_bytes = self.held_bytes - #text
  else
    self.dropped = {} -- no task waits
    kind, text = self.wire:next()
  end
  if kind == false then ends(GONE, text) end
  return kind, text
end

-- Waits for a message.  What belongs to no state is answered here.
local function receive(self)
  while true do
    local kind, text = next_message(self)
    if kind == kinds.ping then
      self.wire:send(kinds.pong, messages.encode {})
    elseif kind == kinds.over or kind == kinds.refused then
      local t = messages.read(text, { why = "string", again = "boolean?" })
      ends(kind == kinds.refused and "refused" or t and t.again and DROPPED or "over",
        t and t.why:sub(1, 300) or "no reason")
    elseif kind and kind ~= kinds.drop then -- a task that is not wanted any more is done already
      return kind, text
    elseif not kind then
      if core.signal_count() > 0 then ends(STOPPED) end
      core.messages.wait(WAIT, nil, { self.wire })
    end
  end
end

local function want(self, kind, fields)
  local got, text = receive(self)
  local t = got == kind and messages.read(text, fields)
  if not t then ends("refused", "what listens there is no trainer of this version") end
  return t
end

-- ---- joining -----------------------------------------------------------------------------------

-- Both sides show that they know the token.
local function shake_hands(self)
  local hello = want(self, kinds.hello, { protocol = "integer", nonce = "string" })
  if hello.protocol ~= messages.PROTOCOL then
    ends("refused", ("it speaks version %d of the protocol, and this is %d; install the same "
      .. "version"):format(hello.protocol, messages.PROTOCOL))
  end
  local nonce, facts = messages.nonce(), messages.facts()
  facts.host, facts.pid = core.hostname(), core.getpid()
  self.wire:send(kinds.join, messages.encode { protocol = messages.PROTOCOL, nonce = nonce,
    facts = facts, has_base = self.options.model ~= nil,
    proof = messages.proof(self.token, "worker", nonce, hello.nonce, facts) })
  local welcome = want(self, kinds.welcome, { proof = "string" })
  if not messages.is_proof(welcome.proof, messages.proof(self.token, "trainer", nonce,
    hello.nonce)) then
    ends("refused", "the trainer does not know our token")
  end
  self.wire:limit(messages.LONG)
  return want(self, kinds.model, { config = "string", adapter = "string?", compute = "string",
    types = "table", names = "table", sizes = "table", sums = "table?", trained = "integer",
    tokenizer = "table", dtype = "string?", quantize = "string?" })
end

-- ---- the model ----------------------------------------------------------------------------------

local tokenizer_names = { "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json" }

local function tokenizer_of(files)
  return messages.with_directory(function(dir)
    for _, name in ipairs(tokenizer_names) do
      if files[name] then errors.must(core.fs.write(dir .. "/" .. name, files[name])) end
    end
    return core.tokenizer_load(dir)
  end)
end

-- The base that the worker has itself; every parameter must have the trainer's bytes.
local function own_base(path, about)
  local options = { compute = about.compute, quantize = about.quantize,
    dtype = not about.quantize and about.dtype or nil }
  local model = loading.open(path, options)
  local vocabulary = core.json_decode(about.config, "the trainer's model").vocab_size
  if vocabulary > model.config.vocab_size then core.model_resize_vocab(model, vocabulary) end
  local list = weights.list(model)
  for i, name in ipairs(about.names) do
    local param = list[i]
    local same = param and param.name == name and param.type == about.types[i]
      and param.bytes == about.sizes[i] and weights.sum(model, i) == about.sums[i]
    if not same or #list ~= #about.names then
      fail("EARG", "%s is not the trainer's model: its %s differs; give the same one, or leave out "
        .. "--model, and the trainer sends its own", path, name)
    end
  end
  return model
end

local function make_model(self, about)
  local model
  if self.options.model then
    model = own_base(self.options.model, about)
  else
    model = weights.new(about.config, about.compute, about.types)
  end
  self.model, self.tokenizer, self.adapter = model, tokenizer_of(about.tokenizer), about.adapter
  local bytes = 4 * about.trained
  for _, n in ipairs(self.options.model and {} or about.sizes) do bytes = bytes + n end
  say(self, "joined %s, which sends %.1f MiB of weights", self.options.connect, bytes / 2 ^ 20)
end

-- The base is whole when the first trained weights come: the adapter may then be beside it.
local function begin_trained(self)
  if self.adapter then
    weights.changed(self.model)
    weights.adapt(self.model, self.adapter)
  end
  self.adapter = nil
end

-- Weights that come, one kind of message each.
local load = {
  [kinds.param] = function(self, text)
    local i, at, from = ("<I4I8"):unpack(text)
    weights.write(self.model, i, at, text:sub(from))
  end,
  [kinds.numbers] = function(self, text)
    begin_trained(self)
    local at, from = ("<I8"):unpack(text)
    weights.set(self.model, at, text:sub(from))
  end,
  [kinds.difference] = function(self, text)
    local at, n, from = ("<I8I4"):unpack(text)
    weights.apply(self.model, at, n, text:sub(from))
  end,
  [kinds.version] = function(self)
    weights.changed(self.model)
    if self.is_ready then return end
    self.is_ready = true
    self.wire:send(kinds.ready, messages.encode {})
    say(self, "ready")
  end,
}

-- ---- tasks --------------------------------------------------------------------------------------

-- The trainer's questions wait behind what is held.
local function give_sign(self)
  local now = core.clock()
  if now - self.signed < SIGN then return end
  self.signed = now
  self.wire:send(kinds.pong, messages.encode {})
end

-- Looks at what has come while we sample; true: the task is not wanted any more.
local function look(self, id)
  if core.signal_count() > 0 then ends(STOPPED) end
  while self.held_bytes < HELD do
    local kind, text = self.wire:next()
    if kind == nil then return self.dropped[id] end
    if not kind or kind == kinds.over then -- what waits is not wanted either
      self.held, self.held_bytes = { { kind, text } }, #text
      return true
    end
    if kind == kinds.ping then
      self.wire:send(kinds.pong, messages.encode {})
    elseif kind == kinds.drop then
      local t = messages.read(text, { id = "integer" })
      if t then self.dropped[t.id] = true end
    else -- it comes after this task
      self.held[#self.held + 1] = { kind, text }
      self.held_bytes = self.held_bytes + #text
    end
  end
  give_sign(self)
  return self.dropped[id]
end

local function engine_for(self, sizes)
  local key = messages.encode(sizes)
  if self.engine and self.engine_key == key then return self.engine end
  if self.engine then self.engine:close() end
  self.engine = nil
  self.engine = core.engine { model = self.model, tokenizer = self.tokenizer, examples = false,
    reuse_rollout = false, prompts_per_step = sizes.prompts_per_step,
    group_size = sizes.group_size, max_prompt_tokens = sizes.max_prompt_tokens,
    max_new_tokens = sizes.max_new_tokens }
  self.engine_key = key
  return self.engine
end

local function lists(packed, n)
  local result = {}
  for i = 1, n do result[i] = packed[i] and messages.unpack_ids(packed[i]) or false end
  return result
end

local function sample(self, task)
  local engine, n = engine_for(self, task.sizes), #task.prompts
  return engine:rollout({ prompts = lists(task.prompts, n), index = task.index,
    targets = task.targets and lists(task.targets, n), n = task.n, first = task.first,
    sampling = task.sampling, seed = task.seed, step = task.step, stream = task.stream },
    function() return look(self, task.id) end)
end

local function do_task(self, text)
  local task = messages.read(text, { id = "integer", prompts = "table", n = "integer",
    first = "integer", sampling = "table", seed = "integer", step = "integer", stream = "string",
    sizes = "table" })
  if not task then ends("refused", "what listens there is no trainer of this version") end
  if self.dropped[task.id] then return end
  local started = core.clock()
  local ok, batch = pcall(sample, self, task)
  local seconds = core.clock() - started
  if not ok and type(batch) == "table" and batch.session then error(batch, 0) end
  if not ok and core.signal_count() > 0 then ends(STOPPED) end
  if not ok then
    self.wire:send(kinds.failed, messages.encode { id = task.id, why = tostring(batch) })
    say(self, "a task failed: %s", tostring(batch))
  elseif batch then
    self.wire:send(kinds.result, ("<I8d"):pack(task.id, seconds) .. batch:bytes())
    self.completions = self.completions + #batch
    self.seconds = self.seconds + seconds
  end
end

-- ---- a session ----------------------------------------------------------------------------------

local function session(self)
  self.held, self.held_bytes, self.dropped, self.signed = {}, 0, {}, 0.0
  make_model(self, shake_hands(self))
  while true do
    local kind, text = receive(self)
    if load[kind] then
      load[kind](self, text)
    elseif kind == kinds.task and self.is_ready then
      do_task(self, text)
    else
      ends("refused", "what listens there is no trainer of this version")
    end
  end
end

-- Connects, trying again for options.wait seconds from `since` on.
local function connect(self, since)
  while true do
    local wire, message, code = core.messages.connect(self.host, self.port, CONNECT)
    if wire then return wire end
    if core.signal_count() > 0 then ends(STOPPED) end
    if core.clock() - since >= self.options.wait then
      fail(code, "%s; start the trainer first, or wait for it with --wait", message)
    end
    core.process.sleep(AGAIN)
  end
end

local function close(self)
  if self.wire then self.wire:close() end
  if self.engine then self.engine:close() end
  self.wire, self.engine, self.model, self.is_ready = nil, nil, nil, nil
  collectgarbage()
end

-- One connection from its beginning to its end: how it ended ("over", "refused", GONE, DROPPED,
-- STOPPED) and why.
local function one_session(self, since)
  local ok, err = pcall(function()
    self.wire = connect(self, since)
    session(self)
  end)
  close(self)
  if ok or type(err) ~= "table" or not err.session then error(err, 0) end
  return err.session, err.why
end

-- options: { connect = "HOST:PORT", token_file=, model=, wait = seconds, quiet= }
-- Returns the exit status.
function client.run(options)
  local host, port = messages.address(options.connect)
  if not host or port == 0 then
    fail("EARG", "--connect: got %q, want HOST:PORT, as the trainer shows it", options.connect)
  end
  local self = setmetatable({ options = options, host = host, port = port, completions = 0,
    seconds = 0.0, token = messages.token(options.token_file, "--token-file") }, Client)
  local since = core.clock()
  while true do
    local how, why = one_session(self, since)
    if how == STOPPED then return nil end
    if how == "refused" then fail("EARG", "%s refused us: %s", options.connect, why) end
    local dropped = how == "over" and why ~= "the run is over"
      or how == DROPPED and options.wait == 0
    if dropped then
      fail("ELIMIT", "%s dropped us: %s", options.connect, why)
    end
    if how == "over" then
      say(self, "%s; %d completions in %.1f s", why, self.completions, self.seconds)
      return 0
    end
    if options.wait == 0 then
      fail("EIO", "the trainer at %s has gone, or has dropped us: %s", options.connect, why)
    end
    if how == DROPPED then
      say(self, "the trainer has dropped us: %s; joining again", why)
    else
      say(self, "the trainer has gone; waiting for it for %g s", options.wait)
    end
    since = core.clock()
  end
end

return client
