-- The messages of a trainer and its workers: their kinds, how they are written and read, and how
-- each side shows that it knows the token.  docs/workers.md has the whole of it.
--
-- A message is a kind and bytes (core.messages).  Most have a table (core.state_encode); those with
-- weights and completions begin with numbers, and the rest is binary.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local messages = {}

messages.PROTOCOL = 2
messages.SHORT = 4096 -- the longest message of who has not shown the token yet
messages.PIECE = 1 << 20 -- bytes of weights in a message
messages.LONG = 256 << 20 -- the longest message that a worker takes

messages.kinds = {
  hello = 1, -- trainer: { protocol, nonce }
  join = 2, -- worker: { protocol, nonce, facts, has_base, proof }
  refused = 3, -- trainer: { why }; the connection ends
  welcome = 4, -- trainer: { proof }
  model = 17, -- trainer: what to make a model of (Shipping:describe)
  param = 5, -- trainer: number of a parameter, first byte, bytes
  numbers = 6, -- trainer: number of the first trained weight, weights
  difference = 7, -- trainer: number of the first, how many, differences (float_delta.h)
  version = 8, -- trainer: { version }; the weights are whole
  ready = 9, -- worker: {}; it takes tasks
  task = 10, -- trainer: { id, prompts, ... }
  result = 11, -- worker: id, seconds, completions (completion_bytes.h)
  failed = 12, -- worker: { id, why }
  drop = 13, -- trainer: { id }; the task is not wanted any more
  ping = 14, pong = 15, -- trainer: {}; worker: {}
  over = 16, -- either: { why }; the connection ends
}

-- ---- tables ----------------------------------------------------------------------------------

function messages.encode(t)
  return core.state_encode(t, "message")
end

-- The table of a message whose fields have these types; a "?" behind a type: it may be missing.
-- nil: it is another one.
function messages.read(text, fields)
  local ok, t = pcall(core.state_decode, text)
  if not ok or type(t) ~= "table" then return nil end
  for name, kind in pairs(fields) do
    local v, wanted = t[name], kind:gsub("%?$", "")
    local given = math.type(v) == "integer" and "integer" or type(v)
    if given ~= wanted and not (v == nil and wanted ~= kind) then return nil end
  end
  return t
end

-- ---- files ------------------------------------------------------------------------------------

-- Returns what f(directory) returns, with a fresh directory that is removed afterwards.
function messages.with_directory(f)
  local dir = ("%s/grpo-%s"):format(os.getenv("TMPDIR") or "/tmp",
    core.messages.hmac("", messages.nonce()):sub(1, 24))
  errors.must(core.fs.mkdirs(dir))
  local ok, result = pcall(f, dir)
  core.fs.remove_tree(dir)
  if not ok then error(result, 0) end
  return result
end

-- ---- lists of tokens -------------------------------------------------------------------------

local AT_A_TIME = 128

function messages.pack_ids(ids)
  local parts = {}
  for first = 1, #ids, AT_A_TIME do
    local last = math.min(first + AT_A_TIME - 1, #ids)
    parts[#parts + 1] = ("<" .. ("i4"):rep(last - first + 1)):pack(table.unpack(ids, first, last))
  end
  return table.concat(parts)
end

-- nil: the text has no ids.
function messages.unpack_ids(text)
  if type(text) ~= "string" or #text % 4 ~= 0 then return nil end
  local ids = {}
  for at = 1, #text, 4 do ids[#ids + 1] = ("<i4"):unpack(text, at) end
  return ids
end

-- ---- the token -------------------------------------------------------------------------------

local SHORTEST_TOKEN = 16

-- The secret in a file, or else in GRPO_WORKER_TOKEN; it is never shown.  `where` names the option
-- or flag for the file.
function messages.token(file, where)
  local token, source = os.getenv("GRPO_WORKER_TOKEN"), "GRPO_WORKER_TOKEN"
  if file then
    local message, code
    token, message, code = core.fs.read(file)
    if not token then errors.raise_plain(code or "ENOENT", "%s: %s", where, message) end
    source = where .. ": " .. file
  end
  token = token and token:gsub("%s+$", "")
  if not token then
    errors.raise_plain("EARG", "%s: missing, and so is GRPO_WORKER_TOKEN; a trainer and its "
      .. "workers share a secret, for instance the line that 'openssl rand -hex 32' prints", where)
  end
  if #token < SHORTEST_TOKEN then
    errors.raise_plain("EARG", "%s has %d bytes, want %d or more, because a short one can be "
      .. "guessed", source, #token, SHORTEST_TOKEN)
  end
  return token
end

function messages.nonce()
  return core.messages.random(32)
end

-- Shows that `role` ("worker" or "trainer") knows the token, for these two nonces and facts.
function messages.proof(token, role, worker_nonce, trainer_nonce, facts)
  return core.messages.hmac(token, messages.encode { role = role, worker = worker_nonce,
    trainer = trainer_nonce, facts = facts or {} })
end

function messages.is_proof(given, wanted)
  return type(given) == "string" and core.messages.same(given, wanted)
end

-- ---- what bits depend on ---------------------------------------------------------------------

local phrases = {
  version = { "it is grpo %s and %s is %s", "install the same version" },
  commit = { "it was built from %s and %s from %s", "build both from the same source" },
  program = { "its program has %s and that of %s has %s", "start the same build on both" },
  lua = { "its Lua files are %s and those of %s are %s", "set GRPO_LUA to the same for both" },
  kernels = { "its kernels are %s and those of %s are %s",
    "set GRPO_CPU to the same class for both" },
  blas = { "its OpenBLAS is %s and that of %s is %s", "use the same one for both" },
  libc = { "its C library is %s and that of %s is %s",
    "use the same system, or container, for both" },
}
local order = { "version", "commit", "program", "lua", "kernels", "blas", "libc" }

-- Returns the facts that two processes must have in common to compute the same bits.
function messages.facts()
  local v = core.version()
  return { version = v.version, commit = v.commit, kernels = v.kernels, libc = v.libc,
    blas = v.kernels == "blas" and v.blas or "not used" }
end

-- Why the facts of another process do not fit those of `whom`; nil: they do.
function messages.other_facts(theirs, ours, whom)
  for _, name in ipairs(order) do
    if theirs[name] ~= ours[name] then
      local what = phrases[name][1]:format(tostring(theirs[name]):sub(1, 60), whom, ours[name])
      return ("%s, so its bits could differ; %s"):format(what, phrases[name][2])
    end
  end
end

-- ---- addresses -------------------------------------------------------------------------------

-- "HOST:PORT" or "[HOST]:PORT" as host and port; nil: it is neither.
function messages.address(text)
  local host, port = text:match("^%[([%x:.]+)%]:(%d+)$")
  if not host then host, port = text:match("^([^:%s]+):(%d+)$") end
  port = tonumber(port)
  if host and port <= 65535 then return host, port end
end

return messages
