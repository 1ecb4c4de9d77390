#!/usr/bin/env bash
# Workers sample for a trainer: the files of the run are those of a run alone, byte for byte, whatever becomes of them.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"
export GRPO_WORKER_TOKEN=a-token-for-the-tests

# train DIR WORD... : a run with workers begins in the background, as $trainer; it listens at $port
train() {
  local dir=$1; shift
  rm -f "$dir.err" # the port of an earlier run is in it
  GRPO_CPU=${cpu:-} "$GRPO" run "$@" --dir "$dir" --threads 1 workers.listen=127.0.0.1:"${port:-0}" >"$dir.out" 2>"$dir.err" & trainer=$!
  port=
  for _ in $(seq 500); do
    port=$(sed -n 's/^workers can join: .*:\([0-9]*\)$/\1/p' "$dir.err" 2>/dev/null)
    [ -n "$port" ] && return
    kill -0 $trainer 2>/dev/null || return
    sleep 0.02
  done
}

# work NAME [WORD...] : a worker begins in the background, as $worker
work() {
  local name=$1; shift
  timeout 100 "$GRPO" worker --connect 127.0.0.1:$port --threads 1 "$@" >"$name.out" 2>"$name.err" & worker=$!
}

# wait_for FILE TEXT : until a line of the file has the text, at most some seconds
wait_for() {
  for _ in $(seq 500); do
    grep -q -- "$2" "$1" 2>/dev/null && return
    sleep 0.02
  done
  return 1
}

# slowly COUNT PATTERN FILE... : from now on a step of exp.lua takes its time, a second at most, until each file has so many lines like that
slowly() {
  local count=$1 pattern=$2; shift 2
  export SLOW="0; for i in 1 2 3 4 5 6 7 8 9 0; do all=1; for f in $*; do [ \"\$(grep -cE '$pattern' \$f)\" -ge $count ] || all=; done
    [ \$all ] && break; sleep 0.1; done 2>/dev/null; sleep 0.1"
}

# changed NAME FROM TO : a directory for GRPO_LUA in which a worker has another line
changed() {
  mkdir -p "$1/lua/grpo/workers"
  sed "s|$2|$3|" "$root/lua/grpo/workers/client.lua" >"$1/lua/grpo/workers/client.lua"
  cmp -s "$root/lua/grpo/workers/client.lua" "$1/lua/grpo/workers/client.lua" && echo "$1 changes nothing"
}

# completions NAME : how many a worker has sampled in a run that is over
completions() { sed -n 's/.*the run is over; \([0-9]*\) completions.*/\1/p' "$1.err"; }

write_experiment exp.lua
"$GRPO" run exp.lua --quiet --dir one --threads 1 >/dev/null 2>err || cat err
flipped='local b = batch:bytes(); b ='
result "the tests' own workers lie" "$(
  changed ids 'batch:bytes()' '(function(b) return b:sub(1, 16) .. string.char(b:byte(17) ~ 1) .. b:sub(18) end)(batch:bytes())'
  changed bits 'batch:bytes()' '(function(b) return b:sub(1, -2) .. string.char(b:byte(-1) ~ 1) end)(batch:bytes())'
  changed short 'batch:bytes()' 'batch:bytes():sub(2)'
  changed slow 'local ok, batch = pcall(sample, self, task)' 'core.process.sleep(1) local ok, batch = pcall(sample, self, task)')"

# ---- the same bits -----------------------------------------------------------------------------

rm -f ./?.err; slowly 1 ready {a,b,c,d}.err
train two exp.lua workers.check=1
work a; killed=$worker
work b; steady=$worker
GRPO_LUA=slow work c; slow=$worker
GRPO_LUA=bits work d; liar=$worker
wait_for two.err 'other bits'
wait_for a.err ready; sleep 0.3; kill -9 "$(pgrep -P $killed)" 2>/dev/null
wait $trainer; status=$?
wait $liar; liar_status=$?
wait $steady $slow $killed 2>/dev/null
result "one of them is killed, one lies, one is slow: the bytes of a run alone" "$([ $status = 0 ] || show two.err; different one/exp-001 two/exp-001)"
result "the liar is dropped with a line of the trainer's and one of its own" "$(
  { [ "$(grep -c 'was dropped: completion [0-9]* of prompt [0-9]* at step [0-9]* has other bits' two.err)" = 1 ] && [ $liar_status = 1 ] \
    && [ "$(grep -c '^grpo: worker: .* dropped us: what it has sampled has other bits' d.err)" = 1 ]; } || show two.err d.err)"
