#!/usr/bin/env bash
# Hot reload: rewards edited while a run goes on; what is refused; what a resume repeats.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
export GRPO_RELOAD_ALWAYS=1 # look at every step, not once a second

# The script edits its own module after some steps: EDITS is a list of { step, command }.
cat >reward.lua <<'LUA'
return { digits = function(text) return select(2, text:gsub("%d", "")) / 6 end, lr = 1e-3 }
LUA
experiment exp.lua 'train = { steps = 10, prompts_per_step = 2, lr = require("reward").lr, clip = 0.2 },
  checkpoint = { every = 3, keep = 9 },
  hooks = { on_step = function(m, tr)
    tr.state.seen = (tr.state.seen or 0) + 1
    if tr.step_count == tonumber(os.getenv("KILL") or 0) then os.execute("kill -9 $PPID") end
    if tr.step_count == tonumber(os.getenv("EDIT") or 0) then os.execute(os.getenv("COMMAND")) end
  end }' '{ name = "digits", fn = function(text) return require("reward").digits(text) end }'

run() { "$GRPO" run exp.lua --quiet --dir "$1" </dev/null >"$1.out" 2>"$1.err"; }
original() { cat >reward.lua <<<'return { digits = function(text) return select(2, text:gsub("%d", "")) / 6 end, lr = 1e-3 }'; rm -f reward_test.lua; }
edit() { echo "printf '%s\\n' '$1' >reward.lua"; }
log() { cat "$1/exp-001/run.log"; }
reward_at() { sed -n "$2p" "$1/exp-001/metrics.jsonl" | grep -oE '"reward": [-0-9.e]+' | cut -d' ' -f2; }

original
EDIT=4 COMMAND=$(edit 'return { digits = function() return 7 end, lr = 2e-3 }') run a
result "an edited reward is in force from the next step" "$([ "$(reward_at a 5)" = 7 ] && [ "$(reward_at a 4)" != 7 ] || { log a; cat a.err; })"
result "so is an option that the new script says otherwise" "$(sed -n 5p a/exp-001/metrics.jsonl | grep -q '"learning_rate": 0.002' || log a)"
result "the event names step, files and where the source is kept" \
  "$(grep -q '"kind": "reload".*"source": "source/reload-001".*"step": 4' a/exp-001/events.jsonl && grep -q 'return 7' a/exp-001/source/reload-001/modules/reward.lua || show a/exp-001/events.jsonl)"
result "the run says so" "$(grep -q '^reloaded at step 4: .*reward.lua$' a.err || show a.err)"

original
EDIT=4 COMMAND=$(edit 'return { digits = function() return 7 end, lr = 2e-3 ') run broken
result "what does not compile is not loaded" "$(grep -q 'not reloaded, the old code stays: .*reward.lua:2: ' broken.err && [ "$(reward_at broken 6)" != 7 ] || show broken.err)"
original
EDIT=4 COMMAND=$(edit 'error("at load")') run raises
result "what fails while it is loaded is not" "$(grep -q 'not reloaded.*at load' raises.err && grep -q '"state": "finished"' raises/exp-001/run.json || show raises.err)"
original
cat >reward_test.lua <<'LUA'
describe("digits", function() it("counts", function() assert.near(1 / 6, dofile("reward.lua").digits("x1"), 1e-9) end) end)
LUA
EDIT=4 COMMAND=$(edit 'return { digits = function() return 7 end, lr = 2e-3 }') run fails
result "what fails its tests is not" "$(grep -q 'not reloaded.*reward_test.lua: 1 tests fail: digits counts' fails.err && [ "$(reward_at fails 6)" != 7 ] || show fails.err)"
original
EDIT=4 COMMAND='touch reward.lua' run touched
result "a touched file is no event" "$([ ! -e touched/exp-001/events.jsonl ] || show touched/exp-001/events.jsonl)"

