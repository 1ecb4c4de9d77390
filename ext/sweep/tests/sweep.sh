#!/usr/bin/env bash
# grpo sweep: several runs side by side, their table, what a second call does, signals and kills.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
slow='hooks = { on_step = function() if os.getenv("SLOW") then io.popen("sleep " .. os.getenv("SLOW")):close() end end },'
experiment my.lua "$slow train = { steps = 4, prompts_per_step = 2, lr = 1e-3 }, checkpoint = { every = 2 }," '' \
  'train = grpo.data.list(rows), eval = grpo.data.list { rows[1], rows[2], rows[3] }'

# sweep WORD... : runs it; its status in $status
sweep() { timeout -k 5 120 "$GRPO" sweep "$@" >out 2>err </dev/null; status=$?; }
# runs DIR : its runs with their states
runs() { "$GRPO" runs --dir "$1" --json | grep -oE '"(name|state)": "[^"]*"' | cut -d'"' -f4 | paste - - | sort; }

# ---- the grid, the table, the bits ------------------------------------------------------------

sweep my.lua train.lr=1e-3,1e-2 --seeds 2
result "a sweep runs each value with each seed" "$([ $status = 0 ] || { echo "status $status"; cat err; }
  diff <(printf '%s\tfinished\n' lr=1e-2,seed=0 lr=1e-2,seed=1 lr=1e-3,seed=0 lr=1e-3,seed=1) <(runs sweeps/my))"
result "the table has a row for each value, with intervals" "$([ "$(wc -l <out)" = 3 ] &&
  head -1 out | grep -qE '^lr +runs +eval/accuracy +best +reward$' &&
  [ "$(grep -cE '^1e-[23] +2/2 .*\(.* to .*\)$' out)" = 2 ] || show out)"
result "the interval of an accuracy stays between 0 and 1" "$("$GRPO" repl <<'LUA' 2>&1
local results = require "grpo.sweep.results"
local runs = {}
for i, final in ipairs { 0.9, 1.0, 0.02, 0.0 } do
  runs[i] = { options = { { path = "train.lr", text = i < 3 and "1" or "2" }, { path = "seed", text = tostring(i) } },
    state = "done", final = final, best = final, reward = 3.0 * final }
end
for _, row in ipairs(results.table(runs, "eval/accuracy").rows) do
  if row.final.low < 0 or row.final.high > 1 or row.best.high > 1 then print(row.final.low, row.final.high) end
  if row.reward.high <= row.reward.mean then print("the reward has bounds too") end
end
if results.table(runs, "eval/metric").rows[1].final.high <= 1 then print("a metric has bounds") end
LUA
)"
result "one plain line when a run begins and when it ends" "$([ "$(grep -cE '^lr=1e-[23],seed=[01]: begins with [0-9]+ threads?$' err)" = 4 ] &&
  [ "$(grep -cE '^lr=1e-[23],seed=[01]: finished after .*, eval/accuracy ' err)" = 4 ] || show err)"
result "table.csv and table.json hold it" "$([ "$(head -1 sweeps/my/table.csv | cut -d, -f1-6)" = 'train.lr,runs,done,failed,final eval/accuracy,final eval/accuracy low' ] &&
  [ "$(wc -l <sweeps/my/table.csv)" = 3 ] && [ "$(grep -c '"state": "done"' sweeps/my/table.json)" = 4 ] || show sweeps/my/table.*)"
timeout 60 "$GRPO" run my.lua train.lr=1e-2 seed=1 --quiet --dir alone >/dev/null 2>err
result "a run of a sweep has the bits of the run alone" "$(different alone/my-001 sweeps/my/lr=1e-2,seed=1)"
result "no process wrote anything else" "$(find sweeps/my -mindepth 1 -maxdepth 1 | grep -vE '/(lr=.*|sweep.json|table.(csv|json)|\.lock|\.runs|\.sweep)$')"

timeout 60 "$GRPO" report sweeps/my/* --out all.html >out 2>err; status=$?
result "grpo report lays them over one another" "$([ $status = 0 ] && grep -q 'lr=1e-2,seed=1' all.html || { echo "status $status"; cat err; })"

# ---- a second call ----------------------------------------------------------------------------

before=$(cat sweeps/my/*/run.json | cksum)
sweep my.lua train.lr=0.001,1e-2 --seeds 2
result "the same call again runs nothing and shows the table" "$([ $status = 0 ] && [ ! -s err ] && [ "$(wc -l <out)" = 3 ] &&
  [ "$before" = "$(cat sweeps/my/*/run.json | cksum)" ] || { echo "status $status"; cat out err; })"
