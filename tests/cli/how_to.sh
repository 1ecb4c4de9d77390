#!/usr/bin/env bash
# Every section of docs/how-to.md runs: its fields in an experiment, its commands with that experiment.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
mkdir bin && ln -s "$GRPO" bin/grpo && PATH=$work/bin:$PATH
cat >base.lua <<'LUA'
local grpo = require "grpo"
local rows = {}
for a = 0, 9 do
  for b = 0, 9 do rows[#rows + 1] = { prompt = a .. "+" .. b .. "=", answer = tostring(a + b) } end
end
local base = {
  model = { config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 1,
      num_attention_heads = 2, max_position_embeddings = 192 }, tokenizer = grpo.tokenizer.bytes() },
  data = { train = grpo.data.list(rows), max_prompt_tokens = 8 },
  sampling = { group_size = 2, max_new_tokens = 4 },
  rewards = { correct = function(text, row) return text == row.answer end },
  train = { steps = 4, prompts_per_step = 2, lr = 1e-3 },
}
-- The sections of the base with the fields of others over them.
return function(fields)
  for name, value in pairs(fields) do
    if type(value) == "table" and base[name] and name ~= "rewards" then
      for key, inner in pairs(value) do base[name][key] = inner end
    else
      base[name] = value
    end
  end
  return grpo.experiment(base)
end
LUA
page=$root/docs/how-to.md
"$GRPO" repl >/dev/null <<'LUA'
local tokenizer = grpo.tokenizer.bytes()
grpo.model.new({ model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 1,
  num_attention_heads = 2, max_position_embeddings = 192 }, { tokenizer = tokenizer, seed = 1 }):save("teacher")
LUA

# A server of ours is the judge.
server=$(dirname "$(readlink -f "$GRPO")")/tests/hub_server hub=$work/hub judge=''
unset http_proxy all_proxy ALL_PROXY
if [ -x "$server" ]; then
  mkdir "$hub"
  mkfifo stop
  "$server" "$hub" <stop & exec 9>stop
  for _ in $(seq 100); do [ -e "$hub/addresses" ] && break; sleep 0.05; done
  "$GRPO" --version | grep -q libcurl && judge=$(head -n 1 "$hub/addresses") && judge=${judge#http://}
fi
# block LANGUAGE SECTION : the code of a section
block() {
  awk -v language="$1" -v section="## $2" '/^## / { here = $0 == section } /^```/ { code = here && $0 == "```" language; next } here && code' "$page"
}
sections=0
while IFS= read -r section; do
  [ -n "$(block lua "$section")$(block sh "$section")" ] || continue
  sections=$((sections + 1))
  case $section in
    *judge*) [ "$judge" ] || { result "$section # SKIP no libcurl, or tests/hub_server is not built"; continue; } ;;
  esac
  mkdir "$work/$sections" && cd "$work/$sections" && cp ../base.lua . || exit 1
  { echo 'local grpo = require "grpo"'; echo 'return require "base" {'; block lua "$section" | sed "s,127.0.0.1:8000,${judge:-&},"; echo '}'; } >my.lua
  case $section in *"better model"*) mkdir models && cp -r "$work/teacher" models/ ;; esac
  commands=$(block sh "$section")
  timeout 100 bash -ec "${commands:-grpo run my.lua --quiet}" >out 2>err </dev/null; status=$?
  run=$(grep -oE '"state": "[a-z]+"' ./*/my-001/run.json ./*-001/run.json 2>/dev/null | head -n 1)
  [ "$status" = 0 ] || echo "exit status $status" >>err
  result "$section" "$([ "$status" = 0 ] || cat err)"
  case $section in
    *CSV) result "the table has a row for each step" "$([ "$(wc -l <runs/my-001/logs/lengths.csv)" = 5 ] || show err)" ;;
    *condition*) result "it stopped" "$([ "$(wc -l <runs/my-001/metrics.jsonl)" = 2 ] || echo "$run")" ;;
    *machine) result "the steps of both parts" "$([ "$(wc -l <moved-001/metrics.jsonl)" = 4 ] || echo "$run")" ;;
    *transformers*) result "the export is there" "$(ls model/model.safetensors 2>&1 >/dev/null)" ;;
    *judge*) result "the judge was asked" "$(grep -q '^hub /v1/chat/completions 200 ' "$hub/log" || show "$hub/log" err)"
      result "its scores are the rewards" "$("$GRPO" repl <<'LUA' 2>&1
for line in io.lines "runs/my-001/completions.jsonl" do
  local c = grpo.json.decode(line)
  if select(2, c.text:gsub("%d", "")) ~= c.rewards.judge then print(line) end
end
LUA
)"
      "$GRPO" run <(sed 's,/v1",/v2",' my.lua) --quiet >out 2>err; status=$?
      result "a judge that does not answer costs a line" "$([ $status = 0 ] && grep -q 'note: judge: .*no answer' err || show err)" ;;
  esac
done < <(sed -n 's/^## //p' "$page")
result "all sections" "$([ "$sections" -ge 14 ] || echo "$sections sections ran")"
[ -x "$server" ] && exec 9>&-
finish