# ---- a resume repeats it, whatever is on the disk by then -----------------------------------------------------------------
original
EDIT=4 COMMAND=$(edit 'return { digits = function() return 7 end, lr = 2e-3 }') KILL=8 run b
original
"$GRPO" run --resume=b/exp-001 --quiet </dev/null >/dev/null 2>b.err
result "a killed run that is resumed repeats the reload, bit for bit" "$(different a/exp-001 b/exp-001 | head -5; grep -v "has changed since, but" b.err)"
original
EDIT=4 COMMAND=$(edit 'return { digits = function() return 7 end, lr = 2e-3 }') KILL=5 run c
original
"$GRPO" run --resume=c/exp-001 --quiet </dev/null >/dev/null 2>c.err
result "and one that was killed between the reload and the next checkpoint" "$(different a/exp-001 c/exp-001 | head -5; grep -v "has changed since, but" c.err)"
sed 's/lr = require("reward").lr/lr = 1e-3/' exp.lua >late.lua # the module is loaded by the first reward
for kill in '' 4; do
  original
  edited=$(edit 'return { digits = function() return 7 end }')
  if [ -z "$kill" ]; then
    EDIT=4 COMMAND=$edited "$GRPO" run late.lua --quiet --dir first </dev/null >/dev/null 2>&1
  else
    KILL=4 "$GRPO" run late.lua --quiet --dir second </dev/null >/dev/null 2>&1
    EDIT=4 COMMAND=$edited "$GRPO" run --resume=second/late-001 --quiet </dev/null >/dev/null 2>second.err
  fi
done
result "an edit during the first step after a resume is seen" "$(different first/late-001 second/late-001 | head -5; grep -v '^reloaded at step 4' second.err)"
original
"$GRPO" replay a/exp-001 8 --regenerate --count 0 </dev/null >out 2>err
result "replay --regenerate repeats it too" "$(grep -q '^8 of 8 completions are the same again$' out || show out err)"
for now in 'rm reward.lua exp.lua' 'echo "return { digits = function() return 5 end, lr = 1 }" >reward.lua'; do
  original
  rm -rf d; EDIT=4 COMMAND=$(edit 'return { digits = function() return 7 end, lr = 2e-3 }') KILL=5 run d
  cp exp.lua exp.saved; eval "$now"
  "$GRPO" run --resume=d/exp-001 --quiet </dev/null >/dev/null 2>d.err
  result "a resume takes the modules that the run kept: $now" "$(different a/exp-001 d/exp-001 | head -5; grep -v "has changed since, but" d.err)"
  cp exp.saved exp.lua
done
cat >score.lua <<'LUA'
return { digits = require("reward").digits }
LUA
"$GRPO" replay a/exp-001 8 --reward score.lua --json </dev/null >out 2>err
result "replay --reward takes them from the disk" "$([ "$(grep -c '"rewards": {"digits": 5}, "step"' out)" = 8 ] || head -1 out; cat err)"
mv reward.lua reward.away; mv exp.lua exp.away
"$GRPO" test --record a/exp-001 --count 2 >rec_test.lua </dev/null 2>err; "$GRPO" test rec_test.lua </dev/null >out 2>&1
result "a recorded test runs when script and module are gone" "$(! grep -q 'not found' out && grep -q ' passed, ' out || show out err)"
mv reward.away reward.lua; mv exp.away exp.lua
"$GRPO" replay a/exp-001 8 --reward score.lua --regenerate </dev/null >out 2>err; status=$?
result "replay --reward --regenerate is refused" "$([ $status = 2 ] && grep -q 'choose one' err || show out err)"

