#!/usr/bin/env bash
# grpo attach: looking into a live run, changing it, pausing it; a resume repeats what was changed.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

# Each step waits for a file, so that the session finds the run where it wants it.
experiment exp.lua 'train = { steps = 8, prompts_per_step = 2, lr = 1e-3 }, checkpoint = { every = 3, keep = 9 }, limits = { hook = { instructions = 5e7 } },
  hooks = { on_step = function(m, tr) tr.state.seen = (tr.state.seen or 0) + 1
    if tr.step_count == tonumber(os.getenv("PAUSE") or 0) then tr.paused = true end end }'

# begin DIRECTORY [VARIABLE=VALUE] : a run that pauses after step 4
begin() {
  local dir=$1; shift
  env PAUSE=4 "$@" "$GRPO" run exp.lua --quiet --dir "$dir" </dev/null >"$dir.out" 2>"$dir.err" &
  pid=$!
  for _ in $(seq 400); do [ -S "$dir/exp-001/control.sock" ] && grep -q 'paused at step' "$dir/exp-001/run.log" 2>/dev/null && return; sleep 0.05; done
  echo "# the run did not pause"; cat "$dir.err"
}
attach() { timeout 60 "$GRPO" attach "$@" >out 2>err; }

begin a
attach a/exp-001 <<'LUA'
tr.step_count
#tr.batch.completions
worst(1)
function twice(x)
  return 2 * x
end
twice(21)
tr.config.train.lr = 5e-3
weight("digits", 3)
tr.state.note = "kept"
nothing.here
tr:step()
tr.config.model = 1
weight("nope", 1)
weight()
weight("digits")
worst("a")
worst(-1)
tr.config.train.kl = function() return 1 end
print("\27[31m")
tr.state.bad = print
?worst
print("still " .. tostring(tr.state.bad) .. " " .. tr.state.note)
LUA
status=$?
result "values are shown; a line that failed: status 1" "$([ $status = 1 ] && grep -qx 4 out && grep -qx 8 out && grep -qx 42 out || show out err)"
result "a completion with its rewards" "$(grep -qE '^\[digits [0-9.]+ \| total [0-9.]+ \| (eos|length), [0-9] tokens\] prompt: [0-9+=]+$' out || show out)"
result "?NAME knows what a session has" "$(grep -q '^worst(n) -> ' out || show out)"
result "what a terminal would obey is not passed on" "$(grep -q '\\x1b\[31m' out && ! grep -q "$(printf '\033')" out err || show -v out err)"
result "errors are a line each, and the session goes on" "$([ "$(wc -l <err)" = 10 ] && grep -q 'called inside an attached session' err \
  && grep -q "tr.config.model: cannot be changed" err && grep -q "no reward 'nope'; there are: digits" err \
  && grep -q "weight: got nil for the reward's name; weight(\"digits\", 0.5)" err && grep -q "got nil as the weight of 'digits', want a finite number" err \
  && grep -q "worst: got 'a', want how many completions: a whole number from 1" err && grep -q 'worst: got -1, want' err && grep -q 'only what JSON can hold' err || show err)"
result "what tr.state cannot hold is taken back" "$(grep -q 'state.bad is a function.*as it was before' err && grep -qx 'still nil kept' out || show out err)"
result "changes are recorded with their step" "$([ "$(grep -c '"step": 4' a/exp-001/events.jsonl)" = 3 ] || show a/exp-001/events.jsonl)"
result "the socket is this user's alone" "$([ "$(stat -c %a a/exp-001/control.sock)" = 600 ] || stat a/exp-001/control.sock)"

# clients that die, or that say nothing, or nonsense
python3 - a/exp-001/control.sock <<'PY' 2>/dev/null || perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => "a/exp-001/control.sock"); print $s "nonsense\n{\"text\": 5}\n\0\xff\n";'
import socket, sys
for text in (b"nonsense\n{\"text\": 5}\n\0\xff\n", b"{\"id\": 1, \"text\": \"pause()", b""):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(text); s.close()
PY
{ printf 'x = "'; head -c 1100000 /dev/zero | tr '\0' a; echo '"'; } | attach a/exp-001; status=$?
result "a text that is too long is refused, the run goes on" "$([ $status = 2 ] && grep -q 'a run takes 1048576 at most' err || show err)"
printf '%s\n' 'for i = 1, 20000 do print(("\27"):rep(9)) end' 'for i = 1, 100000 do print(i, "of many") end' 'print(("\u{20AC}"):rep(400000))' '#"still there"' | attach a/exp-001
result "an answer of a megabyte is shown, a longer one is cut" "$([ "$(grep -c '^\(.x1b\)*$' out)" = 20000 ] && grep -q '^59999	of many$' out && grep -qx 11 out && \
  [ "$(grep -c 'more than a MiB' err)" = 2 ] || { head -c 300 err; wc out; })"

mkfifo hold; exec 8<>hold
for _ in $(seq 200); do # one place more is held, until nobody writes to the pipe; a session that found none to hold has ended
  "$GRPO" attach a/exp-001 <hold >/dev/null 2>&1 8>&- &
  echo 1 | attach a/exp-001; status=$?
  [ $status = 0 ] || break
  sleep 0.05
