#!/usr/bin/env bash
# grpo repl: what it is opened with, and a real terminal: colours, Ctrl-C.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

# ---- runs -----------------------------------------------------------------------------------------------------------------------
experiment exp.lua 'train = { steps = 6, prompts_per_step = 2, lr = 1e-3, kl = 0.05 }, checkpoint = { every = 2, keep = 9 },
  hooks = { on_step = function(_, tr) tr.state.seen = (tr.state.seen or 0) + 1 end }'
"$GRPO" run exp.lua --quiet >/dev/null 2>err </dev/null
run=runs/exp-001
facts() { find "$run" -type f -printf '%p %s %T@\n' | sort; find "$run" -type f -exec cksum {} + | sort; }
facts >before
repl() { timeout 60 "$GRPO" repl "$@" >out 2>err; }
values() { # step N of the run's log, without times
  sed -n "$1p" $run/metrics.jsonl | grep -oE '"(loss|grad_norm|reward|kl|step|learning_rate|entropy)": [^,}]*' | sort
}
cat >step.lua <<'LUA'
local m = tr:step()
for _, name in ipairs { "entropy", "grad_norm", "kl", "learning_rate", "loss", "reward", "step" } do
  print(('"%s": %s'):format(name, grpo.json.encode(m[name])))
end
LUA
repl $run/checkpoints/step-000002 <step.lua
result "a checkpoint: tr:step() makes the run's own next step, bit for bit" "$(diff out <(values 3) || show err)"
repl $run/checkpoints/step-000004 <step.lua
result "another one too" "$(diff out <(values 5) || show err)"
cat >finished.lua <<'LUA'
print(tr.step_count, tr.state.seen, tr.model == m, exp.config.name)
tr:step() tr:step()
print(tr.step_count, #tr.batch.completions, tr:rescore(function(text) return #text end).changed > 0, #tr:inspect(1).ids)
LUA
repl exp-001 <finished.lua
result "a run by its name, finished: tr:step() continues past its end" \
  "$([ "$(head -n 1 out)" = "$(printf '6\t6\ttrue\texp')" ] && grep -qE '^8	8	true	[1-6]$' out || show out err)"
result "nothing is written into its directory" "$(facts | diff before -)"
printf 'tr:save()' | repl $run
result "not even a checkpoint that is asked for" "$(grep -q 'has no run directory; give one' err && facts | diff before - || show err)"
echo '{"step": 4, "stage": 1, "kind": "set", "path": "train.lr", "value": 0.005}' >$run/events.jsonl
echo 'print(tr.config.train.lr)' >rate.lua
repl $run/checkpoints/step-000002 <rate.lua; kept=$(cat out)
repl $run/checkpoints/step-000004 <rate.lua
result "what was changed while it went on is changed there too, from its step on" "$([ "$kept $(cat out)" = '0.001 0.005' ] || show out err)"
rm $run/events.jsonl
mv exp.lua kept.lua
echo 'print(tr:step().step)' | repl $run
result "from its saved sources" "$([ "$(cat out)" = 7 ] || show out err)"
mv kept.lua exp.lua
cp -r $run runs/exp-002 && unsummed runs/exp-002 && echo 'error("gone")' >runs/exp-002/source/main.lua
echo 'print(rawget(_ENV, "tr"), m:count() > 0, #tok)' | repl exp-002
result "where its script cannot be loaded, its model" "$([ "$(cat out)" = "$(printf 'nil\ttrue\t14')" ] && grep -q 'gone' err || show out err)"
echo 1 | repl exp-003; status=$?
result "a run that is not there: the nearest name" "$([ $status = 3 ] && grep -q "did you mean 'exp-00[12]'" err || show err)"
printf '%s\n' 'return function(text) return -#text end' >shorter.lua
printf '%s\n' 'tr:step() print(#tr:rescore("shorter.lua").completions, tr:rescore("shorter.lua").changed)' | repl exp.lua
result "rewards of a file" "$(grep -qE '^8	[5-8]$' out || show out err)"
echo 'x = 1 error({ code = 7 })' | repl; status=$?
result "a table that is raised says what it holds" "$([ $status = 1 ] && [ "$(cat err)" = 'grpo: a table was raised as an error: { code = 7 }' ] || show err)"
printf '%s\n' 'x = 5 function f() return x end' 'print(x, _G.x, load("return x + f()")(), load("return y", "=y", "t", { y = 7 })())' | repl
result "globals are those of _G and of load" "$([ "$(cat out)" = "$(printf '5\t5\t10\t7')" ] || show out err)"

# ---- a terminal -------------------------------------------------------------------------------------------------------------------
# shellcheck source=tests/cli/lib/terminal.bash
. "$root/tests/cli/lib/terminal.bash"
experiment slow.lua 'train = { steps = 3, prompts_per_step = 2, lr = 1e-3 }' \
  '{ name = "slow", fn = function(text, _, c) if c.index == 1 then print("is rewarded") end
    for i = 1, 4e5 do text:byte() end return #text end }'
open A=1 slow.lua
typed 'm:generate("1+", { max_new_tokens = 60, n = 200000 }), 1' Enter; sleep 0.5; typed C-c
result "Ctrl-C ends a generation" "$(shown '^\^C *interrupted')"
typed '"go" .. "es on 1"' Enter
result "the prompt goes on" "$(shown '^goes on 1')"
typed 'while true do pcall(coroutine.wrap(function() while true do end end)) end' Enter; sleep 0.5; typed C-c; sleep 0.3; typed '"go" .. "es on 2"' Enter
result "Ctrl-C ends loops that catch errors" "$(shown '^goes on 2')"
typed 'tr:step()' Enter; shown '^is rewarded' >/dev/null; typed C-c
result "Ctrl-C gives a step up" "$(shown 'interrupted \(the step was given up\)')"
typed 'tr.step_count, tr:step().reward' Enter
reference=$(echo 'print(0) print(tr:step().reward)' | "$GRPO" repl slow.lua 2>/dev/null | tail -n 1)
result "and it is made whole afterwards" "$(shown "^${reference:0:6}")"
typed 'print("a\27[2Jb")' Enter
result "what a model writes is not obeyed" "$(shown '^a.x1b\[2Jb')"
typed '12 + ' C-c; sleep 0.3; typed '"go" .. "es on 3"' Enter
result "Ctrl-C at the prompt: a new line" "$(shown '^goes on 3')"
typed 'function f()' Enter; shown '^>> *$' >/dev/null; typed 'return "fi" .. "ve" end' Enter; sleep 0.2; typed 'f()' Enter
result "lines of one function" "$(shown '^>> return' && shown '^five')"
typed C-d
result "Ctrl-D leaves" "$(shown '^left')"
experiment paused.lua 'train = { steps = 3, prompts_per_step = 2 }, hooks = { on_step = function(_, tr) if tr.step_count == 1 then tr.paused = true end end }'
"$GRPO" run paused.lua --quiet >/dev/null 2>paused.err </dev/null &
pid=$!
for _ in $(seq 200); do [ -S runs/paused-001/control.sock ] && break; sleep 0.05; done
open A=1 attach paused-001
typed 'best(1)' Enter
result "grpo attach: colours" "$(shown "$(printf '\033\\[36m')\\[digits" -e)"
typed 'resume()' Enter; sleep 0.2; typed '.quit' Enter
result "grpo attach: .quit leaves" "$(shown '^left')"
wait $pid
open NO_COLOR=1
typed 'grpo.tensor{1,2}' Enter
result "NO_COLOR: no colours" "$(shown '^tensor \[2\]'; screen -e | grep -q "$(printf '\033\\[1m')tensor" && echo coloured)"
finish
