-- rewards/dense.lua - rewards for single tokens: constructors of token_fn that compare a completion
-- with its row's target (data.target).  There is no return-to-go.
--
--   rewards = {
--     { name = "match", token_fn = dense.match { mode = "signed" } },
--     { name = "partial", weight = 0.1, token_fn = dense.logprob { of = "reference" } },
--   }

local options = require "grpo.options"

--- Constructors of token_fn: one reward per token, from comparing a completion with its row's
--- data.target.
---@class rewards.dense
local dense = {}

-- Returns the target and the number of the completion's tokens that it covers.
local function target_of(c, who)
  local target = c.target_ids
  if not target then error(who .. ": the row has no target; set data.target", 0) end
  return target, math.min(c.length, #target)
end

--- 1 if the token equals the target's at its place, else 0, or -1 with mode = "signed"; 0 past the
--- target's end.
---@param opts? { mode: "match"|"signed" }
---@return fun(c: grpo.Completion): number[]
function dense.match(opts)
  opts = options.check(opts, {
    mode = { type = "string", default = "match", one_of = { "match", "signed" } },
  }, "dense.match")
  local miss = opts.mode == "signed" and -1 or 0
  return function(c)
    local target, n = target_of(c, "dense.match")
    local list = {}
    for t = 1, c.length do
      if t > n then
        list[t] = 0
      else
        list[t] = c.ids[t] == target[t] and 1 or miss
      end
    end
    return list
  end
end

--- The policy's log-probability, as a number, of the target's token at each place, or of the
--- sampled token.
---@param opts? { of: "reference"|"sampled" }
---@return fun(c: grpo.Completion): number[]
function dense.logprob(opts)
  opts = options.check(opts, {
    of = { type = "string", default = "reference", one_of = { "reference", "sampled" } },
  }, "dense.logprob")
  if opts.of == "sampled" then
    return function(c) return c.logprobs end
  end
  return function(c)
    target_of(c, "dense.logprob")
    local list = {} -- 0 past the target's end
    for t = 1, c.length do list[t] = c.target_logprobs[t] or 0 end
    return list
  end
end

--- The share of the target that was matched, 0 to 1: a reward for whole completions, or
--- eval.metric.
---@param text string
---@param row table
---@param c grpo.Completion
---@return number
function dense.share(_, _, c)
  local target, n = target_of(c, "dense.share")
  local matched = 0
  for t = 1, n do
    if c.ids[t] == target[t] then matched = matched + 1 end
  end
  return n > 0 and matched / n or 0
end

return dense
