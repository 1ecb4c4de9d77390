-- Completions as reward functions and hooks see them: the table `c` of the documentation.

local core = require "grpo.core"
local prompts = require "grpo.scoring.prompts"
local ranks = require "grpo.base.ranks"
local turns = require "grpo.scoring.turns"

local rollout = {}

-- The options of engine:rollout (engine:replace has the prompts apart) for prompts of a list, n
-- completions each.
function rollout.options(config, list, n, context, stream, sampling)
  local o = { index = {}, n = n, sampling = sampling or config.sampling, seed = config.seed,
    step = context.step, stream = stream }
  local ids = {}
  for i, prompt in ipairs(list) do ids[i], o.index[i] = prompt.ids, prompt.number end
  o.targets = prompts.targets(list, o.sampling.max_new_tokens)
  if turns.wanted(config) then turns.options(config, list, n, context, o) end
  return o, ids
end

-- Samples completions of the prompts of a list, with the options of rollout.options; with slots,
-- those groups of the batch `record` again.  Returns the batch.
function rollout.sample(tr, list, options, ids, record, slots)
  if record then
    tr.engine:replace(record, slots, ids, options)
  else
    options.prompts = ids
    record = tr.engine:rollout(options)
  end
  if options.on_turn then ranks.share_episodes(list) end
  return record
end

-- Builds the tables `c` of the group that belongs to the prompt list[slot]: completions
-- (slot-1)*n+1 .. slot*n of the engine's batch, and number before+1 .. before+n of the prompt.
-- context: { seed=, step=, tokens_seen=, state=, tokenizer=, held_out= }
function rollout.completions(batch, list, n, slot, context, before)
  local group, prompt = {}, list[slot]
  before = before or 0
  for k = 1, n do
    local i = (slot - 1) * n + k
    local finish = batch:finish(i)
    group[k] = {
      text = batch:text(i), prompt = prompt.text, plain_prompt = prompt.given,
      messages = prompt.messages, row = prompt.row,
      ids = batch:ids(i), length = batch:length(i), finish = finish, truncated = finish == "length",
      target_ids = prompt.target, target_logprobs = prompt.target and batch:target_logprobs(i),
      logprobs = batch:logprobs(i), prompt_index = slot, index = before + k, group = group,
      tokenizer = context.tokenizer, step = context.step, tokens_seen = context.tokens_seen,
      state = context.state, rewards = {},
      rng = core.rng(context.seed, "reward", context.step, prompt.number, before + k),
    }
    if prompt.episodes then turns.attach(group[k], batch, i, prompt, k, context.tokenizer) end
  end
  return group
end

-- The whole batch as one list, groups in prompt order.  before: see rollout.completions.
function rollout.all(batch, list, n, context, before)
  local cs = {}
  for slot = 1, #list do
    local group = rollout.completions(batch, list, n, slot, context, before)
    table.move(group, 1, #group, #cs + 1, cs)
  end
  return cs
end

-- A read-only view of tr.state for rewards.
function rollout.read_only(state)
  return setmetatable({}, {
    __index = state,
    __newindex = function() error("c.state is read-only here; change tr.state in a hook", 2) end,
    __pairs = function() return pairs(state) end,
    __len = function() return #state end,
  })
end

-- A completion that no engine made, for rewards: `fields` over defaults.  It is a group of its own
-- unless fields.group.
function rollout.made(fields, seed)
  local c = { prompt = "", ids = {}, logprobs = {}, length = 0, finish = "eos", index = 1, step = 0,
    tokens_seen = 0, state = rollout.read_only({}), rewards = {} }
  for name, value in pairs(fields) do c[name] = value end
  c.truncated = c.finish == "length"
  c.parts = c.parts or turns.single(c.text)
  c.group = c.group or { c }
  c.rng = core.rng(seed or 0, "reward", c.step, fields.number or 0, c.index)
  return c
end

return rollout