# ---- what hooks keep: tr.kept over a reload, a file of the run over both ---------------------------------------------------------
experiment keep.lua 'train = { steps = 10, prompts_per_step = 2 }, checkpoint = { every = 3, keep = 2 },
  hooks = { on_start = function(tr) if not tr.resumed then tr:append("steps.csv", "step,kept\n") end end,
    on_step = function(m, tr)
      tr.kept.file = tr.kept.file or assert(io.open(os.getenv("OPEN"), "a"))
      tr.kept.file:write(m.step, "\n"):flush()
      if m.step ~= 5 then tr:append("steps.csv", ("%d,%s\n"):format(m.step, ("x"):rep(#tostring(os.clock())))) end
      tr:append(require("reward").name, m.step .. " ")
      tr:log_text("seen", "step " .. m.step)
      if tr.step_count == tonumber(os.getenv("EDIT") or 0) then os.execute(os.getenv("COMMAND")) end
      if tr.step_count == tonumber(os.getenv("KILL") or 0) then os.execute("kill -9 $PPID") end
    end }'
edited='echo "return { name = \"after.txt\" }" >reward.lua'
keep() { # NAME: a run that is reloaded after step 4
  echo 'return { name = "before.txt" }' >reward.lua
  OPEN=$1.open EDIT=4 COMMAND=$edited "$GRPO" run keep.lua --quiet --dir "$1" </dev/null >"$1.out" 2>"$1.err"
}
steps() { cut -d, -f1 "$1" | tr '\n' ' '; }
whole='step 1 2 3 4 6 7 8 9 10 '
keep kept
result "tr.kept keeps an open file over a reload" "$(grep -q '^reloaded at step 4' kept.err && [ "$(tr '\n' ' ' <kept.open)" = '1 2 3 4 5 6 7 8 9 10 ' ] || show kept.open kept.err)"
result "tr:append continues a file of the run" "$([ "$(steps kept/keep-001/logs/steps.csv)" = "$whole" ] || show kept/keep-001/logs/*)"
for at in 2 3 5 8 9; do
  rm -rf killed; KILL=$at keep killed
  echo mine >killed/keep-001/logs/mine.txt
  OPEN=killed.open EDIT=$((at < 4 ? 4 : 0)) COMMAND=$edited "$GRPO" run --resume=killed/keep-001 --quiet </dev/null >out 2>err
  result "killed in step $at and resumed: no line is lost or doubled, other files stay" "$(
    [ "$(steps killed/keep-001/logs/steps.csv)" = "$whole" ] || cat killed/keep-001/logs/steps.csv err
    for name in before after; do
      diff kept/keep-001/logs/$name.txt killed/keep-001/logs/$name.txt 2>&1
    done
    [ "$(cat killed/keep-001/logs/mine.txt)" = mine ] || echo "mine.txt is gone")"
  result "killed in step $at: whatever is appended, the checkpoints are the same" "$(diff -r kept/keep-001/checkpoints killed/keep-001/checkpoints)"
done
cp -r kept/keep-001/logs before
OPEN=replayed.open "$GRPO" replay kept/keep-001 8 --regenerate --count 0 </dev/null >out 2>err
result "replay --regenerate writes nothing for hooks" "$(diff -r before kept/keep-001/logs; grep -q '^8 of 8' out || show out err)"
original
experiment saves.lua 'train = { steps = 4, prompts_per_step = 2 }, checkpoint = { keep = 1 },
  hooks = { on_step = function(m, tr) if m.step == 2 then tr:save() end end }'
"$GRPO" run saves.lua --quiet --dir saves </dev/null >out 2>err; cp -r saves before-saves
"$GRPO" replay saves/saves-001 3 --regenerate --count 0 </dev/null >out 2>err
result "nor a checkpoint" "$(diff -r --no-dereference before-saves saves; grep -q '^8 of 8' out || show out err)"

# ---- what must not end the run -------------------------------------------------------------------------------------------
refused() { # NAME COMMAND PATTERN: the run goes on with the old code and says why
  original; EDIT=4 COMMAND=$2 run "$1"
  result "$1: not reloaded" "$(grep -q "not reloaded, the old code stays: .*$3" "$1.err" && grep -q '"state": "finished"' "$1/exp-001/run.json" || tail -3 "$1.err")"
}
refused typo "$(edit 'return { digits = function(text) return text:gsubb("%%d", "") end, lr = 1e-3 }')" 'rewards.digits: .*reward.lua:1: .*gsubb'
refused value "$(edit 'return { digits = function() return {} end, lr = 1e-3 }')" 'rewards.digits: .*returned a table'
refused comment 'echo "-- nothing yet" >reward.lua' ''
cp exp.lua exp.saved
refused exit 'sed -i "s/^return/os.exit(3) return/" exp.lua' 'os.exit'
cp exp.saved exp.lua
sed -i 's/^return grpo.experiment {$/&\n  limits = { hook = { seconds = 1 } },/' exp.lua
refused loop "$(edit 'while true do end')" 'exp.lua.*took longer than 1 seconds'
refused test 'echo "it(\"loops\", function() while true do end end)" >reward_test.lua; echo >>reward.lua' 'reward_test.lua.*took longer than 1 seconds'
# a signal behind a reload that loops, with far more patience than this test has
sed -i 's/seconds = 1 /seconds = 600 /' exp.lua
for where in module test; do
  original
  loop='os.execute("kill -TERM $PPID") while true do end'
  case $where in
  module) echo "echo '$loop' >reward.lua" >edit.sh ;;
  test) echo "echo 'it(\"loops\", function() $loop end)' >reward_test.lua; echo >>reward.lua" >edit.sh ;;
  esac
  EDIT=4 COMMAND='sh edit.sh' timeout -k 1 60 "$GRPO" run exp.lua --quiet --dir "signal-$where" </dev/null >out 2>err; status=$?
  result "a signal ends a reload that loops ($where), and then the run" "$([ $status = 143 ] && grep -q 'not reloaded, the old code stays: .*interrupted' err \
    && grep -q '"state": "interrupted"' "signal-$where/exp-001/run.json" && [ "$(readlink "signal-$where/exp-001/latest")" = checkpoints/step-000004 ] || { echo "status $status"; cat err; })"
