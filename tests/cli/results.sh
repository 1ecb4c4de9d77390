#!/usr/bin/env bash
# experiments/addition.lua, parity.lua and coverage.lua, small and short: they run, and write their tables.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

# quick NAME DIR ARGUMENT... : the experiment in seconds
quick() {
  local name=$1 dir=$2; shift 2
  timeout 120 "$GRPO" run "$root/experiments/$name.lua" --arg size=quick --quiet --dir "$dir" "$@" </dev/null
}
# column NAME FILE : a column of a table
column() {
  awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print $at }' "$2"
}

problem=$(quick addition add 2>&1 >out) && problem=
table=$(echo add/*/logs/solved.csv)
result "addition runs" "$problem"
result "its table has every length at each evaluation, with as many problems and samples as it says" "$(
  diff <(cut -d, -f 2-5,8 "$table") <(echo round,step,class,problems,samples
    for at in -1,0 0,30 1,32 1,34; do for digits in 2 3 4; do echo $at,$digits,4,8; done; done))"
result "every sum is right" "$(
  ROOT=$root LUA_PATH="$root/experiments/?.lua;;" "$GRPO" repl <<'LUA' 2>&1
local script = assert(loadfile(os.getenv "ROOT" .. "/experiments/addition.lua"))().config
for i = 1, 200 do
  local row = script.data.train[i]
  local a, b = row.prompt:match "^(%d+)%.*%+(%d+)%.*=$"
  local sum = tostring(tonumber(a:reverse()) + tonumber(b:reverse())):reverse()
  if row.answer ~= sum .. ("0"):rep(#a + 1 - #sum) then print(row.prompt, row.answer) end
end
LUA
)"
problem=$(quick addition control --arg control=yes 2>&1 >out) && problem=
result "its control rewards only lengths of the demonstrations" "$problem$(
  grep -q '"step": 34' control/*/completions.jsonl || show control/*/completions.jsonl
  grep -E '"prompt": "[0-9]{3}' control/*/completions.jsonl | head -n 2)"

problem=$(quick parity par --arg share=0.5 2>&1 >out) && problem=
result "parity runs" "$problem$(grep -q '"rewards/right_if_long/mean"' par/*/metrics.jsonl || tail -n 1 par/*/metrics.jsonl)"

problem=$(quick coverage cov 2>&1 >out) && problem=
result "coverage runs" "$problem"
result "its table has the temperatures after both stages" "$(
  [ "$(column round "$(echo cov/*/logs/temperatures.csv)" | sort | uniq -c | tr -s ' \n' ' ')" = " 7 0 7 1 " ] || cat cov/*/logs/temperatures.csv)"
result "every held-out problem is in one group of pass@1 before, whose mean is not above its bound" "$(
  awk -F, 'NR == 1 { if ($0 != "seed,up_to,problems,before,after,solved") print; next }
    { n += $3 } $4 > $2 || $6 > $3 { print } END { if (NR != 6 || n != 8) print NR, n }' cov/*/logs/matched.csv)"

# refused NAME MESSAGE ARGUMENT...
refused() {
  local name=$1 message=$2 status; shift 2
  timeout 60 "$GRPO" run "$root/experiments/$name.lua" --dir bad "$@" >out 2>err </dev/null; status=$?
  result "refused: $name $*" "$(grep -q "^grpo: .*$message" err && [ $status = 2 ] && [ ! -e bad ] || { echo "exit $status"; cat err; })"
}
refused addition "size=huge: want full or quick" --arg size=huge
refused addition "want whole numbers" --arg steps=x
refused addition "rope=some: want all, half or none" --arg rope=some
refused parity "share a number" --arg share=x
refused coverage "size=huge: want small, recipe or quick" --arg size=huge
finish
