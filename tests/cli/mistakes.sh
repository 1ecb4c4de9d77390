#!/usr/bin/env bash
# Faults planted in rewards, and who finds them; first steps that go astray, and what they are told.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

# says NAME STATUS PATTERN COMMAND... : exit status, and a line of stdout or stderr that matches
says() {
  local name=$1 want=$2 pattern=$3 status problem=''; shift 3
  timeout ${LIMIT:-120} "$@" >out 2>&1 </dev/null; status=$?
  [ "$want" = any ] || [ $status = "$want" ] || problem+="exit status $status, want $want"$'\n'
  grep -qE "$pattern" out || problem+="nothing matches: $pattern"$'\n'
  result "$name" "${problem:+$problem$(head -n 40 out)}"
}

# planted NAME REWARD : NAME.lua, sums with demonstrations and this reward (Lua source of a function)
planted() {
  experiment "$1.lua" 'stages = { { kind = "sft", train = { steps = 2, prompts_per_step = 8 } },
    { kind = "grpo", train = { steps = 12, prompts_per_step = 8 } } },' "{ name = \"correct\", fn = $2 }" \
    'train = grpo.data.list(rows), target = function(row) return row.answer end'
}

# ---- faults in rewards -----------------------------------------------------------------------------------------------------
planted good 'function(text, row) return text == row.answer end'
says "a good reward: no finding" 0 '^demonstrations ' "$GRPO" check good.lua
result "check shows what demonstrations get, and what they get beside another row" \
  "$(grep -qE '^  correct +1 +0(\.[0-9]+)?$' out || cat out)"
planted loop 'function(text, row) while text:find("+", 1, true) do text = text:gsub("^%+", "") end return text == row.answer end'
says "check ends although a reward does not" 1 '^finding: reward correct .*used up its 50000000 instructions: a loop that does not end\?' \
  "$GRPO" check loop.lua
planted changes 'function(text, row) local a = row.answer row.answer = "0" .. a return text == a end'
says "check: a reward that changes its row" 1 '^finding: reward correct changes the row' "$GRPO" check changes.lua
says "test --fuzz: the same" 1 '^FAILED .*rewards\.correct changes the row' "$GRPO" test --fuzz changes.lua
planted first '(function() local one return function(text, row) one = one or row return text == one.answer end end)()'
says "check: a reward that does not look at the row" any '^note: .*correct.* whatever the row' "$GRPO" check first.lua
planted memo '(function() local seen = {} return function(text, row)
    if seen[text] == nil then seen[text] = text == row.answer end return seen[text] end end)()'
says "check: a reward that remembers texts" any '^note: .*correct.* whatever the row' "$GRPO" check memo.lua
planted silent 'function(text, row) if text == row.answer then return 1 end end'
says "check: nil for what is wrong" 1 '^finding: reward correct gives nil .* return 0 or false' "$GRPO" check silent.lua
planted random 'function(text, row) return (text == row.answer and 1 or 0) + math.random() end'
says "test --fuzz: a random reward" 1 '^FAILED .*rewards\.correct gives .*, then ' "$GRPO" test --fuzz random.lua
planted global 'function(text, row) best = math.max(best or 0, #text) return #text / best end'
says "test --fuzz: an undefined global, as in a run" 1 "undefined global 'best'" "$GRPO" test --fuzz global.lua

finish
