#!/usr/bin/env bash
# Several processes train together: the files of a run are those of one process, byte for byte; a rank that fails ends all.
# TAP on stdout; without mpirun, or built without MPI's header, everything is skipped.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"

# the files of a run that ranks must write as one process does
same_run() { different "$1" "$2"; }

write_experiment exp.lua
experiment lora.lua 'train = { lr = 1e-3, prompts_per_step = 5, skip_zero_std_groups = true, top_entropy_quantile = 0.8, steps = 3,
  advantage = { scale = "batch" } }'
"$GRPO" run exp.lua --quiet --dir one --threads 1 >/dev/null 2>err || cat err
"$GRPO" run lora.lua --quiet --dir one --threads 1 >/dev/null 2>err || cat err
base=$(echo one/lora-001)
filters='sampling.top_p=0.8 sampling.temperature=0.7'
# shellcheck disable=SC2086  # two words
"$GRPO" run exp.lua --quiet --dir filtered --threads 1 $filters >/dev/null 2>err || cat err
"$GRPO" run lora.lua --quiet --dir one --threads 1 model.path="$base" 'model.lora={"rank":2,"dropout":0.1}' model.config=null model.tokenizer=null train.kl=0.1 \
  >/dev/null 2>err || cat err

for kind in openmpi mpich; do
  if ! has $kind; then
    result "$kind: # SKIP its mpirun or its header is not here"
    continue
  fi
  for n in 2 3; do
    ranks $n "$GRPO" run exp.lua --quiet --dir $kind$n --threads $((4 - n)) >out 2>err || cat err
    result "$kind, $n ranks: supervised steps, GRPO, hooks and evaluations have the bytes of one process" \
      "$(same_run one/exp-001 $kind$n/exp-001)"
    result "$kind, $n ranks: one of them prints the run's directory" "$([ "$(cat out)" = "$kind$n/exp-001" ] || show out err)"
    ranks $n "$GRPO" run lora.lua --quiet --dir $kind$n --threads 1 >out 2>err || cat err
    result "$kind, $n ranks: replaced groups and what is normalised over the batch too" "$(same_run one/lora-001 $kind$n/lora-001)"
  done
  ranks 3 "$GRPO" run lora.lua --quiet --dir $kind --threads 1 model.path="$base" 'model.lora={"rank":2,"dropout":0.1}' model.config=null model.tokenizer=null \
    train.kl=0.1 >out 2>err || cat err
  result "$kind: an adapter with a KL too" "$(same_run one/lora-002 $kind/lora-001)"

  for case in ppo ppo_separate bnpo lua_loss tools environment credit; do
    [ $kind != openmpi ] && [ $case != ppo_separate ] && [ $case != tools ] && continue
    [ -e one/$case ] || CASE=$case "$GRPO" run "$root/ext/mpi/tests/cases.lua" --quiet --dir one --as $case --threads 1 >/dev/null 2>err || cat err
    CASE=$case ranks 3 "$GRPO" run "$root/ext/mpi/tests/cases.lua" --quiet --dir $kind --as $case --threads 1 >/dev/null 2>err || cat err
    result "$kind: $case too" "$(same_run one/$case $kind/$case)"
  done

  # shellcheck disable=SC2086
  ranks 3 "$GRPO" run exp.lua --quiet --dir f$kind --threads 1 $filters >out 2>err || cat err
  result "$kind: truncated sampling too" "$(same_run filtered/exp-001 f$kind/exp-001)"

  ranks 3 "$GRPO" run exp.lua --quiet --dir r$kind --threads 1 --steps 6 >out 2>err || cat err
  ranks 2 "$GRPO" run --resume=r$kind/exp-001 --quiet --threads 1 --steps 9 >out 2>err || cat err
  "$GRPO" run --resume=r$kind/exp-001 --quiet --threads 1 >out 2>err || cat err
  result "$kind: 3 ranks begin a run, 2 continue it, and one ends it: the same bytes" "$(same_run one/exp-001 r$kind/exp-001)"
  ranks 2 "$GRPO" run --resume=r$kind/exp-001 --quiet >out 2>err; status=$?
  result "$kind: ranks that resume a finished run say so once" "$(
    { [ $status = 0 ] && [ "$(grep -c 'is finished already' err)" = 1 ]; } || show err)"

  echo 'error("no such thing")' >broken.lua
  ranks 2 "$GRPO" run broken.lua --dir x >out 2>err; status=$?
  result "$kind: a script's mistake is one line" "$(
    { [ $status != 0 ] && [ "$(grep -c 'grpo: .*no such thing' err)" = 1 ]; } || show err)"
  experiment fails.lua '' '{ name = "bad", fn = function(_, row) if row.answer == "3" then error("bad row") end return 1 end }'
  ranks 3 "$GRPO" run fails.lua --quiet --dir x --threads 1 >out 2>err; status=$?
  result "$kind: so is an error of a reward, whichever rank has it" "$(
    { [ $status != 0 ] && [ "$(grep -c '^grpo: ' err)" = 1 ] && grep -q 'rewards.bad: .*bad row' err; } || show err)"
  experiment loss.lua 'train = { steps = 1, prompts_per_step = 3, loss = function(t) if t.advantage[1] then error("bad loss") end end }'
  ranks 3 "$GRPO" run loss.lua --quiet --dir x --threads 1 >out 2>err; status=$?
  result "$kind: so is an error of a loss written in Lua" "$(
    { [ $status != 0 ] && [ "$(grep -c '^grpo: ' err)" = 1 ] && grep -q 'train.loss: .*bad loss' err; } || show err)"
  experiment form.lua 'tools = { f = { fn = print } }, turns = { format = { stop = { "=" }, write = tostring, read = function(text)
    if text:find("3") then return { { name = "f", arguments = { g = print } } } end end } }'
  ranks 3 "$GRPO" run form.lua --quiet --dir x --threads 1 >out 2>err; status=$?
  result "$kind: a tool's call that other ranks cannot be told of is an error" "$(
    { [ $status != 0 ] && [ "$(grep -v '^grpo: note: ' err | grep -c '^grpo: ')" = 1 ] && grep -q 'turns.value.*arguments.g is a function' err; } || show err)"
  experiment killed.lua '' '{ name = "kill", fn = function(_, row)
    if row.answer == "3" then os.execute("kill -9 $PPID") end return 1 end }'
  ranks 3 "$GRPO" run killed.lua --quiet --dir x --threads 1 >out 2>err; status=$?
  result "$kind: a rank that is killed ends all, in less than the time that is given" "$([ $status != 0 ] && [ $status != 124 ] || show err)"