result "so is the one that is killed" "$([ "$(grep -c 'worker .* the connection has ended; its work goes to others' two.err)" = 1 ] || show two.err)"
result "the steady one has sampled, and ends with the run" "$([ "$(completions b)" -gt 0 ] || show b.err)"
result "the slow one waits for nobody and ends with the run" "$(grep -q 'the run is over' c.err || show c.err)"

rm -f ./?.err; slowly 1 ready a.err b.err
train ids exp.lua workers.check=1
GRPO_LUA=ids work a; liar=$worker
GRPO_LUA=short work b; wait $worker; status=$?
wait $liar $trainer
result "other tokens and cut messages are noticed too" "$(different one/exp-001 ids/exp-001
  { grep -q 'worker .* dropped: completion' ids.err && grep -Eq 'worker .* was dropped: (a completion|there is more)' ids.err && [ $status = 1 ]; } || show ids.err)"

# ---- who may join --------------------------------------------------------------------------------

rm -f ./?.err; slowly 1 refused a.err b.err c.err
train three exp.lua
exec 3<>/dev/tcp/127.0.0.1/$port # it says nothing
printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' >/dev/tcp/127.0.0.1/$port
head -c 100000 /dev/urandom >/dev/tcp/127.0.0.1/$port 2>/dev/null
GRPO_WORKER_TOKEN=another-token-than-the-trainers work a; wait $worker; status=$?
result "another token is refused with a line on both sides" "$(
  { [ $status = 2 ] && grep -q '^grpo: worker: .* refused us: its token is not' a.err && grep -q 'was refused: its token' three.err; } || show a.err three.err)"
result "no token is in what they write" "$(grep -rl 'another-token\|a-token-for' three three.err a.err)"
GRPO_CPU=generic work b; wait $worker; status=$?
result "so are other kernels" "$(
  { [ $status = 2 ] && grep -q '^grpo: worker: .* refused us: its kernels are generic' b.err; } || show b.err)"
work c --model one/exp-001; wait $worker; status=$?
result "so is a base where all weights are trained" "$({ [ $status = 2 ] && grep -q 'leave it out' c.err; } || show c.err)"
wait $trainer; status=$?
exec 3>&-
result "garbage at the port does nothing: the bytes of a run alone" "$(
  [ $status = 0 ] || show three.err; different one/exp-001 three/exp-001; [ "$(grep -c 'a connection from' three.err)" -ge 2 ] || show three.err)"

slowly 1 'has said nothing' silent.err
train silent exp.lua workers.silence=1
work d; silent=$worker
wait_for d.err ready; kill -STOP "$(pgrep -P $silent)"
wait_for silent.err 'has said nothing'
kill -CONT "$(pgrep -P $silent)"; wait $silent; status=$?
wait $trainer
result "one that says nothing is dropped: the bytes of a run alone" "$(different one/exp-001 silent/exp-001
  { grep -q 'it has said nothing for . s' silent.err && [ $status = 1 ] \
    && [ "$(grep -c '^grpo: worker: .* dropped us: nothing was heard of it for . s (workers.silence)' d.err)" = 1 ]; } || show silent.err d.err)"

rm -f d.err; slowly 2 'has joined' again.err
train again exp.lua workers.silence=1
work d --wait 20; silent=$worker
wait_for d.err ready; kill -STOP "$(pgrep -P $silent)"
wait_for again.err 'has said nothing'
kill -CONT "$(pgrep -P $silent)"; wait $silent; status=$?
wait $trainer
result "with --wait it joins again: the bytes of a run alone" "$(different one/exp-001 again/exp-001
  { [ $status = 0 ] && grep -q 'the trainer has dropped us: nothing was heard of it .*; joining again' d.err && [ "$(grep -c ready d.err)" = 2 ]; } || show again.err d.err)"

