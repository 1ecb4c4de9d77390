#!/usr/bin/env bash
# Faults planted in rows, and how `grpo check` names each.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

# 6,000 rows, so that every third row and the last one would be missed by looking at every third, or at the first
# thousands; the faults are at rows that no stride shares.
cat >planted.lua <<'LUA'
local grpo = require "grpo"
local rows = {}
for i = 1, 6000 do
  rows[i] = { prompt = ("%05d"):format(i) .. (i % 3 == 0 and ("+"):rep(20) or ""),
    answer = "so\n#### " .. i }
end
rows[5999].prompt = ("="):rep(60) -- the longest
rows[17].prompt = rows[11].prompt
rows[29].prompt = "1 + 1"
rows[31].prompt = "1  +  1 "
rows[101].answer = "  "
rows[203].answer = nil
rows[307].answer = "no number\n####"
rows[409].prompt = ""
rows[501].prompt = 7
rows[601].answer = grpo.json.null
local held_out = {}
for i = 1, 40 do held_out[i] = { prompt = ("held %d"):format(i), answer = "#### " .. i } end
held_out[7].prompt = rows[4].prompt
held_out[9].prompt = "1 +   1"
held_out[11].answer = ""
local function number(text) return tonumber(text:match("####%s*(%-?%d+)")) end
return grpo.experiment {
  model = { config = { model_type = "llama", hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
      num_attention_heads = 2, max_position_embeddings = 64 },
    tokenizer = grpo.tokenizer.bytes() },
  sampling = { group_size = 2, max_new_tokens = 4 },
  data = { train = grpo.data.list(rows), eval = grpo.data.list(held_out), max_prompt_tokens = 20,
    prompt = function(row) return row.prompt end },
  stages = {
    { kind = "grpo", train = { steps = 1, prompts_per_step = 2 },
      rewards = { first = function() return 1 end } },
    { kind = "grpo", train = { steps = 1, prompts_per_step = 2 },
      rewards = { strict = function(text, row) return text:find(row.answer, 1, true) and 1 or 0 end,
        picky = function(text, row) if number(row.answer or "") then return number(text) == number(row.answer) end end } },
  },
}
LUA
timeout 120 "$GRPO" check planted.lua >out 2>&1 </dev/null; status=$?
# named NAME PATTERN : a line of what check said matches
named() { result "$1" "$(grep -aqE "$2" out || show out)"; }
result "faults in rows are findings" "$([ $status = 1 ] || { echo "exit status $status"; show out; })"
named "all rows are counted, with mean, percentiles and the longest" \
  '^prompt tokens \(5,999 rows\): mean 11\.[0-9], shortest 0, median 5, p95 25, p99 25, longest 60$'
named "rows longer than the limit" \
  "^note: data\.train \(stage 1\): 2,000 rows are longer than data\.max_prompt_tokens = 20 and will be dropped; the first is row 3$"
named "repeated prompts" '^note: data\.train \(stage 1\): 1 row literally, and 1 row apart from white space with the prompt of an earlier row; the first is row 17, which has that of row 11$'
result "the summary comes all the same: steps are tried with the rows that have no fault" \
  "$(grep -qE '^peak memory: ' out && grep -qE '^grpo +1 +[0-9]' out && ! grep -q '^grpo: ' out || show out)"
named "held-out prompts that are trained on" \
  '^finding: data\.eval \(stage 1\): 1 row literally, and 1 row apart from white space with a prompt that is in data\.train too, .*; the first is held-out row 7, which has that of row 4$'
named "an empty answer" '^finding: data\.train \(stage 1\): the field `answer` is empty in 2 rows; the first is row 101$'
named "an empty answer of a held-out row" '^finding: data\.eval \(stage 2\): the field `answer` is empty in 1 row; the first is row 11$'
named "a missing answer" '^finding: data\.train \(stage 1\): the field `answer` is missing in 1 row, and is there in others; the first is row 203$'
named "an answer without its number" '^finding: data\.train \(stage 1\): the field `answer` has nothing after "####" in 1 row, and has in others; the first is row 307$'
named "an empty prompt" '^finding: data\.train \(stage 1\): the prompt of 1 row has no token, which a run refuses; the first is row 409$'
named "a prompt that cannot be made" '^finding: data\.train \(stage 1\): data\.prompt fails on 1 row; the first is row 501: .*want a string'
named "a reward that gives nil for a row's own answer" \
  "^note: data\.train \(stage 2\): reward picky gives nothing \(nil\) for the own answer of 1 row; the first is row 307; "
