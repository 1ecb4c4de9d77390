--- Ready samplers for the option data.sampler: curricula that everybody would write.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"

local samplers = {}

local TRIES = 10000 -- for one row; what is left then is taken as it comes

-- Returns n rows of 1..size, without repetition where n <= size; a row that comes up is taken with
-- the probability accept(row).
local function sampled(rng, n, size, accept)
  local list, taken = {}, {}
  for i = 1, n do
    local tries, row = 0
    repeat
      row, tries = math.floor(rng() * size) + 1, tries + 1
      local free = i > size or not taken[row]
    until free and rng() < accept(row) or tries == TRIES
    list[i], taken[row] = row, true
  end
  return list
end

-- How likely a row is to be taken at a pass rate, at most 1.
local weights = {
  failure = function(rate) return 1 - rate end,
  learnability = function(rate) return 4 * rate * (1 - rate) end,
}

local function clamped(x)
  return math.min(math.max(x, 0.0), 1.0)
end

--- Prefers rows by how often the policy passes them.  The pass rate of a row is the mean of the
--- entry `reward` (default: of the total reward), cut to 0..1; later visits count `pace`, and what
--- was known before 1 - pace.  prefer = "failure" takes a row with a probability proportional to
--- 1 - rate (Kimi k1.5, 2501.12599), "learnability" to rate (1 - rate) (Foster et al. 2025,
--- Learning to Reason at the Frontier of Learnability).  A row that was never seen counts as the
--- best one.  `floor` (ours) keeps rows alive whose weight would be 0.  Metrics: sampler/seen, the
--- share of the rows that were seen, and sampler/pass_rate, the mean over these.
function samplers.by_pass_rate(opts)
  local o = options.check(opts, {
    reward = { type = "string" },
    prefer = { default = "learnability", one_of = { "failure", "learnability" } },
    floor = { type = "number", default = 0.05, min = 0.001, max = 1 },
    pace = { type = "number", default = 0.5, min = 0.001, max = 1 },
  }, "samplers.by_pass_rate")
  local weight = weights[o.prefer]
  local self = {}

  function self.sample(_, p)
    local rates = p.state.rates or {}
    return sampled(p.rng, p.n, p.size, function(row)
      return rates[row] and math.max(o.floor, weight(rates[row])) or 1
    end)
  end

  local function rate_of(group)
    if not o.reward then return group.mean end
    local rate = (group.means or {})[o.reward]
    if rate == nil and group.means and next(group.means) then
      local names = {}
      for name in pairs(group.means) do names[#names + 1] = name end
      table.sort(names)
      errors.raise("EARG", "samplers.by_pass_rate: no reward '%s' applies, %s", o.reward,
        options.advice(o.reward, names))
    end
    return rate
  end

  function self.observe(_, p, groups)
    local state = p.state
    state.rates, state.seen, state.sum = state.rates or {}, state.seen or 0, state.sum or 0.0
    for _, group in ipairs(groups) do
      local rate, row = rate_of(group), group.index
      if rate and row then
        local before = state.rates[row]
        local now = clamped(rate)
        if before then now = before + o.pace * (now - before) else state.seen = state.seen + 1 end
        state.sum = state.sum + now - (before or 0.0)
        state.rates[row] = now
      end
    end
    return { seen = state.seen / p.size,
      pass_rate = state.seen > 0 and state.sum / state.seen or 0 }
  end
  return self
end

--- From easy rows to all of them: rows are sampled from the easiest share c of data.train, where c
--- grows over `over` (a share of the stage) from `from` to 1 as the root of the time does
--- (Platanios et al. 2019, Competence-based Curriculum Learning: its c for p = 2).
--- difficulty(row) -> number is called once for each row.  Metric: sampler/share, that is c.
function samplers.easy_to_hard(opts)
  local o = options.check(opts, {
    difficulty = { type = "function", required = true },
    from = { type = "number", default = 0.1, above = 0, max = 1 },
    over = { type = "number", default = 0.8, above = 0, max = 1 },
  }, "samplers.easy_to_hard")
  local self, order, of = {}, nil, nil

  -- The rows from the easiest to the hardest.  Rows that use math.random get numbers of their own,
  -- so that p.rng is where it was whether the order is known already or not.
  local function sorted(dataset, rng)
    if of == dataset then return order end
    local rank, list = {}, {}
    for i = 1, #dataset do
      core.reseed_math(core.rng(0, "user", 0, i, 5))
      local d = o.difficulty(dataset[i])
      if type(d) ~= "number" or d ~= d then
        errors.raise("EARG", "samplers.easy_to_hard: difficulty returned %s for row %d, want a "
          .. "number", tostring(d), i)
      end
      rank[i], list[i] = d, i
    end
    table.sort(list, function(a, b)
      if rank[a] ~= rank[b] then return rank[a] < rank[b] end
      return a < b
    end)
    core.reseed_math(rng)
    order, of = list, dataset
    return list
  end

  local function share(p)
    local time = math.min(1, p.fraction / o.over)
    return math.min(1, math.sqrt(time * (1 - o.from ^ 2) + o.from ^ 2))
  end

  function self.sample(_, p)
    local rows = sorted(p.dataset, p.rng)
    local size = math.min(#rows, math.max(p.n, math.ceil(share(p) * #rows)))
    local list = sampled(p.rng, p.n, size, function() return 1 end)
    for i, place in ipairs(list) do list[i] = rows[place] end
    return list
  end

  function self.observe(_, p)
    return { share = share(p) }
  end
  return self
end

return samplers
