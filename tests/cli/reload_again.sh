#!/usr/bin/env bash
# Hot reload that fails: what it leaves as it was, and what makes it be tried again.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
export GRPO_RELOAD_ALWAYS=1 # look at every step, not once a second

# The script runs the command of the variable AT3 after step 3, and so on.
mkdir -p project
experiment project/exp.lua 'train = { steps = 8, prompts_per_step = 2, lr = require("reward").lr, clip = 0.2 },
  checkpoint = { every = 2, keep = 9 },
  hooks = { on_step = function(m, tr)
    local command = os.getenv("AT" .. tr.step_count)
    if command then os.execute(command) end
  end }' '{ name = "digits", fn = function(text) return require("reward").digits(text) end }'
cp -r project original
cat >original/reward.lua <<'LUA'
return { digits = function(text) return select(2, text:gsub("%d", "")) / 6 end, lr = 1e-3 }
LUA
seven='return { digits = function() return 7 end, lr = 1e-3 }'
helped='return { digits = require("helper").f, lr = 1e-3 }'
cp original/reward.lua project
write() { echo "echo '$2' >project/$1"; } # FILE TEXT: the command that writes a file

# go NAME [ASSIGNMENT...]: the run NAME of the original files, its lines in NAME.err.  again NAME [...]: resumed
again() { local name=$1; shift; env "$@" "$GRPO" run --resume="$name/exp-001" --quiet </dev/null >"$name.out" 2>"$name.err"; }
go() {
  local name=$1; shift
  rm -rf project; cp -r original project
  env "$@" "$GRPO" run project/exp.lua --quiet --dir "$name" </dev/null >"$name.out" 2>"$name.err"
}
reward_at() { sed -n "$2p" "$1/exp-001/metrics.jsonl" | grep -oE '"reward": [-0-9.e]+' | cut -d' ' -f2; }
# lines NAME [PATTERN...]: the run ended well and said these lines (basic regular expressions), no other
lines() {
  local name=$1 n=0; shift
  grep -q '"state": "finished"' "$name/exp-001/run.json" || echo "not finished"
  for pattern in "$@"; do n=$((n + 1)); sed -n "${n}p" "$name.err" | grep -q "^$pattern\$" || echo "line $n is not: $pattern"; done
  [ "$(wc -l <"$name.err")" = "$n" ] || echo "$(wc -l <"$name.err") lines"
}
# said NAME WHAT PATTERN...
said() { local name=$1 what=$2 problem; shift 2; problem=$(lines "$name" "$@"); result "$what" "${problem:+$problem
$(cat "$name.err")}"; }
old='not reloaded, the old code stays:'

# ---- tried again ---------------------------------------------------------------------------------------------------------
go missing AT2="$(write reward.lua "$helped")" AT4="$(write helper.lua 'return { f = function() return 7 end }')"
said missing "a module that was missing is looked for; it, and where, is in one line" \
  "$old project/reward.lua:1: module 'helper' not found; it is looked for beside the script (project/helper.lua), in lua/ and in grpo" \
  'reloaded at step 4: project/helper.lua, project/reward.lua'
result "and it is in force then, and kept" "$([ "$(reward_at missing 5)" = 7 ] || reward_at missing 5
  [ "$(echo missing/exp-001/source/reload-*/modules/*)" = "$(echo missing/exp-001/source/reload-001/modules/{helper,reward}.lua)" ] ||
  find missing/exp-001/source)"
go broken AT2="$(write reward.lua "$helped"); $(write helper.lua 'return {')" AT3='touch project/other' \
  AT4="$(write helper.lua 'return { f = function() return 7 end }')"
said broken "so is one that was broken" "$old project/helper.lua:2: .*" 'reloaded at step 4: project/helper.lua, project/reward.lua'
go inside AT2="$(write reward.lua 'return { digits = function() return require("helper").f() end, lr = 1e-3 }')" \
  AT4="$(write helper.lua 'return { f = function() return 7 end }')"
said inside "so is one that a reward misses when it is tried" "$old rewards.digits: .*module 'helper' not found; .*" \
  'reloaded at step 4: project/helper.lua, project/reward.lua'
go late AT2="$(write reward.lua "$helped")" AT3=': >project/helper.lua' AT4="$(write helper.lua 'return { f = function() return 7 end }')"
said late "not while it is empty" "$old .*" 'reloaded at step 4: project/helper.lua, project/reward.lua'
go tests AT2="$(write reward_test.lua 'it("is 1", function() assert.equal(1, require("reward").digits("")) end)'); $(write reward.lua "$seven")" \
  AT4="sed -i 's/equal(1/equal(7/' project/reward_test.lua"
