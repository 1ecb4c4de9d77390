#!/usr/bin/env bash
# tr:csv and hooks.on_reload: what hooks write and keep when a run is killed, resumed and reloaded.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
export GRPO_RELOAD_ALWAYS=1 # look for changed files at every step, not once a second

# The hooks keep their table in a variable of the script; on_reload gives it to the new functions.
experiment exp.lua 'train = { steps = 10, prompts_per_step = 2, lr = 1e-3 }, checkpoint = { every = 3, keep = 9 }, eval = { every = 4 },
  hooks = (function()
    local lengths
    local function kill_at(name, step) if tonumber(os.getenv(name)) == step then os.execute("kill -9 $PPID") end end
    local function open(tr) lengths = tr:csv("lengths", { "step", "length", "first, text", "reloads" }) end
    return {
      on_start = open,
      on_reload = function(files, tr)
        open(tr)
        tr.state.reloads = (tr.state.reloads or 0) + #files
        tr:log("reloaded", 1)
        if require("reward").fails then error("I do not want this") end
      end,
      on_step = function(m, tr)
        lengths:row { step = m.step, length = m["completions/mean_length"], reloads = tr.state.reloads,
          ["first, text"] = tr.batch.completions[1].text .. "\n\"" }
        if tr.step_count == tonumber(os.getenv("EDIT") or 0) then os.execute(os.getenv("COMMAND")) end
        kill_at("KILL_STEP", tr.step_count)
      end,
      on_eval = function(report, tr)
        tr:csv("evaluations", { "step", "label" }):row { report.step, report.label }
        kill_at("KILL_EVAL", tr.step_count)
      end,
      on_checkpoint = function(_, tr) kill_at("KILL_CHECKPOINT", tr.step_count) end,
    }
  end)()' '{ name = "digits", fn = function(text) return require("reward").digits(text) end }' \
  'train = grpo.data.list(rows), eval = grpo.data.list { rows[3] }'
original() { echo 'return { digits = function(text) return select(2, text:gsub("%d", "")) / 6 end }' >reward.lua; }
edit() { echo "printf '%s\\n' '$1' >reward.lua"; }

original
"$GRPO" run exp.lua --quiet --dir whole </dev/null >/dev/null 2>err
result "a table has its header and a row of each step" "$([ "$(head -n 1 whole/exp-001/logs/lengths.csv)" = 'step,length,"first, text",reloads' ] \
  && [ "$(grep -cE '^[0-9]+,' whole/exp-001/logs/lengths.csv)" = 10 ] || show err whole/exp-001/logs/lengths.csv)"
if command -v python3 >/dev/null; then
  result "Python reads it" "$(python3 -c '
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
assert [int(r["step"]) for r in rows] == list(range(1, 11)), rows
assert all(r["first, text"].endswith("\n\"") for r in rows), rows' whole/exp-001/logs/lengths.csv 2>&1)"
fi
killed "killed in a step" step KILL_STEP=5
killed "killed in the first step" first KILL_STEP=1
killed "killed in an evaluation" evaluation KILL_EVAL=8
killed "killed after the last checkpoint, before the evaluation" last KILL_CHECKPOINT=10

# ---- damage and other columns ---------------------------------------------------------------------------------------------
# halted DIR : a run that was killed at step 5, behind the checkpoint of step 3
halted() { { KILL_STEP=5 "$GRPO" run exp.lua --quiet --dir "$1" </dev/null >/dev/null 2>&1; } 2>/dev/null; }
halted damaged
sed -i '0,/^1,/s/^1,/7,/' damaged/exp-001/logs/lengths.csv
"$GRPO" run --resume=damaged/exp-001 --quiet </dev/null >/dev/null 2>err; status=$?
result "damage to a table is noticed by a resume" "$([ $status = 3 ] \
  && grep -q '^grpo: damaged/exp-001/logs/lengths.csv: it is damaged, because what was written until step 3 has another checksum now; restore it from a copy, or resume with --force, which takes it as it is$' err || show err)"
"$GRPO" diff damaged/exp-001 whole/exp-001 </dev/null >/dev/null 2>err; status=$?
result "and by other commands" "$([ $status = 3 ] && grep -q 'lengths.csv: it is damaged' err || show err)"
"$GRPO" run --resume=damaged/exp-001 --quiet --force </dev/null >/dev/null 2>err; status=$?
result "--force takes it as it is" "$([ $status = 0 ] && [ "$(grep -cE '^[0-9]+,' damaged/exp-001/logs/lengths.csv)" = 10 ] || show err)"
halted columns
sed -i 's/"reloads" })/"reloads", "more" })/' exp.lua
"$GRPO" run exp.lua --resume=columns/exp-001 --quiet --force </dev/null >/dev/null 2>err; status=$?
result "other columns are refused" "$([ $status = 1 ] && grep -qE 'exp.lua:[0-9]+: tr:csv: logs/lengths.csv has the columns step,length,"first, text",reloads, but the script says .*,more; a file keeps its columns, so give the new ones another name' err || show err)"
sed -i 's/"reloads", "more" })/"reloads" })/' exp.lua

# ---- hooks.on_reload ------------------------------------------------------------------------------------------------------
seven='return { digits = function() return 7 end }'
EDIT=4 COMMAND=$(edit "$seven") "$GRPO" run exp.lua --quiet --dir edited </dev/null >/dev/null 2>err
result "on_reload gives the new functions what they need" "$([ "$(grep -cE '^[0-9]+,' edited/exp-001/logs/lengths.csv)" = 10 ] \
  && [ "$(grep -c '^",1$' edited/exp-001/logs/lengths.csv)" = 0 ] && [ "$(grep -c '"reloaded": 1' edited/exp-001/metrics.jsonl)" = 1 ] || show err edited/exp-001/logs/lengths.csv)"
for at in 5 6 8 10; do
  original
  { EDIT=4 COMMAND=$(edit "$seven") KILL_STEP=$at "$GRPO" run exp.lua --quiet --dir "edited$at" </dev/null >/dev/null 2>&1; } 2>/dev/null
  original
  "$GRPO" run --resume="edited$at/exp-001" --quiet </dev/null >/dev/null 2>err
  result "killed at step $at after the reload, then --resume: the same bytes" "$(different edited/exp-001 "edited$at/exp-001")"
done
"$GRPO" replay edited/exp-001 8 --regenerate --count 0 </dev/null >out 2>err
result "replay --regenerate calls the hooks and writes nothing" "$(grep -q '^8 of 8 completions are the same again$' out || show out err
  [ "$(grep -cE '^[0-9]+,' edited/exp-001/logs/lengths.csv)" = 10 ] || echo 'rows were added')"
original
EDIT=4 COMMAND=$(edit 'return { fails = true, digits = function() return 7 end }') "$GRPO" run exp.lua --quiet --dir vetoed </dev/null >/dev/null 2>err
result "an error in on_reload keeps the old code" "$(grep -q 'not reloaded, the old code stays: .*hooks.on_reload: .*I do not want this' err || show err)"
original
result "and leaves no trace" "$(different whole/exp-001 vetoed/exp-001; [ ! -e vetoed/exp-001/events.jsonl ] || cat vetoed/exp-001/events.jsonl)"
sed 's/tr:log("reloaded", 1)/lengths:row { step = 0 }/' exp.lua >late.lua
EDIT=4 COMMAND=$(edit "$seven") "$GRPO" run late.lua --quiet --dir late </dev/null >/dev/null 2>err
result "on_reload may not add to files, which a resume would repeat" "$(grep -q 'not reloaded.*csv:row: nothing can be added to a file in hooks.on_reload' err || show err)"
finish
