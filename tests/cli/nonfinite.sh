#!/usr/bin/env bash
# A step that met a value which is not finite: its batch is kept in the run, and replay shows it and scores it.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

spoil='hooks = { on_rollout = function(batch) if batch.step == 2 then batch.completions[2].reward = 0 / 0 end end },'
once='hooks = { on_rollout = function(batch, tr) if batch.step == 2 and not tr.state.done then
  tr.state.done = true; batch.completions[2].reward = 1 / 0 end end },'
experiment stop.lua "train = { steps = 4, prompts_per_step = 2 }, $spoil"
experiment skip.lua "train = { steps = 4, prompts_per_step = 2, on_nonfinite = 'skip' }, checkpoint = { every = 1, keep = 9 }, $once"
experiment sft.lua "stages = { { kind = 'sft', train = { steps = 9, prompts_per_step = 2, lr = 1e38 } } }," '' \
  "train = grpo.data.list(rows), target = function() return '1' end"

# ---- stop -------------------------------------------------------------------------------------------------------------
"$GRPO" run stop.lua --quiet >out 2>err; status=$?
result "the run ends with status 4 and one line" "$([ $status = 4 ] && [ "$(wc -l <err)" = 1 ] || { echo "status $status"; cat err; })"
result "which names the completion and the way to look" "$(grep -q "the reward of prompt 1, completion 2 is nan, so the weights were not changed; .*; 'grpo replay runs/stop-001 3 --nonfinite' shows the batch\$" err || show err)"
result "run.json says that it diverged" "$(grep -q '"state": "diverged"' runs/stop-001/run.json || show runs/stop-001/run.json)"
result "logs have only the steps that were taken" "$([ "$(wc -l <runs/stop-001/metrics.jsonl)" = 2 ] && [ "$(wc -l <runs/stop-001/completions.jsonl)" = 16 ] || wc -l runs/stop-001/*.jsonl)"
"$GRPO" replay stop-001 3 --nonfinite >out 2>err; status=$?
result "replay shows the batch" "$([ $status = 0 ] && grep -q '^the reward of prompt 1, completion 2 is nan' out && grep -q '^step 3: 8 completions of 2 prompts$' out && grep -q 'total - ' out || show out err)"
"$GRPO" replay stop-001 --nonfinite --json >out 2>err
result "as JSON, with the reason" "$([ "$(grep -c '"problem": "the reward of prompt 1' out)" = 8 ] && [ "$(grep -c '"reward": null' out)" = 1 ] || show out err)"
echo 'return function(text) return #text end' >length.lua
"$GRPO" replay stop-001 3 --nonfinite --reward length.lua >out 2>err
result "and scores it again" "$(grep -q '^8 completions scored again with length.lua' out || show out err)"
"$GRPO" replay stop-001 1 --nonfinite >out 2>err; status=$?
result "a step without such a batch" "$([ $status = 3 ] && grep -q '^grpo: .*runs/stop-001 has no batch of step 1 that was kept because a value was not finite$' err || { echo "status $status"; cat err; })"
"$GRPO" replay stop-001 3 --nonfinite --regenerate >out 2>err; status=$?
result "--regenerate takes no kept batch" "$([ $status = 2 ] && grep -q 'cannot be combined' err || { echo "status $status"; cat err; })"

