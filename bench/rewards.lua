-- bench/rewards.lua - the four GSM8K rewards on completions of 300 bytes, through the same calls as
-- in a step: protected, limited, one random stream each.  One core.  Run by bench/rewards.

local core = require "grpo.core"
local gsm8k = require "rewards.gsm8k"
local scoring = require "grpo.scoring.scoring"
local rollout = require "grpo.scoring.rollout"

local COUNT, BYTES, ROUNDS = 10000, 300, 5
local limits = { instructions = 5e7, memory = 64 * 2 ^ 20, seconds = 5 }

local entries = scoring.entries({ correct = gsm8k.correct, integer = gsm8k.integer,
  layout = gsm8k.layout, nothing_after = gsm8k.nothing_after })

-- Completions as a model in training writes them: most in the layout, some not; reasoning fills
-- them up to 300 bytes.
local function completions()
  local cs, row = {}, { answer = "so it is\n#### 1,234" }
  for i = 1, COUNT do
    local head, tail = "<thinking>\n", ("\n</thinking>\n<answer>\n%d\n</answer>\n")
      :format(i % 3 == 0 and 1234 or i)
    if i % 5 == 0 then tail = "\nThe answer is " .. i end
    local body = ("First we add %d and %d, which makes %d. "):format(i, i + 1, 2 * i + 1):rep(10)
    local text = head .. body:sub(1, BYTES - #head - #tail) .. tail
    cs[i] = rollout.made({ text = text, row = row, number = i, index = 1 }, 0)
  end
  return cs
end

local cs, rates = completions(), {}
for round = 1, ROUNDS do
  for _, c in ipairs(cs) do c.rewards = {} end
  local started = os.clock()
  scoring.score(entries, cs, limits, "stop")
  rates[round] = COUNT / (os.clock() - started)
end
table.sort(rates)
local sums = {}
for _, entry in ipairs(entries) do
  local sum = 0
  for _, c in ipairs(cs) do sum = sum + c.rewards[entry.name] end
  sums[#sums + 1] = ("%s %.3f"):format(entry.name, sum / COUNT)
end
print(("%d completions of %d bytes, four rewards each (means: %s)")
  :format(COUNT, BYTES, table.concat(sums, ", ")))
print(("%.0f completions a second of processor time (median of %d; %.0f to %.0f), %s"):format(
  rates[(ROUNDS + 1) // 2], ROUNDS, rates[1], rates[ROUNDS], core.version().kernels))