port=1 work a; wait $worker; status=$?
result "nobody listens there: one line" "$({ [ "$status" = 5 ] && [ "$(grep -c '^grpo: worker: 127.0.0.1:1: ' a.err)" = 1 ]; } || show a.err)"
env -u GRPO_WORKER_TOKEN "$GRPO" worker --connect 127.0.0.1:1 >out 2>err; status=$?
result "no token: one line" "$({ [ $status = 2 ] && grep -q '^grpo: --token-file: missing, and so is GRPO_WORKER_TOKEN' err; } || show err)"
echo short >token
env -u GRPO_WORKER_TOKEN "$GRPO" run exp.lua --dir x workers.listen=127.0.0.1:0 workers.token_file=token >out 2>err; status=$?
result "a short token: one line, and no run directory" "$({ [ $status = 2 ] && grep -q 'token has 5 bytes, want 16 or more' err && [ ! -e x ]; } || show err)"
"$GRPO" run exp.lua --dir x workers.listen=nowhere >out 2>err; status=$?
result "no address: one line" "$({ [ $status = 2 ] && grep -q '^grpo: command line: workers.listen: got "nowhere", want HOST:PORT' err; } || show err)"
"$GRPO" worker --connect nowhere >out 2>err; status=$?
result "nor for the worker" "$({ [ $status = 2 ] && grep -q '^grpo: worker: --connect: got "nowhere"' err; } || show err)"
"$GRPO" worker --connect 127.0.0.1:1 --wait -1 >out 2>err; status=$?
result "a wait below 0: one line" "$({ [ $status = 2 ] && [ "$(cat err)" = "grpo: worker: --wait: '-1' is not a number of at least 0; see 'grpo help worker'" ]; } || show err)"
experiment tools.lua 'tools = { add = { description = "adds", parameters = {}, fn = function() return "1" end } }'
"$GRPO" check tools.lua workers.listen=127.0.0.1:0 >out 2>err; status=$?
result "tools are refused" "$({ [ $status = 2 ] && grep -q 'workers.listen: workers sample completions of one turn; remove it, or the tools' err; } || show err)"

# ---- the trainer dies ------------------------------------------------------------------------------

rm -f ./?.err; slowly 1 ready a.err b.err
train four exp.lua
kept=$port
work a; short=$worker
work b --wait 60; long=$worker
wait_for b.err ready; wait_for_step four/exp-001 7
kill -9 $trainer; wait $trainer 2>/dev/null
wait $short; status=$?
result "the trainer dies: a worker ends with one line" "$({ [ $status = 5 ] && [ "$(grep -c '^grpo: worker: the trainer at .* has gone' a.err)" = 1 ]; } || show a.err)"
slowly 2 ready b.err
port=$kept train four --resume=four/exp-001
wait $trainer; status=$?
wait $long; long_status=$?
result "with --wait it joins the run that is resumed: the same bytes" "$(
  [ $status = 0 ] || show four.err; different one/exp-001 four/exp-001
  { [ $long_status = 0 ] && [ "$(grep -c ready b.err)" = 2 ] && [ "$(completions b)" -gt 0 ]; } || show b.err)"
port=

# ---- adapters, filters, other kinds of steps ---------------------------------------------------------

# same NAME SCRIPT WORKER'S-WORDS WORD... : a run with a worker has the bytes of one without
same() {
  local name=$1 script=$2 words=$3; shift 3
  rm -rf alone with
  env -u SLOW "$GRPO" run "$script.lua" --quiet --dir alone --threads 1 "$@" >/dev/null 2>err || cat err
  rm -f a.err
  train with "$script.lua" workers.check=1 "$@"
  # shellcheck disable=SC2086  # several words
  work a $words
  wait $trainer; local status=$?
  wait $worker 2>/dev/null
  result "$name" "$([ $status = 0 ] || show with.err; different alone/$script-001 with/$script-001
    { grep -q 'the run is over' a.err && ! grep 'dropped' with.err; } || show a.err)"
}
# a step takes its time until the worker is there
slow='hooks = { on_step = function()
  if os.getenv("SLOW") then os.execute("for i in 1 2 3 4 5 6 7 8 9 0; do grep -q ready a.err && break; sleep 0.1; done; sleep 0.03") end end }'
base=$PWD/one/exp-001
experiment lora.lua 'train = { lr = 1e-3, prompts_per_step = 5, skip_zero_std_groups = true, steps = 12, reuse_rollout = true }, '"$slow"
experiment ppo.lua 'stages = { { kind = "ppo", train = { steps = 12, prompts_per_step = 3, lr = 1e-3 } } }, '"$slow"
adapter="model.path=$base model.lora={\"rank\":2} model.config=null model.tokenizer=null"
# shellcheck disable=SC2086
{
  same "activations that are used again, and groups that are replaced" lora ""
  same "filters of sampling" lora "" sampling.top_p=0.8 sampling.temperature=0.7
  same "bf16" lora "" compute=bf16 train.reuse_rollout=false
  same "an adapter" lora "" $adapter train.kl=0.1
  same "an adapter beside a base in 8 bits" lora "" $adapter model.quantize=int8
  same "an adapter beside a base in 4 bits" lora "" $adapter model.quantize=nf4
  same "a base in bf16 that the worker has itself" lora "--model $base" $adapter model.dtype=bf16
  same "PPO" ppo ""
  same "fewer prompts than workers" lora "" train.prompts_per_step=1 sampling.group_size=16
}
env -u SLOW "$GRPO" run lora.lua --quiet --dir others seed=5 train.steps=1 >/dev/null 2>err || cat err
train other lora.lua $adapter train.steps=4
work a --model others/lora-001; wait $worker; status=$?
wait $trainer
result "a worker with another base than the trainer's is refused with one line" "$(
  { [ $status = 2 ] && grep -q '^grpo: worker: others/lora-001 is not the trainer.s model: its model' a.err; } || show a.err)"

