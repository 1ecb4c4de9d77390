#!/usr/bin/env bash
# Parquet to trained: a file that pyarrow wrote, a directory of data and a dataset of the Hub's cache train as the same rows in
# JSON lines do, and a killed run continues.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

# says NAME STATUS PATTERN COMMAND... : the command ends so, and a line of its output matches
says() {
  local name=$1 want=$2 pattern=$3 status problem=''; shift 3
  "$@" >out 2>&1 </dev/null; status=$?
  [ $status = "$want" ] || problem+="exit status $status, want $want"$'\n'
  grep -qE "$pattern" out || problem+="nothing matches: $pattern"$'\n'
  result "$name" "${problem:+$problem$(head -n 30 out)}"
}

cat >mine.lua <<'LUA'
local seen = 0
return { digits = function(text)
  seen = seen + 1
  if seen == tonumber(os.getenv("KILL") or 0) then os.execute("kill -9 $PPID") end
  return select(2, text:gsub("%d", "")) / 4
end }
LUA
sums=$root/ext/parquet/tests/cases/sums
export HF_HUB_CACHE=$work/hub
unset HF_HUB_OFFLINE
repo=$HF_HUB_CACHE/datasets--some--sums commit=0123456789abcdef0123456789abcdef01234567
mkdir -p "$repo/refs" "$repo/snapshots/$commit/data" small
printf %s $commit >"$repo/refs/main"
cp "$sums"/*.parquet "$repo/snapshots/$commit/data/"
cp "$sums"/train.jsonl rows.jsonl
cp "$sums"/*.parquet rows.parquet
gzip -n -k rows.jsonl
split -l 40 --additional-suffix=.jsonl rows.jsonl small/train-

# settings FILE DATA [STEPS] : a run of a few thousand weights, which takes a second
settings() {
  cat >"$1" <<JSON
{ "seed": 3, "name": "${1%.json}",
  "model": { "config": { "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 2, "max_position_embeddings": 64 }, "tokenizer": { "kind": "chars", "text": "0123456789+=" } },
  "data": { "train": $2, "prompt": "{question}", "target": "{solution}", "max_prompt_tokens": 8 },
  "sampling": { "group_size": 4, "max_new_tokens": 4 },
  "rewards": { "mine.digits": 1.0 }, "checkpoint": { "every": 2 },
  "stages": [ { "kind": "sft", "train": { "steps": 6, "prompts_per_step": 8, "lr": 3e-3 } },
    { "kind": "grpo", "train": { "steps": ${3:-4}, "prompts_per_step": 4, "lr": 1e-3 } } ] }
JSON
}
columns='"columns": { "answer": "solution" }, "shuffle": 1'
settings lines.json "{ \"path\": \"rows.jsonl\", $columns }"
settings parquet.json "{ \"path\": \"rows.parquet\", $columns }"
settings packed.json "{ \"path\": \"rows.jsonl.gz\", $columns }"
settings directory.json "{ \"path\": \"small\", $columns }"
settings cached.json "{ \"path\": \"some/sums\", \"split\": \"train\", $columns }"

weights() { sha256sum <"$1/latest/model.safetensors"; }
run() { "$GRPO" run "$@" 2>err.txt | tail -n 1; }

lines=$(run lines.json)
result "a run on JSON lines" "$([ -d "$lines/latest" ] || cat err.txt)"
for kind in parquet packed directory cached; do
  dir=$(run $kind.json)
  result "the bits of a run on $kind data are those on JSON lines" \
    "$([ "$(weights "$lines")" = "$(weights "$dir")" ] || { cat err.txt; echo "$dir differs"; })"
done

# ---- a script that names a dataset of the Hub ------------------------------------------------------------------------------------
gsm8k=$HF_HUB_CACHE/datasets--openai--gsm8k newer=1111111111111111111111111111111111111111
for snapshot in $commit $newer; do
  mkdir -p "$gsm8k/snapshots/$snapshot/main" "$gsm8k/snapshots/$snapshot/socratic"
  printf -- '---\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n    path: main/train-*\n  - split: test\n    path: main/test-*\n%s\n---\n' \
    $'- config_name: socratic\n  data_files:\n  - split: train\n    path: socratic/train-*' >"$gsm8k/snapshots/$snapshot/README.md"
  for part in main/train main/test socratic/train; do cp "$sums"/*.parquet "$gsm8k/snapshots/$snapshot/$part-00000-of-00001.parquet"; done
done
mkdir "$gsm8k/refs" && printf %s $commit >"$gsm8k/refs/main"
cat >gsm8k.lua <<'LUA'
local grpo = require "grpo"
local function split(name)
  local rows = grpo.data.load("openai/gsm8k", { config = "main", split = name })
  return rows:map(function(row) return { prompt = row.question, answer = row.solution } end)
end
return grpo.experiment {
  seed = 3,
  model = { config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 1,
      num_attention_heads = 2, max_position_embeddings = 64 }, tokenizer = grpo.tokenizer.chars("0123456789+=") },
  data = { train = split "train":shuffle(1), eval = split "test[:10]", target = function(row) return row.answer end, max_prompt_tokens = 8 },
  sampling = { group_size = 4, max_new_tokens = 4 },
  rewards = { digits = require("mine").digits },
  checkpoint = { every = 2 },
  stages = { { kind = "sft", train = { steps = 6, prompts_per_step = 8, lr = 3e-3 } },
    { kind = "grpo", train = { steps = 4, prompts_per_step = 4, lr = 1e-3 } } },
}
LUA
dir=$(run gsm8k.lua)
result 'grpo.data.load("openai/gsm8k", ...) of a script: the same bits' "$([ "$(weights "$lines")" = "$(weights "$dir")" ] || { cat err.txt; echo "$dir differs"; })"
result "its test split was evaluated" "$(grep -q '"n": 10' "$dir/eval.jsonl" || cat "$dir/eval.jsonl")"
result "the run has the commit of its dataset" "$(grep -q "\"dataset openai/gsm8k\": *\"$commit\"" "$dir/run.json" || cat "$dir/run.json")"
result "and lists its files by their place in the cache" \
  "$(grep -q "hub:datasets--openai--gsm8k/snapshots/$commit/main/train-00000-of-00001.parquet" "$dir/inputs.json" || cat "$dir/inputs.json")"
result "what it trained answers" "$("$GRPO" generate "$dir" '1+1=' --max-new-tokens 4 --temperature 0 >out.txt 2>&1 && grep -qE '^[0-9]' out.txt || cat out.txt)"
KILL=40 "$GRPO" run gsm8k.lua --as gone >out.txt 2>&1
printf %s $newer >"$gsm8k/refs/main"
dd if=/dev/zero of="$gsm8k/snapshots/$newer/main/train-00000-of-00001.parquet" bs=1 count=9 conv=notrunc 2>/dev/null
"$GRPO" run --resume=runs/gone >out.txt 2>&1
result "killed, and main has moved to another commit: a resume reads the run's own, to the same bits" \
  "$([ "$(weights "$lines")" = "$(weights runs/gone)" ] || cat out.txt)"
rm -r "$gsm8k/snapshots/$commit"
says "a commit that is gone" 3 "the run began with commit $commit of dataset openai/gsm8k, which it needs: .*grpo pull --dataset openai/gsm8k@$commit" \
  "$GRPO" run --resume=runs/gone --steps 1
settings wrong.json '{ "path": "openai/gsm8k", "split": "train" }'
says "a configuration must be chosen" 2 'openai/gsm8k has several configurations; choose one by config = "...": main, socratic' "$GRPO" check wrong.json

# ---- a killed run ----------------------------------------------------------------------------------------------------------------
sed 's/"name": "parquet"/"name": "killed"/' parquet.json >killed.json
KILL=40 "$GRPO" run killed.json >out.txt 2>&1
dir=$(find runs -maxdepth 1 -name 'killed*' | head -n 1)
result "the run was killed before its end" "$([ -d "$dir" ] && ! grep -q '"status": "finished"' "$dir/run.json" || cat out.txt)"
"$GRPO" run --resume="$dir" >out.txt 2>&1
result "a killed run on Parquet continues to the same bits" \
  "$([ "$(weights "$lines")" = "$(weights "$dir")" ] || cat out.txt)"
result "the run lists its Parquet file, with its checksum" "$(grep -q 'rows.parquet' "$dir/inputs.json" || cat "$dir/inputs.json")"
dd if=/dev/zero of=rows.parquet bs=1 seek=40 count=1 conv=notrunc 2>/dev/null
says "a resume with another Parquet file says so" 2 'rows\.parquet' "$GRPO" run --resume="$dir" stages.2.train.steps=6

# ---- check -----------------------------------------------------------------------------------------------------------------------
cp "$sums"/*.parquet rows.parquet
sed -i "s/mine.digits/text.equals/" parquet.json
says "check reads the rows of a Parquet file" 0 'rows\.parquet' "$GRPO" check parquet.json
settings taken.json '{ "path": "rows.parquet", "columns": { "answer": "solution" }, "take": 500 }'
sed -i "s/mine.digits/text.equals/" taken.json
says "a take beyond the data is noted" 0 'note: data\.train: take = 500, but there are 100 rows only' "$GRPO" check taken.json
settings wrong.json '{ "path": "rows.parquet", "columns": { "answer": "solutoin" } }'
says "a misspelt column" 2 "data\.train\.columns: rows\.parquet has no column 'solutoin', did you mean 'solution'\? its columns are: question, solution, turns" \
  "$GRPO" check wrong.json
settings wrong.json '{ "path": "some/sums", "split": "trian" }'
says "a misspelt split" 2 "some/sums has no split 'trian', did you mean 'train'\? it has: train" "$GRPO" check wrong.json
settings wrong.json '{ "path": "some/none" }'
says "a dataset that the cache does not have" 3 'grpo pull --dataset some/none' "$GRPO" check wrong.json
settings wrong.json '{ "path": "rows.parquet", "split": "train" }'
says "a split of a file" 2 'data\.train\.split: belongs to a directory or a dataset of the Hub' "$GRPO" check wrong.json
finish
