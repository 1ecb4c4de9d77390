#!/usr/bin/env bash
# grpo eval of a run that was changed while it trained: a checkpoint is measured as the run itself did.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
export GRPO_RELOAD_ALWAYS=1 # look at every step, not once a second

# The run pauses after step 2 for a session, and edits its own module in step 4.  The reward reads tr.state, its second entry has a schedule.
experiment exp.lua 'eval = { every = 2, group_size = 2, samples = 20 },
  stages = { { kind = "sft", train = { steps = 2, prompts_per_step = 2, lr = 1e-3 } },
             { kind = "grpo", train = { steps = 6, prompts_per_step = 2, lr = 1e-3, kl = 0.05 } } },
  checkpoint = { every = 2, keep = 99 },
  hooks = { on_step = function(m, tr)
    tr.state.seen = (tr.state.seen or 0) + 1
    if m.step == 3 then tr.paused = true end
    if m.step == 5 then os.execute("echo \"return function(text) return #text + 100 end\" >reward.lua") end
  end }' \
  '{ name = "digits", fn = function(text, _, c) return select(2, text:gsub("%d", "")) / 6 + (c.state.seen or 0) / 10 end },
   { name = "module", fn = function(text) return require("reward")(text) end,
     weight = function(p) return 1 + p.step end }' \
  'train = grpo.data.list(rows), eval = grpo.data.list(rows), target = function(row) return row.answer end'
echo 'return function(text) return #text end' >reward.lua
"$GRPO" run exp.lua --quiet --dir runs </dev/null >run.out 2>run.err & pid=$!
run=runs/exp-001
for _ in $(seq 600); do grep -q 'paused at step' $run/run.log 2>/dev/null && break; sleep 0.05; done
timeout 60 "$GRPO" attach $run >attach.out 2>&1 <<'LUA'
weight("digits", 50)
tr.config.eval.temperature = 0.25
tr.state.seen = 70
resume()
LUA
wait $pid
result "the run has a session and a reload behind it" "$(grep -q '"kind": "weight"' $run/events.jsonl && grep -q '"kind": "reload"' $run/events.jsonl \
  && grep -q '"state": "finished"' $run/run.json || show run.err attach.out $run/run.log)"

# numbers FILE [STEP] : what an evaluation has measured, one a line; of a log, that of a step
numbers() { grep "\"step\": ${2:-[0-9]*}[,}]" "$1" | tail -n 1 | tr ',{}' '\n\n\n' | grep -oE '"eval/.*' | sort; }
evaluated() { timeout 60 "$GRPO" eval "$@" --json --memory 4G </dev/null >out 2>err; }
for step in 2 4 6 8; do
  evaluated $run/checkpoints/step-00000$step
  result "the checkpoint of step $step gives the numbers that the run wrote down" "$(numbers out >now; numbers $run/eval.jsonl $step >then
    [ -s now ] && diff then now || show out err)"
done
evaluated $run
result "the run is its newest checkpoint" "$(diff <(numbers $run/eval.jsonl 8) <(numbers out) || show err)"
evaluated $run/checkpoints/step-000004 eval.temperature=1
result "an option of the command line comes before what a session set" "$(
  numbers out >now; diff <(numbers $run/eval.jsonl 4 | grep -v sampled/metric) <(grep -v sampled/metric now) | grep -vE 'pass@|sampled/reward|eval/kl' | grep '^[<>]'
  [ -s now ] && ! diff -q <(numbers $run/eval.jsonl 4) now >/dev/null || show out err)"
evaluated exp.lua model.path=$run/checkpoints/step-000008
result "a script that is named is taken as it is, with its own weights and the present files" "$(
  [ "$(numbers out | grep -c .)" -gt 3 ] && [ -n "$(diff <(numbers $run/eval.jsonl 8) <(numbers out))" ] || show out err)"

result "loss on the targets, total reward and KL are among the numbers of the grpo stage" "$(
  for name in loss reward sampled/reward kl; do numbers $run/eval.jsonl 8 | grep -q "^\"eval/$name\"" || echo "no eval/$name"; done)"
timeout 60 "$GRPO" eval $run --completions 1 --memory 4G </dev/null >out 2>err
result "a shown sample has what was read in it, the right answer and the verdict" \
  "$(grep -aqE '^\(prediction [^ ]+, gold 0: (right|wrong)\)$' out || show out err)"

