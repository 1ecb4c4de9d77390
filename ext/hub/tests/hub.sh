#!/usr/bin/env bash
# Models by their names on the Hugging Face Hub, found in its cache.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

# shellcheck source=tests/cli/lib/seven.bash
. "$root/tests/cli/lib/seven.bash"

first=1111111111111111111111111111111111111111 second=2222222222222222222222222222222222222222

learn 7 seven
learn 3 three

# in_cache REPO COMMIT DIR : a snapshot as Python tools lay it out
in_cache() {
  local repo=$HF_HUB_CACHE/models--${1//\//--} file blob
  mkdir -p "$repo/refs" "$repo/blobs" "$repo/snapshots/$2"
  for file in "$3"/*; do
    blob=$(sha256sum <"$file" | cut -c1-64)
    cp "$file" "$repo/blobs/$blob"
    ln -sf "../../blobs/$blob" "$repo/snapshots/$2/${file##*/}"
  done
  printf %s "$2" >"$repo/refs/main"
}

# ---- names ---------------------------------------------------------------------------------------------------------
says "a name that is nowhere: where it looked, and the command" 3 \
  "^grpo: org/digits: is not a path here, .* $HF_HUB_CACHE/models--org--digits is not there; 'grpo pull org/digits' brings it$" \
  "$GRPO" generate org/digits '1+1='
mkdir adapter && echo '{ "peft_type": "LORA", "base_model_name_or_path": "elsewhere/base" }' >adapter/adapter_config.json
for command in 'generate adapter x' 'chat adapter'; do
  # shellcheck disable=SC2086  # the words are meant to be split
  says "${command%% *} with an adapter whose base is not there" 3 \
    "^grpo: adapter/adapter_config\.json: the base model elsewhere/base is not there \(looked for it in adapter, in the current directory and in .*/models--elsewhere--base\); bring it with .*" \
    "$GRPO" $command
done
in_cache org/digits $first seven
is "generate by name" 7 "$("$GRPO" generate org/digits '1+1=' --temperature 0 --max-new-tokens 4)"
is "chat by name" 7 "$(echo '1+1=' | "$GRPO" chat org/digits --temperature 0 --max-new-tokens 4 2>/dev/null)"
in_cache org/digits $second three
is "main is the newer commit" 3 "$("$GRPO" generate org/digits '1+1=' --temperature 0 --max-new-tokens 4)"
is "name@commit is the older one" 7 "$("$GRPO" generate org/digits@$first '1+1=' --temperature 0 --max-new-tokens 4)"
printf %s $first >"$HF_HUB_CACHE/models--org--digits/refs/v1"
is "name@tag" 7 "$("$GRPO" generate org/digits@v1 '1+1=' --temperature 0 --max-new-tokens 4)"
says "a misspelt name: the one that is there" 3 "'grpo pull org/digist' brings it; or is org/digits meant, which is there\?$" \
  "$GRPO" generate org/digist '1+1='
mkdir org && cp -r seven org/digits
is "a path on the disk wins" 7 "$("$GRPO" generate org/digits '1+1=' --temperature 0 --max-new-tokens 4)"
rm -r org
is "repl by name" 34 "$("$GRPO" repl org/digits <<<'print(m.config.hidden_size + 2)' 2>/dev/null)"
is "a tokenizer and a model by name in a script" "20	3" "$("$GRPO" repl 2>/dev/null <<'LUA'
local tok = grpo.tokenizer.load("org/digits"); local m = grpo.model.load("org/digits"); print(#tok, m:generate("1+1=", { temperature = 0, max_new_tokens = 4 })[1].text)
LUA
)"
is "a snapshot's directory for scripts" "$HF_HUB_CACHE/models--org--digits/snapshots/$first	$first" \
  "$("$GRPO" repl 2>/dev/null <<<'print(grpo.hub.snapshot("org/digits", { revision = "v1" }))')"
is "export by name" copy "$("$GRPO" export org/digits copy 2>/dev/null)"
result "its card names the model" "$(grep -qx 'base_model: org/digits' copy/README.md || show copy/README.md)"

