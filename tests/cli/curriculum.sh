#!/usr/bin/env bash
# data.sampler: a curriculum that is killed, resumed, reloaded and replayed takes the same rows.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
export GRPO_RELOAD_ALWAYS=1 # look for changed files at every step, not once a second

cat >order.lua <<<'return { jump = 1 }'
cat >exp.lua <<'LUA'
local grpo = require "grpo"
local order = require "order"
local rows = {}
for a = 0, 9 do
  for b = 0, 9 do rows[#rows + 1] = { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b) } end
end
-- Where a group teaches, its neighbours come next; elsewhere rows by chance.
local curriculum = {
  sample = function(_, p)
    local list, wanted = {}, p.state.wanted or {}
    for i = 1, p.n do list[i] = wanted[p.round == 1 and i or 0] or math.floor(p.rng() * p.size) + 1 end
    return list
  end,
  observe = function(_, p, groups)
    p.state.wanted, p.state.seen = {}, p.state.seen or {}
    for _, g in ipairs(groups) do
      p.state.seen[g.index] = g.mean
      if not g.zero_advantage then table.insert(p.state.wanted, (g.index - 1 + order.jump) % p.size + 1) end
    end
    return { wanted = #p.state.wanted }
  end,
}
local function kill_at(name, step)
  if tonumber(os.getenv(name)) == step then os.execute("kill -9 $PPID") end
end
return grpo.experiment {
  model = { config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
    num_attention_heads = 2, max_position_embeddings = 64 }, tokenizer = grpo.tokenizer.chars("0123456789+=") },
  sampling = { group_size = 4, max_new_tokens = 6 },
  data = { train = grpo.data.list(rows), eval = grpo.data.list { rows[3], rows[44] }, max_prompt_tokens = 8,
    target = function(row) return row.answer end, sampler = curriculum },
  rewards = { { name = "digits", fn = function(text) return text:find("^%d%d") and 1 or 0 end } },
  checkpoint = { every = 3, keep = 9 },
  stages = {
    { kind = "sft", train = { steps = 4, prompts_per_step = 3, lr = 3e-3 } },
    { kind = "grpo", train = { steps = 8, prompts_per_step = 3, lr = 1e-3, skip_zero_std_groups = true } },
  },
  hooks = {
    on_rollout = function(_, tr) kill_at("KILL_ROLLOUT", tr.step_count + 1) end,
    on_checkpoint = function(_, tr) kill_at("KILL_CHECKPOINT", tr.step_count) end,
    on_step = function(_, tr)
      if tr.step_count == tonumber(os.getenv("EDIT") or 0) then os.execute("echo 'return { jump = 7 }' >order.lua") end
      kill_at("KILL_STEP", tr.step_count)
    end,
  },
}
LUA
original() { echo 'return { jump = 1 }' >order.lua; }
rows_of() { grep -oE '"row_index": [0-9]+' "$1/completions.jsonl" | cut -d' ' -f2 | tr '\n' ' '; }

"$GRPO" run exp.lua --quiet --dir whole </dev/null >/dev/null 2>err
result "a curriculum runs over a supervised stage and one with rewards" "$(grep -q '"state": "finished"' whole/exp-001/run.json || show err)"
result "its state is in each checkpoint" "$(for c in whole/exp-001/checkpoints/*; do grep -q sampler.bin "$c/manifest.json" || echo "$c"; done)"
result "its numbers are metrics" "$([ "$(grep -c '"sampler/wanted"' whole/exp-001/metrics.jsonl)" = 12 ] || show whole/exp-001/metrics.jsonl)"

# ---- killed and resumed ---------------------------------------------------------------------------------------------------
killed "killed in the supervised stage" sft KILL_STEP=2
killed "killed after its last checkpoint" stage KILL_CHECKPOINT=4
killed "killed after the rollout of a step" rollout KILL_ROLLOUT=6
killed "killed between two checkpoints" between KILL_STEP=9
killed "killed at the last checkpoint" last KILL_CHECKPOINT=12
mkdir twice
KILL_ROLLOUT=6 "$GRPO" run exp.lua --quiet --dir twice </dev/null >/dev/null 2>&1
KILL_STEP=8 "$GRPO" run --resume=twice/exp-001 --quiet </dev/null >/dev/null 2>&1
"$GRPO" run --resume=twice/exp-001 --quiet </dev/null >/dev/null 2>err
result "killed twice" "$(different whole/exp-001 twice/exp-001)"

# ---- reloaded -------------------------------------------------------------------------------------------------------------
original
EDIT=6 "$GRPO" run exp.lua --quiet --dir edited </dev/null >/dev/null 2>err
result "a reload changes the curriculum, which keeps its state" \
  "$(grep -q '"kind": "reload"' edited/exp-001/events.jsonl && [ "$(rows_of edited/exp-001)" != "$(rows_of whole/exp-001)" ] || show err)"
for at in 7 8; do
  original
  EDIT=6 KILL_STEP=$at "$GRPO" run exp.lua --quiet --dir "edited$at" </dev/null >/dev/null 2>&1
  original
  "$GRPO" run --resume="edited$at/exp-001" --quiet </dev/null >/dev/null 2>err
  result "killed at step $at after the reload, then --resume: the same bytes" "$(different edited/exp-001 "edited$at/exp-001")"
done
original

# ---- the example, as a session: killed at step 70 of 100, resumed ----------------------------------------------------------
sed -E 's/^  checkpoint = .*/&\n  hooks = { on_step = function(m) if m.step == tonumber(os.getenv("KILL_STEP") or 0) then os.execute("kill -9 $PPID") end end },/' \
  "$root/examples/curriculum.lua" >curriculum.lua
for order in rate hard; do
  rm -rf whole/curriculum-001 session
  sed -i -E "s/grpo.args.order or \"[a-z]+\"/grpo.args.order or \"$order\"/" curriculum.lua
  "$GRPO" run curriculum.lua --quiet --dir whole </dev/null >/dev/null 2>err || show err
  exp=curriculum killed "examples/curriculum.lua, order $order: killed at step 70" session KILL_STEP=70
done
result "its metrics say where the curriculum is" "$(tail -n 1 session/curriculum-001/metrics.jsonl | grep -q '"sampler/share": 1[,}]' || tail -n 1 session/curriculum-001/metrics.jsonl)"

# ---- replayed -------------------------------------------------------------------------------------------------------------
"$GRPO" replay whole/exp-001 8 --regenerate --count 0 </dev/null >out 2>err
result "replay --regenerate takes the same rows" "$(grep -q '^12 of 12 completions are the same again$' out || show out err)"
"$GRPO" replay edited/exp-001 11 --regenerate --count 0 </dev/null >out 2>err
result "also those of the reloaded curriculum" "$(grep -q '^12 of 12 completions are the same again$' out || show out err)"
"$GRPO" replay edited7/exp-001 11 --regenerate --count 0 </dev/null >out 2>err
result "and those of the run that was reloaded, killed and resumed" "$(grep -q '^12 of 12 completions are the same again$' out || show out err)"
cat >other.lua <<<'return function(text, row) return #row.answer end'
"$GRPO" replay whole/exp-001 --reward other.lua --json </dev/null >out 2>err
result "replay --reward scores each completion with its own row" "$(awk '
  match($0, /"prompt": "[0-9]\+[0-9]="/) { p = substr($0, RSTART + 11, 3); split(p, n, "+"); sum = n[1] + n[2] }
  match($0, /^[^{]*\{[^{]*"reward": [0-9]/) { }
  { if ($0 !~ "\"reward\": " length(sum "")) print "row of " p ": " substr($0, 1, 200) }' out | head -3; [ "$(wc -l <out)" = 96 ] || show err)"
"$GRPO" eval whole/exp-001 </dev/null >out 2>err
result "eval measures the held-out rows" "$(grep -qE '^rows +2$' out || show out err)"

# ---- a sampler that answers differently ------------------------------------------------------------------------------------
sed -E 's/^local rows = \{\}/local calls, rows = 0, {}/; s/local list, wanted = .*/local list = {}; calls = calls + 1/
  s/^( *for i = 1, p.n do list\[i\] = ).*/\1calls end/' exp.lua >impure.lua
"$GRPO" run impure.lua --quiet --dir impure </dev/null >out 2>err; status=$?
result "a run is refused, at the option's line, before there is a directory" \
  "$([ $status = 2 ] && [ ! -e impure/impure-001 ] && grep -qE '^grpo: impure.lua:[0-9]+: data.sampler: item 1 of its list was' err || show err)"
finish