# What was changed at the checkpoint's own step counts from the next one.
cp -r runs late
printf '{"kind": "weight", "name": "digits", "stage": 2, "step": 8, "value": 9}\n' >>late/exp-001/events.jsonl
evaluated late/exp-001
result "a change at that very step counts from the next one, and a note says so" "$(diff <(numbers $run/eval.jsonl 8) <(numbers out)
  grep -q '^grpo: note: .*at step 8 counts from step 9.*: weight digits$' err || show err)"

# Rows whose measure is nil cannot be judged: they are counted, and said on the screen, and by eval.
experiment unjudged.lua 'train = { steps = 1, prompts_per_step = 2, lr = 1e-3 }' \
  'correct = function(_, row) if row.kept then return 1 end end' 'train = grpo.data.list(rows),
  eval = grpo.data.list { { prompt = "1+1=", answer = "2", kept = true }, { prompt = "2+1=", answer = "words" } }'
timeout 60 "$GRPO" run unjudged.lua --dir left --memory 4G </dev/null >out 2>err
result "the screen says how many rows cannot be judged, and leaves them out of the accuracy" \
  "$(grep -q '^evaluation after grpo: 1 held-out rows, and 1 that cannot be judged: accuracy 100.0 %' err || show err)"
result "eval.jsonl counts them" "$(grep -q '"n": 1.*"unjudged": 1' left/unjudged-001/eval.jsonl || show left/unjudged-001/eval.jsonl)"
timeout 60 "$GRPO" eval left/unjudged-001 --completions 5 --memory 4G </dev/null >out 2>err
result "eval says so" "$(grep -qE '^rows that cannot be judged +1$' out && [ "$(grep -ac '^\[not judged\]' out)" = 1 ] || show out err)"

# Two models on the same rows.
run=runs/exp-001
timeout 60 "$GRPO" eval $run/checkpoints/step-000002 $run/checkpoints/step-000008 --memory 4G </dev/null >out 2>err
result "two checkpoints are compared row by row" "$([ "$(grep -cE '^eval/(accuracy|pass@1) .*of 20 rows' out)" = 2 ] || show out err)"
evaluated $run/checkpoints/step-000008 $run/checkpoints/step-000008
result "a checkpoint does not differ from itself" "$(grep -qE '"p": 1[,.}]' out && ! grep -qE '"p": 0' out || show out err)"
numbers() { tr ',{}' '\n\n\n' <"$1" | grep -oE '"eval/[^"]*": .*' | sort; }
evaluated $run/checkpoints/step-000002 $run/checkpoints/step-000008
result "each gives its own numbers, and the comparison is the same each time" "$(cp out first; numbers $run/eval.jsonl >then
  numbers out | sort -u >now; [ -z "$(comm -23 now <(sort -u then))" ] || show out
  evaluated $run/checkpoints/step-000002 $run/checkpoints/step-000008; sed -E 's/"seconds": [^,}]*//g' first out | sort -u | wc -l | grep -qx 1 || show first out)"
sed 's/a + b/a - b/' exp.lua >other.lua
evaluated exp.lua other.lua; status=$?
result "other rows are refused" "$(grep -q 'row 1 of data.eval is not the same for both\|row . of data.eval is not the same' err || show out err)"
evaluated exp.lua exp.lua exp.lua
result "there are two at most" "$(grep -q 'one word too many' err || show err)"

"$GRPO" run "$root/examples/evaluation.lua" --quiet --dir shown </dev/null >out 2>err
timeout 60 "$GRPO" eval "$root/examples/evaluation.lua" shown/evaluation-001 --json </dev/null >out 2>>err
result "examples/evaluation.lua: a vote is better than a sample, and training is seen" "$("$GRPO" repl <<'LUA' 2>&1
local r = grpo.json.decode(io.open("out"):read "a")
local before
for line in io.lines "shown/evaluation-001/eval.jsonl" do
  local row = grpo.json.decode(line)
  if not before or row.label and row.label:find "sft" then before = row end
end
local second, p = r.second, 1
for _, one in ipairs(r.comparison) do if one.name == "eval/pass@1" then p = one.p end end
if not (before["eval/maj@64"] > before["eval/pass@1"] and second["eval/pass@1"] > before["eval/pass@1"] + 0.2 and p < 0.01
  and second["eval/best@64"] and second["eval/maj@8/low"]) then
  print(p, before["eval/maj@64"], before["eval/pass@1"], second["eval/pass@1"])
end
LUA
)"
finish