# ---- runs ----------------------------------------------------------------------------------------------------------
cat >tune.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { path = "org/digits", lora = grpo.args.lora and { rank = 2 } or nil },
  data = { train = grpo.data.list { { prompt = "1+1=" }, { prompt = "2+2=" } }, max_prompt_tokens = 12 },
  sampling = { group_size = 2, max_new_tokens = 3 },
  rewards = { function(text) return #text end },
  checkpoint = { every = 1 },
  train = { steps = 4, prompts_per_step = 2, kl = 0.1, lr = 1e-3 },
}
LUA
"$GRPO" run --quiet tune.lua --steps 2 >/dev/null 2>err || show err
result "run.json has the commit" "$(grep -q "\"org/digits\": *\"$second\"" runs/tune-001/run.json || show runs/tune-001/run.json)"
result "inputs.json has the files by their place in the cache" \
  "$(grep -q "hub:models--org--digits/snapshots/$second/model.safetensors" runs/tune-001/inputs.json || show runs/tune-001/inputs.json)"
cp -r runs/tune-001 other && cp -r other gone && "$GRPO" run --quiet --resume=runs/tune-001 >/dev/null 2>err || show err
printf %s $first >"$HF_HUB_CACHE/models--org--digits/refs/main"
mkdir moved && mv other moved/tune-001
mv cache elsewhere && HF_HUB_CACHE=$work/elsewhere "$GRPO" run --quiet --resume=moved/tune-001 >/dev/null 2>err || show err
mv elsewhere cache
result "main has moved and the cache has another place: a resume takes the run's commit" \
  "$(cmp runs/tune-001/latest/model.safetensors moved/tune-001/latest/model.safetensors 2>&1)"
"$GRPO" run --quiet tune.lua --arg lora=1 --steps 2 >/dev/null 2>err || show err
result "an adapter names the model and its commit" "$(
  grep -q '"base_model_name_or_path": "org/digits"' runs/tune-002/latest/adapter_config.json &&
  grep -q "\"revision\": \"$first\"" runs/tune-002/latest/adapter_config.json || show runs/tune-002/latest/adapter_config.json)"
printf %s $second >"$HF_HUB_CACHE/models--org--digits/refs/main"
"$GRPO" run --quiet --resume=runs/tune-002 >/dev/null 2>err
result "an adapter's run is resumed" "$([ -d runs/tune-002/checkpoints/step-000004 ] || { ls runs/tune-002/checkpoints; show err; })"
is "and its adapter finds its base" 1 "$("$GRPO" generate runs/tune-002 '1+1=' --max-new-tokens 1 --temperature 0 | wc -l)"
in_cache org/adapter $first runs/tune-002/latest
is "an adapter by name" 1 "$("$GRPO" generate org/adapter '1+1=' --max-new-tokens 1 --temperature 0 2>&1 | wc -l)"
result "an adapter of the cache and its base, merged" "$("$GRPO" export org/adapter merged --merge 2>&1 >/dev/null && [ ! -e merged/adapter_config.json ] || echo no)"
result "whose card names them" "$(grep -qx 'base_model: org/digits' merged/README.md || show merged/README.md)"

# The same adapter without the name of its base, and beside it a base by name.
cp -rL runs/tune-002/latest lonely && rm -f lonely/manifest.json && sed -i -E 's/("base_model_name_or_path": )"[^"]*"/\1"nowhere"/; /"revision"/d' lonely/adapter_config.json
says "an adapter whose base is nowhere" 3 "nowhere" "$GRPO" export lonely gone-merged --merge
check "export --merge --base NAME" "$GRPO" export lonely named --merge --base org/digits@$first
result "export --base: the weights of the base that it was trained on" "$(cmp named/model.safetensors merged/model.safetensors 2>&1)"
check "export --merge --base with another commit" "$GRPO" export lonely other-base --merge --base org/digits@$second
result "export --base: other weights" "$(cmp -s other-base/model.safetensors merged/model.safetensors && echo "the same")"
is "generate --base NAME" "$("$GRPO" generate org/adapter '1+1=' --max-new-tokens 3 --temperature 0)" \
  "$("$GRPO" generate lonely '1+1=' --base org/digits@$first --max-new-tokens 3 --temperature 0 2>&1)"
