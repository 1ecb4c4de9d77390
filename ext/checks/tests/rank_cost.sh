#!/usr/bin/env bash
# What `grpo check --ranks` says of ranks, and the bytes that they send in fact.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"

experiment exp.lua 'train = { steps = 4, prompts_per_step = tonumber(grpo.args.prompts) },
  hooks = { on_step = function(m, tr)
    local core = require "grpo.core"
    local file <close> = io.open("bytes." .. core.ranks(), "a")
    file:write(("%d %d %d\n"):format(tr.model:count(), core.ranks_bytes()))
  end }'
"$GRPO" check exp.lua --arg prompts=8 --ranks 6 --link 1 >out 2>err
result "check --ranks shows 1, 2, 4 and 6 ranks" "$([ "$(grep -cE '^ +[1246] +[0-9.]+ +[0-9.]+ +[0-9.]+ kB +[0-9]+$' out)" = 4 ] || show out err)"
"$GRPO" check exp.lua --arg prompts=8 --ranks 0 >out 2>err; status=$?
result "check --ranks 0 is refused" "$([ $status = 2 ] && grep -q 'check: --ranks' err || show err)"

"$GRPO" check exp.lua --arg prompts=8 --ranks 2 --link 1e5 >out 2>err
result "check --link takes 1e5" "$(grep -cqE '^ +2 +[0-9.]+ +[0-9.]+' out || show out err)"
for link in 0 -1 1e-300 1e999 1e6 nan inf x; do
  "$GRPO" check exp.lua --arg prompts=8 --ranks 2 --link $link >out 2>err; status=$?
  result "check --link $link is refused" "$(
    { [ $status = 2 ] && [ ! -s out ] && [ "$(cat err)" = "grpo: check: --link: '$link' is not a number from 0.001 to 100000; see 'grpo help check'" ]; } || show out err)"
done

# The most that a rank has sent in a step, beside the formula; short calls and completions are some kB.
cat >compare.lua <<'LUA'
local rank_cost = require "grpo.loop.rank_cost"
local n, prompts = N, PROMPTS
local most, numbers = 0
for r = 0, n - 1 do
  local sent = {}
  for line in io.lines("bytes." .. r) do
    local trained, bytes = line:match "^(%d+) (%d+)"
    numbers, sent[#sent + 1] = tonumber(trained), tonumber(bytes)
  end
  most = math.max(most, sent[4] - sent[3])
end
local cost = rank_cost.of({ groups = prompts, blocks = 0, numbers = numbers, divided = 1, optimizer = 0, memory = 0, moments = 0,
  tokens = 0, link = 1 }, n)
print(("%d ranks, %d groups: %d bytes sent, formula %d"):format(n, prompts, most, cost.sent // 1))
os.exit((most >= cost.sent and most <= cost.sent * 1.05 + 8000) and 0 or 1)
LUA
"$GRPO" bench --workload smoke --ranks 4 >out 2>err; status=$?
result "bench --ranks shows what steps of three models cost on 1, 2 and 4 ranks" "$(
  [ $status = 0 ] && [ "$(grep -cE '^ +[124] +[0-9.]+ .*%$' out)" = 9 ] || show out err)"

kind=openmpi
has $kind || kind=mpich
if ! has $kind; then
  result "bytes: # SKIP there is no mpirun, or no library of grpo for it"
  finish
fi
for case in 2,8 3,8 4,5 4,8; do
  n=${case%,*} prompts=${case#*,}
  rm -f bytes.*
  ranks "$n" "$GRPO" run exp.lua --quiet --dir d --threads 1 --arg prompts="$prompts" >out 2>err || cat err
  { echo "N, PROMPTS = $n, $prompts"; cat compare.lua; } | "$GRPO" repl >answer 2>&1; status=$?
  result "$(head -n 1 answer)" "$([ $status = 0 ] || show answer)"
done

# room for partial sums: 8 leaves need 3 in one process, and 2 on each of 2 ranks
experiment large.lua 'train = { steps = 2, prompts_per_step = 8 }'
sed -i 's/hidden_size = 32, intermediate_size = 64/hidden_size = 256, intermediate_size = 4096/' large.lua
"$GRPO" check large.lua --ranks 2 --threads 1 >out 2>err
limit=$(awk 'length($0) > 40 && $1 == 2 && NF == 6 { print $6 + 24 }' out)
ranks 2 "$GRPO" run large.lua --quiet --dir d --threads 1 --memory "$limit"M >/dev/null 2>err; status=$?
result "2 ranks need no more than check --ranks says" "$([ $status = 0 ] || { echo "status $status, limit $limit"; show err; })"
"$GRPO" run large.lua --quiet --dir d --threads 1 --memory "$limit"M >/dev/null 2>err; status=$?
result "one process needs more than that" "$([ $status = 5 ] || { echo "status $status, limit $limit"; show err; })"
finish
