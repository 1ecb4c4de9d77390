#!/usr/bin/env bash
# Options on the command line of a resume, and data that has changed: recorded, in force from then on, and told by diff.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

given() { "$GRPO" run --quiet --resume="$@" </dev/null >out 2>err || echo "exit status $?" >>err; }
options='train.lr=0.02 stages.2.sampling.group_size=2'
write_experiment exp.lua
KILL_ROLLOUT=7 "$GRPO" run exp.lua --quiet --dir given >/dev/null 2>&1 # the last checkpoint is of step 6
for name in plain again session; do cp -a given $name; done
# shellcheck disable=SC2086
given given/exp-001 $options
given plain/exp-001
"$GRPO" diff plain/exp-001 given/exp-001 >out 2>err
result "diff names the options of a resume, and does not call those of the runs the same" \
  "$(grep -qx "changed at step 6: options $options, only in exp-001" out && ! grep -q '^same options' out || show out err)"
result "run.log has them" "$(grep -q " changed at step 6: options $options\$" given/exp-001/run.log || cat given/exp-001/run.log)"
# shellcheck disable=SC2086
KILL_ROLLOUT=9 "$GRPO" run --quiet --resume=again/exp-001 $options >/dev/null 2>&1 </dev/null
given again/exp-001
result "a later resume without them keeps them" "$(different given/exp-001 again/exp-001; cat err)"
experiment tiny.lua 'train = { steps = 8, prompts_per_step = 2 }, checkpoint = { every = 3, keep = 5 }'
"$GRPO" run tiny.lua --quiet --steps 6 --as tiny >/dev/null 2>&1
given runs/tiny train.prompts_per_step=1 train.lr=0.1
"$GRPO" replay tiny 8 --regenerate --count 0 >out 2>err
result "a step after them is sampled again, the same" "$(grep -q '^4 of 4 completions are the same again$' out || show out err)"
"$GRPO" replay tiny 5 --regenerate --count 0 >out 2>err
result "so is one before them" "$(grep -q '^8 of 8 completions are the same again$' out || show out err)"
rm -r runs/tiny/checkpoints/step-000006
"$GRPO" replay tiny 8 --regenerate --count 0 >out 2>err; status=$?
result "without a checkpoint between, one line says why that cannot be" \
  "$([ $status = 2 ] && grep -q 'because a resume in between gave train.prompts_per_step=1' err || show out err)"
echo '{"kind": "set", "path": "train.lr", "value": 0.5, "stage": 2, "step": 5}
{"kind": "set", "path": "train.lr", "value": 0.7, "stage": 2, "step": 7}' >session/exp-001/events.jsonl
# shellcheck disable=SC2086
given session/exp-001 $options
result "they win over what a session had set before" "$(different given/exp-001 session/exp-001; cat err)"
KILL_ROLLOUT=5 "$GRPO" run exp.lua --quiet --dir twice train.lr=0.02 >/dev/null 2>&1
KILL_ROLLOUT=9 "$GRPO" run --quiet --resume=twice/exp-001 train.lr=0.02 >/dev/null 2>&1 </dev/null
given twice/exp-001 train.lr=0.02
result "options that are in force already are not recorded" "$([ ! -e twice/exp-001/events.jsonl ] || cat twice/exp-001/events.jsonl)"
cp -a plain broken && echo '{"kind": "options", "words": ["train.lr"], "stage": 2, "step": 6}' >broken/exp-001/events.jsonl
"$GRPO" diff broken/exp-001 plain/exp-001 >out 2>err
sed -i 's/"state": "finished"/"state": "interrupted"/' broken/exp-001/run.json && unsummed broken/exp-001
"$GRPO" run --quiet --resume=broken/exp-001 </dev/null >out 2>err; status=$?
result "a damaged word is one line" "$([ "$status $(wc -l <err)" = '3 1' ] && grep -q 'events.jsonl:1: words.*want option=value; the file is damaged' err || show err)"
"$GRPO" run tiny.lua --quiet --steps 3 --as longer >/dev/null 2>&1
given runs/longer train.steps=10
result "train.steps gives an unfinished run another length" "$(grep -q '"step": 10,' runs/longer/run.json || cat runs/longer/run.json err)"
"$GRPO" run tiny.lua --quiet --steps 3 --as shorter >/dev/null 2>&1
"$GRPO" run --resume=runs/shorter --steps 2 </dev/null >out 2>err; status=$?
result "--steps that are made already: no step, and a line that says so" "$(
  { [ $status = 0 ] && grep -q 'note: --steps 2: the run has made 3 steps already' out err && grep -q '"step": 3,' runs/shorter/run.json; } || show out err)"
"$GRPO" run --quiet --resume=runs/shorter train.steps=3 </dev/null >out 2>err; status=$?
result "train.steps that are made already are refused, and nothing is changed" "$(
  { [ "$status $(wc -l <err)" = '2 1' ] && grep -q 'train.steps: the stage has made 3 steps' err && [ ! -e runs/shorter/events.jsonl ]; } || show err)"
