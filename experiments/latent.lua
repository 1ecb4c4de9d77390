-- experiments/latent.lua
--
-- Question: how much held-out loss does latent attention cost, at equal parameters and steps, and
-- how much memory does it save?
--
--   grpo run experiments/latent.lua --arg attention=ordinary [--arg text=FILE]
--   grpo run experiments/latent.lua --arg attention=latent   [--arg text=FILE] [--arg against=RUN]
--
-- With the first run as RUN (runs/latent-ordinary-001) the second run compares, at each evaluation,
-- its held-out loss with the first one's at the same step, and the bytes per token of both caches.
-- Both runs see the same windows in the same order.
--
--   size=char   6 layers of 384: configs/models/gpt2-char.json and gpt2-mla.json
--   size=small  4 layers of 128          size=tiny  2 layers of 32
--   steps, window=64 characters, batch_size=8 windows, lr, seed
--
-- Without a text word problems are generated, so nothing is downloaded. The first nine tenths of a
-- text are trained on, the last tenth is held out. Measured results: experiments/latent.md

local grpo     = require "grpo"
local schedule = require "grpo.schedule"
local wordmath = require "tasks.wordmath"

local given = {}
for name, value in pairs(grpo.args) do given[name] = value end

local function arg(name, default)
  local value = given[name]
  given[name] = nil
  if value == nil or type(default) ~= "number" then return value or default end
  return tonumber(value) or error(("--arg %s=%s: want a number"):format(name, value), 0)
end

local function whole(name, default, least)
  local n = math.tointeger(arg(name, default))
  if n and n >= least then return n end
  error(("--arg %s: want a whole number of at least %d"):format(name, least), 0)
end

local attention = arg("attention", "latent")
local size      = arg("size", "char")
local steps     = whole("steps", size == "char" and 3000 or size == "small" and 1000 or 40, 0)
local window    = whole("window", 64, 2)
local batch     = whole("batch_size", 8, 1)
local lr        = arg("lr", ({ char = 1e-3, small = 2e-3, tiny = 3e-3 })[size] or 1e-3)
local seed      = whole("seed", 0, 0)
local path      = arg("text")
local against   = arg("against")

-- 1. Two models with equal numbers of parameters: the MLP gets those that latent attention saves.
-- --

local shapes = {
  char  = { ordinary = "configs/models/gpt2-char.json", latent = "configs/models/gpt2-mla.json" },
  small = { layers = 4, hidden = 128, heads = 4, q_rank = 64, kv_rank = 48, rope = 16 },
  tiny  = { layers = 2, hidden = 32, heads = 2, q_rank = 16, kv_rank = 12, rope = 8 },
}

local function ordinary(s)
  return {
    model_type = "gpt2", n_layer = s.layers, n_embd = s.hidden, n_head = s.heads,
    n_positions = 256,
  }
end

local function latent(s)
  local n, h, d = s.hidden, s.heads, s.hidden // s.heads
  local plain = 4 * n * n + 4 * n
  local own = n * s.q_rank + s.q_rank + s.q_rank * h * (d + s.rope) -- queries
    + n * (s.kv_rank + s.rope) + s.kv_rank + s.kv_rank * h * 2 * d -- keys and values
    + h * d * n + n -- the output
  local wider = (plain - own) / (2 * n + 1)
  return {
    model_type = "gpt2_mla", n_layer = s.layers, n_embd = n, n_head = h, n_positions = 256,
    n_inner = 4 * n + math.floor(wider + 0.5), q_lora_rank = s.q_rank, kv_lora_rank = s.kv_rank,
    qk_nope_head_dim = d, qk_rope_head_dim = s.rope, v_head_dim = d,
  }
end

local shape = shapes[size] or error(("--arg size=%s: want char, small or tiny"):format(size), 0)
if attention ~= "ordinary" and attention ~= "latent" then
  error(("--arg attention=%s: want ordinary or latent"):format(attention), 0)