done
original
cp exp.saved exp.lua
# what a run cannot change is named; what the reload does change, what was moved, and what the command line says is not
sed -i 's/^  data = {/&\n    prompt = function(row)\n      return row.prompt\n    end,/' exp.lua
cp exp.lua exp.prompt
fixed() { # NAME COMMAND WANT: what stays
  original; cp exp.prompt exp.lua; EDIT=4 COMMAND=$2 run "$1"
  result "what stays as it was: $1" "$(diff <(grep reloaded "$1.err" | grep -oE ';.*') <([ -z "$3" ] || echo "; these wait for another run: $3") || show "$1.err")"
}
fixed several "sed -i 's/group_size = 4/group_size = 8/; s/prompts_per_step = 2/prompts_per_step = 4/; s/lr = require/lr = 2 * require/' exp.lua" 'sampling.group_size, train.prompts_per_step'
fixed function "sed -i 's/return row.prompt/return row.prompt .. row.prompt/' exp.lua" data.prompt
fixed nothing "sed -i '1i -- a comment, and lines that move' exp.lua" ''
cp exp.saved exp.lua
original
EDIT=4 COMMAND=': >reward.lua' run empty
result "an empty file is one that is being written: nothing happens yet" "$([ ! -e empty/exp-001/events.jsonl ] && grep -q '"state": "finished"' empty/exp-001/run.json && ! grep -q reloaded empty.err || show empty.err)"
original
EDIT=4 COMMAND='rm reward.lua; mkfifo reward.lua' timeout 20 "$GRPO" run exp.lua --quiet --dir fifo </dev/null >fifo.out 2>fifo.err
rm -f reward.lua
result "nor does a pipe in its place" "$(grep -q '"state": "finished"' fifo/exp-001/run.json || show fifo.err)"

