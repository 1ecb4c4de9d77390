#!/usr/bin/env bash
# The memory that two ranks are said to need is what each of them takes.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"

cat >exp.lua <<'LUA'
local core = require "grpo.core"
local grpo = require "grpo"
local before = core.mem().live
return grpo.experiment {
  model = { config = { model_type = "llama", hidden_size = 256, intermediate_size = 688,
    num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2,
    max_position_embeddings = 64 }, tokenizer = grpo.tokenizer.chars("0123456789+=") },
  data = { train = grpo.data.list { { prompt = "1+1=" }, { prompt = "1+2=" } },
    max_prompt_tokens = 8 },
  sampling = { group_size = 2, max_new_tokens = 8 },
  rewards = { { name = "length", fn = function(text, _, c) return #text + c.rng() end } },
  train = { steps = 2, prompts_per_step = 8, lr = 1e-3 },
  hooks = { on_step = function(_, tr)
    local file <close> = io.open("figure." .. core.ranks(), "w")
    file:write(("%d %d\n"):format(tr.engine:estimate().total, core.mem().live - before))
  end },
}
LUA

for kind in openmpi mpich; do
  if ! has $kind; then result "$kind: # SKIP its mpirun or its header is not here"; continue; fi
  rm -f figure.*
  ranks 2 "$GRPO" run exp.lua --quiet --dir $kind --threads 1 >out 2>err
  result "$kind: what a rank takes is within half a percent of what is said" "$(
    [ "$(cat figure.0 figure.1 | awk '{ d = ($1 - $2) / $2; if (d < 0) d = -d; n += d <= 0.005 } END { print n }')" = 2 ] || show figure.0 figure.1 err)"
done
finish