# ---- weights of earlier steps ------------------------------------------------------------------------

# ahead NAME : how many completions were sampled ahead of their step in a run that is over
ahead() { sed -n 's/.*workers sampled \([0-9]*\) completions ahead of their step.*/\1/p' "$1.err"; }

for k in 1 2; do
  older="workers.staleness=$k train.sampler_correction={}"
  # shellcheck disable=SC2086  # several words
  {
    env -u SLOW "$GRPO" run exp.lua --quiet --dir older$k --threads 1 $older >/dev/null 2>err || cat err
    rm -f ./?.err; slowly 1 ready a.err
    train single$k exp.lua $older workers.check=1
    work a
    wait $trainer; status=$?; wait $worker 2>/dev/null
    result "staleness $k: with one worker the bytes of a run alone" "$([ $status = 0 ] || show single$k.err; different older$k/exp-001 single$k/exp-001)"
    result "staleness $k: it has sampled ahead" "$([ "$(ahead single$k)" -gt 0 ] || show single$k.err a.err)"
    rm -f ./?.err; slowly 1 ready {a,b,c,d}.err
    train three$k exp.lua $older workers.check=1
    work a; killed=$worker
    work b; steady=$worker
    GRPO_LUA=slow work c; slow_one=$worker
    GRPO_LUA=bits work d; liar=$worker
    wait_for a.err ready; wait_for_step three$k/exp-001 6; kill -9 "$(pgrep -P $killed)" 2>/dev/null
    wait $trainer; status=$?; wait $steady $slow_one $killed $liar 2>/dev/null
    result "staleness $k: with four, of which one is killed, one is slow and one lies, too" "$(
      [ $status = 0 ] || show three$k.err; different older$k/exp-001 three$k/exp-001
      { [ "$(ahead three$k)" -gt 0 ] && grep -q 'the connection has ended; its work goes' three$k.err && grep -q 'dropped: completion' three$k.err; } || show three$k.err)"
    rm -f ./?.err; slowly 1 ready a.err
    train killed$k exp.lua $older
    kept=$port
    work a --wait 60
    wait_for_step killed$k/exp-001 9
    kill -9 $trainer; wait $trainer 2>/dev/null
    slowly 2 ready a.err
    port=$kept train killed$k --resume=killed$k/exp-001
    wait $trainer; status=$?; wait $worker
    result "staleness $k: the trainer is killed and resumed: the same bytes" "$(
      [ $status = 0 ] || show killed$k.err; different older$k/exp-001 killed$k/exp-001; [ "$(ahead killed$k)" -gt 0 ] || show killed$k.err a.err)"
    port=
  }
done
result "they are other ones than without it" "$(cmp -s one/exp-001/latest/model.safetensors older1/exp-001/latest/model.safetensors && echo same
  cmp -s older1/exp-001/latest/model.safetensors older2/exp-001/latest/model.safetensors && echo same)"
