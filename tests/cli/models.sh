#!/usr/bin/env bash
# Models from elsewhere, as a user would handle them: chat, generate, adapters, export.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

# is NAME EXPECTED ACTUAL
is() { result "$1" "$([ "$2" = "$3" ] || printf 'want %q\ngot  %q' "$2" "$3"; )"; }

# A model that has learned to say "7" to everything, with a chat template.
cat >seven.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 2, max_position_embeddings = 96 }, tokenizer = grpo.tokenizer.chars("0123456789+=[]ua \n") },
  data = { train = grpo.data.list { { prompt = "[u]1+1=\n[a]" }, { prompt = "1+1=" } }, target = function() return "7" end,
    max_prompt_tokens = 12 },
  sampling = { max_new_tokens = 4 },
  stages = { { kind = "sft", train = { steps = 60, prompts_per_step = 4, lr = 1e-2 } } },
}
LUA
"$GRPO" run --quiet seven.lua >/dev/null 2>err || cat err
cp -r runs/seven-001/latest/ plain && rm -f plain/optimizer.safetensors
cp -r plain chat
printf '%s' "{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}
{% endfor %}{% if add_generation_prompt %}[a]{% endif %}" >chat/chat_template.jinja

# ---- chat --------------------------------------------------------------------------------------------------------------
is "chat answers every line of standard input" "7
7" "$(printf '1+1=\n2+2=\n' | "$GRPO" chat chat --temperature 0 --max-new-tokens 4 2>err)"
is "chat without a terminal prints nothing else" "" "$(cat err)"
printf '1+1=\n/save talk.json\n/reset\n/save empty.json\n/what\n' | "$GRPO" chat chat --temperature 0 >out 2>err
is "/save writes the conversation" '[{"content":"1+1=","role":"user"},{"content":"7","role":"assistant"}]' "$(tr -d ' \n' <talk.json)"
is "/reset forgets it" '[]' "$(tr -d ' \n' <empty.json)"
result "an unknown command is told so" "$(grep -q 'there is no command /what; ' err || show err)"
printf '"""\n1+1\n=\n"""\n/save many.json\n' | "$GRPO" chat chat --temperature 0 >out 2>err
result "a message of several lines" "$(grep -qF '"1+1\n=",' many.json || show many.json)"
is "a model without a chat template continues the text" 7 "$(echo '1+1=' | "$GRPO" chat plain --temperature 0 --max-new-tokens 4 2>err)"
result "and says so" "$(grep -q 'no chat template' err || show err)"
is "chat with a run" 7 "$(echo '1+1=' | "$GRPO" chat runs/seven-001 --temperature 0 --max-new-tokens 4 2>/dev/null)"

# ---- variables of a chat template --------------------------------------------------------------------------------------
cat >thinks.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { path = "chat", chat_template = "{% if mode.deep is not defined %}{{ raise_exception('no mode') }}{% endif %}"
    .. "{{ enable_thinking }}{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}\n{% endfor %}[a]",
    chat_template_kwargs = { enable_thinking = 1, mode = { deep = 2 } } },
  data = { train = grpo.data.list { { prompt = { { role = "user", content = "1+1=" } } } }, max_prompt_tokens = 30 },
  rewards = { r = function(_, _, c) return c.index end }, sampling = { group_size = 2, max_new_tokens = 2 },
  train = { steps = 1, prompts_per_step = 1 },
}
LUA
# first_prompt RUN
first_prompt() { head -n 1 "$1/completions.jsonl" | grep -o '"prompt": *"[^"]*"'; }
"$GRPO" run --quiet thinks.lua --as script >/dev/null 2>err || cat err
is "the script's variables reach the template" '"prompt": "1[u]1+1=\n[a]"' "$(first_prompt runs/script)"
"$GRPO" run --quiet thinks.lua --as word model.chat_template_kwargs.enable_thinking=2 >/dev/null 2>err || cat err
is "one of the command line wins, and the others stay" '"prompt": "2[u]1+1=\n[a]"' "$(first_prompt runs/word)"
result "they are recorded" "$(tr -d ' \n' <runs/word/config.json |
  grep -qF '"model.chat_template_kwargs":{"origin":"commandline","value":{"enable_thinking":2,"mode":{"deep":2}}}' || show runs/word/config.json)"
"$GRPO" run --quiet thinks.lua --as none model.chat_template_kwargs=null >out 2>err; status=$?
result "none with null, on which this template fails, and the row is named" \
  "$({ [ $status = 2 ] && grep -q "'mode' is undefined (row 1 of data.train)$" err; } || { echo "status $status"; show err; })"
"$GRPO" run --quiet thinks.lua 'model.chat_template_kwargs.x-y=1' >out 2>err; status=$?
result "a name that no variable has is refused" "$({ [ $status = 2 ] && [ "$(wc -l <err)" = 1 ]; } || { echo "status $status"; show err; })"
"$GRPO" run --quiet thinks.lua model.chat_template_kwargs=5 >out 2>err; status=$?
result "a number is not a table of variables" \
  "$({ [ $status = 2 ] && grep -q "chat_template_kwargs: got 5, want a table" err; } || { echo "status $status"; show err; })"