sweep my.lua train.lr=1e-3,3e-3 sampling.group_size=2 --seeds 1
result "another grid adds its runs, with what differs in their names" "$([ $status = 0 ] && [ "$(grep -c begins err)" = 2 ] &&
  [ -e sweeps/my/lr=3e-3,group_size=2,seed=0/run.json ] && [ -e sweeps/my/lr=1e-3,group_size=2,seed=0/run.json ] &&
  grep -qE '^lr +group_size +runs ' out && [ "$(wc -l <out)" = 5 ] || { cat out err; ls sweeps/my; })"
result "a single seed has no interval" "$([ "$(grep -cE '^[13]e-3 +2 +1/1 +[0-9.e-]+ +[0-9.e-]+ +[0-9.e-]+$' out)" = 2 ] || show out)"
cp my.lua changed.lua
echo '-- changed' >>my.lua
sweep my.lua train.lr=1e-3,1e-2 --seeds 2
result "a changed script is noticed" "$([ $status = 2 ] && grep -qE '^grpo: sweep: sweeps/my: my.lua has changed since it began, .* --dir, .* --force$' err || { echo "status $status"; cat err; })"
sweep my.lua train.lr=1e-3,1e-2 --seeds 2 --force
result "--force goes on with it" "$([ $status = 0 ] || { echo "status $status"; cat err; })"

# ---- what goes wrong --------------------------------------------------------------------------

# fails NAME STATUS MESSAGE WORD...
fails() {
  local name=$1 want=$2 message=$3; shift 3
  sweep "$@"
  result "$name" "$([ $status = "$want" ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -qE "^grpo: $message\$" err || { echo "status $status"; cat out err; })"
}
fails "a wrong value is found before anything runs" 2 'command line: train\.lr: .*' my.lua train.lr=1e-3,fast --dir wrong
result "and nothing was made" "$([ ! -e wrong ] || ls -A wrong)"
fails "an unknown option" 2 'command line: train\.lrr: unknown option.*' my.lua train.lrr=1,2
fails "an empty value" 2 'sweep: train\.lr=1e-3,,1e-2: a value between two commas is empty; .*' my.lua train.lr=1e-3,,1e-2
fails "a value twice, however it is written" 2 'sweep: train\.lr: the value 0\.001 is given twice' my.lua train.lr=1e-3,0.001
fails "an option twice" 2 'sweep: train\.lr is given twice; .*' my.lua train.lr=1e-3 train.lr=1e-2
fails "two ways to say the seeds" 2 'sweep: seed=\.\.\. and --seeds both say which seeds; .*' my.lua seed=1,2 --seeds 2
fails "a metric that is not measured" 2 "sweep: --metric eval/acuracy: .*did you mean 'eval/accuracy'\?.*" my.lua seed=1,2 --metric eval/acuracy
fails "no script" 3 'nope\.lua: no such file.*' nope.lua train.lr=1,2
fails "a run in the place of the sweep" 2 'sweep: alone/my-001: it is a run, not a sweep; .*' my.lua seed=1,2 --dir alone/my-001

experiment bad.lua 'train = { steps = 4, prompts_per_step = 2, lr = 1e-3 },
  hooks = { on_step = function(m, tr) if tr.config.train.lr > 0.5 then error("the rate is " .. tr.config.train.lr) end end },'
sweep bad.lua train.lr=1e-3,1 --jobs 1
result "a run that fails is shown with its reason and does not end the others" "$([ $status = 1 ] &&
  grep -qE '^lr=1,seed=0: failed: .*the rate is 1' err && grep -qE '^1e-3 +1/1 ' out && grep -qE '^1 +0/1 +-$' out || { echo "status $status"; cat out err; })"
sweep bad.lua train.lr=1e-3,1 --jobs 1
result "it is not run again" "$([ $status = 1 ] && [ ! -s err ] && grep -q '"reason": ".*the rate is 1' sweeps/bad/table.json || { echo "status $status"; cat out err; })"
sweep bad.lua train.lr=1e-3,1 --jobs 1 --retry
result "unless --retry says so" "$([ $status = 1 ] && grep -q '^lr=1,seed=0: continues' err && grep -q '^lr=1,seed=0: failed: ' err || { echo "status $status"; cat out err; })"

# ---- signals and kills ------------------------------------------------------------------------

