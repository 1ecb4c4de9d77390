#!/usr/bin/env bash
# Judges in runs: behind an address with every fault, as a program, killed and resumed.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
skip_all() { echo "ok 1 - judges in runs # SKIP $1"; echo 1..1; exit 0; }
server=$(dirname "$(readlink -f "$GRPO")")/tests/hub_server
[ -x "$server" ] || skip_all "not built: make test builds tests/hub_server"
"$GRPO" --version | grep -q 'HTTP.*libcurl\|libcurl' || skip_all "no libcurl"
unset http_proxy all_proxy ALL_PROXY HTTP_PROXY
mkdir hub; mkfifo stop
"$server" hub <stop & exec 9>stop
for _ in $(seq 100); do [ -e hub/addresses ] && break; sleep 0.05; done
url=$(head -n 1 hub/addresses)/v1
digits='function(answer) return tonumber(answer:match("%d+")) end'

# fault LINE... : the next faults of the server
fault() { printf '%s\n' "$@" >hub/faults.new; mv hub/faults.new hub/faults; sleep 0.02; }
# judged NAME OPTIONS : an experiment whose reward is a judge behind the address
judged() {
  experiment "$1.lua" 'train = { steps = 4, prompts_per_step = 2, lr = 1e-3 }, checkpoint = { every = 1, keep = 99 }' \
    "judge = grpo.judge { url = \"$url\", prompt = \"{completion}\", timeout = 1, backoff = 0.02, $2 }"
}
run() { timeout 100 "$GRPO" run "$@" --quiet --dir runs </dev/null >out 2>err; }
# scores RUN : those rewards of a run that are not what the judge says
scores() {
  RUN=$1 "$GRPO" repl <<'LUA' 2>&1
for line in io.lines(os.getenv "RUN" .. "/completions.jsonl") do
  local c = grpo.json.decode(line)
  local d = select(2, c.text:gsub("%d", ""))
  local want = os.getenv "WEIGHED" and (d + 1) / (d + 2) or d
  if not c.rewards.judge or math.abs(c.rewards.judge - want) > 1e-12 then print(line) end
end
LUA
}

judged words "parse = $digits"
run words.lua; status=$?
result "answers in words are read" "$([ $status = 0 ] || show err; scores runs/words-001)"
judged weighed 'verdicts = { yes = 1, no = 0 }, model = "judge"'
run weighed.lua; status=$?
result "verdicts are weighed by their probabilities" "$([ $status = 0 ] || show err; WEIGHED=1 scores runs/weighed-001)"
questions() { grep -c '/chat/completions' hub/log; }
result "the answers are in the run, each text once" "$([ "$(wc -l <runs/weighed-001/judge.jsonl)" = "$(cut -d'"' -f1-20 runs/weighed-001/judge.jsonl | grep -oE '"key": "[0-9a-f]{32}"' | sort -u | wc -l)" ] ||
  show runs/weighed-001/judge.jsonl)"

before=$(questions)
timeout 60 "$GRPO" replay runs/weighed-001 --reward weighed.lua </dev/null >out 2>err; status=$?
result "a replay asks nothing that the run has asked" "$([ $status = 0 ] && grep -q '32 completions .* 0 have another reward' out || show out err
  [ "$(questions)" = "$before" ] || echo "$(questions) questions, $before before")"

# A fault that passes costs nothing but time.
for kind in "status 3 500" "status 2 429" "status 1 408" "cut 3 20" "garbage 2 -" "hang 1 3000" "slow 1 200" "huge 1 5000000" "empty 2 -"; do
  fault "$kind completions"
  judged "passing" "parse = $digits, retries = 4"
  run passing.lua --as "passing-${kind%% *}"; status=$?
  result "a fault that passes: $kind" "$([ $status = 0 ] || show err; scores "runs/passing-${kind%% *}")"
  rm -rf "runs/passing-${kind%% *}"
done

# One that stays costs a line, and the reward.
for kind in "status 999 500" "status 999 404" "cut 999 20" "garbage 999 -" "empty 999 -" "huge 999 5000000"; do
  fault "$kind completions"
  judged staying "parse = $digits, retries = 1, on_error = -1"
  run staying.lua --as "staying"; status=$?
  result "a fault that stays: $kind" "$([ $status = 0 ] && grep -q 'note: judge: .*no answer' err && [ "$(grep -c . err)" -le 8 ] || show err
    grep -q '"rewards/judge/silent": 8' runs/staying/metrics.jsonl || show runs/staying/metrics.jsonl
    grep -v '"judge": -1' runs/staying/completions.jsonl)"
  rm -rf runs/staying
done
fault "hang 999 3000 completions"
judged hanging "parse = $digits, retries = 0"
run hanging.lua train.steps=1; status=$?
result "a judge that hangs leaves the reward out" "$([ $status = 0 ] && grep -q 'no answer' err || show err; grep '"judge": ' runs/hanging-001/completions.jsonl | grep -v problem)"
judged strict "parse = $digits, retries = 0, timeout = 0.2, on_error = \"stop\""
run strict.lua; status=$?
result "on_error = \"stop\" ends the run with one line" "$([ $status = 1 ] && grep -q 'rewards.judge: judge: ' err || show err)"
fault ''

judged nobody "parse = $digits, retries = 0"
sed 's,127.0.0.1:[0-9]*,127.0.0.1:9,' nobody.lua >gone.lua
run gone.lua; status=$?
result "nobody at the address costs a line" "$([ $status = 0 ] && grep -q 'note: judge: .*127.0.0.1:9.*no answer' err || show err)"

