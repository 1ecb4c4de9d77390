#!/usr/bin/env bash
# grpo run: what it leaves behind, the same bits however it is run, and every way to stop and go on.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

write_experiment exp.lua
steps=14 # 4 + 10

# lines FILE, json FILE KEY : the value of a key in indented JSON
json() { sed -nE "s/^ *\"$2\": \"?([^\",]*)\"?,?$/\1/p" "$1" | head -n 1; }

# ---- what a run leaves behind -------------------------------------------------------------------------------------------
"$GRPO" run exp.lua --dir whole >out 2>err; status=$?
result "a run ends with status 0" "$([ $status = 0 ] || show err)"
result "its one line on stdout is the run directory" "$([ "$(cat out)" = whole/exp-001 ] || show out)"
result "there is a line for every step elsewhere" "$([ "$(grep -cE '^(sft|grpo) [0-9]+/[0-9]+ ' err)" = $steps ] || show err)"
run=whole/exp-001
missing=''
for f in run.json config.json env.json inputs.json source/main.lua metrics.jsonl completions.jsonl eval.jsonl run.log latest \
    checkpoints/step-000014/{model.safetensors,config.json,tokenizer.json,trainer.json,state.bin,manifest.json}; do
  [ -e $run/$f ] || missing+="$f "
done
result "the run directory holds what it should" "$missing"
result "run.json says finished" "$([ "$(json $run/run.json state)" = finished ] || show $run/run.json)"
result "latest is the last checkpoint" "$([ "$(readlink $run/latest)" = checkpoints/step-000014 ] || ls -l $run)"
result "metrics.jsonl has one object a step" \
  "$(grep -oE '"step": [0-9]+' $run/metrics.jsonl | grep -oE '[0-9]+' | diff - <(seq $steps))"
result "completions.jsonl has every completion" "$([ "$(wc -l <$run/completions.jsonl)" = $((10 * 4 * 4)) ] || wc -l $run/completions.jsonl)"
result "evaluations before, between and after" "$([ "$(wc -l <$run/eval.jsonl)" = 3 ] || show $run/eval.jsonl)"
result "the ratio is exactly 1 where sampling and training meet" \
  "$(grep '"kind": "grpo"' $run/metrics.jsonl | grep -v '"ratio_max_deviation": 0,')"
result "only checkpoint.keep checkpoints are kept" "$([ "$(ls $run/checkpoints | wc -l)" = 2 ] || ls $run/checkpoints)"
result "a checkpoint names no path" "$(there $run/latest/config.json; grep -lF "$work" $run/latest/*)"

# ---- the same bits ----------------------------------------------------------------------------------------------------------
same() { # NAME DIRECTORY : the run there has the metrics, completions and checkpoints of the first
  result "$1" "$(different whole/exp-001 "$2")"
}
"$GRPO" run exp.lua --quiet --dir again >/dev/null 2>&1;                                same "run again: the same bytes" again/exp-001
"$GRPO" run exp.lua --quiet --dir one --threads 1 >/dev/null 2>&1;                      same "--threads 1: the same bytes" one/exp-001
"$GRPO" run exp.lua --quiet --dir two --threads 2 >/dev/null 2>&1;                      same "--threads 2: the same bytes" two/exp-001
"$GRPO" run exp.lua --quiet --dir m1 train.micro_batch_tokens=1 >/dev/null 2>&1;        same "micro_batch_tokens = 1: the same bytes" m1/exp-001
"$GRPO" run exp.lua --quiet --dir m64 train.micro_batch_tokens=64 >/dev/null 2>&1;      same "micro_batch_tokens = 64: the same bytes" m64/exp-001
"$GRPO" run exp.lua --quiet --dir big train.micro_batch_tokens=100000 >/dev/null 2>&1;  same "micro_batch_tokens = 100000: the same bytes" big/exp-001

# ---- bf16 ---------------------------------------------------------------------------------------------------------------------
sed 's/^return grpo.experiment {$/&\n  compute = "bf16",/' exp.lua >half.lua
"$GRPO" run half.lua --dir whole >out 2>err; status=$?
result "compute = \"bf16\": a run ends with status 0 and says how it computes" "$([ $status = 0 ] && grep -q '^compute: bf16' err || show err)"
result "run.json says it too" "$([ "$(json whole/half-001/run.json compute)" = bf16 ] && [ "$(json $run/run.json compute)" = f32 ] || show whole/half-001/run.json)"
result "it is another computation" "$(cmp -s <(timeless $run/metrics.jsonl) <(timeless whole/half-001/metrics.jsonl) && echo the same)"
result "its ratio is exactly 1 as well" \
  "$(grep '"kind": "grpo"' whole/half-001/metrics.jsonl | grep -v '"ratio_max_deviation": 0,')"
