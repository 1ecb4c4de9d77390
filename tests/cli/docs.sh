#!/usr/bin/env bash
# What the documents say is so: Lua in them compiles, files and commands exist, generated pages are fresh, examples run.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
cd "$root" || exit 1
shopt -s nullglob
documents=(README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md ext/*/README.md experiments/*.md bench/results/*.md)

# ---- Lua in the documents: a chunk, or fields of a table ---------------------------------------------------------------------
cat >"$work/compile.lua" <<'LUA'
local bad = 0
for path in os.getenv("DOCUMENTS"):gmatch("%S+") do
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  for at, block in text:gmatch("()```lua\n(.-)```") do
    local line = select(2, text:sub(1, at):gsub("\n", ""))
    local ok, message = load(block, "=" .. path)
    if not ok and load("return {" .. block .. "}", "=" .. path) then ok = true end
    if not ok then
      bad = bad + 1
      print(("%s:%d: %s"):format(path, line + 1, message))
    end
  end
end
print(bad == 0 and "fine" or "bad")
LUA
answer=$(DOCUMENTS="${documents[*]}" "$GRPO" repl <"$work/compile.lua" 2>&1)
result "Lua in the documents compiles" "$([ "$answer" = fine ] || echo "$answer")"

# ---- commands, targets, links ------------------------------------------------------------------------------------------------------
missing=''
for command in $(grep -ohE '(^|`|\./)grpo [a-z]+' "${documents[@]}" | grep -oE '[a-z]+$' | sort -u); do
  "$GRPO" help "$command" >/dev/null 2>&1 || [ -d "ext/$command" ] || case $command in is) ;; *) missing+="grpo $command " ;; esac
done
result "commands that the documents name exist" "$missing"
missing=''
for target in $(grep -ohE '(^|`)[ ]*make( [A-Z]+=[a-z]+)?( [a-z][a-z-]*)+' "${documents[@]}" | sed -E 's/.*make//; s/[A-Z]+=[a-z]+//' | tr ' ' '\n' | sort -u); do
  make -n -q "$target" >/dev/null 2>&1
  [ $? = 2 ] && ! grep -qE "^\.PHONY: .*\b$target\b|^define layer_test" Makefile && missing+="make $target "
done
result "make targets that the documents name exist" "$missing"
missing=''
for document in "${documents[@]}"; do
  for link in $(grep -oE '\]\([^)#]+' "$document" | sed 's/^](//' | grep -v '^http'); do
    [ -e "$(dirname "$document")/$link" ] || missing+="$document: $link "
  done
done
result "links between the documents lead somewhere" "$missing"

# ---- generated ------------------------------------------------------------------------------------------------------------------------
mkdir -p "$work/docs" "$work/lua/grpo/meta"
OUT=$work "$GRPO" repl <tools/gen-options.lua
result "docs/options.md is what make options writes" "$(diff docs/options.md "$work/docs/options.md" | head -n 6)"
result "the index of docs/lua-api.md is what make options writes" "$(diff docs/lua-api.md "$work/docs/lua-api.md" | head -n 6)"
result "lua/grpo/meta/options.lua is what make options writes" \
  "$(diff lua/grpo/meta/options.lua "$work/lua/grpo/meta/options.lua" | head -n 6)"
OUT=$work "$GRPO" repl <tools/gen-chart.lua
result "docs/performance.svg is what tools/gen-chart.lua writes" "$(diff docs/performance.svg "$work/docs/performance.svg" | head -n 6)"

OUT=$work "$GRPO" repl <tools/gen-signs.lua
result "docs/signs.svg is what tools/gen-signs.lua writes" "$(diff docs/signs.svg "$work/docs/signs.svg" | head -n 6)"

OUT=$work "$GRPO" repl <tools/gen-trl.lua
for picture in trl.svg trl-gemma.svg; do
  result "docs/$picture is what tools/gen-trl.lua writes" "$(diff "docs/$picture" "$work/docs/$picture" | head -n 6)"
done

mkdir -p "$work/experiments"
OUT=$work "$GRPO" repl <tools/gen-results.lua >"$work/tables"
for name in addition parity coverage; do
  result "experiments/$name.svg is what tools/gen-results.lua writes" \
    "$(diff experiments/$name.svg "$work/experiments/$name.svg" | head -n 6)"
done
result "the tables of experiments/addition.md, parity.md and coverage.md are what it prints" "$(
  grep '^|' "$work/tables" | grep -vxFf experiments/addition.md -f experiments/parity.md -f experiments/coverage.md)"

# the lines from "for step" to its end
loop_of() { sed -n '/^for step = /,/^end$/p' "$1"; }
result "the loop in README.md is that of examples/loop_by_hand.lua" "$(
  [ "$(loop_of README.md | wc -l)" -gt 20 ] || echo "no loop in README.md"
  diff <(loop_of README.md) <(loop_of examples/loop_by_hand.lua) | grep '^<')"

# ---- examples: each runs, and those that train learn --------------------------------------------------------------------------------------
rewards() { grep -oE '"reward": [-0-9.e]+' "$1" | grep -oE '[-0-9.e]+$'; }
for example in custom_reward custom_loss schedule lora ppo; do
  base=(); grep -q 'args\.base' examples/$example.lua && base=(--arg base="$work/base")
  "$GRPO" run examples/$example.lua "${base[@]}" --quiet --dir "$work/runs" >"$work/out" 2>"$work/err"
  result "examples/$example.lua runs and learns" "$(
    rewards "$work/runs/$example-001/metrics.jsonl" | awk '{ r[NR] = $1 } END { exit !(NR == 60 && r[60] > r[1] + 0.2) }' ||
    { cat "$work/err"; rewards "$work/runs/$example-001/metrics.jsonl" | tr '\n' ' '; })"
done
"$GRPO" repl <examples/loop_by_hand.lua >"$work/out" 2>&1
result "examples/loop_by_hand.lua runs and learns" "$(
  awk '{ r[NR] = $4 } END { exit !(NR == 7 && r[7] > r[1] + 0.3) }' "$work/out" || show "$work/out")"
"$GRPO" repl <examples/generate.lua >"$work/out" 2>&1
result "examples/generate.lua runs" "$(grep -q '^most likely next: 0\.' "$work/out" || show "$work/out")"
# the programs of docs/start.md: each begins with its name
mkdir -p "$work/skill" && cd "$work/skill" || exit 1
awk '/^```/ { close(file); file = ""; inside = /^```lua/; next } inside && file == "" { file = $2 } inside { print >file }' "$root/docs/start.md"
"$GRPO" run sums.lua --quiet >out 2>err
result "docs/start.md: sums.lua learns" "$(
  grep -oE '"eval/accuracy": [0-9.]+' runs/sums-001/eval.jsonl | awk '{ last = $2 } END { exit !(last > 0.5) }' || show err)"
"$GRPO" test >out 2>err
result "docs/start.md: its tests pass" "$(grep -q '^1 passed, 0 failed' out || show out err)"
cat >make.lua <<'LUA'
grpo.model.new({ model_type = "llama", hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1, num_attention_heads = 2,
  max_position_embeddings = 512 }, { seed = 1, tokenizer = grpo.tokenizer.bytes() }):save("models/my-model")
LUA
"$GRPO" repl <make.lua >out 2>&1 || show out
echo '{"question": "1+1?", "answer": "#### 2"}' >train.jsonl
"$GRPO" run adapter.lua --quiet train.steps=2 model.chat_template=chatml sampling.max_new_tokens=8 >out 2>err
result "docs/start.md: adapter.lua trains an adapter" "$(grep -q '"state": "finished"' runs/adapter-001/run.json || show err)"
result "docs/start.md: the options and functions that it names have help" "$(
  grep -oE '`(train|sampling|data|model|eval|log|checkpoint)\.[a-z_.]+`|help (train|rewards|grpo)[a-z_.]*' "$root/docs/start.md" |
    sed -E 's/^help //; s/`//g' | grep -v '\.jsonl$' | sort -u | while read -r name; do
      "$GRPO" help "$name" >/dev/null 2>&1 || echo "$name "
    done)"
cd "$root" || exit 1
# examples/wandb_forward.py, with a wandb that writes down what it is given
if command -v python3 >/dev/null; then
  mkdir -p "$work/fake"
  cat >"$work/fake/wandb.py" <<'PYTHON'
import json, os
def init(**options):
    print("init", options["project"], options["name"], options["config"]["train.lr"] is not None)
    return Run()
class Run:
    def log(self, values, step):
        for name, table in values.items():
            if isinstance(table, Table): print("table", name, step, len(table.data), json.dumps([table.columns, table.data[-1]]))
        print(step, len(values), values.get("reward") is not None)
    def finish(self): print("finished")
class Table:
    def __init__(self, columns, data):
        assert all(len(row) == len(columns) for row in data), "a row of another width"
        self.columns, self.data = columns, data
PYTHON
  run=$work/runs/custom_reward-001
  PYTHONPATH=$work/fake timeout 60 python3 examples/wandb_forward.py "$run" --project p >"$work/out" 2>&1
  result "examples/wandb_forward.py forwards a run" "$(
    [ "$(head -n 1 "$work/out")" = "init p custom_reward-001 True" ] && [ "$(tail -n 1 "$work/out")" = finished ] &&
      [ "$(grep -c ' True$' "$work/out")" = 61 ] || head -n 5 "$work/out")"
  result "with tables of completions and notes" "$(
    [ "$(grep -c '^table completions [0-9]* 8 ' "$work/out")" = 60 ] || { echo completions; grep -m 2 '^table' "$work/out"; }
    grep -q '^table completions 1 8 \[\["step", "prompt", "text", "reward", "advantage", "rewards/[a-z]*"' "$work/out" || echo columns
    [ "$(grep '^table notes ' "$work/out" | tail -n 1 | cut -d' ' -f4)" = "$(wc -l <"$run/run.log")" ] || echo notes)"
  PYTHONPATH=$work/fake timeout 60 python3 examples/wandb_forward.py "$run" --completions 0 >"$work/out" 2>&1
  result "and without completions where none are wanted" "$(
    grep -m 2 '^table completions' "$work/out"; [ "$(grep -c ' True$' "$work/out")" = 61 ] || head -n 5 "$work/out")"
  timeout 60 python3 examples/wandb_forward.py --dry-run "$work/fake" >"$work/out" 2>&1
  result "and says what is no run" "$(grep -qE '^wandb_forward: .*: not a run directory' "$work/out" || show "$work/out")"
else
  result "examples/wandb_forward.py # SKIP no python3"
fi
for settings in configs/train/*.json; do
  cat >"$work/settings.lua" <<LUA
local grpo = require "grpo"
return grpo.experiment {
  extends = "$settings",
  model = { config = "configs/models/tiny.json", tokenizer = grpo.tokenizer.bytes() },
  data = { train = grpo.data.list { { prompt = "a" } }, max_prompt_tokens = 8 }, sampling = { max_new_tokens = 8 },
  rewards = { function(text) return #text end },
}
LUA
  "$GRPO" run "$work/settings.lua" --quiet --dir "$work/runs" --steps 1 train.prompts_per_step=2 >/dev/null 2>"$work/err"
  result "extends = \"$settings\"" "$(cat "$work/err")"
done
finish
