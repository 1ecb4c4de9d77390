-- Any messages from any worker to a trainer: each is taken, or the worker goes with one line; the
-- trainer lives, and only who has shown the token is sent the model.
--
-- Input: a byte that is the state of the worker at first, then messages: kind, 16-bit length,
-- bytes.
local core = require "grpo.core"
local messages = require "grpo.workers.messages"
local pool = require "grpo.workers.pool"

local kinds, TOKEN = messages.kinds, "the token of this test"
local tokenizer = core.tokenizer_bytes and core.tokenizer_bytes()
local model = core.model_new({ model_type = "llama", vocab_size = 20, hidden_size = 8,
  intermediate_size = 8, num_hidden_layers = 1, num_attention_heads = 1,
  max_position_embeddings = 16 }, {})

local function cut(input)
  local list, at = {}, 2
  while at + 2 <= #input do
    local kind, n = input:byte(at), (input:byte(at + 1) << 8 | input:byte(at + 2)) % 4096
    list[#list + 1] = { kind, input:sub(at + 3, at + 2 + n) }
    at = at + 3 + n
  end
  return list
end

-- A connection that has these messages, and remembers what it was sent.
local function wire_of(list)
  local wire = { sent_kinds = {}, at = 0 }
  function wire.next()
    wire.at = wire.at + 1
    local m = list[wire.at]
    if m then return m[1], m[2] end
    if wire.at > #list + 1 then return false, "the connection has ended" end
  end
  function wire.send(_, kind) wire.sent_kinds[kind] = true end
  function wire.limit() end
  function wire.waiting() return 0 end
  function wire.sent() return 0 end
  function wire.came() return wire.at end
  function wire.address() return "test:1" end
  function wire.close() wire.closed = true end
  return wire
end

local states = { "hello", "receiving", "ready" }

return function(input)
  local lines, wire = {}, wire_of(cut(input))
  local tr = { model = model, tokenizer = tokenizer or { save = function() end },
    settings = { model = {} }, view = { line = function(_, text) lines[#lines + 1] = text end } }
  local listener = { accept = function() end, close = function() end }
  local workers = pool.new(tr, { silence = 60.0, check = 0.0 }, TOKEN, listener, "test")
  local state = states[(input:byte(1) or 0) % 3 + 1]
  workers.peers[1] = { wire = wire, state = state, nonce = ("n"):rep(32), queue = {}, first = 1,
    tasks = {}, heard = core.clock(), opened = core.clock(), came = 0, sent = 0, behind = 0,
    name = state ~= "hello" and "a worker" or nil }
  local function ignore() end
  local share = { result = ignore, undo = ignore }
  for id = 0, 3 do
    workers.peers[1].tasks[id + 1] = { id = id, share = share, holders = {} }
  end
  for _ = 1, 4 do workers:serve() end
  assert(state ~= "hello" or not wire.sent_kinds[kinds.model], "the model went out without a proof")
  assert(#workers.peers == 0 and wire.closed, "a connection that has ended is still there")
  for _, line in ipairs(lines) do assert(not line:find("[%c]"), "a line has control characters") end
  workers:close()
end
