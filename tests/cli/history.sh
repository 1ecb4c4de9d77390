#!/usr/bin/env bash
# grpo replay and diff: what is read from finished, cut-short and damaged runs.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

experiment exp.lua 'train = { steps = 6, prompts_per_step = 2 }, checkpoint = { every = 3, keep = 5 }'
cat >table.lua <<'LUA'
return { length = function(text) return #text end, weighed = { fn = function() return 1 end, weight = function(p) return p.fraction end } }
LUA
"$GRPO" run exp.lua --quiet >/dev/null 2>&1 || { echo "not ok - the run for these tests"; exit 1; }
run=runs/exp-001

# ---- replay -------------------------------------------------------------------------------------------------------------
"$GRPO" replay $run >out 2>err
result "replay shows the last step" "$(grep -q '^step 6: 8 completions of 2 prompts$' out || show out err)"
result "with every reward and the advantage" "$([ "$(grep -cE '^  \[digits [0-9.]+ \| total [0-9.e-]+ \| advantage [0-9.e-]+ \| (eos|length), [0-9]+ tokens\]$' out)" = 8 ] || show out)"
"$GRPO" replay exp-001 2 --count 1 >out 2>err
result "a run may be named, a step chosen" "$(grep -q '^step 2:' out && grep -q '^1 more prompts' out || show out err)"
"$GRPO" replay exp-001 2 --json >out
result "--json: one object a completion" "$([ "$(grep -c '"step": 2' out)" = 8 ] || show out)"
"$GRPO" replay exp-001 --reward exp.lua >out 2>err
result "the same rewards again change nothing" \
  "$(grep -q '^48 completions scored again with exp.lua: 0 have another reward, 0 advantages change their sign$' out || show out err)"
echo 'return function(text, row) return -select(2, text:gsub("%d", "")) / 6 end' >opposite.lua
"$GRPO" replay exp-001 --reward opposite.lua >out 2>err
flipped=$(grep -cE '"advantage": -?[0-9.e-]*[1-9]' $run/completions.jsonl)
result "the opposite reward turns every advantage around" "$(grep -q " $flipped advantages change their sign" out || show out err)"
"$GRPO" replay exp-001 4 --reward table.lua --json >out 2>err
result "a table of rewards, a weight that is a schedule" "$([ "$(grep -c '"weighed": 1' out)" = 8 ] && grep -q '"flipped"' out || show out err)"
"$GRPO" replay exp-001 5 --regenerate --count 0 >out 2>err; status=$?
result "a step is sampled again, from a checkpoint, the same" \
  "$([ $status = 0 ] && grep -q '^8 of 8 completions are the same again$' out && grep -q 'checkpoint of step 3' err || show out err)"

# refused NAME STATUS TEXT WORDS... : one line on stderr that holds TEXT
refused() {
  local name=$1 want=$2 text=$3 status; shift 3
  timeout 60 "$GRPO" "$@" >out 2>err; status=$?
  result "$name" "$([ $status = "$want" ] && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$text" err || { echo "status $status"; cat out err; })"
}
echo 'return 5' >five.lua
echo 'return { t = { token_fn = function(c) return {} end } }' >tokens.lua
echo 'return function(' >broken.lua
refused "no such run: the nearest name" 3 "did you mean 'exp-001'?" replay exp-01
refused "no such step" 2 "has no completion of step 99" replay exp-001 99
refused "a step that is no number" 2 "STEP: 'last' is not a whole number" replay exp-001 last
refused "a reward file that returns a number" 2 "returned a number" replay exp-001 --reward five.lua
refused "a reward file that does not compile" 2 "broken.lua:2:" replay exp-001 --reward broken.lua
refused "a reward that needs tokens" 2 "--regenerate" replay exp-001 --reward tokens.lua
refused "a directory that is no run" 3 "it has no run.json" diff exp-001 runs

# A row's generator that counts its calls makes other rows when it is asked again.
experiment impure.lua 'train = { steps = 2, prompts_per_step = 2 }' '{ name = "right", fn = function(text, row) return text == row.answer end }' \
  'train = (function() local n = 0 return grpo.data.generate(function() n = n + 1 return { prompt = "1+1=", answer = tostring(n) } end, { n = 50 }) end)()'
