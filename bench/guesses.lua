-- bench/guesses.lua - decoding of 1, 8 and 32 sequences of real text, by processor time.
--
--   MODEL=SmolLM2-135M-Instruct.Q4_1.gguf COMPUTE=bf16 ./grpo repl <bench/guesses.lua
--
-- To compare with decoding without guesses, build once with `return 0` in draft_rows
-- (src/model/decode_draft.c).  The sums of ids and log-probabilities are the same.

package.path = "experiments/?.lua;" .. package.path
local grpo = require "grpo"
local toolcalls = require "tasks.toolcalls"

local model = grpo.model.load(os.getenv "MODEL",
  { compute = os.getenv "COMPUTE" or "bf16", dtype = "auto" })
local rows, prompts = toolcalls.dataset { split = "train", seed = 3, n = 64 }, {}
for i = 1, 16 do
  local text = ""
  for _, m in ipairs(toolcalls.messages(rows[i])) do
    text = text .. ("<|im_start|>%s\n%s<|im_end|>\n"):format(m.role, m.content)
  end
  prompts[i] = text .. "<|im_start|>assistant\n"
end

-- Returns tokens, their sum and seconds of `times` calls: n completions of `count` prompts each.
local function generate(count, n, times, new)
  local tokens, sum, started = 0, 0, os.clock()
  for k = 1, times do
    local some = {}
    for i = 1, count do some[i] = prompts[(k * count + i) % #prompts + 1] end
    local out = model:generate(some, { n = n, max_new_tokens = new, temperature = 0.8, seed = k })
    for _, s in ipairs(out) do
      tokens = tokens + #s.ids
      for t, id in ipairs(s.ids) do
        sum = (sum * 31 + id + math.floor(s.logprobs[t] * 1e6)) % 1000000007
      end
    end
  end
  return tokens, sum, os.clock() - started
end

for _, case in ipairs { { 1, 1, 8 }, { 1, 8, 4 }, { 4, 8, 2 } } do
  local count, n, times = table.unpack(case)
  local tokens, sum, seconds = generate(count, n, times, 48)
  local first, _, prefill = generate(count, n, times, 1)
  print(("%2d sequences: %d tokens (sum %d), %.0f a second of decoding"):format(count * n, tokens,
    sum, (tokens - first) / (seconds - prefill)))
end