same_half() { result "bf16, $1" "$(different whole/half-001 "$2")"; }
"$GRPO" run half.lua --quiet --dir hone --threads 1 train.micro_batch_tokens=64 >/dev/null 2>&1;     same_half "another number of threads and micro_batch_tokens = 64: the same bytes" hone/half-001
"$GRPO" run half.lua --quiet --dir htwo --threads 2 train.micro_batch_tokens=100000 >/dev/null 2>&1; same_half "--threads 2 and micro_batch_tokens = 100000: the same bytes" htwo/half-001
exp=half killed "bf16, kill -9 in the middle of a step" hkill1 KILL_ROLLOUT=6
exp=half killed "bf16, kill -9 between a checkpoint and the next step" hkill2 KILL_CHECKPOINT=8
"$GRPO" run exp.lua --quiet --dir other --steps 2 >/dev/null 2>&1
"$GRPO" run --quiet --dir other --resume=other/exp-001 compute=bf16 >/dev/null 2>err; status=$?
result "an option needs no script beside --resume=RUN" "$([ $status = 2 ] && grep -q "compute=bf16: the run computes with compute=f32" err || show err)"
"$GRPO" run exp.lua --quiet --dir other --resume=other/exp-001 compute=bf16 >/dev/null 2>err; status=$?
result "a run does not go on in another mode" \
  "$([ $status = 2 ] && grep -q 'compute=bf16: the run computes with compute=f32; --force resumes all the same' err || show err)"
"$GRPO" run exp.lua --quiet --dir other --resume=other/exp-001 compute=bf16 --force --steps 3 >/dev/null 2>err; status=$?
result "unless it is forced to" "$([ $status = 0 ] && [ "$(json other/exp-001/run.json compute)" = bf16 ] || show err)"
"$GRPO" run --quiet --dir other --resume=other/exp-001 --steps 4 >/dev/null 2>err; status=$?
result "and then keeps that mode" "$([ $status = 0 ] && [ "$(json other/exp-001/run.json compute)" = bf16 ] || show err)"
"$GRPO" run exp.lua --quiet --dir fewer --steps 6 >/dev/null 2>&1
cp -a fewer before && sed '/kind = "sft"/d' exp.lua >fewer.lua
"$GRPO" run fewer.lua --quiet --resume=fewer/exp-001 --force >out 2>err; status=$?
result "a script with fewer stages than the run is in is refused, and the run is as it was" \
  "$([ $status = 2 ] && grep -q 'step-000006: is of stage 2, the script has 1$' err && diff -r before fewer || show err)"
for mode in f32 bf16; do
  "$GRPO" generate whole/half-001 "1+2=" --max-new-tokens 4 --temperature 0 --compute $mode >out.$mode 2>err || cat err >>out.$mode
done
result "generate --compute takes f32 and bf16" "$([ -s out.f32 ] && [ -s out.bf16 ] || show err)"
"$GRPO" generate whole/half-001 "1+2=" --compute fp8 >/dev/null 2>err; status=$?
result "and nothing else" "$([ $status = 2 ] && grep -q -- "--compute: 'fp8' is not f32 or bf16" err || show err)"

# ---- stopping and going on ----------------------------------------------------------------------------------------------------
"$GRPO" run exp.lua --quiet --dir steps --steps 7 >/dev/null 2>&1; status=$?
result "--steps stops there with a checkpoint" \
  "$([ $status = 0 ] && [ "$(readlink steps/exp-001/latest)" = checkpoints/step-000007 ] && [ "$(json steps/exp-001/run.json state)" = stopped ] || show steps/exp-001/run.json)"
"$GRPO" run exp.lua --quiet --dir steps --resume >out 2>&1
same "--resume goes on with the newest unfinished run" steps/exp-001
result "under the same kernels it has nothing to say about them" "$(grep 'kernels' steps/exp-001/run.log; ls steps/exp-001/events.jsonl 2>/dev/null)"
"$GRPO" run exp.lua --quiet --dir kernels --steps 7 >/dev/null 2>&1
GRPO_CPU=generic "$GRPO" run exp.lua --quiet --dir kernels --resume >/dev/null 2>err; status=$?
result "--resume under other kernels goes on and says so" \
  "$([ $status = 0 ] && grep -q 'changed at step 7: environment kernels portable (before: .*); values stay close' kernels/exp-001/run.log || show err kernels/exp-001/run.log)"
