#!/usr/bin/env bash
# `grpo check` continues whatever fails: each fault is a finding, and the summary comes.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

# finds NAME PATTERN FILE [WORD...] : exit status 1, a finding that matches, the one figure for memory, and the summary
finds() {
  local name=$1 pattern=$2 status=0; shift 2
  timeout 120 "$GRPO" check "$@" >out 2>err || status=$?
  result "$name" "$(
    { [ $status = 1 ] && grep -qE "^finding: $pattern" out && tail -n 1 out | grep -qE '^[0-9]+ findings?$' &&
      [ "$(grep -c '^peak memory: ' out)" = 1 ] && [ "$(grep -cE '^grpo +[0-9]+ +[0-9.]+ ' out)" = 1 ]; } ||
      { echo "exit status $status"; show out err; })"
}

# reward NAME PATTERN CODE : an experiment whose reward `r` has this code
reward() { experiment one.lua '' "{ name = \"r\", fn = function(text, row, c) $3 end }"; finds "$1" "$2" one.lua; }
reward "a reward that raises" 'reward r fails on empty and [0-9]+ more texts: one\.lua:14: boom' 'error("boom")'
reward "a reward that hangs" 'reward r fails on empty: .*used up its 50000000 instructions' 'while true do end'
experiment waits.lua '' '{ name = "r", fn = function() while true do end end }'
finds "a reward that waits too long" 'reward r.*took longer than 0\.02 seconds' waits.lua limits.reward.seconds=0.02
reward "a reward that is slow" 'reward r is slow: it takes [0-9.]+ s on .*\([0-9]+ bytes\)' \
  'if text:find("12</answer>") then local t = os.clock() + 0.7 while os.clock() < t do end end return #text'
reward "a reward that gives NaN" 'reward r fails on empty and .* returned nan' 'return 0 / 0'
reward "a reward that gives a text" 'reward r fails on empty and .* returned a string' 'return "1"'
reward "a reward that gives a table" 'reward r fails on empty and .* returned a table' 'return {}'
reward "a reward that takes all memory" 'reward r fails on empty: .*needs more than its .* MB of memory' \
  'local s = "x" while true do s = s .. s end'
reward "a method that is not there" 'reward r fails on empty and .*method .strip.\); strip is s:match' 'return #text:strip()'
reward "a reward that fails on what the model writes" 'reward r: .*sampled' 'if c.logprobs[1] ~= -1.0 and c.ids[1] then error("sampled") end return #text'

experiment rows.lua '' '' 'train = grpo.data.list(rows), prompt = function(row) error("no prompt") end'
status=0; "$GRPO" check rows.lua >out 2>err || status=$?
result "rows that fail" "$({ [ $status = 1 ] && grep -qE '^finding: data\.train: data\.prompt fails on 100 rows' out && tail -n 1 out | grep -q 'findings$'; } || show out err)"
experiment metric.lua 'eval = { metric = function() error("no metric") end },' '' 'train = grpo.data.list(rows), eval = grpo.data.list(rows):take(4)'
finds "a metric that fails" 'a step of stage 1 \(grpo\): .*no metric' metric.lua
experiment hooked.lua 'environment = { reset = function() error("no reset") end, step = function() return "", true end },'
status=0; "$GRPO" check hooked.lua >out 2>err || status=$?
result "an environment that fails" "$({ [ $status = 1 ] && grep -qE '^finding: sampling: .*no reset' out && tail -n 1 out | grep -q 'findings\?$'; } || show out err)"
experiment big.lua
status=0; "$GRPO" check big.lua --memory 8M data.max_prompt_tokens=30 sampling.max_new_tokens=30 train.prompts_per_step=4096 >out 2>err || status=$?
result "a stage that does not fit" "$({ [ $status = 1 ] && grep -qE '^finding: stage 1: .*needs up to [0-9]+ MiB' out && tail -n 1 out | grep -q 'findings\?$'; } || show out err)"

experiment good.lua '' '{ name = "r", fn = function(text, row) return text == row.answer end }' 'train = grpo.data.list(rows), target = function(row) return row.answer end'
status=0; "$GRPO" check good.lua >out 2>err || status=$?
result "nothing is wrong" "$({ [ $status = 0 ] && [ "$(tail -n 1 out)" = 'no findings' ]; } || show out err)"
result "each long part is announced" "$(grep -q '^check: loading the model of good\.lua$' err && grep -q '^check: stage 1 (grpo): timing a step$' err || show err)"
experiment long.lua '' '{ name = "r", fn = function(text) return #text end }' 'train = grpo.data.list(rows), target = function(row) return row.answer end'
finds "texts are about as long as completions can be" 'reward r gives 320 to degenerate text ' long.lua sampling.max_new_tokens=40
finish