refused_arg() { "$GRPO" run --quiet --resume=given/exp-001 "$@" </dev/null >out 2>err; echo $?; }
rm -r given && cp -a session given
sed -i 's/"state": "finished"/"state": "interrupted"/' given/exp-001/run.json && unsummed given/exp-001
result "another --arg is refused, with one line" "$([ "$(refused_arg --arg rate=2) $(wc -l <err)" = '2 1' ] &&
  grep -qx 'grpo: --arg rate=2: given/exp-001 began with no argument of that name, and a resume keeps it; leave --arg out, or begin a new run' err || show err)"

# ---- data that has changed ------------------------------------------------------------------------------------------------------
for a in 1 2 3 4; do echo "{\"prompt\": \"$a+$a=\", \"answer\": \"$((a + a))\"}"; done | tee d.jsonl >e.jsonl
mkdir sub
experiment files.lua 'train = { steps = 6, prompts_per_step = 2 }, checkpoint = { every = 1, keep = 9 }' '' \
  'train = grpo.data.jsonl("d.jsonl"), eval = grpo.data.jsonl("e.jsonl")'
"$GRPO" run files.lua --quiet --steps 3 --as data </dev/null 2>err >out || show err
cp -a runs/data runs/same && cp -a runs/data runs/far && given runs/same
"$GRPO" eval data --completions 0 >measured 2>err </dev/null
result "eval of a run whose data is as it was says nothing of it" "$(cat err; grep -q '^eval/' measured || show measured)"
cp e.jsonl e.old && sed -i 1d e.jsonl
"$GRPO" eval data --completions 0 >out 2>err </dev/null; status=$?
result "eval of changed held-out data says so in one line" "$([ "$status $(cat err)" = \
  '0 grpo: note: e.jsonl has changed, so this does not measure what the run has measured' ] || { echo "status $status"; show err; })"
given runs/data
result "a resume refuses it" "$(grep -qx 'grpo: runs/data: e.jsonl has changed; --force resumes all the same' err && [ ! -e runs/data/events.jsonl ] || show err)"
for _ in 1 2; do given runs/data --force --steps 1; done
result "with --force that is an event, once" "$([ "$(grep -c '"kind": "inputs"' runs/data/events.jsonl)" = 1 ] || show runs/data/events.jsonl err)"
given runs/data --force
"$GRPO" diff same data >out 2>err
result "and diff names it, and does not call the runs the same" "$(
  grep -qE '^changed at step 3: inputs e.jsonl has changed \([0-9]+ bytes, CRC-32C [0-9a-f]{8}\), only in data$' out && ! grep -q '^same options' out || show out err)"
cp e.old e.jsonl
(cd sub && given ../runs/far; cp err ../far.err)
far="is missing in $work/sub, because the run began in $work, where it is;"
result "a resume from another directory says where the data is" "$(grep -qxF "grpo: ../runs/far: d.jsonl $far resume it from there" far.err || show far.err)"
(cd sub && "$GRPO" eval ../runs/far >out 2>../far.err </dev/null; echo $? >../status)
result "so does eval" "$([ "$(<status)" = 3 ] && grep -qxF "grpo: ../runs/far: d.jsonl $far evaluate it from there" far.err || show status far.err)"

# ---- a KL that the run had not, its place and its time ------------------------------------------------------------------------
"$GRPO" run tiny.lua --quiet --steps 3 --as kl >/dev/null 2>&1
given runs/kl train.kl=0.1
result "a KL that a run has not had is refused with what to do" "$([ "$(wc -l <err)" = 2 ] && grep -q '^exit status 2$' err && [ ! -e runs/kl/events.jsonl ] &&
  grep -qF "grpo: runs/kl/checkpoints/step-000003: it has no reference, because the run measured no KL until then, so a resume cannot begin to; leave out what asks for one (train.kl, for instance)" err || show err)"
(cd sub && "$GRPO" run ../exp.lua --quiet --dir ../placed </dev/null >/dev/null 2>&1)
"$GRPO" diff plain/exp-001 placed/exp-001 >out 2>err
result "diff finds no difference in functions of a script that was run from another directory" \
  "$(grep -q '^same options, same sources, same environment' out || show out err)"
cp -a runs/kl runs/early && uncounted runs/early && sed -i -E 's/"(finished|started|heartbeat)": [0-9.]+/"\1": -204220907.7/' runs/early/run.json
"$GRPO" runs >out 2>err
result "a run whose clock stood before 1970 can be read" "$(grep -qE '^early +stopped +step 3/8 +1963-07-1' out && [ ! -s err ] || show out err)"
# ---- an option that cannot be taken is not written down
"$GRPO" run tiny.lua --quiet --steps 4 --as refused >/dev/null 2>&1
for option in data.max_prompt_tokens=1 'sampling.regex=日本'; do
  "$GRPO" run --quiet --resume=runs/refused "$option" </dev/null >out 2>err; status=$?
  result "$option is refused" "$([ $status != 0 ] && [ "$(wc -l <err)" = 1 ] || show err)"
done
given runs/refused
result "and a later resume without it goes on" "$([ ! -s err ] && [ ! -e runs/refused/events.jsonl ] || show err runs/refused/events.jsonl)"
"$GRPO" run tiny.lua --quiet --as unbegun 'sampling.grammar=root ::= "日本"' </dev/null >out 2>err; status=$?
result "a grammar that no token can follow leaves no run behind" \
  "$([ $status = 2 ] && grep -q 'sampling.grammar: .*no token of the vocabulary can begin a text of it' err && [ ! -e runs/unbegun ] || show err)"
finish
