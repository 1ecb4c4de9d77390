#!/usr/bin/env bash
# A run as a file of settings: stages, data, rewards by name, schedules as text; and what is said of faults
# in such files.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

for a in 0 1 2 3 4 5 6 7 8 9; do
  for b in 0 1 2 3 4 5 6 7 8 9; do echo "{\"a\": $a, \"b\": $b, \"solution\": \"$((a + b))\"}"; done
done >sums.jsonl
echo 'return { digits = function(text) return select(2, text:gsub("%d", "")) / 6 end,
  atmost = function(o) return function(text) return #text <= o[1] + (o.more or 0) end end }' >mine.lua
cat >sums.json <<'JSON'
{
  "seed": 3,
  "model": {
    "config": { "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 2, "max_position_embeddings": 64 },
    "tokenizer": { "kind": "chars", "text": "0123456789+=" }
  },
  "data": {
    "train": { "path": "sums.jsonl", "columns": { "answer": "solution" }, "shuffle": 1, "take": 90 },
    "eval": { "path": "sums.jsonl", "columns": { "answer": "solution" }, "shuffle": 1, "skip": 90 },
    "prompt": "{a}+{b}=", "target": "{solution}", "max_prompt_tokens": 8
  },
  "sampling": { "group_size": 4, "max_new_tokens": 4 },
  "rewards": {
    "correct": { "fn": "text.equals", "weight": 2.0 },
    "mine.digits": "linear:from=1,to=0",
    "short": { "fn": "mine.atmost", "options": { "1": 1, "more": 1 }, "weight": 0.25 }
  },
  "eval": { "metric": "text.equals" },
  "reference": null,
  "stages": [
    { "kind": "sft", "train": { "steps": 6, "prompts_per_step": 8, "lr": "cosine:peak=3e-3,warmup=2" } },
    { "kind": "grpo", "train": { "steps": 3, "prompts_per_step": 4, "lr": 1e-3 }, "hooks": null }
  ]
}
JSON

# ---- the same run ------------------------------------------------------------------------------------------------------------
cat >sums.lua <<'LUA'
local grpo, mine, text = require "grpo", require "mine", require "rewards.text"
local rows = grpo.data.jsonl("sums.jsonl"):map(function(row)
  return { a = row.a, b = row.b, solution = row.solution, answer = row.solution }
end):shuffle(1)
return grpo.experiment {
  seed = 3,
  model = { config = { model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 1,
      num_attention_heads = 2, max_position_embeddings = 64 }, tokenizer = grpo.tokenizer.chars("0123456789+=") },
  data = { train = rows:take(90), eval = rows:skip(90), prompt = function(row) return row.a .. "+" .. row.b .. "=" end,
    target = function(row) return row.solution end, max_prompt_tokens = 8 },
  sampling = { group_size = 4, max_new_tokens = 4 },
  rewards = { correct = { fn = text.equals, weight = 2.0 },
    digits = { fn = mine.digits, weight = grpo.schedule.linear { from = 1, to = 0 } },
    short = { fn = mine.atmost { 1, more = 1 }, weight = 0.25 } },
  eval = { metric = text.equals },
  stages = {
    { kind = "sft", train = { steps = 6, prompts_per_step = 8, lr = grpo.schedule.cosine { peak = 3e-3, warmup = 2 } } },
    { kind = "grpo", train = { steps = 3, prompts_per_step = 4, lr = 1e-3 } },
  },
}
LUA
same_weights() { cmp "$1/latest/model.safetensors" "$2/latest/model.safetensors" 2>&1; }
check "a script runs" "$GRPO" run sums.lua --quiet --dir script
check "a settings file runs" "$GRPO" run sums.json --quiet --dir json
result "it is the same run, to the bit" "$(same_weights script/sums-001 json/sums-001)"
result "config.json keeps the text of a schedule" \
  "$(grep -A2 '"train.lr"' json/sums-001/config.json | grep -q 'cosine:peak=3e-3,warmup=2' || show json/sums-001/config.json)"
check "the command line wins" "$GRPO" run sums.json --quiet --dir other stages.1.train.lr=constant:0.5
result "the command line wins: in config.json" "$(grep -q '"constant:0.5"' other/sums-001/config.json || echo no)"

# ---- stopping and resuming -----------------------------------------------------------------------------------------------------
check "a run of settings stops" "$GRPO" run sums.json --quiet --dir stopped --steps 4
rm -f mine.lua.away; mv mine.lua mine.lua.away; mv sums.json sums.away
check "and continues from what it saved" "$GRPO" run --resume=stopped/sums-001 --quiet
mv mine.lua.away mine.lua; mv sums.away sums.json
result "with the same bits" "$(same_weights script/sums-001 stopped/sums-001)"
check "eval of its run" "$GRPO" eval json/sums-001 --rows 4
"$GRPO" check sums.json sampling.group_size=2 >out 2>&1
result "check of settings" "$(grep -q '^peak memory: ' out || show out)"

# ---- a sampler by name -------------------------------------------------------------------------------------------------------
# sampled KIND SETTING LUA : the settings with a sampler, and the script with it, run and give the same weights
sampled() {
  sed "s/\"prompt\": \"{a}/\"sampler\": $2, &/" sums.json >"$1.json"
  sed "s/^  data = { /&sampler = $3, /" sums.lua >"$1.lua"
  "$GRPO" run "$1.json" --quiet --dir "settings-$1" >/dev/null 2>err && "$GRPO" run "$1.lua" --quiet --dir "script-$1" >/dev/null 2>>err || show err
  same_weights "settings-$1/$1-001" "script-$1/$1-001"
  cmp -s "settings-$1/$1-001/latest/model.safetensors" json/sums-001/latest/model.safetensors && echo "its rows are those of no sampler"
}
result "the sampler by_pass_rate is that of a script" \
  "$(sampled rate '{ "kind": "by_pass_rate", "reward": "digits", "prefer": "failure" }' 'grpo.samplers.by_pass_rate { reward = "digits", prefer = "failure" }')"
result "the sampler easy_to_hard sorts by a column" \
  "$(sampled hard '{ "kind": "easy_to_hard", "difficulty": "solution", "from": 0.2 }' 'grpo.samplers.easy_to_hard { from = 0.2, difficulty = function(row) return tonumber(row.solution) end }')"
result "a sampler by its name alone" "$(sampled plain '"by_pass_rate"' 'grpo.samplers.by_pass_rate {}')"
check "its run stops" "$GRPO" run rate.json --quiet --dir stopped-rate --steps 7
check "and continues" "$GRPO" run --resume=stopped-rate/rate-001 --quiet
result "to the same bits" "$(same_weights settings-rate/rate-001 stopped-rate/rate-001)"

# ---- faults ------------------------------------------------------------------------------------------------------------------
# refused NAME STATUS LINE SED... : the settings with a change; the one line on stderr matches
refused() {
  local name=$1 want=$2 line=$3 status problem=''; shift 3
  sed -E "$@" sums.json >bad.json
  timeout 60 "$GRPO" run bad.json --quiet >out 2>err </dev/null; status=$?
  [ $status = "$want" ] || problem+="exit status $status, want $want"$'\n'
  [ "$(wc -l <err)" = 1 ] || problem+="not one line"$'\n'
  grep -qE "^grpo: $line" err || problem+="no line matches: $line"$'\n'
  result "refused: $name" "${problem:+$problem$(head -n 5 err)}"
}
refused "no JSON" 3 'bad\.json:2:[0-9]+: ' 's/"seed": 3,/"seed" 3,/'
refused "a file of data that there is not" 3 "bad\.json:9: data\.train: cannot open nowhere\.jsonl: " 's/"train": \{ "path": "sums/"train": { "path": "nowhere/'
refused "a reward that makes a reward" 2 "bad\.json:[0-9]+: rewards\.short\.fn: length\.cosine makes a reward from its options, .*write cosine: \{ fn: length\.cosine, options: " 's/"mine.atmost", "options": \{ "1": 1, "more": 1 \}/"length.cosine"/'
refused "an unknown option" 2 "bad\.json:[0-9]+: sampling\.group_sise: unknown option, did you mean 'group_size'" 's/group_size/group_sise/'
refused "a wrong type" 2 "bad\.json:13: sampling\.max_new_tokens: got 'x', want a whole number, 1 to [0-9]+" 's/"max_new_tokens": 4/"max_new_tokens": "x"/'
refused "a wrong schedule" 2 "bad\.json:[0-9]+: train\.lr: the schedule .*cosine: peek: unknown option, did you mean 'peak'" 's/peak=/peek=/'
refused "a reward that there is not" 2 "bad\.json:15: rewards\.correct\.fn: text has no function 'equal', did you mean 'equals'" 's/"fn": "text.equals"/"fn": "text.equal"/'
refused "a module that there is not" 2 "bad\.json:[0-9]+: rewards\.correct\.fn: there is no module rewards\.nothing, nor nothing beside the file" 's/"fn": "text.equals"/"fn": "nothing.equal"/'
refused "a function of Lua's own" 2 'bad\.json:[0-9]+: rewards\.correct\.fn: there is no module rewards\.os' 's/"fn": "text.equals"/"fn": "os.execute"/'
refused "a field of a reward that there is not" 2 "bad\.json:[0-9]+: rewards\.correct\.wieght: unknown option, did you mean 'weight'" 's/"weight": 2/"wieght": 2/'
refused "options that a reward refuses" 2 'bad\.json:[0-9]+: rewards\.short\.options: ' 's/"mine.atmost", "options": \{ "1": 1, "more": 1 \}/"length.cosine", "options": { "mox": 1 }/'
refused "a file that is not there" 3 '.*no\.jsonl' 's/"path": "sums.jsonl"/"path": "no.jsonl"/'
refused "a file without a format" 2 'bad\.json: data\.(train|eval)\.format: want jsonl, json, csv, tsv(, [a-z]+)* or text, because the name of sums does not say it' 's/"path": "sums.jsonl"/"path": "sums"/'
refused "a field of a dataset that there is not" 2 "bad\.json:[0-9]+: data\.train\.tike: unknown option, did you mean 'take'" 's/"take"/"tike"/'
refused "a column that there is not" 2 '.*data\.prompt: \{c\}: the row has no such column .*it has a, answer, b, solution' 's/\{a\}\+/{c}+/'
refused "a tokenizer that there is not" 2 'bad\.json:[0-9]+: model\.tokenizer\.kind: want bytes, chars or bpe' 's/"kind": "chars"/"kind": "cars"/'
refused_sampler() { refused "$1" 2 "bad\.json:[0-9]+: data\.sampler$2" "s/\"prompt\": \"\{a/\"sampler\": $3, &/"; }
refused_sampler "a sampler that there is not" ": want by_pass_rate or easy_to_hard, got 'by_pas_rate', did you mean 'by_pass_rate'\? a sampler of your own needs a script" '"by_pas_rate"'
refused_sampler "a sampler without a kind" ": want by_pass_rate or easy_to_hard, or an object with one of them as kind; a sampler" '{ "prefer": "failure" }'
refused_sampler "an option of a sampler that there is not" ": samplers\.by_pass_rate\.prefr: unknown option, did you mean 'prefer'" '{ "kind": "by_pass_rate", "prefr": "failure" }'
refused_sampler "a sampler without its difficulty" ": easy_to_hard wants difficulty, the name of a column that holds a number" '"easy_to_hard"'
refused "a difficulty that no row has" 1 "data\.sampler\.sample: difficulty is the column 'level', but a row has no number there" 's/"prompt": "\{a/"sampler": { "kind": "easy_to_hard", "difficulty": "level" }, &/'
refused "a hook" 2 "bad\.json:[0-9]+: hooks\.on_step: got 'x', want a function" 's/"seed": 3/"seed": 3, "hooks": { "on_step": "x" }/'
refused "a list for an object" 2 'bad\.json:[0-9]+: rewards: want an object' 's/"correct": \{ "fn.*$/"x": 1 }, "rewards": [1], "y": {/'
echo '[1]' >bad.json; "$GRPO" run bad.json >out 2>err; status=$?
result "refused: a list for a file" "$([ $status = 2 ] && grep -qx 'grpo: bad.json: want an object of options' err || show err)"
finish