"$GRPO" run exp.lua --quiet --dir more --threads 1 --steps 12 workers.staleness=1 'train.sampler_correction={}' >/dev/null 2>err || cat err
env -u SLOW "$GRPO" run --resume=more/exp-001 --force --quiet --threads 1 workers.staleness=16 >/dev/null 2>err; status=$?
result "a run goes on with another staleness" "$([ $status = 0 ] || show err)"
older="workers.staleness=2 train.sampler_correction={} train.skip_zero_std_groups=false train.reuse_rollout=auto"
# shellcheck disable=SC2086
{
  same "staleness 2 of an adapter" lora "" $adapter $older train.kl=0.1
  same "staleness 16 of a run of 12 steps" lora "" $adapter $older workers.staleness=16
  # what is sampled ahead, with other options than those that its step then has
  experiment changing.lua 'train = { lr = 1e-3, prompts_per_step = 5, steps = 12 }, hooks = { on_step = function(m, tr)
    local s = tr.config.sampling
    if m.step == 4 then s.temperature = 1.3 elseif m.step == 6 then s.top_k = 5 elseif m.step == 8 then s.stop = { "3" } end
    if os.getenv("SLOW") then os.execute("for i in 1 2 3 4 5 6 7 8 9 0; do grep -q ready a.err && break; sleep 0.1; done; sleep 0.1") end end }'
  same "staleness 1, and a hook that changes sampling" changing "" workers.staleness=1 'train.sampler_correction={}'
  same "staleness 2, and a hook that changes sampling" changing "" workers.staleness=2 'train.sampler_correction={}'
  result "they were sampled ahead of that" "$([ "$(ahead with)" -gt 20 ] || show with.err)"
  same "staleness 2, and prompts that do not fit" lora "" $adapter $older data.max_prompt_tokens=3 data.too_long=truncate_left
}

# refused NAME SCRIPT WORD... : a staleness is refused in one line that names the option
refused() {
  local name=$1 script=$2; shift 2
  "$GRPO" check "$script.lua" workers.staleness=1 'train.sampler_correction={}' "$@" >out 2>err; status=$?
  result "staleness and $name: one line" "$({ [ $status = 2 ] && [ "$(grep -c "^grpo: .*$name: .*workers.staleness = 1, because" err)" = 1 ] \
    && [ "$(wc -l <err)" = 1 ]; } || show err)"
}
experiment plain.lua 'train = { steps = 3 }'
experiment stage.lua 'stages = { { kind = "ppo" } }'
experiment sampler.lua '' '' 'train = grpo.data.list(rows), sampler = function(p) return 1 end'
refused train.skip_zero_std_groups plain train.skip_zero_std_groups=true
refused train.on_nonfinite plain train.on_nonfinite=skip
refused train.kl_in plain train.kl_in=reward train.kl=0.1
refused train.reuse_rollout plain train.reuse_rollout=true
refused model.lora.dropout plain $adapter 'model.lora={"dropout":0.1}'
refused data.sampler sampler
refused tools tools
"$GRPO" check stage.lua workers.staleness=1 >out 2>err; status=$?
result "staleness and PPO: one line" "$({ [ $status = 2 ] && grep -q 'workers.staleness = 1, because a stage of kind "ppo" has no correction' err; } || show err)"
"$GRPO" check plain.lua workers.staleness=1 >out 2>err; status=$?
result "staleness without a correction: one line" "$({ [ $status = 2 ] && grep -q 'train.sampler_correction: missing, because with workers.staleness = 1' err; } || show err)"

# the copies of the weights that a staleness of 2 keeps, beside the estimate without one
experiment large.lua 'train = { steps = 2, reuse_rollout = false }'
sed -i 's/hidden_size = 32, intermediate_size = 64/hidden_size = 256, intermediate_size = 4096/' large.lua
for k in 0 2; do "$GRPO" check large.lua --threads 1 workers.staleness=$k 'train.sampler_correction={}' >large.$k 2>err || cat err; done
numbers=$(sed -nE 's/.*model of ([0-9]+) parameters.*/\1/p' large.0)
needs() { sed -nE 's/^grpo +([0-9]+) MiB \(.*/\1/p' "$1"; }
older=$((3 * 4 * numbers >> 20)) more=$(($(needs large.2) - $(needs large.0)))
result "check counts the copies of the weights of a staleness" "$(
  { [ $older -gt 0 ] && [ $more -ge $older ] && [ $more -le $((older + 1)) ] && grep -q " older $older," large.2 && ! grep -q older large.0; } ||
    { echo "older $older, more $more"; show large.0 large.2; })"

for kind in openmpi mpich; do
  for words in listen=127.0.0.1:0 staleness=1; do
    if ! has $kind; then
      result "workers.${words%%=*} beside ranks of $kind: # SKIP its mpirun or its header is not here"
      continue
    fi
    ranks 2 "$GRPO" run plain.lua --quiet --dir ranked workers.$words 'train.sampler_correction={}' >out 2>err; status=$?
    result "workers.${words%%=*} beside ranks of $kind: one line, and no run directory" "$(
      { [ $status != 0 ] && [ $status != 124 ] && [ "$(grep -c "workers.${words%%=*}: a launcher has started 2 ranks, which share the sampling already" err)" = 1 ] && [ ! -e ranked ]; } || show err)"
  done
done
finish