"$GRPO" run exp.lua --quiet --dir edits --steps 5 >/dev/null 2>&1
cp exp.lua exp.kept && sed -i 's/kl = 0.05/kl = 0.1/' exp.lua
"$GRPO" run exp.lua --quiet --resume=edits/exp-001 --force --steps 6 >/dev/null 2>&1
"$GRPO" run exp.lua --quiet --resume=edits/exp-001 --steps 7 >/dev/null 2>err; status=$?
result "the script that --force took is the run's from then on" "$([ $status = 0 ] && [ "$(readlink edits/exp-001/latest)" = checkpoints/step-000007 ] || show err)"
cp exp.kept exp.lua
"$GRPO" run exp.lua --quiet --resume=edits/exp-001 --steps 8 >/dev/null 2>err; status=$?
result "and the one that it began with is another" \
  "$([ $status = 2 ] && grep -q 'exp.lua differs from edits/exp-001/source/reload-001/main.lua, the copy that the run saved; --force resumes all the same$' err || show err)"
"$GRPO" run --quiet --resume=steps/exp-001 >out 2>err; status=$?
result "resuming a finished run says so" "$([ $status = 0 ] && grep -q 'finished already' err && [ "$(cat out)" = steps/exp-001 ] || show err)"
"$GRPO" run --resume=steps/exp-001 train.steps=99 >out 2>err </dev/null; status=$?
result "and refuses options, which could change nothing" "$([ $status = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q 'is finished already, so train.steps=99 can change nothing; train further in a new run' err || show err)"

killed "kill -9 in the middle of a step" kill1 KILL_ROLLOUT=6
killed "kill -9 between a checkpoint and the next step" kill2 KILL_CHECKPOINT=8
killed "kill -9 before the last evaluation" kill4 KILL_CHECKPOINT=14
killed "kill -9 at some moment" kill3 SLOW=0.03 KILL_AFTER=0.3

# A run that is killed at the Nth thing it does with files while it begins: whatever can be seen afterwards is a whole run.
cat >begun.lua <<'LUA'
local fs, left = require("grpo.core").fs, tonumber(os.getenv("KILL_AT") or 0)
for _, name in ipairs { "append", "lock", "mkdirs", "rename", "write" } do
  local f = fs[name]
  fs[name] = function(...)
    left = left - 1
    if left == 0 then os.execute("kill -9 $PPID") end
    return f(...)
  end
end
return dofile("exp.lua")
LUA
problem='' unseen=0 seen=0
for n in $(seq 100); do
  rm -rf begun
  KILL_AT=$n "$GRPO" run begun.lua --quiet --dir begun --steps 1 >out 2>err; status=$?
  [ $status = 137 ] || break
  if [ -e begun/begun-001 ]; then seen=$n; else unseen=$n; fi
  "$GRPO" runs --dir begun >list 2>err
  [ "$(wc -l <list)" = "$([ -e begun/begun-001 ] && echo 1 || echo 0)" ] || problem+="at $n: $(cat list err)"$'\n'
  "$GRPO" run begun.lua --quiet --dir begun --steps 1 "$([ -e begun/begun-001 ] && echo --resume || echo seed=0)" >out 2>err ||
    problem+="at $n: $(cat err)"$'\n'
  [ "$(ls -A begun)" = "$(printf '%s\n' .lock begun-001)" ] || problem+="at $n: left $(ls -Am begun)"$'\n'
done 2>/dev/null
[ $status = 0 ] && [ $unseen -gt 5 ] && [ $seen -gt $unseen ] || problem+="status $status, unseen up to $unseen, seen up to $seen"
result "kill -9 at any moment while a run begins leaves a whole one or none" "$problem"
for n in 1 2 3 4; do "$GRPO" run exp.lua --quiet --dir race --steps 1 >out.$n 2>&1 & done
wait
result "runs that begin at the same time get numbers of their own" \
  "$([ "$(cat out.[1-4] | sort)" = "$(printf 'race/exp-00%d\n' 1 2 3 4)" ] && [ "$(ls -A race | wc -l)" = 5 ] || { cat out.[1-4]; ls -A race; })"

stopped() { # NAME SIGNAL STATUS STATE DIRECTORY [SECONDS until the same signal again]
  local pid status problem=''
  set -m # without job control a background process ignores SIGINT
  SLOW=0.05 "$GRPO" run exp.lua --quiet --dir "$5" >/dev/null 2>err & pid=$!
  set +m
  wait_for_step "$5/exp-001" 3
  kill "-$2" $pid
  [ -z "${6:-}" ] || { sleep "$6"; kill "-$2" $pid 2>/dev/null; }
  wait $pid; status=$?
  [ $status = "$3" ] || problem+="exit status $status, want $3; "
  [ "$(json "$5/exp-001/run.json" state)" = "$4" ] || problem+="state $(json "$5/exp-001/run.json" state); "
  [ -e "$5/exp-001/latest/trainer.json" ] || problem+="no checkpoint; "
  result "$1" "$problem${problem:+$(cat err)}"
  "$GRPO" run --quiet --resume="$5/exp-001" >/dev/null 2>err
  result "$1, and the run goes on to the same bytes" "$(different whole/exp-001 "$5/exp-001")"
}
stopped "SIGINT stops after a checkpoint with status 130" INT 130 interrupted int
stopped "SIGTERM stops after a checkpoint with status 143" TERM 143 interrupted term
if ((0x$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status) & 1)); then
  result "SIGHUP stops after a checkpoint # SKIP it is ignored here, as under nohup"