# A reward that fails later than its trial ends the run; a resume would repeat it, --force takes the files as they are.
original
EDIT=4 COMMAND=$(edit 'n = 0 return { digits = function() n = n + 1 return n > 20 and error("late") or 7 end, lr = 1e-3 }') run late
"$GRPO" run --resume=late/exp-001 --quiet </dev/null >out 2>err
result "what fails later ends the run, and a resume repeats it" "$(grep -q 'rewards.digits: .*late' late.err && grep -q 'rewards.digits: .*late' err || show late.err err)"
result "with nothing edited since, without a word" "$([ -e err ] || echo no err; grep 'has changed' err)"
eval "$(edit 'return { digits = function() return 3 end, lr = 1e-3 }')"
echo "-- edited" >>exp.lua
"$GRPO" run --resume=late/exp-001 --quiet </dev/null >out 2>err
result "a resume says that files were edited, that it takes the saved copy, and how to take the edited ones" \
  "$(grep -q "^grpo: note: exp.lua and ./reward.lua have changed since, but the run continues with the copies that it saved in late/exp-001/source/reload-001; 'grpo run exp.lua --resume=late/exp-001 --force' continues with the changed ones$" err \
  && grep -q 'note\|have changed since' late/exp-001/run.log && grep -q 'rewards.digits: .*late' err || show err)"
cp exp.saved exp.lua
KILL=8 "$GRPO" run exp.lua --resume=late/exp-001 --force --quiet </dev/null >out 2>err
result "with SCRIPT and --force it goes on with the files as they are" "$([ "$(reward_at late 6)" = 7 ] && [ "$(reward_at late 7)" = 3 ] || show err)"
original
"$GRPO" run --resume=late/exp-001 --quiet </dev/null >out 2>err
result "and so does the next resume" "$([ "$(reward_at late 9)" = 3 ] && grep -q '"state": "finished"' late/exp-001/run.json || show err)"

# ---- a module that is first required inside a function ------------------------------------------------------------------------
fresh() { cat >late.lua <<<'return function(text) return #text end'; }
experiment lazy.lua 'train = { steps = 10, prompts_per_step = 2 }, checkpoint = { every = 3, keep = 9 },
  hooks = { on_step = function(m, tr)
    if tr.step_count == tonumber(os.getenv("KILL") or 0) then os.execute("kill -9 $PPID") end
    if tr.step_count == tonumber(os.getenv("EDIT") or 0) then os.execute(os.getenv("COMMAND")) end
  end }' '{ name = "late", fn = function(text) return require("late")(text) end }'
lazy() { "$GRPO" run lazy.lua --quiet --dir "$1" </dev/null >"$1.out" 2>"$1.err"; }
fresh; lazy l1
result "it is kept with the others" "$(diff late.lua l1/lazy-001/source/modules/late.lua 2>&1)"
KILL=5 lazy l2; echo 'return function() return 9 end' >late.lua
"$GRPO" run --resume=l2/lazy-001 --quiet </dev/null >/dev/null 2>err
result "a resume takes it from there" "$(different l1/lazy-001 l2/lazy-001 | head -5; grep -v "has changed since, but" err)"
fresh; KILL=2 lazy unsummed
sed -i -e '/modules\/late.lua/d' -e 's|\("source/main.lua": "[0-9a-f]*"\),|\1|' -e '/"crc32c"/d' unsummed/lazy-001/run.json
sed -i -zE 's/,(\s*\})\s*$/\1\n/' unsummed/lazy-001/run.json # as if the kill had come before its sum was written
"$GRPO" run --resume=unsummed/lazy-001 --quiet </dev/null >/dev/null 2>err
result "its checksum is recorded, also by the resume of a run that died before it was" "$(
  diff <(grep late.lua l1/lazy-001/run.json) <(grep late.lua unsummed/lazy-001/run.json); cat err)"
fresh; EDIT=4 COMMAND='echo "return function() return 7 end" >late.lua' lazy l3
result "and an edit of it is in force from the next step" "$(
  rewards() { grep -oE '"reward": [-0-9.e]+' l3/lazy-001/metrics.jsonl | sed -n "$1p"; }
  [ "$(rewards 5)" = '"reward": 7' ] && [ "$(rewards 4)" != '"reward": 7' ] && grep -q '^reloaded at step 4: .*late.lua$' l3.err || echo "no: $(cat l3.err)")"
