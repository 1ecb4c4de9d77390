-- The cost of a step on n ranks, before it runs: seconds, bytes on the wire and memory of a rank.
-- docs/machines.md has the formula; src/model/gradient_tree.c does what is counted here.

local core = require "grpo.core"

local rank_cost = {}

rank_cost.LATENCY = 50e-6 -- seconds of a call of all ranks; short ones: for each doubling of n
rank_cost.MESSAGE = 5e-6 -- seconds that a rank needs for a message to one other
rank_cost.CALLS = 30 -- short calls of a step: numbers of completions and units, failures, signals
rank_cost.TOKEN = 12 -- bytes that ranks tell one another of a sampled token: id, two numbers

local TREE_BYTES = 512 * 2^20 -- GRADIENT_TREE_BYTES

local function log2_below(n)
  local k = 0
  while n >> (k + 1) > 0 do k = k + 1 end
  return k
end

-- The leaves of the tree that sums the gradients of a step.  numbers: how many are trained.
function rank_cost.leaves(numbers, groups, blocks)
  local fit = math.floor(TREE_BYTES / (4 * numbers))
  local most = blocks > 0 and blocks or fit >= log2_below(groups) and groups or 1 << fit
  local block = most < groups and (groups + most - 1) // most or 1
  return (groups + block - 1) // block
end

-- The sums that a rank has of the leaves first .. last - 1: the aligned subtrees that they make.
local function subtrees(first, last)
  local n = 0
  while first < last do
    local size = 1
    while first % (2 * size) == 0 and first + 2 * size <= last do size = 2 * size end
    first, n = first + size, n + 1
  end
  return n
end

-- The most and the sum of the ranks' sums, and the most leaves of a rank.
local function sums(leaves, n)
  local most, all, widest = 0, 0, 0
  for r = 0, n - 1 do
    local first, last = leaves * r // n, leaves * (r + 1) // n
    local k = subtrees(first, last)
    most, all, widest = math.max(most, k), all + k, math.max(widest, last - first)
  end
  return most, all, widest
end

-- The most sums that a rank of n holds at once: it takes memory for them.
local function waiting(s, n)
  return core.gradient_sums(s.numbers, s.fewest or s.groups, s.groups, s.blocks, n)
end

-- Messages of a rank when slices of `numbers` are exchanged in chunks (slices.c), and the calls.
local function exchanges(numbers, n)
  local chunk = math.min(math.max(2^20 // n, 2^10), 2^16)
  local calls = math.ceil(numbers / n / chunk)
  return calls * (n - 1), calls
end

-- s: { groups = number in a step, fewest = number in the smallest step (nil: all are alike),
--   blocks = train.gradient_blocks, numbers = how many weights are trained, tokens = how many all
--   ranks sample, divided = seconds of one rank in sampling, rewards, reference, forward and
--   backward, or seconds_of = function(groups) that gives them for a rank with that number of
--   groups, optimizer = seconds of the optimizer, updates = number in a step, memory = bytes of one
--   process, moments = bytes of the moments, link = Gbit/s in each direction }
-- Returns { compute =, wire =, seconds =, sent =, received =, memory = } of the rank with most.
function rank_cost.of(s, n)
  local bytes, updates = 4.0 * s.numbers, s.updates or 1
  local leaves = rank_cost.leaves(s.numbers, s.groups, s.blocks)
  local most, all, widest = sums(leaves, n)
  local alone = leaves == 1 -- one sum cannot be cut: every rank computes the whole update
  local share = math.min(1, widest / leaves)
  if alone then share = math.ceil(s.groups / n) / s.groups end
  local undivided = n > 1 and alone and s.update or 0.0
  local divided = s.seconds_of and s.seconds_of(math.ceil(share * s.groups))
    or (s.divided - undivided) * share + undivided
  local cost = { compute = divided + s.optimizer / n }
  local others = (n - 1) / n
  local sums_sent = alone and 0 or most * bytes * others
  local sums_got = alone and 0 or math.max(0, all - all / n) * bytes / n
  cost.sent = updates * (sums_sent + bytes * others) + s.tokens * rank_cost.TOKEN * others
  cost.received = updates * (sums_got + bytes * others) + s.tokens * rank_cost.TOKEN * others
  local messages, calls = exchanges(s.numbers, n)
  local wire = 8 * math.max(cost.sent, cost.received) / (s.link * 1e9)
  local steps = n > 1 and math.log(n, 2) or 0
  local rounds = alone and 1 or 1 + math.max(1, all / n)
  local of_messages = messages * rank_cost.MESSAGE + calls * rank_cost.LATENCY
  cost.wire = n == 1 and 0.0 or wire + updates * rounds * of_messages
    + rank_cost.CALLS * steps * rank_cost.LATENCY
  cost.seconds = cost.compute + cost.wire
  cost.memory = s.memory - s.moments * others + (waiting(s, n) - waiting(s, 1)) * bytes
  return cost
end

-- A size as text: "12.3 MB" (powers of ten, as links count).
function rank_cost.size_text(bytes)
  if bytes >= 1e9 then return ("%.2f GB"):format(bytes / 1e9) end
  if bytes >= 1e6 then return ("%.1f MB"):format(bytes / 1e6) end
  return ("%.1f kB"):format(bytes / 1e3)
end

return rank_cost