said tests "tests require the changed module; when they are mended it is tried again" \
  "$old project/reward_test.lua: 1 tests fail: is 1" 'reloaded at step 4: project/reward.lua'
go all AT2="$(write reward.lua 'return {')" AT3="sed -i 's/clip = 0.2/clip = 0.3/' project/exp.lua" AT4="$(write reward.lua "$seven")"
said all "all that has changed since is named" "$old project/reward.lua:2: .*" "$old project/reward.lua:2: .*" \
  'reloaded at step 4: project/exp.lua, project/reward.lua'
go saved AT2="sed -i '1i assert(io.open(\"data.txt\"))' project/exp.lua" AT3='touch data.txt' AT4='touch project/exp.lua'
said saved "what fails for another reason is tried when it is saved again" "$old project/exp.lua:1: data.txt: .*" 'reloaded at step 4: project/exp.lua'
go gone AT2="rm project/exp.lua; $(write reward.lua "$seven")" AT4='cp original/exp.lua project'
said gone "a script that is not there is waited for" "$old project/exp.lua: no such file.*" 'reloaded at step 4: project/reward.lua'
go back AT2="$(write reward.lua "$helped")" AT3='cp original/reward.lua project' AT5="$(write helper.lua 'return {')"
said back "what was changed back is no event, and nothing more is looked for" "$old .*" 'as it was, nothing to reload: project/reward.lua'
result "and none is recorded" "$(absent back/exp-001 back/exp-001/events.jsonl)"

# ---- as it was -----------------------------------------------------------------------------------------------------------
sed -i '1i function score() return 1 end; first = 1' original/exp.lua
sed -i 's/return require("reward").digits(text)/return score()/' original/exp.lua
go globals AT2="sed -i 's/return 1 end; first/return 7 end; second/; s/^return/error(\"no\") return/' project/exp.lua"
said globals "globals of a script that failed are not those of the old code" "$old project/exp.lua:7: no"
result "which goes on with its own" "$([ "$(reward_at globals 5)" = 1 ] || reward_at globals 5)"
cp project/exp.lua failed.lua
sed -i 's/function score() return 1 end; first = 1//; s/return score()/return require("reward").digits(text)/' original/exp.lua
go modules AT2="$(write helper.lua 'return 1'); $(write reward.lua 'require("helper") error("no")')"
result "modules that only a failed script required are not kept" \
  "$([ "$(echo modules/exp-001/source/modules/*)" = modules/exp-001/source/modules/reward.lua ] || find modules/exp-001/source)"
go removed AT2="rm project/reward.lua; sed -i 's/clip = 0.2/clip = 0.3/' project/exp.lua" AT4='cp original/reward.lua project'
said removed "a module that was removed is not there for the new script" \
  "$old project/exp.lua:.*: module 'reward' not found; .*" 'reloaded at step 4: project/exp.lua'
"$GRPO" test --record removed/exp-001 --count 2 >original/exp_test.lua 2>record.err
# shellcheck disable=SC2016  # for the script
sed -i 's/function(text) return require/function(text) assert(grpo.args.rate == "5") return require/' original/exp.lua
rm -rf project; cp -r original project
AT2="echo >>project/exp.lua" "$GRPO" run project/exp.lua --quiet --dir recorded --arg rate=5 </dev/null >recorded.out 2>recorded.err
said recorded "recorded tests run beside a live run, which keeps its arguments" \
  "$old project/exp_test.lua: 2 tests fail: .*"
rm original/exp_test.lua; sed -i 's/assert(grpo.args.rate == "5") //' original/exp.lua

# ---- a run that goes on: modules beside the script, which is not in this directory ----------------------------------------------
# shellcheck disable=SC2016  # for the script
go resumed AT3='kill -9 $PPID' 2>/dev/null
again resumed AT4="$(write reward.lua "$seven")"
said resumed "a resumed run watches the modules beside its script" 'reloaded at step 4: project/reward.lua'
sed -i 's/require("reward").digits(text)/(os.getenv("LATE") and require("late") or #text)/' original/exp.lua
# shellcheck disable=SC2016  # for the script
go lately AT3='kill -9 $PPID' 2>/dev/null
echo 'return 9' >project/late.lua
again lately LATE=yes
result "and finds there what it requires first" "$([ "$(reward_at lately 5)" = 9 ] || show lately.err)"
finish