printf '{ "extends": "base.json", "model": { "chat_template_kwargs": { "mode": { "deep": 1 } } }, %s }' \
  '"data": { "train": { "path": "rows.jsonl" }, "max_prompt_tokens": 40 }, "rewards": { "gsm8k.correct": 1 }, "sampling": { "group_size": 2, "max_new_tokens": 2 }, "train": { "steps": 1, "prompts_per_step": 1 }' >file.json
printf '{ "model": { "path": "chat", "chat_template": "{{ mode.deep }}{{ enable_thinking }}{%% for m in messages %%}{{ m.content }}{%% endfor %%}", "chat_template_kwargs": { "enable_thinking": 3, "mode": 0 } } }' >base.json
echo '{"prompt": [{"role": "user", "content": "1+1="}], "answer": "#### 2"}' >rows.jsonl
"$GRPO" run --quiet file.json --as file >/dev/null 2>err || cat err
is "so do those of a settings file, over those of the file that it extends" '"prompt": "131+1="' "$(first_prompt runs/file)"
is "chat with a run has its template and variables" 7 "$(echo '1+1=' | "$GRPO" chat runs/word --temperature 0 --max-new-tokens 4 2>err; cat err)"
echo '1+1=' | "$GRPO" chat runs/word --chat-template-kwargs '{"mode": 1}' >out 2>err; status=$?
result "variables of the command line come before the run's" "$({ [ $status = 2 ] && grep -q 'no mode' err; } || { echo "status $status"; show err; })"
echo '1+1=' | "$GRPO" chat chat --temperature 0 --chat-template-kwargs '{"x": 1}' >out 2>err
result "one that the template does not read is noted" "$(grep -q 'note: the chat template does not read x, so' err || show err)"
for text in '[1]' 'x=1' '{"x": ' 5; do
  echo '1+1=' | "$GRPO" chat chat --chat-template-kwargs "$text" >out 2>err; status=$?
  result "--chat-template-kwargs $text is refused" "$({ [ $status = 2 ] && grep -q 'want a JSON object' err; } || { echo "status $status"; show err; })"
done

# Little address space: OpenBLAS's own threads wait for memory for ever, and the end must not wait for them.
(ulimit -v 150000; timeout 30 "$GRPO" generate plain '1+1=' --max-new-tokens 2 >/dev/null 2>&1)
result "ends under ulimit -v" "$([ $? != 124 ] || echo 'did not end')"

# ---- export ------------------------------------------------------------------------------------------------------------
is "export prints where it wrote" given/model "$("$GRPO" export runs/seven-001 given/model)"
is "an exported run has what transformers loads" \
  "README.md config.json generation_config.json model.safetensors special_tokens_map.json tokenizer.json tokenizer_config.json" \
  "$(cd given/model && echo *)"
result "its card has front matter and settings, and no path" "$(
  { [ "$(head -n 2 given/model/README.md)" = "---
library_name: transformers" ] && grep -q '^| `train.lr` | 0.01 |$' given/model/README.md && ! grep -q "$work" -r given/model; } ||
  cat given/model/README.md)"
is "and answers as the run does" 7 "$("$GRPO" generate given/model '1+1=' --temperature 0 --max-new-tokens 4)"
mkdir -p base/org && cp -r chat base/org/name && rm base/org/name/manifest.json && printf -- '---\nlicense: apache-2.0\nx: y\n---\n# hello\n' >base/org/name/README.md
echo '{ "do_sample": true, "temperature": 0.6, "eos_token_id": 18 }' >base/org/name/generation_config.json
"$GRPO" export base/org/name given/copy --dtype bf16 >/dev/null 2>err || cat err
result "the base's licence is carried over" "$(grep -q '^license: apache-2.0$' given/copy/README.md || show given/copy/README.md)"
result "the chat template is in its file and in tokenizer_config.json" "$(
  { cmp chat/chat_template.jinja given/copy/chat_template.jinja && grep -q '"chat_template": ' given/copy/tokenizer_config.json; } 2>&1)"
mkdir chat/additional_chat_templates && echo 'TOOLS' >chat/additional_chat_templates/tool_use.jinja
"$GRPO" export chat given/tools >/dev/null 2>err || cat err
result "named templates are exported" "$(cmp chat/additional_chat_templates/tool_use.jinja given/tools/additional_chat_templates/tool_use.jinja 2>&1)"
"$GRPO" export runs/word given/word >/dev/null 2>err || cat err
result "the card says the variables of the template" \
  "$(grep -qF '| `model.chat_template_kwargs` | enable_thinking = 2, mode = {"deep": 2} |' given/word/README.md || show given/word/README.md)"
