#!/usr/bin/env bash
# Latent attention in runs: experiments/latent.lua, small and short, with either attention; generate, chat, export; GRPO that
# is killed and resumed.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

latent() { timeout 120 "$GRPO" run "$root/experiments/latent.lua" --arg size=tiny --arg steps=20 "$@" </dev/null; }

problem=$(latent --dir one --arg attention=ordinary 2>err >out || cat err)
result "ordinary attention trains" "$problem$(grep -q 'ordinary attention after 20 steps: .*cache of 512 bytes' err || show err)"
problem=$(latent --dir one --arg attention=latent --arg against=one/latent-ordinary-001 2>err >out || cat err)
result "latent attention trains, and is compared with it" "$problem$(
  grep -q 'latent attention after 20 steps: .*cache of 160 bytes.* % here), cache of 512 bytes a token$' err || show err)"

# refused MESSAGE ARGUMENT... : said before anything is trained or written
refused() {
  local message=$1 status; shift
  latent --dir bad "$@" >out 2>err; status=$?
  result "refused: $*" "$(grep -q "^grpo: .*$message" err && [ $status = 2 ] && [ ! -e bad ] || { echo "exit $status"; cat err; })"
}
refused "steps: want a whole number of at least 0" --arg steps=1.5
refused "batch_size: want a whole number of at least 1" --arg batch_size=2.5
refused "window: want a whole number of at least 2" --arg window=0
refused "against=no/such-run: " --arg against=no/such-run
refused "text=/: cannot be read" --arg text=/

model=one/latent-latent-001
problem=$(timeout 60 "$GRPO" generate $model "Tom" --max-new-tokens 8 </dev/null 2>err >out || cat err)
result "generate continues with it" "$problem$([ -s out ] || echo 'nothing')"
problem=$(echo "Tom" | timeout 60 "$GRPO" chat $model --max-new-tokens 8 2>err >out || cat err)
result "so does chat" "$problem$([ -s out ] || echo 'nothing')"
timeout 120 "$GRPO" check "$root/experiments/latent.lua" --arg size=tiny >out 2>&1 </dev/null
result "check says what the cache takes" "$(grep -q '^key/value cache: 160 bytes a token (640 if' out || show out)"

write_experiment exp.lua '{ tokenizer = grpo.tokenizer.chars("0123456789+="), config = { model_type = "gpt2_mla",
  n_embd = 32, n_layer = 2, n_head = 2, n_positions = 32, q_lora_rank = 16, kv_lora_rank = 12, qk_nope_head_dim = 16,
  qk_rope_head_dim = 8, v_head_dim = 16 } }'
timeout 120 "$GRPO" run exp.lua --quiet --dir whole >/dev/null 2>err </dev/null
result "GRPO trains it, the ratio of each first iteration being 1" "$([ -s whole/exp-001/metrics.jsonl ] || show err)"
killed "a run that was killed within a step" killed KILL_ROLLOUT=8
finish