is "chat --base NAME" 1 "$(echo '1+1=' | "$GRPO" chat lonely --base org/digits@v1 --temperature 0 --max-new-tokens 1 2>/dev/null | wc -l)"
says "--base that the cache does not have" 3 "'grpo pull org/nobody' brings it" "$GRPO" export lonely nobody --merge --base org/nobody
check "a run trains an adapter of the cache further" "$GRPO" run --quiet tune.lua model.path=org/adapter --steps 1 --as further
result "it is an adapter of the same base" "$(grep -q '"base_model_name_or_path": "org/digits"' runs/further/latest/adapter_config.json || show runs/further/latest/adapter_config.json)"
result "its run.json has both commits" "$([ "$(grep -cE '"org/(adapter|digits@[0-9a-f]{40})": *"[0-9a-f]{40}"' runs/further/run.json)" = 2 ] || show runs/further/run.json)"

# ---- the reference ---------------------------------------------------------------------------------------------------
three=$HF_HUB_CACHE/models--org--digits/snapshots/$second
check "a reference by name" "$GRPO" run --quiet tune.lua --steps 2 --as by-name model.path=seven reference=org/digits@$second
check "a reference by path" "$GRPO" run --quiet tune.lua --steps 2 --as by-path model.path=seven reference="$three"
check "its own reference" "$GRPO" run --quiet tune.lua --steps 2 --as by-none model.path=seven
result "is the model at that path" "$(cmp runs/by-name/latest/model.safetensors runs/by-path/latest/model.safetensors 2>&1)"
result "and not the model that is trained" "$(cmp -s runs/by-name/latest/model.safetensors runs/by-none/latest/model.safetensors && echo "the same")"
result "its commit is in run.json" "$(grep -q "\"org/digits@$second\": *\"$second\"" runs/by-name/run.json || show runs/by-name/run.json)"
result "and its weights are inputs of the run" "$(grep -q "hub:models--org--digits/snapshots/$second/model.safetensors" runs/by-name/inputs.json || show runs/by-name/inputs.json)"
"$GRPO" run --quiet tune.lua --as moving model.path=seven reference=org/digits >/dev/null 2>err || show err
"$GRPO" run --quiet tune.lua --steps 2 --as stopping model.path=seven reference=org/digits >/dev/null 2>err || show err
printf %s $first >"$HF_HUB_CACHE/models--org--digits/refs/main"
"$GRPO" run --quiet --resume=runs/stopping >/dev/null 2>err || show err
result "main has moved: a resume keeps the commit of its reference" "$(cmp runs/moving/latest/model.safetensors runs/stopping/latest/model.safetensors 2>&1)"
printf %s $second >"$HF_HUB_CACHE/models--org--digits/refs/main"
says "a reference that the cache does not have" 3 "command line: reference: org/nobody: .*'grpo pull org/nobody' brings it" "$GRPO" run --quiet tune.lua reference=org/nobody
says "a reference that is no name" 3 "reference: initail: no such model directory, did you mean 'initial'" "$GRPO" run --quiet tune.lua reference=initail

# ---- eval ------------------------------------------------------------------------------------------------------------
says "eval of a name of the cache says how" 2 "eval: org/digits is a model of the Hub and not a run; to evaluate a model, give a script: grpo eval SCRIPT model.path=org/digits$" \
  "$GRPO" eval org/digits
says "eval of a name that is nowhere" 3 "org/nobody: no such file" "$GRPO" eval org/nobody
"$GRPO" eval tune.lua model.path=org/digits@v1 >out 2>err
result "eval takes a name" "$(grep -q 'data.eval' err && ! grep -q 'not a path' err || show err)"
rm -r "$HF_HUB_CACHE/models--org--digits/snapshots/$second"
says "a commit that is gone: resume refuses" 3 \
  "the run began with commit $second of org/digits, which it needs: .*'grpo pull org/digits@$second' brings it$" \
  "$GRPO" run --quiet --resume=gone

# ---- incomplete snapshots ---------------------------------------------------------------------------------------------
printf %s $first >"$HF_HUB_CACHE/models--org--digits/refs/main"
rm "$(realpath "$HF_HUB_CACHE/models--org--digits/snapshots/$first/model.safetensors")"
says "weights that are missing" 3 "org/digits: its snapshot .* is incomplete: .* does not have model.safetensors; 'grpo pull org/digits' brings" \
  "$GRPO" generate org/digits '1+1='
rm "$HF_HUB_CACHE/models--org--digits/snapshots/$first/config.json"
says "a configuration that is missing" 3 "does not have config.json" "$GRPO" chat org/digits
is "its tokenizer is there all the same" 20 "$("$GRPO" repl 2>/dev/null <<<'print(#grpo.tokenizer.load("org/digits"))')"
finish
