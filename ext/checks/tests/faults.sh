#!/usr/bin/env bash
# Faults planted in rewards, and how `grpo check` and `grpo test --fuzz` name each; what check shows.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

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
    'train = grpo.data.list(rows):take(90), eval = grpo.data.list(rows):skip(90), target = function(row) return row.answer end'
}

# ---- faults in rewards -----------------------------------------------------------------------------------------------------
planted good 'function(text, row) return text == row.answer end'
says "a good reward: no finding" 0 '^demonstrations ' "$GRPO" check good.lua
result "check shows what demonstrations get, and what they get beside another row" \
  "$(grep -qE '^  correct +1 +0(\.[0-9]+)?$' out || show out)"
planted loop 'function(text, row) while text:find("+", 1, true) do text = text:gsub("^%+", "") end return text == row.answer end'
says "check ends although a reward does not" 1 '^finding: reward correct .*used up its 50000000 instructions: a loop that does not end\?' \
  "$GRPO" check loop.lua
planted number 'function(text, row) return text == row.answer end'
sed -i 's/answer = tostring(a + b)/answer = a + b/; s/, target = function(row) return row.answer end//; s/{ kind = "sft"[^}]*} },//' number.lua
says "check: an answer that is a number, compared with a text" 1 \
  '^finding: reward correct gives 0 to everything: .*; row\.answer is a number, which no text equals: compare tostring\(row\.answer\)' "$GRPO" check number.lua
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

says "a row without a prompt: what it has" 1 '^finding: .*row\.prompt is (nil|nothing) for a row \(it has answer, question\)' \
  "$GRPO" check <(sed 's/{ prompt = /{ question = /' good.lua)
sed 's/prompt = ("%d+%d="):format(a, b)/question = ""/' good.lua >column.lua
says "a column of another name" any "^finding: data.train: data.prompt fails on 90 rows" "$GRPO" check column.lua
result "is no matter of slow rewards" "$(none 'because they are slow' out)"

cat >unsteady.lua <<'LUA'
local grpo = require "grpo"
local calls = 0
return grpo.experiment {
  model = { config = { model_type = "gpt2", n_embd = 16, n_layer = 1, n_head = 2, n_positions = 64 },
    tokenizer = grpo.tokenizer.bytes() },
  data = { train = grpo.data.list { { prompt = "a" }, { prompt = "b" } }, max_prompt_tokens = 8 },
  sampling = { max_new_tokens = 8 }, train = { steps = 2, prompts_per_step = 2 },
  rewards = { { name = "unsteady", fn = function() calls = calls + 1 return calls end } },
}
LUA
says "check: a reward that remembers is a finding" 1 '^finding: reward unsteady gave .*' "$GRPO" check unsteady.lua
cat >suspicious.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { config = { model_type = "gpt2", n_embd = 16, n_layer = 1, n_head = 2, n_positions = 64 },
    tokenizer = grpo.tokenizer.bytes() },
  data = { train = grpo.data.list { { prompt = "a" }, { prompt = "b" } }, max_prompt_tokens = 8,
    target = function(row) return row.prompt end },
  sampling = { max_new_tokens = 8 },
  rewards = { constant = function() return 1 end, long = function(text) return #text end,
    first = function(text) return text:byte(1) / 256 end, right = function(text, row) return text == row.prompt end },
  stages = { { kind = "sft", train = { steps = 2, prompts_per_step = 2 } }, { kind = "grpo", train = { steps = 2, prompts_per_step = 2 } } },
}
LUA
says "check: a reward that ignores what it is given" 1 '^finding: reward constant gives 1 to everything' "$GRPO" check suspicious.lua
says "check: a reward that prefers degenerate text" 1 '^finding: reward long gives [0-9]+ to degenerate text \((one letter, many times|a number of many digits): ' "$GRPO" check suspicious.lua
says "check: a reward that fails on empty text" 1 '^finding: reward first fails on empty: .*suspicious\.lua:9: ' "$GRPO" check suspicious.lua
result "check: no finding about a good reward" "$(none '^finding: reward right' out)"
cat >blind.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { config = { model_type = "gpt2", n_embd = 16, n_layer = 1, n_head = 2, n_positions = 64 },
    tokenizer = grpo.tokenizer.bytes() },
  data = { train = grpo.data.list { { prompt = "a", gold = { answer = "so it is\n#### 71" } } }, max_prompt_tokens = 8 },
  sampling = { max_new_tokens = 8 },
  rewards = { constant = function() return 1 end, zero = function() return 0 end,
    right = function(text, row) return text:match("^<answer>(.*)</answer>$") == row.gold.answer:match("#### (.*)") end,
    unlike = { group_fn = function(texts)
      local list = {}
      for i, text in ipairs(texts) do list[i] = text ~= texts[1] and 1 or 0 end
      return list
    end } },
  train = { steps = 2, prompts_per_step = 2 },
}
LUA
says "check without demonstrations: a reward that ignores what it is given" 1 \
  '^finding: reward constant gives 1 to everything: [0-9]+ degenerate texts and 10 texts made of rows, and [0-9]+ sampled completions$' "$GRPO" check blind.lua
result "check without demonstrations: one that never gives anything" \
  "$(grep -q '^finding: reward zero gives 0 to everything: .*; if a right answer gets more, show one with data.target$' out || show out err)"
result "check without demonstrations: no finding about good rewards" "$([ "$(grep -c '^finding: ' out)" = 2 ] || show out)"
says "test --fuzz finds the same failure" 1 '^FAILED on empty: rewards\.first: ' "$GRPO" test --fuzz suspicious.lua
echo 'return { right = function(text, row) return text == row.answer end }' >right.lua
says "test --fuzz: a file of rewards without a failure" 0 '^1 reward, 224 texts, 0 failures$' "$GRPO" test --fuzz right.lua

# ---- what check shows ------------------------------------------------------------------------------------------------------
"$GRPO" init project >out 2>err; cd project || exit 1
says "check shows the distribution of lengths" 0 '^prompt tokens \(.*median' "$GRPO" check experiment.lua --threads 1
result "check shows two sampled completions with their rewards" \
  "$([ "$(grep -cE '^sampled completion [12] ' out)" = 2 ] && grep -qE '^  correct +[01]$' out || show out)"
result "check estimates time" "$(grep -qE '^grpo +60 +[0-9.]+' out || show out)"
result "check trains and writes nothing" "$([ ! -e runs ] || ls runs)"
cd ..
experiment sampled.lua '' '' 'train = grpo.data.list(rows), sampler = function(p)
    local list = {}
    for i = 1, p.n do list[i] = 7 * i end
    return list
  end'
says "check shows the rows that a sampler takes first" any '^data.sampler of stage 1 begins with rows 7, 14, 21' "$GRPO" check sampled.lua
sed 's/local list = {}/calls = (calls or 0) + 1; local list = {}/; s/7 \* i/calls/; s/^local rows/local calls\nlocal rows/' sampled.lua >impure.lua
says "check finds a sampler that answers differently when it is asked again" 1 \
  '^finding: data.sampler: item 1 of its list was row 1 and then row 2 for the same p' "$GRPO" check impure.lua
experiment talks.lua 'environment = function() coroutine.yield("1+"); return 1 end, turns = { max = 2, format = { stop = { "=" },
    write = function(result) return result end, read = function() end } },'
says "check shows two conversations" any '^environment> reward' "$GRPO" check talks.lua
result "with what both sides say" "$([ "$(grep -c '^environment> reward' out)" = 2 ] && grep -q '^assistant> ' out || show out)"
finish
