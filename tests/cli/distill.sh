#!/usr/bin/env bash
# Distillation from every kind of teacher: runs have the same bytes however they are run, killed and resumed; what a check says, and
# what is refused.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

write_experiment exp.lua
"$GRPO" run exp.lua --quiet --dir first --as teacher --steps 4 seed=5 >/dev/null 2>err || show err

# variant NAME STAGE : NAME.lua, whose second stage is STAGE
variant() {
  sed -E "s|\\{ kind = \"grpo\", train = \\{ steps = 10, prompts_per_step = 4, kl = 0.05, iterations = 2,|$2|" exp.lua >"$1.lua"
}
# shellcheck disable=SC2089
steps='steps = 10, prompts_per_step = 4, iterations = 2'
hint='prompt = function(row, c) if c.index ~= 3 then return row.answer .. c.text:sub(1, 2) .. row.prompt end end, max_prompt_tokens = 12'
variant path "{ kind = \"distill\", reference = \"first/teacher\", train = { $steps, distill = { beta = 0.5, top_k = 4, lambda = 0.5 },"
variant samples "{ kind = \"distill\", reference = \"first/teacher\", train = { $steps, distill = { lambda = 0.3, seq_kd = true },"
variant packed "{ kind = \"distill\", reference = \"first/teacher\", reference_dtype = \"int8\", train = { $steps,"
variant itself "{ kind = \"distill\", reference = \"policy\", train = { $steps, distill = { beta = 0.5, $hint },"
variant average "{ kind = \"distill\", train = { $steps, distill = { beta = 0, $hint }, sync_reference = { every = 1, mixup = 0.1 },"
variant token "{ kind = \"grpo\", train = { $steps, distill = { weight = 0.5, sampled_token = true, $hint },"

for name in path samples packed itself average token; do
  "$GRPO" run $name.lua --quiet --dir whole >/dev/null 2>err; status=$?
  result "$name: runs" "$([ $status = 0 ] || show err)"
  "$GRPO" run $name.lua --quiet --dir one --threads 1 train.micro_batch_tokens=64 >/dev/null 2>&1
  result "$name, one thread and small micro-batches: the same bytes" "$(different whole/$name-001 one/$name-001)"
  exp=$name killed "$name, kill -9 in the middle of a step" k$name KILL_ROLLOUT=9
done

result "a checkpoint holds a teacher that moves, and no other" "$(
  for name in path packed itself; do [ ! -e whole/$name-001/checkpoints/step-000012/reference ] || echo $name; done
  find whole/average-001/checkpoints -name reference | grep -q . || echo 'average has none')"

"$GRPO" check itself.lua >out 2>err; status=$?
result "grpo check estimates the memory of a distill stage" "$({ [ $status -le 1 ] && grep -q '^distill .*MiB' out; } || cat out err)"

"$GRPO" run "$root/examples/self_distillation.lua" --quiet --dir example --as corrected eval.group_size=1 'eval.pass_at=[1]' >/dev/null 2>err
result "examples/self_distillation.lua solves what was never right" "$(
  grep -oE '"eval/accuracy": [0-9.]+' example/corrected/eval.jsonl | awk '{ a[NR] = $2 } END { exit !(NR == 3 && a[2] == 0 && a[3] > 0.9) }' ||
    { show err; grep -o '"eval/accuracy": [0-9.]*' example/corrected/eval.jsonl; })"

sed 's/0123456789+=/0123456789+=-/' exp.lua >wider.lua
"$GRPO" run wider.lua --quiet --dir first --as wider --steps 4 >/dev/null 2>err || show err
sed 's|first/teacher|first/wider|' path.lua >other.lua
"$GRPO" run other.lua --quiet --dir refused >out 2>err; status=$?
result "a teacher with another vocabulary is refused in one line" "$(
  { [ $status = 2 ] && [ ! -e refused ] && [ "$(wc -l <err)" = 1 ] &&
      grep -q 'reference: first/wider has "-" as token 1, the policy has "0", so' err; } || show err)"
finish