done

echo 'return function(text) return #text end' >late.lua
experiment modules.lua 'train = { steps = 3 }' '{ name = "late", fn = function(text) return require("late")(text) end }'
"$GRPO" run modules.lua --quiet --dir one --threads 1 >/dev/null 2>err || cat err
for kind in openmpi mpich; do
  has $kind || continue
  ranks 2 "$GRPO" run modules.lua --quiet --dir late$kind --threads 1 >out 2>err || cat err
  result "$kind: modules that a reward loads are kept with the script" "$(diff -r one/modules-001/source late$kind/modules-001/source)"
done

# a base of more than 2 MiB, and a hook that measures how much of its memory a rank has alone
experiment base.lua 'train = { steps = 1 }, stages = { { kind = "sft" } }' '' 'train = grpo.data.list(rows), target = function(row) return row.answer end'
sed -i 's/hidden_size = 32, intermediate_size = 64/hidden_size = 256, intermediate_size = 8192/' base.lua
"$GRPO" run base.lua --quiet --dir large --as base --threads 1 >/dev/null 2>err || cat err
experiment memory.lua 'train = { steps = 2, prompts_per_step = 4 }, hooks = { on_step = function(_, tr)
  if tr.step_count == 2 then os.execute("grep ^Private_Dirty /proc/$PPID/smaps_rollup >>private") end end }'
sed -i 's/    config = .*/    path = "large\/base", lora = { rank = 2 },/; /^      num_attention_heads/d; s/^    tokenizer = .*//' memory.lua
"$GRPO" run memory.lua --quiet --dir one --threads 1 >/dev/null 2>err || cat err
for kind in openmpi mpich; do
  has $kind || continue
  ranks 2 "$GRPO" run memory.lua --quiet --dir m$kind --threads 1 >/dev/null 2>err || cat err
  result "$kind: a base that ranks have in common: the same bytes" "$(same_run one/memory-001 m$kind/memory-001)"
done
result "ranks of a machine hold a base once" "$(awk 'NR == 1 { one = $2 } NR > 1 && $2 > one - 25000 { print "one process:", one, "KiB, a rank:", $2 }' private)"

kind=openmpi
if has openmpi && [ "$(nproc)" -gt 1 ]; then
  timeout 120 mpirun.openmpi --oversubscribe --bind-to core -n 2 "$GRPO" run base.lua --quiet --dir b --threads 2 >out 2>err; status=$?
  result "a rank with more threads than cores that it is bound to is named, once" "$(
    { [ $status = 0 ] && [ "$(grep -c 'note: rank 0 has 2 threads, but is bound to 1 of' err)" = 1 ]; } || show err)"
fi

GRPO_MPI=other "$GRPO" run exp.lua --dir x >out 2>err; status=$?
result "an MPI of another name is refused" "$(
  { [ $status = 2 ] && grep -q '^grpo: GRPO_MPI is other, want openmpi or mpich' err; } || show err)"
finish
