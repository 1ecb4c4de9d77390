#!/usr/bin/env bash
# The table of bad input: for each, the exit status, one line on stderr that says what, where and what to do, nothing
# on stdout, and nothing half-written.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
runs=runs

# What must not be there after a failure: runs that still say "running", temporary files; before compute, any run.
left_behind() { # STATUS
  find . \( -name '*.tmp*' -o -name '.tmp*' -o -name '*.partial' \) -print
  grep -ls '"state": "running"' "$runs"/*/run.json
  if [ "$1" = 2 ] || [ "$1" = 3 ]; then find "$runs" -mindepth 1 -maxdepth 1 -type d 2>/dev/null; fi
}

# refused NAME STATUS PATTERN COMMAND... : PATTERN is an extended regular expression for the whole line after "grpo: "
refused() {
  local name=$1 want=$2 pattern=$3 status problem=''; shift 3
  rm -rf "$runs"
  "$@" >out 2>err </dev/null; status=$?
  [ "$status" = "$want" ] || problem+="exit status $status, want $want"$'\n'
  [ "$(wc -l <err)" = 1 ] || problem+="$(wc -l <err) lines on stderr, want 1"$'\n'
  grep -qE "^grpo: $pattern\$" err || problem+="no line matches: grpo: $pattern"$'\n'
  [ -s out ] && problem+="stdout: $(head -c 200 out)"$'\n'
  problem+=$(left_behind "$want")
  result "$name" "${problem:+$problem
stderr: $(head -c 2000 err)}"
}

# shellcheck disable=SC2317  # called through refused
run() { "$GRPO" run --quiet --dir "$runs" "$@"; }

# table NAME STATUS PATTERN [OTHER [REWARDS [DATA]]] : as refused, for an experiment in bad.lua
table() {
  local name=$1 status=$2 pattern=$3; shift 3
  experiment bad.lua "$@"
  refused "$name" "$status" "$pattern" run bad.lua
}

refused "bench: an unknown workload" 2 "bench: --workload: 'W9' is not a list of W1, .*" "$GRPO" bench --workload W9
refused "bench: an unknown form of weights" 2 "bench: --weights: 'f64' is not a list of f32, bf16, int8, nf4; see 'grpo help bench'" "$GRPO" bench --weights f64
refused "bench: nothing to measure" 2 "bench: --workload: ',' is not a list of W1, .*" "$GRPO" bench --workload ,
refused "bench: nothing between two commas" 2 "bench: --weights: 'f32,,bf16' is not a list of f32, .*" "$GRPO" bench --weights f32,,bf16
refused "bench: no directory to write to" 3 "--write-expected: no/x\.json: there is no directory no" "$GRPO" bench --write-expected no/x.json
refused "bench: compute is a word" 2 "bench: --compute: 'f64' is not f32, bf16 or both; .*" "$GRPO" bench --compute f64
refused "bench: reuse is a word" 2 "bench: --reuse: 'maybe' is not on, off or both; .*" "$GRPO" bench --reuse maybe
refused "bench: frozen is a word" 2 "bench: --frozen: 'int8' is not f32 or bf16; .*" "$GRPO" bench --frozen int8
refused "bench: runs is a number" 2 "bench: --runs: 'x' is not a whole number of at least 1; .*" "$GRPO" bench --runs x
refused "bench: sharing is a word" 2 "bench: --sharing: 'maybe' is not on, off or both; .*" "$GRPO" bench --sharing maybe
refused "bench: no file to check against" 3 "--check: nowhere.json: .*" "$GRPO" bench --workload smoke --json --check nowhere.json

refused "experiments/ppo.lua: an argument that it does not have" 2 "--arg stpes=10: .*ppo\.lua asks for no such argument, did you mean .steps.\?" \
  run "$root/experiments/ppo.lua" --arg stpes=10

at='bad\.lua:[0-9]+: '

# ---- options -------------------------------------------------------------------------------------------------------
table 'a misspelt option' 2 "${at}train\.stpes: unknown option, did you mean 'steps'\?" 'train = { stpes = 1 },'
table 'a name that no directory can have' 2 "${at}name: has 246 bytes; it names the run's directory and has 245 at most" \
  "name = ('n'):rep(246),"
table 'a misspelt section' 2 "${at}smapling: unknown option, did you mean 'sampling'\?" 'smapling = {},'
table 'a misspelt hook' 2 "${at}hooks\.on_stpe: unknown option, did you mean 'on_step'\?" 'hooks = { on_stpe = print },'
table 'a wrong type' 2 "${at}train\.prompts_per_step: got 'many', want a whole number, 1 to 65536" \
  'train = { prompts_per_step = "many" },'
table 'a fraction for a whole number' 2 "${at}train\.steps: got 1\.5, want a whole number, 0 to .*" 'train = { steps = 1.5 },'
table 'out of range' 2 "${at}train\.clip: got -1.*, want a number, 0 to 1000" 'train = { clip = -1 },'
table 'an unknown choice' 2 "${at}train\.loss: got 'gpro', want one of grpo, .* did you mean 'grpo'\?" 'train = { loss = "gpro" },'
table 'a combination without meaning' 2 "${at}train\.kl_estimator: \"k1\" does nothing in the loss, because .*; use .*" \
  'train = { kl = 0.1, kl_estimator = "k1" },'
table 'a tool without a function' 2 "${at}tools\.calc\.fn: got nil, want a function" 'tools = { calc = { description = "x" } },'
table 'a misspelt field of a tool' 2 "${at}tools\.calc\.paramters: unknown option, did you mean 'parameters'\?" \
  'tools = { calc = { paramters = {}, fn = print } },'
table 'a parameter of an unknown type' 2 "${at}tools\.calc\.parameters: x: want a type \(string, .*" \
  'tools = { calc = { parameters = { x = "text" }, fn = print } },'
table 'a tool with a strange name' 2 "${at}tools: '2\+2' is not a name; .*" 'tools = { ["2+2"] = print },'
table 'no tools at all' 2 "${at}tools: is empty; .*" 'tools = {},'
table 'two arguments in the compact form' 2 "${at}turns\.format: .*tools\.f has more" \
  'turns = { format = "compact" }, tools = { f = { parameters = { a = "string", b = "string" }, fn = print } },'
table 'an unknown form of calls' 2 "${at}turns\.format: got 'jsn', want one of auto, chat, json, compact or a table, did you mean 'json'\?" \
  'turns = { format = "jsn" }, tools = { f = print },'
table 'a form of calls without a reader' 2 "${at}turns\.format\.read: got nil, want a function" \
  'turns = { format = { stop = { ";" } } }, tools = { f = print },'
table 'a form that the tokenizer cannot write' 2 "${at}turns\.format: this tokenizer cannot write a tool's answer: .*" \
  'turns = { format = "json" }, tools = { f = print },'
table 'an environment without step' 2 "${at}environment\.step: got nil, want a function" 'environment = { reset = print },'
table 'a misspelt function of an environment' 2 "${at}environment\.rest: unknown option, did you mean 'reset'\?" \
  'environment = { rest = print, step = print },'
table 'an environment that raises' 1 '.*bad\.lua:[0-9]+: no board.*' 'environment = function() error("no board") end,'
table 'an option of the run in a stage' 2 "${at}stages\[1\]\.model\.lora: belongs to the whole run; .*" '' '' \
  'train = grpo.data.list(rows) }, stages = { { kind = "grpo", model = { lora = { rank = 4 } } }'
table 'a stage of an unknown kind' 2 "${at}stages\[1\]\.kind: got 'gpro', .*did you mean 'grpo'\?" 'stages = { { kind = "gpro" } },'
table 'an sft stage without a target' 2 "${at}data\.target: .*" 'stages = { { kind = "sft" } },'
table 'an option that a ppo stage does not read' 2 "${at}train\.loss: has no effect in a stage of kind \"ppo\": .*; remove it" \
  'train = { loss = "dapo" }, stages = { { kind = "ppo" } },'
table 'more minibatches than prompts' 2 "${at}train\.ppo\.minibatches: 9 are too many, because .* lower it" \
  'train = { ppo = { minibatches = 9 } }, stages = { { kind = "ppo" } },'
table 'windows that leave nothing' 2 "${at}grpo\.data\.text: from = 0\.5 and to = 0\.5 leave nothing of the text" '' '' \
  'train = grpo.data.text("bad.lua", { from = 0.5, to = 0.5 })'
table 'a target that is neither a string nor ids' 2 ".*data\.target: returned a number for a row, want a string or a list of ids \(row [0-9]+ of data\.train\)" \
  'stages = { { kind = "sft" } },' '' 'train = grpo.data.list(rows), target = function() return 5 end'
table 'no rewards' 2 ".*rewards: .*" '' ' '
table 'a reward entry with a wrong field' 2 "${at}rewards\.r\.wieght: unknown option, did you mean 'weight'\?" '' \
  '{ name = "r", wieght = 2, fn = function() return 0 end }'
table 'a prompt and completion longer than the context' 2 "${at}data\.max_prompt_tokens: .* context of 64 tokens; .*" '' '' \
  'train = grpo.data.list(rows), max_prompt_tokens = 60'
experiment bad.lua
refused 'a length beside one that fills the context' 2 \
  "command line: data\.max_prompt_tokens: 64 does not leave room for a completion: the model's context is 64 tokens; .*" \
  run bad.lua data.max_prompt_tokens=64 sampling.max_new_tokens=null

table 'a step past what can be counted' 2 "${at}train\.prompts_per_step: 65536 prompts of 8 tokens, each with 4096 completions of 6, are too many for one step; lower it" \
  'train = { prompts_per_step = 65536 }, sampling = { group_size = 4096, max_new_tokens = 6 },'

experiment good.lua 'train = { steps = 2, prompts_per_step = 2 },'
refused 'a misspelt override' 2 "command line: train\.lrr: unknown option, did you mean 'lr'\?" run good.lua train.lrr=1e-5
refused 'a bad override' 2 "command line: train\.lr: got 'fast', want a number or a function\(p\), 0 or more, or a schedule such as \"cosine:peak=1e-4,warmup=20\"" run good.lua train.lr=fast
refused 'an override of a section' 2 'command line: train: .*one of its fields' run good.lua train=5
refused 'an unknown flag' 2 "run: unknown flag --stepz, did you mean '--steps'\?; see 'grpo help run'" run good.lua --stepz 3
refused 'a flag without its value' 2 "run: --steps needs a value; see 'grpo help run'" run good.lua --steps
refused 'a flag with a bad value' 2 "run: --steps: 'few' is not a whole number of at least 1; see 'grpo help run'" run good.lua --steps few
refused 'an unknown command' 2 "unknown command 'rnu', did you mean 'run'\?; see 'grpo help'" "$GRPO" rnu
refused 'a flag with nothing for a value' 2 "run: --dir: its value is empty; see 'grpo help run'" run good.lua --dir ''
refused 'no run to resume' 2 "run: --resume: its value is empty; see 'grpo help run'" run --resume=
refused 'an empty first word' 2 "run: SCRIPT: its value is empty; see 'grpo help run'" run ''
refused 'two scripts' 2 "run: 'x\.lua' is one word too many; see 'grpo help run'" run good.lua x.lua
refused 'a workload for tests beside another' 2 "bench: --workload smoke cannot be combined .*" \
  "$GRPO" bench --workload W1,smoke
refused 'a word too many' 2 "check: 'x' is one word too many; see 'grpo help check'" "$GRPO" check good.lua x
refused 'no script' 2 "run: SCRIPT is missing; see 'grpo help run'" run

refused 'an adapter on random weights' 2 '.*model\.lora: needs model\.path: .*' run good.lua 'model.lora={}'
refused 'quantised weights without an adapter' 2 '.*model\.quantize: quantised weights are frozen, .* add model\.lora = \{\}' \
  run good.lua model.path=x model.quantize=nf4
refused 'bf16 weights without an adapter' 2 '.*model\.dtype: training all weights keeps them in f32; .*' run good.lua model.dtype=bf16
refused 'a type beside a quantisation' 2 '.*model\.dtype: has no effect with model\.quantize, .*' \
  run good.lua model.path=x model.quantize=nf4 model.dtype=f32 'model.lora={}'
refused 'a target that is no name' 2 '.*model\.lora\.targets: item 1 is a number, want a name .*' \
  run good.lua model.path=x 'model.lora={}' 'model.lora.targets=[5]'
refused 'an unknown quantisation' 2 "command line: model\.quantize: got 'nf5', want one of nf4, int8, did you mean 'nf4'\?" \
  run good.lua model.quantize=nf5

table 'an infinite number' 2 "${at}train\.lr: got inf, want .*" 'train = { lr = 1 / 0 },'
table 'an unknown kind of parameters' 2 "${at}train\.optimizer\.no_decay: got foo, .*" \
  'train = { optimizer = { no_decay = { "foo" } } },'
table 'a reward without a name' 2 "${at}rewards: the name of entry 1 is number, .*" '' '{ name = 5, fn = function() return 1 end }'
table 'a weight without end' 2 "${at}rewards\.r\.weight: got inf, .*" '' '{ name = "r", weight = 1 / 0, fn = function() return 1 end }'
table 'an empty stop string' 2 "${at}sampling\.stop: item 1 is empty.*" 'train = { lr = 0 }, sampling = { stop = "", max_new_tokens = 6 },'
table 'a top_p of nothing' 2 "${at}sampling\.top_p: 0 leaves no token .*" 'sampling = { top_p = 0, max_new_tokens = 6 },'
experiment bad.lua 'threads = 7,'
sed -i '1a grpo.model.new({ model_type = "gpt2", n_embd = 16, n_layer = 1, n_head = 2, n_positions = 8, vocab_size = 9 }, {})' bad.lua
refused 'threads after a model was made' 2 'threads: cannot be set to 7, because [0-9]+ threads .* --threads 7 .*' run bad.lua
table 'a KL coefficient that cannot grow' 2 "${at}schedule\.adaptive_kl\.initial: must be more than 0, got 0" \
  'train = { kl = require("grpo.schedule").adaptive_kl { initial = 0, target = 0.01, horizon = 100 } },'

# ---- scripts ---------------------------------------------------------------------------------------------------------
refused 'a script that is not there' 3 'missing\.lua: .*[Nn]o such file.*' run missing.lua
echo 'return grpo.experiment { model = = }' >bad.lua
refused 'a syntax error' 2 "bad\.lua:1: unexpected symbol near '='" run bad.lua
echo 'local x = 1' >bad.lua
refused 'a script that returns nothing' 2 'bad\.lua: returned nothing; end the script with: return grpo\.experiment \{ \.\.\. \}' run bad.lua
echo 'return 5' >bad.lua
refused 'a script that returns something else' 2 'bad\.lua: returned a number; .*' run bad.lua
printf 'local grpo = require "grpo"\nlocal n = seeed + 1\n' >bad.lua
refused 'an undefined global' 2 "bad\.lua:2: undefined global 'seeed'.*" run bad.lua
printf 'local function f() total = 1 end\nf()\n' >bad.lua
refused 'a global made in a function' 2 "bad\.lua:1: assignment to the new global 'total' .*" run bad.lua
printf 'local grpo = require "grpo"\nerror("no luck")\n' >bad.lua
refused 'a script that raises' 2 'bad\.lua:2: no luck' run bad.lua
printf 'local grpo = require "grpo"\nlocal x = nil\nreturn x.y\n' >bad.lua
refused 'a mistake in a script' 2 "bad\.lua:3: attempt to index a nil value.*" run bad.lua
printf 'local grpo = require "grpo"\nreturn grpo.experimant {}\n' >bad.lua
refused 'a misspelt function' 2 "bad\.lua:2: grpo\.experimant: .*did you mean 'experiment'\?" run bad.lua
printf 'return require "rewards.gsm9k"\n' >bad.lua
refused 'a module that is not there' 2 "bad\.lua:1: module 'rewards\.gsm9k' not found.*" run bad.lua

# ---- files -------------------------------------------------------------------------------------------------------------
table 'data that is not there, named once' 3 "${at}cannot open nodata\.jsonl: No such file or directory" '' '' 'train = grpo.data.jsonl("nodata.jsonl")'
printf '{"prompt": "1+1="}\n{"prompt": \n' >broken.jsonl
table 'a broken line of data' 3 "${at}broken\.jsonl:2: not a JSON object: at column [0-9]+: [^0-9].*" '' '' 'train = grpo.data.jsonl("broken.jsonl")'
: >empty.jsonl
printf 'prompt,prompt\n1,2\n' >twice.csv
table 'two columns of one name' 3 "${at}twice\.csv:1: two columns are named 'prompt'" '' '' 'train = grpo.data.csv("twice.csv")'
table 'a directory for data' 3 "${at}cannot read \.: it is a directory" '' '' 'train = grpo.data.jsonl(".")'
table 'a prompt function that raises' 2 'data\.prompt: bad\.lua:[0-9]+: pp \(row [0-9]+ of data\.train\)' '' '' 'train = grpo.data.list(rows), prompt = function() error("pp") end'
sed 's/num_attention_heads = 2/num_attention_heads = 3/' good.lua >heads.lua
refused 'a model table that cannot be' 2 'model\.config: hidden size 32 is not a multiple of 3 attention heads' run heads.lua
table 'an empty dataset' 3 ".*data\.train: the dataset is empty.*" '' '' 'train = grpo.data.jsonl("empty.jsonl")'
table 'no dataset' 2 "${at}data\.train: missing; give a dataset.*" '' '' ' shuffle = true'
table 'a row without a prompt' 2 '.*data\.prompt: .*' '' '' 'train = grpo.data.list { { question = "1+1=" } }'
table 'prompts that are all too long' 3 '.*data\.train: no usable row, all 1 prompts are longer than max_prompt_tokens = 8.*' '' '' \
  'train = grpo.data.list { { prompt = ("1"):rep(100) } }'
table 'a prompt that is too long, with too_long = "error"' 2 '.*data\.max_prompt_tokens: a prompt has 100 tokens, the limit is 8; .*' \
  '' '' 'too_long = "error", train = grpo.data.list { { prompt = ("1"):rep(100) } }'
table 'a prompt that the tokenizer cannot read' 2 '.*(prompt|tokeniz).*' '' '' 'train = grpo.data.list { { prompt = "one" } }'
refused 'a model that is not there' 3 '.*nomodel.*' run good.lua model.path=nomodel
table 'a misspelt reference, which no KL asks for' 3 "${at}reference: randm: no such model directory, did you mean 'random'\\?; give .*" 'reference = "randm", train = { kl = 0 },'
table 'a reference that is not there' 3 "${at}reference: nomodel: no such model directory; .*" 'reference = "nomodel", train = { kl = 0.1 },'
refused 'a model configuration that is not there' 3 'model\.config: cannot open nomodel\.json: No such file or directory' run good.lua model.config=nomodel.json
refused 'an extends file that is not there' 3 '.*extends: cannot open nothing\.json: No such file or directory' run good.lua extends=nothing.json
echo '{ "train": { "stpes": 1 } }' >more.json
table 'a script as an extends file' 2 "${at}extends: good\.lua is refused, because it is a script and not a file of settings; write it as JSON, or require it as a module" \
  'extends = "good.lua",'
refused 'a script as a model configuration' 2 '.*model\.config: good\.lua is refused, because it is a script.*' run good.lua model.config=good.lua
refused 'an extends file with a misspelt option' 2 ".*more\.json: train\.stpes: unknown option, did you mean 'steps'\?" \
  run good.lua extends=more.json
echo '{ "train": ' >more.json
refused 'an extends file that is no JSON' 3 '.*more\.json.*' run good.lua extends=more.json

# A checkpoint to spoil, once whole.
"$GRPO" run --quiet --dir made good.lua checkpoint.every=1 >/dev/null 2>&1
spoil() { rm -rf spoilt; cp -rL made/good-001/latest spoilt; rm spoilt/manifest.json; } # else its sums are checked first
spoil; head -c 1000 made/good-001/latest/model.safetensors >spoilt/model.safetensors
refused 'corrupt safetensors' 3 '.*spoilt/model\.safetensors: .*' run good.lua model.path=spoilt
spoil; echo '{ "model": 5' >spoilt/tokenizer.json
refused 'a corrupt tokenizer.json' 3 '.*spoilt/tokenizer\.json:1:1: .*' run good.lua model.path=spoilt model.tokenizer=spoilt
spoil; echo '{ "model_type": "mamba" }' >spoilt/config.json
refused 'a model of an unknown family' 3 ".*spoilt/config\.json: .*mamba.*" run good.lua model.path=spoilt
spoil; echo '{ "model_type": "deepseek_v2", "first_k_dense_replace": 1 }' >spoilt/config.json
refused 'a mixture of experts' 3 ".*spoilt/config\.json: the layers from first_k_dense_replace = 1 on are mixtures of experts.*" \
  run good.lua model.path=spoilt
spoil; echo '{ "model_type": "gpt2_mla", "n_head": 2, "kv_lora_rank": "64" }' >spoilt/config.json
refused 'a latent attention without a rank' 3 ".*spoilt/config\.json: kv_lora_rank must be a whole number" run good.lua model.path=spoilt
echo '{ "model_type": "gpt2_mla", "vocab_size": 258, "n_embd": 16, "n_layer": 1, "n_head": 2, "kv_lora_rank": 8,
  "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4, "n_positions": 64 }' >latent.json
echo 'grpo.model.new("latent.json", { tokenizer = grpo.tokenizer.bytes() }):save("latent")' | "$GRPO" repl >/dev/null
refused 'an adapter on a weight that is used head by head' 2 ".*kv_b_proj is not supported, because latent attention .*" \
  run good.lua model.path=latent 'model.lora.targets=["kv_b_proj"]'
"$GRPO" run --quiet --dir made good.lua --steps 1 >/dev/null 2>&1
cp -r made/good-002 made/pipe && rm -f made/pipe/metrics.jsonl && mkfifo made/pipe/metrics.jsonl
refused 'a pipe that a resumed run would write to' 3 'cannot write to made/pipe/metrics\.jsonl: it is a named pipe; .*' \
  timeout -s KILL 60 "$GRPO" run --quiet --resume=made/pipe
printf 'x' | dd of=made/good-002/checkpoints/step-000001/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
refused 'a corrupt checkpoint on resume' 3 '.*made/good-002.*checkpoint.*' "$GRPO" run --quiet --resume=made/good-002
refused 'a run that is not there' 3 '.*made/good-077: not a run directory: .*' "$GRPO" run --quiet --resume=made/good-077
refused 'which says what is damaged, and what to do' 3 '.*model\.safetensors: it is damaged, because .*, or remove made/good-002/.* to resume from an older checkpoint' \
  "$GRPO" run --quiet --resume=made/good-002
cp good.lua as_it_was.lua && echo '-- edited' >>good.lua
refused 'a resume of a script that has changed' 2 '.*made/good-002: .*differs.*--force.*' "$GRPO" run --quiet --resume=made/good-002 good.lua
mv as_it_was.lua good.lua

# ---- code that trains ------------------------------------------------------------------------------------------------------
steps='train = { steps = 2, prompts_per_step = 2 },'
table 'a reward that raises' 1 'rewards\.r: bad\.lua:[0-9]+: boom \(completion: ".*"\).*' "$steps" \
  '{ name = "r", fn = function() error("boom") end }'
table 'a reward that returns NaN' 1 'rewards\.r: bad\.lua:[0-9]+: .*returned -?nan; a reward must be finite.*' "$steps" \
  '{ name = "r", fn = function() return 0 / 0 end }'
table 'a reward that returns a string' 1 'rewards\.r: bad\.lua:[0-9]+: .*returned a string; a reward is a number, a boolean or nil.*' \
  "$steps" '{ name = "r", fn = function() return "1" end }'
table 'a reward that never ends' 1 'rewards\.r: .*instructions.*' "$steps" '{ name = "r", fn = function() while true do end end }'
table 'a reward that takes all memory' 1 'rewards\.r: .*memory.*' "$steps" '{ name = "r", fn = function() return #("x"):rep(1 << 30) end }'
table 'columns that are no table' 1 'rewards\.r: bad\.lua:[0-9]+: the columns .*: got a number, want a table .*' "$steps" \
  '{ name = "r", fn = function() return 1, 5 end }'
table 'columns that JSON cannot hold' 1 'rewards\.r: bad\.lua:[0-9]+: the columns .*cannot write a function.*' "$steps" \
  '{ name = "r", fn = function() return 1, { x = print } end }'
table 'a group function that returns too little' 1 'rewards\.r: .*group_fn returned 0 values for 4 completions; .*' "$steps" \
  '{ name = "r", group_fn = function() return {} end }'
table 'a weight schedule that never ends' 1 'bad\.lua:[0-9]+: rewards\.r\.weight: .*instructions.*' "$steps" \
  '{ name = "r", weight = function() while true do end end, fn = function() return 1 end }'
table 'a step inside a reward' 1 'rewards\.r: .*tr:step: called inside a step.*' \
  "$steps hooks = { on_start = function(tr) rawset(_G, 'TR', tr) end }," '{ name = "r", fn = function() TR:step() return 1 end }'
table 'a run inside a hook' 1 'hooks\.on_step: .*tr:run: called inside hooks\.on_step.*' \
  "$steps hooks = { on_step = function(_, tr) tr:run() end },"
table 'a checkpoint in the middle of a step' 1 'hooks\.on_rollout: .*tr:save: called inside a step.*' \
  "$steps hooks = { on_rollout = function(_, tr) tr:save('middle') end },"
table 'an on_error that never ends' 1 'hooks\.on_step: .*first' \
  "$steps limits = { hook = { instructions = 1e6 } }, hooks = { on_step = function() error('first') end, on_error = function() while true do end end },"
table 'a metric that returns a string' 1 'bad\.lua:[0-9]+: eval\.metric: the function returned a string, .*' \
  "$steps eval = { metric = function() return 'x' end }," '' 'train = grpo.data.list(rows), eval = grpo.data.list(rows)'
table 'a hook that raises' 1 'hooks\.on_step: bad\.lua:[0-9]+: bang' "$steps hooks = { on_step = function() error('bang') end },"
table 'a hook that assigns an option that is not live' 1 "hooks\.on_step: bad\.lua:[0-9]+: tr\.config\.train\.prompts_per_step: cannot be changed .*" \
  "$steps hooks = { on_step = function(_, tr) tr.config.train.prompts_per_step = 3 end },"
table 'a hook that assigns the number of steps' 1 "hooks\.on_step: bad\.lua:[0-9]+: tr\.config\.train\.steps: cannot be changed .*" \
  "$steps hooks = { on_step = function(_, tr) tr.config.train.steps = 3 end },"
table 'a hook that assigns a misspelt option' 1 "hooks\.on_step: bad\.lua:[0-9]+: tr\.config: there is no option 'train\.clipp', did you mean 'clip'\?" \
  "$steps hooks = { on_step = function(_, tr) tr.config.train.clipp = 3 end },"
for own in 'type = "sft"' 'table = {}' 'function next() end' 'string = nil' 'error = 5'; do
  experiment bad.lua; sed -i "1a $own" bad.lua
  refused "a script that takes the name of a global of Lua's: $own" 2 \
    "bad\.lua:2: the global '[a-z]+' is of Lua's library, which modules use, too; take another name, or write local .*" run bad.lua
done
table 'a hook that assigns a wrong value' 1 "hooks\.on_step: bad\.lua:[0-9]+: tr\.config\.train\.clip: got 'x', want .*" \
  "$steps hooks = { on_step = function(_, tr) tr.config.train.clip = 'x' end },"
table 'a schedule that returns nothing' 2 'bad\.lua:[0-9]+: train\.lr: the schedule returned nil for p.step = 0, want a finite number' \
  'train = { steps = 2, prompts_per_step = 2, lr = function() end },'
table 'a loss that returns no tensor' 1 'bad\.lua:[0-9]+: train\.loss: .*' 'train = { steps = 2, prompts_per_step = 2, loss = function() return 5 end },'
table 'a loss that never ends' 1 '.*train\.loss: .*instructions.*' \
  'train = { steps = 2, prompts_per_step = 2, loss = function() while true do end end }, limits = { hook = { instructions = 1e6 } },'
table 'a loss that raises' 1 '.*bad\.lua:[0-9]+: .*' 'train = { steps = 2, prompts_per_step = 2, loss = function(t) return t.lgop:sum() end },'
table 'tr.state that cannot be saved' 1 '.*state\.f.*' "$steps hooks = { on_step = function(m, tr) tr.state.f = print end },"
table 'training that diverges' 4 'training diverged at step 1: .* lower train\.lr.*' \
  'train = { steps = 2, prompts_per_step = 2, lr = 1e30, kl = 0.1, iterations = 3 },'
: >file
refused 'a place where no directory can be made' 5 'cannot make the directory file: .*' "$GRPO" run --quiet --dir file/runs good.lua
# a program that counts what it reaches (MODE=cov) must not try to write its counts
refused 'a disk that is full when the run directory is made' 5 'cannot write runs/\.new-1/.*: File too large' \
  env GCOV_PREFIX=/dev/null GCOV_ERROR_FILE=/dev/null bash -c 'ulimit -f 1; "$GRPO" run --quiet --dir runs good.lua'
result 'and no directory is left' "$([ ! -d runs ] || find runs -mindepth 1 -maxdepth 1 -type d)"
experiment bad.lua "$steps hooks = { on_step = function(_, tr) tr:append('x', ('y'):rep(3e5)) end },"
refused 'a disk that is full when a hook writes' 5 'bad\.lua:[0-9]+: hooks\.on_step: cannot write runs/bad-001/logs/x: File too large' \
  env GCOV_PREFIX=/dev/null GCOV_ERROR_FILE=/dev/null bash -c 'ulimit -f 200; "$GRPO" run --quiet --dir runs bad.lua'
refused 'a full disk, of a script at the prompt' 5 'stdin:1: cannot write to standard output: No space left on device' bash -c 'echo "print(1)" | "$GRPO" repl >/dev/full'
refused 'a full disk, of what it writes itself' 5 'cannot write to standard output: No space left on device' bash -c 'echo "io.write(1)" | "$GRPO" repl >/dev/full'
echo text >a-file
refused 'a file as the directory of runs' 2 '--dir: a-file is a file, want a directory' "$GRPO" run tiny.lua --dir a-file
refused 'a file as the directory of a project' 2 'init: a-file is a file, want a directory' "$GRPO" init a-file
refused 'a name that is too long' 2 '--as: the name has 300 bytes, want at most 200' "$GRPO" run tiny.lua --as "$(printf 'a%.0s' $(seq 300))"
refused 'a full disk' 5 'cannot write to standard output: No space left on device' bash -c '"$GRPO" help >/dev/full'
refused 'an evaluation without held-out rows' 2 '.*data\.eval: missing; .*' "$GRPO" eval good.lua
refused 'an evaluation of a model without questions' 2 'eval: spoilt is neither a run nor .*; .* give a script: .*' "$GRPO" eval spoilt
refused 'chat without a model' 2 "chat: MODEL is missing; see 'grpo help chat'" "$GRPO" chat
refused 'chat with a model that is not there' 3 '.*nomodel.*' "$GRPO" chat nomodel
mkdir -p adapter && echo '{ "peft_type": "LORA", "base_model_name_or_path": "some/where/else" }' >adapter/adapter_config.json
cat >nowhere.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment { data = { train = grpo.data.jsonl("nowhere.jsonl") } }
LUA
for dir in "$root" ./; do # with the program's Lua files below the current directory too
  [ "$dir" = "$root" ] || { mkdir -p lua && cp -r "$root/lua/grpo" lua/; }
  refused "an error is at the script's line, wherever the program's own files are" 3 \
    'nowhere\.lua:2: cannot open nowhere\.jsonl: .*' "$GRPO" run nowhere.lua
done
rm -rf lua

for command in 'generate adapter x' 'chat adapter'; do
  # shellcheck disable=SC2086  # the words are meant to be split
  refused "${command%% *} with an adapter whose base is not there" 3 \
    'adapter/adapter_config\.json: the base model some/where/else is not there \(looked for it in adapter and in the current directory\); put it there, name another .*' \
    "$GRPO" $command
done
refused 'a base for a model that is none' 2 'made/good-001/latest: is a complete model, not an adapter; .*' \
  "$GRPO" chat made/good-001/latest --base spoilt

good=made/good-001/latest
refused 'an export without a place' 2 "export: OUT is missing; see 'grpo help export'" "$GRPO" export $good
refused 'an export over something' 2 'adapter: exists already; --force replaces it' "$GRPO" export $good adapter
refused 'an export in an unknown format' 2 "export: --format: 'onnx' is not hf(, | or )adapter.*; .*" "$GRPO" export $good x --format onnx
refused 'an export of an adapter that is none' 2 '--format adapter: .* has no adapter; .*' "$GRPO" export $good x --format adapter
refused 'an export with two types' 2 '--dtype: --quantize nf4 decides it; .*' "$GRPO" export $good x --quantize nf4 --dtype bf16
refused 'an export of nothing' 3 '.*nomodel.*' "$GRPO" export nomodel x
refused 'an export to where nothing can be written' 5 'cannot make the directory file: .*' "$GRPO" export $good file/x
result 'a refused export leaves nothing' "$(absent . x .tmp-x)"

finish