experiment reward.lua "train = { steps = 4, prompts_per_step = 2 }," '{ name = "ratio", fn = function() return 1 / 0 end }'
"$GRPO" run reward.lua --quiet >out 2>err; status=$?
result "a reward function that returns inf: its name, its place and the batch" \
  "$([ $status = 1 ] && grep -q "rewards.ratio: .*reward.lua:.* returned inf; a reward must be finite (completion: .*; 'grpo replay runs/reward-001 1 --nonfinite' shows the batch" err || { echo "status $status"; cat err; })"
"$GRPO" replay reward-001 --nonfinite >out 2>err; status=$?
result "which is there" "$([ $status = 0 ] && grep -q '^step 1: 8 completions' out || show out err)"
"$GRPO" run reward.lua --quiet train.on_nonfinite=skip reward.on_error=skip >out 2>err; status=$?
result "reward.on_error says first what happens to it" "$([ $status = 0 ] && [ ! -e runs/reward-002/nonfinite ] || show out err)"

# ---- skip -------------------------------------------------------------------------------------------------------------
"$GRPO" run skip.lua --quiet >out 2>err; status=$?
result "skip: the run goes to its end" "$([ $status = 0 ] && [ "$(wc -l <runs/skip-001/metrics.jsonl)" = 4 ] || { echo "status $status"; cat err; })"
result "the step counts the batch" "$([ "$(grep -c '"batches_skipped": 1[,}]' runs/skip-001/metrics.jsonl)" = 1 ] || show runs/skip-001/metrics.jsonl)"
result "the log tells of it" "$(grep -q "skipped a batch (train.on_nonfinite): the reward of prompt 1, completion 2 is inf" runs/skip-001/run.log || show runs/skip-001/run.log)"
result "the batch is kept" "$([ "$(cd runs/skip-001/nonfinite && ls)" = step-000000003.jsonl ] || ls -R runs/skip-001)"
cp -a runs/skip-001 whole
"$GRPO" run skip.lua --quiet --dir again --steps 2 >out 2>err
"$GRPO" run skip.lua --quiet --dir again --resume >out 2>err
result "a run that is stopped before the batch and resumed ends with the same bytes" \
  "$(diff -r whole/checkpoints again/skip-001/checkpoints && diff -r whole/nonfinite again/skip-001/nonfinite)"

# ---- what happened before ---------------------------------------------------------------------------------------------
experiment grows.lua "train = { steps = 12, prompts_per_step = 2, lr = function(p) return p.step < 5 and 1e-3 or 1e38 end }, checkpoint = { every = 2 }"
"$GRPO" run grows.lua --quiet --as whole >out 2>err; status=$?
layer=', largest in [a-z_.0-9]+\)'
before="; before it, the largest of 6 gradient norms was [0-9.e-]+ \(step [1-6], learning rate (0\.001|1e\+38)$layer(, and the last [0-9.e-]+ \(step 6, learning rate 1e\+38$layer)?"
result "a divergence says what came before it: step, largest gradient, learning rate, layer" \
  "$([ $status = 4 ] && grep -qE "training diverged at step 7: .*$before; 'grpo replay" err || { echo "status $status"; cat err; })"
result "which are those of the metrics" "$(norm=$(sed -n -E 's/.* gradient norms was ([0-9.e-]+) .*/\1/p' err) "$GRPO" repl <<'LUA' 2>&1
local most = 0
for line in io.lines "runs/whole/metrics.jsonl" do most = math.max(most, grpo.json.decode(line).grad_norm) end
if ("%.3g"):format(most) ~= os.getenv "norm" then print(most, os.getenv "norm") end
LUA
)"
"$GRPO" run grows.lua --quiet --as parts --steps 4 >out 2>err
"$GRPO" run --quiet --resume=runs/parts >out 2>err
result "also after a resume" "$(grep -qE "training diverged at step 7: .*; before it, the largest of 3 gradient norms was " err || show err)"
experiment first.lua "train = { steps = 4, prompts_per_step = 2, loss = function(t) return ((t.logp - t.old_logp) / 0):sum() end }"
"$GRPO" run first.lua --quiet >out 2>err; status=$?
result "in the first step there is nothing before it" "$([ $status = 4 ] && ! grep -q 'before it' err || { echo "status $status"; cat err; })"
result "and a reward that is not finite is not the gradients' fault" "$("$GRPO" run stop.lua --quiet >out 2>err; grep -q 'before it' err && show err)"

# ---- other kinds of steps ---------------------------------------------------------------------------------------------
"$GRPO" run sft.lua --quiet >out 2>err; status=$?
result "demonstrations: the message names the operation, the example and what came before" \
  "$([ $status = 4 ] && grep -qE 'training diverged at step [0-9]+: .*the first such value is the (result|gradient) .* \(model\..* example .*; before it, the largest of [0-9]+ gradient norms was |training diverged at step 2: .*; before it, the gradient norm was [0-9.e-]+ \(step 1, learning rate 1e\+38, largest in [a-z_.0-9]+\)' err || { echo "status $status"; cat err; })"
"$GRPO" replay sft-001 --nonfinite >out 2>err; status=$?
result "and replay shows them" "$([ $status = 0 ] && grep -qF '  target: 1<|endoftext|>' out || show out err)"
"$GRPO" replay sft-001 --nonfinite --reward length.lua >out 2>err; status=$?
result "which no reward scores" "$([ $status = 2 ] && grep -q 'has no completions to score' err || { echo "status $status"; cat err; })"
finish