named "rewards of a stage before the last" '^finding: stage 1: reward first gives 1 to everything'

# ---- targets ---------------------------------------------------------------------------------------------------------------
experiment targets.lua 'stages = { { kind = "sft", train = { steps = 2, prompts_per_step = 8 } },
  { kind = "grpo", train = { steps = 2, prompts_per_step = 8 } } },' \
  '{ name = "correct", fn = function(text, row) if row.prompt == "5+5=" then error("odd") end return text == row.answer end }' \
  'train = grpo.data.list(rows), target = function(row)
    if row.prompt == "1+1=" then return nil elseif row.prompt == "2+2=" then return " " elseif row.prompt == "3+3=" then error("bad") end
    return row.answer
  end'
timeout 120 "$GRPO" check targets.lua >out 2>&1 </dev/null
named "a target that is missing" '^finding: data\.train: data\.target gives nothing for 1 row, which kind = "sft" refuses; the first is row 12$'
named "a target that is empty" '^finding: data\.train: data\.target gives an empty text for 1 row; the first is row 23$'
named "a target that fails" '^finding: data\.train: data\.target fails on 1 row; the first is row 34: .*bad'
named "a reward that fails on a row's own answer" \
  '^finding: data\.train: reward correct fails on the own answer of 1 row; the first is row 56: .*odd'

# ---- rows that are not functions of their numbers ---------------------------------------------------------------------------
cat >seed <<<1
experiment other.lua 'train = { steps = 4, prompts_per_step = 2 }, checkpoint = { every = 2 },
  hooks = { on_step = function(m) if m.step == 3 and os.getenv("KILL") then os.execute("kill -9 $PPID") end end }' '' \
  'train = grpo.data.generate(function(_, i) return { prompt = "1+1=", n = i, seed = io.open("seed"):read("n") } end, { n = 50 })'
{ KILL=1 "$GRPO" run other.lua --quiet --dir killed </dev/null >/dev/null 2>err; } 2>/dev/null
cat >seed <<<2
"$GRPO" run --resume=killed/other-001 --quiet </dev/null >/dev/null 2>err; status=$?
result "a resume that would see other rows is refused" "$([ $status = 2 ] && grep -qE '^grpo: killed/other-001: data.train: row 1 is not the one that the run began with, .*, or resume with --force$' err || show err)"
"$GRPO" run --resume=killed/other-001 --quiet --force </dev/null >/dev/null 2>err; status=$?
result "--force takes them, and says so" "$([ $status = 0 ] && grep -q 'data.train: row 1 is not the one' err && grep -q 'row 1 is not the one' killed/other-001/run.log || show err)"
sed 's/seed = io.open("seed"):read("n")/at = os.tmpname()/' other.lua >impure.lua
timeout 120 "$GRPO" check impure.lua >out 2>&1 </dev/null; status=$?
named "a row that is another one when it is asked for again" '^finding: data\.train: row 1 was another one when it was asked for again; make rows from their numbers, '
"$GRPO" run impure.lua --quiet --dir impure </dev/null >/dev/null 2>err; status=$?
result "a run notes it" "$([ $status = 0 ] && grep -q '^grpo: note: data.train: row 1 was another one' err && grep -q 'row 1 was another one' impure/impure-001/run.log || show err)"

# ---- nothing is wrong ------------------------------------------------------------------------------------------------------
experiment clean.lua 'train = { steps = 2, prompts_per_step = 8 },' '{ name = "correct", fn = function(text, row) return text == row.answer end }'
timeout 120 "$GRPO" check clean.lua >out 2>&1 </dev/null; status=$?
result "rows without a fault: no finding and no note" "$([ $status = 0 ] && ! grep -aE '^(finding|note): data' out || show out)"
finish
