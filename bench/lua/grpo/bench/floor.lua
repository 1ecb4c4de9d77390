-- The floor: the seconds of a step's arithmetic alone at the rates of this machine.
--
-- A row is a token that runs through the layers, a pair a query that meets a key, an output a row
-- of logits.  forward = 2 body rows + pair pairs + 2 head outputs (FLOPs; body, head: weights).
--
--                 shared prompt                            each completion behind its own
--   rows          prompts (P + G (N - 1))                  prompts G (P + N - 1)
--   pairs         prompts (P (P + 1) / 2                   prompts G T (T + 1) / 2, T = P + N - 1
--                   + G sum of P + i, i = 1 .. N - 1)
--   outputs       prompts G N                              the same
--
-- P: prompt tokens, G: group, N: new tokens; the N-th is never fed back, so it has no row.
-- reference = policy forward = forward.  backward = 2 forward, or 1 forward when only adapters are
-- trained (their own work is not counted).  generate = forward of the prompts with an output each,
-- then N - 1 steps of one row per sequence, each the longer of its FLOPs and of reading weights (in
-- their stored bytes), keys and values from memory once.  optimizer = 28 bytes per trained weight:
-- weight and two moments, read and written, and the gradient.  reward = 0.  In bf16 all FLOPs count
-- at the rate of bf16 products, also those of attention, whose backward pass is computed in f32.

local floor = {}

-- Returns the FLOPs of one forward pass; s: workloads.sizes.
local function forward(s, rows, pairs_, outputs)
  return 2.0 * s.body * rows + s.pair * pairs_ + 2.0 * s.head * outputs
end

local function triangle(n) return n * (n + 1) / 2 end

local function generate(w, s, rates, shared)
  local sequences, prefilled = w.prompts * w.group, shared and w.prompts or w.prompts * w.group
  local seconds = forward(s, prefilled * w.prompt, prefilled * triangle(w.prompt), prefilled)
    / rates.product
  for t = 1, w.new - 1 do
    local work = forward(s, sequences, sequences * (w.prompt + t), sequences)
    local bytes = s.body * rates.body_bytes + s.head * rates.head_bytes
      + s.kv * rates.kv_bytes * (prefilled * w.prompt + sequences * t)
    seconds = seconds + math.max(work / rates.product, bytes / rates.read)
  end
  return seconds
end

-- The bytes of a weight in the layers and in the output projection, by storage; int8 and NF4 leave
-- the output projection in bf16.
floor.bytes = { f32 = { 4.0, 4.0 }, bf16 = { 2.0, 2.0 }, int8 = { 1.0, 2.0 },
  nf4 = { 0.5 + 1 / 64, 2.0 } }

-- Returns the inputs of a floor from the measured rates { f32 =, bf16 = FLOPs per second, read =
-- bytes per second }, the type of products, and the storage of the weights; products in bf16 read
-- f32 weights as bf16.
function floor.rates(rates, compute, weights)
  local bytes = floor.bytes[compute == "bf16" and weights == "f32" and "bf16" or weights]
  return { product = rates[compute], read = rates.read, body_bytes = bytes[1],
    head_bytes = bytes[2], kv_bytes = compute == "bf16" and 2 or 4 }
end

-- w: a workload; s: its sizes; rates: floor.rates.  Returns seconds by phase, and their sum as
-- `step`.
function floor.of(w, s, rates, shared)
  local rows, met
  if shared then
    rows = w.prompts * (w.prompt + w.group * (w.new - 1))
    met = w.prompts
      * (triangle(w.prompt) + w.group * ((w.new - 1) * w.prompt + triangle(w.new - 1)))
  else
    rows = w.prompts * w.group * (w.prompt + w.new - 1)
    met = w.prompts * w.group * triangle(w.prompt + w.new - 1)
  end
  local one = forward(s, rows, met, w.prompts * w.group * w.new) / rates.product
  local f = { generate = generate(w, s, rates, shared), reference = one, reward = 0.0,
    forward = one, backward = (w.lora and 1 or 2) * one, optimizer = 28.0 * s.trained / rates.read }
  f.step = f.generate + f.reference + f.forward + f.backward + f.optimizer
  return f
end

-- Returns the seconds of a supervised step on rows of `tokens` targets.
function floor.sft(w, s, rates)
  local n, t = w.sft.rows, w.sft.tokens
  return (w.lora and 2 or 3) * forward(s, n * t, n * triangle(t), n * t) / rates.product
    + 28.0 * s.trained / rates.read
end

-- Returns the seconds of one decoding step of `sequences` at `position` keys each.
function floor.decode(s, rates, sequences, position)
  local cache = s.kv * rates.kv_bytes * sequences * position
  return math.max(forward(s, sequences, sequences * position, sequences) / rates.product,
    (s.body * rates.body_bytes + s.head * rates.head_bytes + cache) / rates.read)
end

return floor