end
local config = shape[attention] or (attention == "latent" and latent(shape) or ordinary(shape))

-- 2. The text. ------------------------------------------------------------------------------------

local HELD_OUT = 0.9 -- from here on

local function generated()
  local rows, parts = wordmath.dataset { seed = 1, n = 2000 }, {}
  for i = 1, 2000 do parts[i] = rows[i].question .. "\n" .. rows[i].answer .. "\n\n" end
  return table.concat(parts)
end

local text
if path then
  local file, message = io.open(path, "rb")
  if not file then error("--arg text: " .. message, 0) end
  text = file:read "a" or error("--arg text=" .. path .. ": cannot be read; is it a file?", 0)
  file:close()
else
  io.stderr:write("latent: no --arg text=FILE, so word problems are generated\n")
  text = generated()
end

-- Windows of the text, as grpo.data.text makes them of a file.
local function windows(from, to, stride)
  if path then
    return grpo.data.text(path, {
      window = window, prompt = 1, stride = stride, from = from, to = to,
    })
  end
  local rows, part = {}, text:sub(math.floor(from * #text) + 1, math.floor(to * #text))
  for at = 1, #part - window + 1, stride do
    rows[#rows + 1] = { prompt = part:sub(at, at), target = part:sub(at + 1, at + window - 1),
      text = part:sub(at, at + window - 1) }
  end
  return grpo.data.list(rows)
end

-- 3. Comparing. -----------------------------------------------------------------------------------

-- Returns the held-out losses of the other run, by step, and the bytes per token of its cache.
local function read_other(run)
  local losses, cache = {}, nil
  local file, message = io.open(run .. "/eval.jsonl")
  if not file then error(("--arg against=%s: %s"):format(run, message), 0) end
  for line in file:lines() do
    local report = grpo.json.decode(line)
    losses[report.step] = report["eval/loss"]
  end
  file:close()
  for line in io.lines(run .. "/run.log") do
    cache = cache or line:match "cache of (%d+) bytes a token"
  end
  return losses, tonumber(cache)
end

local losses, other
if against then losses, other = read_other(against) end

local function on_eval(report, tr)
  local loss, bytes = report["eval/loss"], tr.model:cache_bytes_per_token()
  local line = ("%s attention after %d steps: held-out loss %.4f, cache of %d bytes a token, "
    .. "%d parameters"):format(attention, tr.step_count, loss, bytes, tr.model:count())
  if against then
    local base = losses[tr.step_count]
    if base then
      line = line .. ("; %s: held-out loss %.4f (%+.2f %% here), cache of %s bytes a token")
        :format(against, base, 100 * (loss / base - 1), other or "?")
    end
  end
  tr:print(line)
  tr:log_text("latent", line)
end

local unknown = next(given)
if unknown then error(("--arg %s: unknown; see the head of the script"):format(unknown), 0) end

return grpo.experiment {
  name       = "latent-" .. attention,
  seed       = seed,
  model      = { config = config, tokenizer = grpo.tokenizer.chars(text, { special = false }) },
  data       = {
    target = function(row) return row.target end,
    eval   = windows(HELD_OUT, 1, window),
    max_prompt_tokens = 1,
  },
  sampling   = { max_new_tokens = window - 1 },
  eval       = { every = math.max(1, steps // 5) },
  log        = { every = math.max(1, steps // 50) },
  checkpoint = { every = math.max(1, steps // 2) },
  stages     = { {
    kind  = "sft",
    data  = { train = windows(0, HELD_OUT, path and 1 or math.max(1, window // 4)) },
    train = {
      steps = steps, prompts_per_step = batch, kl = 0,
      lr = schedule.cosine { peak = lr, warmup = math.min(100, steps // 4), final = lr / 10 },
      optimizer = { beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1 },
    },
  } },
  hooks      = { on_eval = on_eval },
}