done
result "a run that takes no more sessions does not say that it has ended" \
  "$([ $status = 5 ] && grep -q 'closed the session but continues: it takes 8 at once' err || show err)"
exec 8>&-
for _ in $(seq 200); do echo 1 | attach a/exp-001 && break; sleep 0.05; done # the places are free again
# a flood of lines that waits for no answer: the run makes its steps meanwhile
python3 - a/exp-001/control.sock >flood 2>/dev/null <<'PY' || echo skipped >flood
import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); answers = s.makefile()
answers.readline()
s.sendall(b"".join(json.dumps({"id": i, "text": "tr.paused = nil" if i == 0 else "1"}).encode() + b"\n" for i in range(60)))
for i in range(60): print(json.loads(answers.readline())["step"])
PY
result "a flood is served over several steps" "$(grep -q skipped flood || [ "$(sort flood | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')" -le 16 ] || sort flood | uniq -c)"
result "lines that went well: status 0" "$([ $? = 0 ] || show err)"
wait $pid; status=$?
result "nonsense and death of clients leave the run alone" "$([ $status = 0 ] && grep -q '"state": "finished"' a/exp-001/run.json || show a.err a/exp-001/run.log)"
result "the socket goes with the run" "$([ ! -e a/exp-001/control.sock ] || echo 'still there')"
echo 1 | attach a/exp-001; status=$?
result "a run that has ended is not attached to" "$([ $status = 2 ] && grep -q 'is not running (finished)' err || show err)"

# ---- a resume does it again ---------------------------------------------------------------------------------------------
begin b
cp a/exp-001/events.jsonl b/exp-001/ # as if the same had been asked for, and then:
kill -9 $pid; wait $pid 2>/dev/null
"$GRPO" run --resume=b/exp-001 --quiet >/dev/null 2>b.err </dev/null
result "a killed run that is resumed repeats the changes, bit for bit" "$(different a/exp-001 b/exp-001; cat b.err)"
begin c
echo 'resume()' | attach c/exp-001; wait $pid
result "without them it is another run" "$([ -n "$(different a/exp-001 c/exp-001)" ] || echo 'no difference')"

# ---- stopping, saving -----------------------------------------------------------------------------------------------------
begin d
printf 'save()\nstop("seen enough")\n' | attach d/exp-001
wait $pid; status=$?
result "stop() ends the run after a checkpoint" "$([ $status = 0 ] && grep -q '"state": "stopped"' d/exp-001/run.json \
  && [ "$(readlink d/exp-001/latest)" = checkpoints/step-000004 ] || show d.err d/exp-001/run.log)"
begin f
echo 'tr.config.sampling.stop_regex = nil' | attach f/exp-001
kill -9 $pid; wait $pid 2>/dev/null
"$GRPO" run --resume=f/exp-001 --quiet >/dev/null 2>f.err </dev/null; status=$?
result "an option that was set to nil is set again by a resume" "$([ $status = 0 ] && grep -q '"path": "sampling.stop_regex"' f/exp-001/events.jsonl || show f.err f/exp-001/events.jsonl)"
# ---- values whose metamethods never end -----------------------------------------------------------------------------------
begin g
attach g/exp-001 <<'LUA'
function endless(t, name) local meta = { __name = name } for m in ("index newindex pairs len tostring eq lt le call concat"):gmatch "%a+" do meta["__" .. m] = function() while true do end end end return setmetatable(t or {}, meta) end
endless()
{ endless() }
{ [endless()] = 1, [endless()] = 2 }
endless({}, "grpo.Tokens")
endless({}, "grpo.Model")
print(endless())
show(endless())
endless({ text = "a", finish = "eos" })
error(endless())
tr.config.sampling.stop = endless { "7" }
tr.config.train.lr = endless()
tr.state.odd = endless { 5 }
for k in pairs(tr) do tr[k] = nil end
tr.paused = true
odd = endless({}, "grpo.Odd")
?odd.thing
.time endless()
do local t = {} for i = 1, 60 do t = { t, t } end tr.config.sampling.stop = t end
m = endless() 
1
m = tr.model setmetatable(_G, getmetatable(endless()))
2 
stop(endless())
setmetatable(tr.metrics, getmetatable(endless())); setmetatable(tr.batch, getmetatable(endless())); tr.state = {};
tr.paused = nil
LUA
wait $pid; status=$?
result "what a session shows is read within limits.hook, and the run goes on" "$([ $status = 0 ] && [ "$(grep -cx 'stdin:1: the attached session: used up its 50000000 instructions' err)" = 14 ] \
  && [ "$(grep -vc '^(' err)" = 17 ] && [ "$(tr '\n' ' ' <out)" = '1 2 ' ] && grep -q 'lr: got a table' err && grep -qx 'tr.directory, which the run needs, is again as it was before this line' err && grep -q 'state.odd has a metatable' err || show out err g.err)"
result "an option's table that a session sets is kept without its metatable" "$(grep -q '"state": "finished"' g/exp-001/run.json && grep -q 'set sampling.stop = \["7"\]' g/exp-001/run.log || show g/exp-001/run.log)"
begin e
kill -TERM $pid; wait $pid; status=$?
result "SIGTERM ends a paused run" "$([ $status = 143 ] || show e.err)"
finish
