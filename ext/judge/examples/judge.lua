-- examples/judge.lua - a judge that is a program: it reads questions and writes scores, a line of
-- JSON each.
--
--   grpo run ext/judge/examples/judge.lua
--
-- The program below is a text for the shell, so that the example is one file: it counts vowels.
-- Others are command = { "python3", "my_judge.py" }, a model (model = "path") or a server
-- (url = "http://..."): see ../README.md.  The answers are in runs/judge-001/judge.jsonl, and
-- `grpo replay judge-001 60` shows them beside the completions.

local grpo = require "grpo"

local count_vowels = [[
  while IFS= read -r line; do
    id=${line#*'"id": '}; id=${id%%[!0-9]*}
    text=${line#*'"completion": "'}; text=${text%%'"'*}
    rest=$text; vowels=0
    while [ "$rest" ]; do
      case $rest in [aeiou]*) vowels=$((vowels + 1)) ;; esac
      rest=${rest#?}
    done
    echo "{\"id\": $id, \"score\": $((vowels * 10 / (${#text} + 1)))e-1}"
  done
]]

local prompts = {}
for i = 1, 16 do prompts[i] = { prompt = string.char(96 + i) } end

return grpo.experiment {
  name = "judge",
  model = {
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64,
      num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 32 },
    tokenizer = grpo.tokenizer.chars("abcdefghijklmnopqrstuvwxyz"),
  },
  data = { train = grpo.data.list(prompts), max_prompt_tokens = 4 },
  rewards = { vowels = grpo.judge { command = count_vowels, timeout = 10, on_error = 0 } },
  sampling = { group_size = 8, max_new_tokens = 8 },
  train = { steps = 60, prompts_per_step = 4, lr = 3e-3 },
  log = { completions = 0 },
}