result "with its new text kept beside the first" "$(grep -q 'return 7' l3/lazy-001/source/reload-001/modules/late.lua && diff <(fresh; cat late.lua) l3/lazy-001/source/modules/late.lua || ls -R l3/lazy-001/source)"

fresh; EDIT=1 COMMAND='echo "return function() return 7 end" >late.lua' lazy l4
result "an edit in the very step that requires it first is noticed" "$(grep -q '^reloaded at step 1: .*late.lua$' l4.err || show l4.err l4/lazy-001/run.log)"
result "and what that step has used is kept" "$(diff <(fresh; cat late.lua) l4/lazy-001/source/modules/late.lua 2>&1)"
fresh; EDIT=1 COMMAND='echo "return function() return 7 end" >late.lua' KILL=5 lazy l5
fresh; "$GRPO" run --resume=l5/lazy-001 --quiet </dev/null >/dev/null 2>err
result "so that a resume repeats it, bit for bit" "$(different l4/lazy-001 l5/lazy-001 | head -5; grep -v "has changed since, but" err)"

# ---- what is edited while the run is being made: the source that is kept is the one that was loaded --------------------------
experiment slow.lua 'train = { steps = 3, prompts_per_step = 2 }' '{ name = "late", fn = late }'
mv slow.lua rest; cat - rest >slow.lua <<'LUA'
local late = require("late")
if not io.open("edited") then
  os.execute [[echo 'return function() return 7 end' >late.lua; echo >>slow.lua; touch edited]]
end
LUA
cp slow.lua slow.saved; fresh
"$GRPO" run slow.lua --quiet --dir slow </dev/null >slow.out 2>slow.err
result "what is edited while it is loaded is kept as it was" \
  "$(diff slow.saved slow/slow-001/source/main.lua 2>&1; diff <(fresh; cat late.lua) slow/slow-001/source/modules/late.lua 2>&1)"
result "and loaded again at the first look" "$(grep -qE '^reloaded at step [01]: ./late.lua, slow.lua$' slow.err || show slow.err)"
printf '#!/usr/bin/env grpo\nreturn function(\n' >late.lua; cp slow.saved slow.lua
"$GRPO" run slow.lua --quiet --dir slow </dev/null >out 2>slow.err
result "an error in a module is at its line, below a first line for a shell" "$(grep -q "late.lua:3: .*expected near" slow.err || show slow.err)"

# ---- two stages: what was reloaded in the first is in force in the second, also when that one is resumed ---------------------
experiment two.lua 'checkpoint = { every = 3, keep = 9 },
  stages = { { kind = "grpo", train = { steps = 6, prompts_per_step = 2, lr = 1e-3 } },
             { kind = "grpo", train = { steps = 6, prompts_per_step = 2, lr = 1e-3 } } },
  hooks = { on_step = function(m, tr)
    if tr.step_count == tonumber(os.getenv("KILL") or 0) then os.execute("kill -9 $PPID") end
    if tr.step_count == 4 and os.getenv("COMMAND") then os.execute(os.getenv("COMMAND")) end
  end }' '{ name = "digits", fn = require("reward").digits }'
both() { COMMAND=$(edit 'return { digits = function(t) return #t end, lr = 1e-3 }') "$GRPO" run two.lua --quiet --dir "$1" </dev/null >"$1.out" 2>"$1.err"; }
original; both whole
original; KILL=11 both killed
original
"$GRPO" run --resume=killed/two-001 --quiet </dev/null >/dev/null 2>killed.err
result "a resume in a later stage has the code that was reloaded in an earlier one" "$(grep -q '"step": 4' whole/two-001/events.jsonl || echo no event; different whole/two-001 killed/two-001 | head -5; grep -v "has changed since, but" killed.err)"
original
finish