else
  stopped "SIGHUP, when its terminal is closed, stops after a checkpoint with status 129" HUP 129 interrupted hup
fi
stopped "SIGTERM twice at once, as timeout sends it, is one" TERM 143 interrupted terms 0.01

SLOW=0.05 "$GRPO" run exp.lua --quiet --dir usr checkpoint.every=0 >/dev/null 2>err & pid=$!
wait_for_step usr/exp-001 1
kill -USR1 $pid
for _ in $(seq 60); do [ -e usr/exp-001/latest ] && break; sleep 0.05; done
result "SIGUSR1 writes a checkpoint" "$([ "$(readlink usr/exp-001/latest)" != checkpoints/step-000014 ] && [ -e usr/exp-001/latest/trainer.json ] || ls -l usr/exp-001)"
"$GRPO" run --quiet --resume=usr/exp-001 >/dev/null 2>second; status=$?
result "a run that is alive cannot be resumed" "$([ $status = 2 ] && grep -q 'is running' second || show second)"
wait $pid

# ---- the time that is left ------------------------------------------------------------------------------------------------------
experiment hooked.lua 'train = { steps = 4, prompts_per_step = 1 }, hooks = { on_step = function() os.execute("sleep 0.7") end },'
"$GRPO" run hooked.lua --dir hooked >/dev/null 2>err
result "the estimate of the time that is left counts hooks" "$(grep '^grpo 1/4 ' err | grep -qE 'ETA [2-9]s' || show err)"

# ---- options ----------------------------------------------------------------------------------------------------------------------
"$GRPO" run exp.lua --quiet --json --dir json name=other sampling.group_size=2 --steps 5 >out 2>err
result "--json prints the result as JSON" "$([ "$(cat out)" = '{"run": "json/other-001", "state": "stopped", "step": 5}' ] || show out err)"
result "config.json has the override and where it came from" \
  "$(grep -A 2 '"sampling.group_size"' json/other-001/config.json | tr -d ' \n' | grep -q '"origin":"commandline","value":2' || echo no)"
"$GRPO" run exp.lua --quiet --dir json --arg rate=0.5 name=other --steps 5 >out 2>err
result "a second run gets the next number" "$([ "$(cat out)" = json/other-002 ] || show out err)"
result "--arg reaches the script" "$(grep -q '"learning_rate": 0.5,' json/other-002/metrics.jsonl || head -n 1 json/other-002/metrics.jsonl)"
"$GRPO" run exp.lua --quiet --dir dots name=.new --steps 5 >out 2>err
"$GRPO" run exp.lua --quiet --dir dots name=other --steps 5 >>out 2>>err
result "a run's name never looks like a place where one is built, or like a flag" "$([ "$(cat out)" = "dots/new-001
dots/other-001" ] && [ -e dots/new-001/run.json ] || show out err)"
mkdir -p dots/kept && touch dots/kept/file && ln -s nowhere dots/.new-1 && ln -s kept dots/.new-2
"$GRPO" run exp.lua --quiet --dir dots name=links --steps 5 >out 2>err
result "a link in that place, also one to nowhere, is in nobody's way" \
  "$([ "$(cat out)" = dots/links-001 ] && [ -L dots/.new-1 ] && [ -L dots/.new-2 ] && [ "$(ls -A dots/kept)" = file ] || { cat out err; ls -la dots; })"
name=$(printf '%0245d' 0)
"$GRPO" run exp.lua --quiet --dir dots name="n$name" --steps 5 >out 2>err; status=$?
"$GRPO" run exp.lua --quiet --dir dots name="$name" --steps 5 >>out 2>err
result "the longest name is a directory's, a longer one is refused at once" \
  "$([ $status = 2 ] && [ "$(cat out)" = "dots/$name-001" ] || show out err)"
echo '{ "train": { "lr": 0.25, "prompts_per_step": 3 }, "sampling": { "group_size": 3 } }' >base.json
"$GRPO" run exp.lua --quiet --dir json name=third extends=base.json stages.2.train.steps=1 --steps 5 >out 2>err
result "extends is below the script, and stages.N.option above it" "$(
  grep -q '"num_sequences": 16,' json/third-001/metrics.jsonl && [ "$(wc -l <json/third-001/metrics.jsonl)" = 5 ] &&
  grep -q '"state": "finished"' json/third-001/run.json || show err json/third-001/metrics.jsonl)"

finish