"$GRPO" run impure.lua --quiet >/dev/null 2>&1
refused "rows that are not made again as they were" 2 "impure-001: the row of step 1, prompt 1 is not the one that the run scored, because data.train" \
  replay impure-001 --reward impure.lua
refused "nor are tests recorded with them" 2 "impure-001: the row of step" test --record impure-001
experiment marks.lua 'train = { steps = 1, prompts_per_step = 2 }' '{ name = "seen", fn = function(text, row) return row.seen end }' \
  'train = grpo.data.list(rows), prompt = function(row) row.seen = #row.answer return row.prompt end'
"$GRPO" run marks.lua --quiet >/dev/null 2>&1
refused "a data.prompt that changes its row" 2 "or data.prompt changed it then" replay marks-001 --reward marks.lua

# ---- diff ---------------------------------------------------------------------------------------------------------------
"$GRPO" run exp.lua --quiet >/dev/null 2>&1
"$GRPO" run exp.lua --quiet train.lr=1e-2 >/dev/null 2>&1
"$GRPO" diff exp-001 exp-002 >out 2>err
result "equal runs are said to be equal" \
  "$(grep -q '^same options, same sources, same environment$' out && grep -q 'equal on all 6 common steps' out && grep -q '^completions: equal' out || show out err)"
"$GRPO" diff exp-001 exp-003 >out 2>err
result "options that differ" "$(grep -qE '^  train\.lr ' out || show out err)"
result "the first step whose metrics differ" "$(grep -q '^metrics: differ from step 1: ' out || show out err)"
result "the first token that differs" "$(grep -qE '^completions: differ from step [2-6], prompt [12] \([0-9+=]+\), completion [1-4], token [1-6]$' out || show out err)"
# Values that are equal in six digits are told apart; 0.5 is short as before.
for name in near near2; do cp -r $run $name; done
echo '{"step": 1, "stage": 1, "stage_step": 1, "reward": 0.5, "kl": 0.12345678, "loss": 0.25}' >near/metrics.jsonl
echo '{"step": 1, "stage": 1, "stage_step": 1, "reward": 0.5, "kl": 0.1234567812, "loss": 0.75}' >near2/metrics.jsonl
"$GRPO" diff near near2 >out 2>err
result "numbers that differ are shown in as many digits as tell them apart" \
  "$(grep -q '^metrics: differ from step 1: kl 0\.12345678 / 0\.123456781, loss 0\.25 / 0\.75$' out \
    && grep -qE '^  kl +0\.12345678 +0\.123456781$' out && grep -qE '^  reward +0\.5 +0\.5$' out || show out err)"
"$GRPO" diff exp-001 exp-003 --json >out 2>err
result "--json: one object" "$([ "$(wc -l <out)" = 1 ] && grep -q '"common_steps": 6' out || show out err)"
experiment graded.lua 'eval = { every = 2 }, train = { steps = 3, prompts_per_step = 2, lr = 1e-2 }, checkpoint = { every = 1 }' \
  '{ name = "place", fn = function(_, _, c) return c.index == tonumber(grpo.args.place) end }' \
  'train = grpo.data.list(rows), eval = grpo.data.list { rows[1] }'
sed -i 's/, max_new_tokens = 6/&, top_k = 1/' graded.lua
for place in 1 2; do "$GRPO" run graded.lua --arg place=$place --quiet --as graded$place --steps 3 >out 2>err || show err; done
"$GRPO" diff graded1 graded2 >out 2>err
result "equal texts with other rewards are not called equal completions" \
  "$(grep -qE '^completions: the same texts on all 3 common steps, but rewards differ from step 1, prompt 1 \([0-9+=]+\), completion 1: advantage [-0-9.]+ / [-0-9.]+, reward 1 / 0, rewards.place 1 / 0$' out || show out err)"
