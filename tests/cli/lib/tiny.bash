# Sourced by the tests: TAP, a directory of its own, and an experiment that takes a second.  GRPO is the program.
# shellcheck shell=bash
set -u
# shellcheck disable=SC2034  # for the tests
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
: "${GRPO:=$root/grpo}"; export GRPO
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
# shellcheck source=tests/cli/lib/tap.bash
. "$root/tests/cli/lib/tap.bash"

# uncounted RUN : its run.json does not count the rows of its logs, as that of a run that was killed
uncounted() { sed -i -z -E 's/,\n  "crc32c": "[0-9a-f]{8}"//; s/\n  "log_lines": \{[^}]*\},//' "$1/run.json"; }

# unsummed RUN : its files get no checksums, so that a test may change them
unsummed() {
  uncounted "$1"
  sed -i -z -E 's/,\n  "crc32c": "[0-9a-f]{8}"//; s/\n  "sums": \{[^}]*\},//; s/\n  "run_log": \{[^}]*\},//' "$1/run.json"
  sed -i -E 's/, "crc32c": "[0-9a-f]{8}"\}$/}/' "$1"/*.jsonl
}

# check NAME COMMAND... : the command succeeds
check() {
  local name=$1 output; shift
  if output=$("$@" 2>&1); then result "$name"; else result "$name" "exit $? of: $*
$output"; fi
}

# says NAME STATUS PATTERN COMMAND... : exit status, and a line of stdout that matches
says() {
  local name=$1 want=$2 pattern=$3 status problem=''; shift 3
  "$@" >out 2>err </dev/null; status=$?
  [ $status = "$want" ] || problem+="exit status $status, want $want"$'\n'
  grep -qE "$pattern" out || problem+="nothing on stdout matches: $pattern"$'\n'
  result "$name" "${problem:+$problem
stdout: $(head -n 30 out)
stderr: $(head -n 10 err)}"
}

# experiment FILE [OTHER [REWARDS [DATA]]] : sums of digits for a model of some thousand weights.  The arguments
# are Lua: further fields of the experiment, entries of `rewards`, fields of `data`.
experiment() {
  local other=${2:-} rewards=${3:-} data=${4:-}
  [ -n "$rewards" ] || rewards='{ name = "digits", fn = function(text) return select(2, text:gsub("%d", "")) / 6 end }'
  [ -n "$data" ] || data='train = grpo.data.list(rows)'
  cat >"$1" <<LUA
local grpo = require "grpo"
local rows = {}
for a = 0, 9 do
  for b = 0, 9 do rows[#rows + 1] = { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b) } end
end
return grpo.experiment {
  model = {
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 2, max_position_embeddings = 64 },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  },
  sampling = { group_size = 4, max_new_tokens = 6 },
  data = { max_prompt_tokens = 8, $data },
  rewards = { $rewards },
  $other
}
LUA
}