rm -r chat/additional_chat_templates given/tools given/word
result "the base's generation_config.json is kept" "$(cmp base/org/name/generation_config.json given/copy/generation_config.json 2>&1)"
result "config.json names the type" "$(grep -q '"torch_dtype": "bfloat16"' given/copy/config.json || show given/copy/config.json)"
"$GRPO" export given/copy given/again >/dev/null 2>&1
result "exporting an export gives the same weights, configuration and tokenizer" "$(diff -r -x README.md given/copy given/again)"
"$GRPO" export base/org/name given/model --force >/dev/null 2>err
result "--force replaces, and leaves nothing else" "$([ "$(ls -A given | tr '\n' ' ')" = 'again copy model ' ] || ls -A given)"
mkdir -p kept/deeper && cp -r given/copy kept/source && cp given/copy/config.json kept/
mkdir notes && echo text >notes/letter.txt
for target in kept notes kept/source; do
  before=$(find $target | sort | cksum)
  "$GRPO" export kept/source $target --force >out 2>err; status=$?
  result "--force does not replace $target, which is more than a model or is what is exported" "$(
    { [ $status = 2 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && [ "$(find $target | sort | cksum)" = "$before" ]; } || show err)"
done
for target in '' . ./; do
  "$GRPO" export kept/source "$target" --force >out 2>err; status=$?
  result "'$target' is no name for an export" "$({ [ $status = 2 ] && grep -qE 'is not a name for a model|OUT: its value is empty' err; } || show err)"
done

# ---- the recipe of experiments/gsm8k.lua on a small model with random weights -------------------------------------------
"$GRPO" repl <<'LUA' || echo "no model"
local tok = grpo.tokenizer.bytes()
grpo.model.new({ model_type = "llama", vocab_size = #tok, hidden_size = 64, intermediate_size = 64, num_hidden_layers = 2,
  num_attention_heads = 4, max_position_embeddings = 512, eos_token_id = tok.eos }, { tokenizer = tok }):save("bytes")
LUA
"$GRPO" run "$root/experiments/gsm8k.lua" --arg model=bytes --arg steps=2 eval.samples=12 sampling.max_new_tokens=8 \
  --dir recipe >out 2>err || cat err
result "the recipe runs" "$([ "$(cat out)" = recipe/gsm8k-001 ] && [ "$(wc -l <recipe/gsm8k-001/metrics.jsonl)" = 2 ] || show err)"
result "it trains an adapter" "$(grep -qE '^trainable: [0-9,]+ of [0-9,]+ parameters' err || show err)"
result "and shows ten answers" "$([ "$(grep -cE '^\((not )?solved; the answer is ' err)" = 10 ] || show err)"
result "its settings are the recipe's" "$(
  for pair in 'model.lora.rank 8' 'model.lora.alpha 32' 'model.lora.dropout 0.05' 'model.quantize "nf4"' 'train.kl 0.02' \
      'sampling.temperature 0.7' 'sampling.top_p 0.9' 'sampling.group_size 8'; do
    tr -d '\n' <recipe/gsm8k-001/config.json | grep -qE "\"${pair% *}\": *\{[^}]*\"value\": ${pair#* } *\}" || echo "$pair"
  done)"
"$GRPO" export recipe/gsm8k-001 recipe/merged --merge >/dev/null 2>err || cat err
result "the merged model generates" "$("$GRPO" generate recipe/merged 'a' --max-new-tokens 4 2>&1 >/dev/null)"

# ---- encodings of tiktoken by name: 256 ranks stand for the file that tiktoken downloads
mkdir ranks
"$GRPO" repl <<'LUA'
local file <close> = assert(io.open("ranks/9b5ad71b2ce5302211f9c61530b329a4922fc6a4", "w"))
local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
for b = 0, 255 do
  local high, low = (b >> 2) + 1, ((b & 3) << 4) + 1
  file:write(letters:sub(high, high), letters:sub(low, low), "== ", b, "\n")
end
LUA
echo '{"pattern": ".", "special_tokens": {"<|endoftext|>": 256}}' >ranks/encoding.json
echo 'print(#grpo.tokenizer.load("cl100k_base"), table.concat(grpo.tokenizer.load("cl100k_base"):encode("hi"), ","))' >encode.lua
result "an encoding of tiktoken by its name" "$(
  [ "$(TIKTOKEN_CACHE_DIR=$work/ranks "$GRPO" repl <encode.lua 2>&1)" = "$(printf '257\t104,105')" ] || TIKTOKEN_CACHE_DIR=$work/ranks "$GRPO" repl <encode.lua 2>&1)"
TIKTOKEN_CACHE_DIR=$work/nothing "$GRPO" repl <encode.lua >out 2>err; status=$?
result "ranks that are not there: where they come from and where they belong" "$(
  { [ $status = 3 ] && [ "$(wc -l <err)" = 1 ] && grep -q "cl100k_base: its ranks are not in tiktoken's cache.*download https://.*/cl100k_base.tiktoken as $work/nothing/9b5ad71b" err; } || { echo "status $status"; show err; })"
finish