"$GRPO" run graded.lua --arg place=1 --quiet --as stale --steps 2 >/dev/null 2>&1
result "an evaluation of the last step needs no step" "$("$GRPO" runs >out 2>err; grep '^stale ' out | grep -q 'accuracy [0-9.]*$' || show out err)"
"$GRPO" run --resume=runs/stale --quiet eval.every=0 train.steps=4 --steps 3 >/dev/null 2>&1
result "one of an earlier step is listed with it" "$("$GRPO" runs >out 2>err; grep '^stale ' out | grep -q 'accuracy [0-9.]* (of step 2)$' || show out err)"
"$GRPO" diff graded1 stale >out 2>err
result "and diff has its step" "$(grep -qE '^  eval/accuracy +[0-9.]+ +[0-9.]+ \(step 2\)$' out || show out err)"
cp -r $run damaged && rm damaged/config.json && mkdir damaged/config.json
refused "a directory in the place of the options" 3 "cannot read damaged/config.json: it is a directory" diff $run damaged
refused "one run is not enough" 2 "diff: RUN is missing" diff exp-001
cp -r $run odd && echo '[1,2]' >odd/run.json
refused "a run.json that describes no run" 3 "odd/run.json: is [1, 2], want an object" diff exp-001 odd
mkdir -p some && cp -r $run some/ && cp -r odd some/odd-001
"$GRPO" runs --dir some >out 2>err
result "which runs lists as damaged, beside the others" \
  "$([ "$(wc -l <out)" = 2 ] && grep -qE '^odd-001 +damaged +step - +- *$' out && [ ! -s err ] || show out err)"
cp -r $run none && uncounted none && : >none/metrics.jsonl
"$GRPO" diff none exp-001 >out 2>err
result "runs without a common step" "$(grep -q '^metrics: no common step$' out || show out err)"
cp -r $run early && uncounted early && sed -i -n '1,24p' early/completions.jsonl
cp -r $run late && sed -i '1,24d' late/completions.jsonl
"$GRPO" diff early late >out 2>err
result "completions without a common step are not said to be equal" "$(grep -q '^completions: no common step$' out || show out err)"
cp -r $run fewer && uncounted fewer && sed -i '$d' fewer/completions.jsonl
"$GRPO" diff exp-001 fewer >out 2>err
result "nor are those of a step that has fewer" \
  "$(grep -q '^completions: differ from step 6, where one run has 8 and the other 7$' out || show out err)"

# ---- stages: what they had, not what stands above them ------------------------------------------------------------------------
experiment staged.lua 'stages = {
  { kind = "grpo", train = { steps = 1, prompts_per_step = 2, lr = 1e-3 } },
  { kind = "grpo", train = { steps = 1, prompts_per_step = 2, lr = tonumber(grpo.args.lr or 1e-4) } } }' "" \
  'train = grpo.data.list(rows), shuffle = false'
"$GRPO" run staged.lua --quiet >/dev/null 2>&1; "$GRPO" run staged.lua --quiet --arg lr=5e-3 >/dev/null 2>&1
"$GRPO" diff staged-001 staged-002 >out 2>err
result "diff: learning rates of stages that differ 50-fold" "$(grep -qE '^  stages\.2\.train\.lr +0\.0001 +0\.005$' out || show out err)"
result "diff: arguments of scripts" "$(grep -qE '^  --arg lr +- +5e-3$' out || show out err)"
"$GRPO" diff staged-001 exp-001 >out 2>err
result "diff: other stages" "$(grep -qE '^  stages +grpo, grpo +grpo$' out && grep -qE '^  data\.shuffle +false +true$' out || show out err)"
cp -r $run changed && echo '{"kind": "set", "path": "train.lr", "value": 0.5, "step": 3, "stage": 1}' >changed/events.jsonl
"$GRPO" diff exp-001 changed >out 2>err
result "diff: what was changed while one run trained" "$(grep -q '^changed at step 3: set train.lr = 0.5, only in changed$' out || show out err)"
unsummed changed && echo '[{"path": "rows.jsonl", "size": 10, "crc32c": 1}]' >changed/inputs.json
"$GRPO" diff exp-001 changed >out 2>err
result "diff: other input files" "$(grep -qE '^  \(input rows\.jsonl\) +- +10 bytes, CRC-32C 00000001$' out || show out err)"
finish