sweep my.lua train.lr=1e-3,1e-2 train.steps=8 --seeds 1 --dir whole
# started DIR : waits until both runs have made two steps
started() { wait_for_step "$1/lr=1e-3,seed=0" 2; wait_for_step "$1/lr=1e-2,seed=0" 2; }
same() { different whole/lr=1e-3,seed=0 "$1/lr=1e-3,seed=0"; different whole/lr=1e-2,seed=0 "$1/lr=1e-2,seed=0"; }
two=(my.lua train.lr=1e-3,1e-2 train.steps=8 --seeds 1 --jobs 2 --threads 2)
for signal in INT TERM; do
  case $signal in INT) want=130 ;; TERM) want=143 ;; esac
  set -m # so that the shell does not let it ignore SIGINT
  SLOW=0.2 timeout -k 5 60 "$GRPO" sweep "${two[@]}" --dir "by$signal" >out 2>err & pid=$!
  set +m
  started "by$signal"
  kill -$signal "$(pgrep -P $pid)"; wait $pid; status=$?
  result "SIG$signal ends the runs after their checkpoints" "$([ $status = $want ] && [ "$(runs "by$signal" | cut -f2 | sort -u)" = interrupted ] &&
    [ -e "by$signal/lr=1e-3,seed=0/latest" ] || { echo "status $status"; cat err; runs "by$signal"; })"
  sweep "${two[@]}" --dir "by$signal"
  result "and the same call continues them with the same bits" "$([ $status = 0 ] && [ "$(grep -c continues err)" = 2 ] || cat err; same "by$signal")"
done
SLOW=0.2 timeout -k 5 60 "$GRPO" sweep "${two[@]}" --dir killed >out 2>err & pid=$!
started killed
sweep "${two[@]}" --dir killed
result "two sweeps do not work on one directory" "$([ $status = 2 ] && grep -q "another 'grpo sweep' is at work on it" err || { echo "status $status"; cat err; })"
kill -9 "$(pgrep -P $pid)"; wait $pid 2>/dev/null
sweep "${two[@]}" --dir killed
result "after a kill of the sweep the next call waits for its runs and continues them" "$([ $status = 0 ] || { echo "status $status"; cat err; }
  [ "$(ls -d killed/lr=* | wc -l)" = 2 ] || ls killed; same killed)"
SLOW=0.2 timeout -k 5 60 "$GRPO" sweep "${two[@]}" --dir one >out 2>err & pid=$!
started one
kill -9 "$(grep -oE '"pid": [0-9]+' one/lr=1e-2,seed=0/run.json | grep -oE '[0-9]+$')"; wait $pid; status=$?
result "a run that is killed fails alone" "$([ $status = 1 ] && grep -q '^lr=1e-2,seed=0: failed: ended by signal 9$' err && grep -q '^lr=1e-3,seed=0: finished' err || { echo "status $status"; cat err; })"
sweep "${two[@]}" --dir one
result "and the next call continues it" "$([ $status = 0 ] || cat err; same one)"

# ---- sizes, other scripts, other words ----------------------------------------------------------

sweep my.lua seed=1,2,3 --threads 5 --dir shares
result "the runs share the cores" "$([ "$(grep begins err | grep -oE '[0-9]+ thread' | sort | paste -sd' ')" = '1 thread 2 thread 2 thread' ] || show err)"
sweep my.lua seed=1,2 sampling.group_size=128 train.steps=1 --memory 20M --jobs 2 --dir small
result "as many at a time as fit into the memory" "$(grep -qE '^sweep: 1 run at a time, because one may need [0-9]+ MiB and 20 are free$' err || show err)"
sweep my.lua 'name="a,b"' 'eval.pass_at=[1],[1,2]' eval.group_size=2 train.steps=1 --dir lists
result "commas within lists and strings part nothing" "$([ $status = 0 ] && [ "$(runs lists | wc -l)" = 2 ] &&
  grep -q '"value": "a,b"' lists/*/config.json || { cat err; runs lists; })"
sweep my.lua train.lr=1e-3,1e-2 train.steps=1 --quiet --json --metric entropy --dir json
result "--json has an object for each row" "$([ "$(grep -c '"final": {"mean": .*"metric": "entropy"' out)" = 2 ] && [ ! -s err ] || show out err)"
sweep my.lua train.lr=1e-3,1e-2 train.steps=1 --metric nope --dir json
result "a metric that no run has is said" "$([ $status = 0 ] && [ "$(cat err)" = "note: --metric nope: no run has a value of it, so only the reward is compared" ] || show err)"
cat >my.json <<'JSON'
{ "model": { "path": "alone/my-001" }, "data": { "train": "rows.jsonl", "eval": "rows.jsonl", "max_prompt_tokens": 8 },
  "rewards": { "gsm8k.correct": 1 }, "sampling": { "group_size": 2, "max_new_tokens": 4 },
  "train": { "steps": 1, "prompts_per_step": 1 } }
JSON
for a in 1 2 3; do echo "{\"prompt\": \"$a+1=\", \"answer\": \"$((a + 1))\"}"; done >rows.jsonl
sweep my.json train.lr=1e-4,1e-3 --dir settings
result "a file of settings too" "$([ $status = 0 ] && [ "$(runs settings | wc -l)" = 2 ] || { echo "status $status"; cat err; })"
finish