# A key goes to the address, and nowhere else.
judged secret "parse = $digits, key_env = \"MY_KEY\""
MY_KEY=abc123 run secret.lua; status=$?
result "the key is sent" "$([ $status = 0 ] && grep -q ' abc123 ' hub/log || show err)"
result "and is in no file of the run" "$(grep -rl abc123 runs/secret-001 err out)"

# Killed and resumed: nothing is asked again, and the bits are the same, though the judge speaks otherwise now.
cat >moody.sh <<'SH'
# Each answer is another number, and each fifth question has none.
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -E 's/.*"id": ([0-9]+).*/\1/')
  n=$(wc -l <asked); echo "$id" >>asked
  if [ $((n % 5)) = 4 ]; then echo "{\"id\": $id, \"error\": \"no mood\"}"; else echo "{\"id\": $id, \"score\": 0.$((n * 37 % 100))}"; fi
done
SH
: >asked
experiment moody.lua 'train = { steps = 6, prompts_per_step = 2, lr = 1e-3 }, checkpoint = { every = 2, keep = 99 },
  hooks = { on_step = function(m) if m.step == 6 and os.getenv "KILL" then os.execute("kill -9 $PPID") end end }' \
  'judge = grpo.judge { command = "sh moody.sh", retries = 0 }'
KILL=1 timeout 100 "$GRPO" run moody.lua --quiet --dir runs </dev/null >out 2>err
result "the run was killed" "$([ -e runs/moody-001/checkpoints/step-000004 ] && [ ! -e runs/moody-001/checkpoints/step-000006 ] || show err)"
cp runs/moody-001/completions.jsonl before; before=$(wc -l <asked)
timeout 100 "$GRPO" run --resume=runs/moody-001 --quiet </dev/null >out 2>err; status=$?
result "a resume asks nothing that the run had asked" "$([ $status = 0 ] || show err; [ "$(wc -l <asked)" = "$before" ] || echo "$before, then $(wc -l <asked)")"
result "and has the same rewards" "$(grep '"step": 5' runs/moody-001/completions.jsonl | grep -o '"rewards": {[^}]*}' >now
  grep '"step": 5' before | grep -o '"rewards": {[^}]*}' >resumed; [ -s now ] && diff resumed now)"

# Two ranks: each keeps its answers, and finds them again.
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"
kind=openmpi
if has $kind; then
  : >asked
  cp moody.lua many.lua
  KILL=1 ranks 2 "$GRPO" run many.lua --quiet --dir many </dev/null >out 2>err
  cp many/many-001/completions.jsonl before; before=$(wc -l <asked)
  result "two ranks were killed, with a file each" "$([ -s many/many-001/judge.jsonl ] && [ -s many/many-001/judge-1.jsonl ] || show err)"
  ranks 2 "$GRPO" run --resume=many/many-001 --quiet </dev/null >out 2>err; status=$?
  rewards_of() { grep '"step": 5' "$1" | grep -o '"rewards": {[^}]*}'; }
  result "they resume with the same rewards" "$([ $status = 0 ] || show err; rewards_of many/many-001/completions.jsonl >now
    rewards_of before >was; [ -s now ] && diff was now)"
else
  result "two ranks # SKIP no mpirun of $kind"
fi

# The questions of all groups are under way together: this program answers when it has eight, which are two groups.
cat >eight.sh <<'SH'
while :; do
  n=0 all=''
  while [ $n -lt 8 ] && IFS= read -r line; do n=$((n + 1)); all="$all $(printf '%s' "$line" | sed -E 's/.*"id": ([0-9]+).*/\1/')"; done
  for id in $all; do echo "{\"id\": $id, \"score\": 1}"; done
  [ $n = 8 ] || exit
done
SH
experiment eight.lua 'train = { steps = 1, prompts_per_step = 2, lr = 1e-3 }' 'judge = grpo.judge { retries = 0, timeout = 20,
  command = "sh eight.sh", prompt = function(c) return c.prompt .. c.index .. c.text end }'
run eight.lua; status=$?
result "the questions of all groups are asked together" "$([ $status = 0 ] || show err; [ "$(grep -c '"judge": 1[,}]' runs/eight-001/completions.jsonl)" = 8 ] || show runs/eight-001/completions.jsonl)"

experiment endless.lua 'train = { steps = 1, prompts_per_step = 2, lr = 1e-3 }' 'judge = grpo.judge { command = "echo >>begun; sleep 1000", timeout = 500 }'
"$GRPO" run endless.lua --quiet --dir runs </dev/null >out 2>err & pid=$!
for _ in $(seq 400); do [ -e begun ] && break; sleep 0.05; done
kill -TERM $pid; wait $pid; status=$?
result "a signal ends a run that waits for a judge" "$([ $status = 143 ] || { echo "status $status"; show err; })"

"$GRPO" run "$root/ext/judge/examples/judge.lua" --quiet --dir shown </dev/null >out 2>err; status=$?
result "examples/judge.lua runs and learns" "$([ $status = 0 ] || show err
  grep -oE '"reward": [-0-9.e]+' shown/judge-001/metrics.jsonl | grep -oE '[-0-9.e]+$' | awk '{ r[NR] = $1 } END { exit !(NR == 60 && r[60] > r[1] + 0.2) }' || echo "the reward has not risen")"
exec 9>&-
finish
