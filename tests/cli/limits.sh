#!/usr/bin/env bash
# Rewards that run away, inside a run: each is ended, the run goes on as reward.on_error says, its memory is as before.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

cp "$root/tests/lua/attacks.lua" .
count=$(grep -c '{ name = .*budget = ' attacks.lua)
experiment attacked.lua 'train = { steps = 3, prompts_per_step = #require "attacks" }, seed = 1,
  reward = { on_error = grpo.args.on_error or "zero" }, limits = { reward = { instructions = 2e6, memory = 8 * 2^20, seconds = 600 },
    hook = { memory = 4 * 2^20 } },
  hooks = { on_step = function(m, tr)
    local _ = ("x"):rep(1900000)
    _ = nil
    _ = ("x"):rep(1900001) -- fits only after the garbage is collected
    tr:log("lua", require "grpo.core".mem().lua)
  end },' \
  '{ name = "digits", fn = function(text) return #text:gsub("%D", "") / 6 end },
   { name = "attack", fn = function(_, row) row.attack.run() return 1 end },' \
  'train = (function()
    local list = {}
    for i, attack in ipairs(require "attacks") do list[i] = { prompt = tostring(i), attack = attack } end
    return grpo.data.list(list)
  end)()'
timeout 300 "$GRPO" run attacked.lua sampling.group_size=2 --quiet >out 2>err; status=$?
result "a run whose rewards all run away goes on" "$([ $status = 0 ] || show err)"
errors=$(grep -ohE '"reward_errors": [0-9]+' runs/attacked-001/metrics.jsonl | grep -oE '[0-9]+$' | tr '\n' ' ')
result "every call of each attack was ended, in each step" "$([ "$errors" = "$((2 * count)) $((2 * count)) $((2 * count)) " ] || echo "$errors, want $((2 * count)) each")"
told=$(grep -cE '"errors": \{"attack": "rewards\.attack: .*[0-9]: (used up its 2000000 instructions|needs more than its 8 MB of memory).*\(completion: ' \
  runs/attacked-001/completions.jsonl)
result "a completion's record says which budget, and where" "$([ "$told" = $((6 * count)) ] || echo "$told of $((6 * count))")"
growth=$(grep -ohE '"lua": [0-9]+' runs/attacked-001/metrics.jsonl | grep -oE '[0-9]+$' | tr '\n' ' ' | awk '{print $3 - $2}')
result "memory is as before" "$([ "$growth" -lt 100000 ] || echo "$growth bytes more after the third step")"
timeout 300 "$GRPO" run attacked.lua sampling.group_size=2 --arg on_error=stop --quiet >out 2>err; status=$?
result "with on_error = stop the run ends, and names reward, line and completion" \
  "$([ $status = 1 ] && grep -qE '^grpo: rewards\.attack: .*attacks\.lua:[0-9]+: .*set reward\.on_error \(completion: "' err || { echo "status $status"; cat err; })"

# A signal that comes while rewards are called ends the step after that call.  The reward sends it itself.
experiment signalled.lua 'train = { steps = 2, prompts_per_step = 10 }, checkpoint = { every = 1 }' '{ name = "digits", fn = function(text)
    local calls = assert(io.open("calls", "a"))
    calls:write("x")
    calls:close()
    if os.getenv("SEND") then os.execute("kill -" .. os.getenv("SEND") .. " $PPID; sleep 0.1") end
    return select(2, text:gsub("%d", "")) / 6
  end }'
rm -f calls
SEND=INT timeout 60 "$GRPO" run signalled.lua --quiet --dir ctrl-c >out 2>err; status=$?
result "so does Ctrl-C, also while a reward waits in os.execute" \
  "$([ "$status $(cat calls)" = '130 x' ] && [ -e ctrl-c/signalled-001/run.json ] || { echo "status $status, calls $(cat calls)"; cat err; })"
rm -f calls
SEND=TERM timeout 60 "$GRPO" run signalled.lua --quiet >out 2>err; status=$?
result "a signal between two rewards ends the step" \
  "$([ "$status $(cat calls)" = '143 x' ] || { echo "status $status, calls $(cat calls)"; cat err; })"
timeout 60 "$GRPO" run signalled.lua --quiet --dir whole >out 2>err
timeout 60 "$GRPO" run --resume=runs/signalled-001 --quiet >out 2>err; status=$?
result "and a resume does it again" "$([ $status = 0 ] || show err
  cmp {runs,whole}/signalled-001/checkpoints/step-000002/model.safetensors 2>&1)"
# An environment that fails because of a signal has made no mistake.
experiment environment.lua 'train = { steps = 2, prompts_per_step = 2 }, environment = {
    reset = function() return {} end,
    step = function() os.execute("kill -INT $PPID; sleep 0.1") error "the answer was cut off" end }' '{ name = "none", fn = function() return 0 end }'
timeout 60 "$GRPO" run environment.lua --quiet >out 2>err; status=$?
result "a signal while an environment answers ends the step" \
  "$([ "$status" = 130 ] && [ -e runs/environment-001/latest ] || { echo "status $status"; cat err; })"

# Ctrl-C while a hook waits: for a command, for one that it reads from, and one that is ended by the signal, too.
for command in 'os.execute("sleep 0.1; kill -INT $PPID; sleep 0.1")' 'io.popen("kill -INT $PPID; sleep 0.2"):close()' \
  'io.popen("kill -INT $PPID; sleep 0.2; echo"):read("a")' 'os.execute("kill -INT $PPID; kill -INT $$")'; do
  experiment hooked.lua "train = { steps = 3, prompts_per_step = 2 }, checkpoint = { every = 1 }, hooks = { on_step = function(m) if m.step == 2 then $command end end }"
  rm -rf hooked
  timeout 60 "$GRPO" run hooked.lua --quiet --dir hooked >out 2>err; status=$?
  result "Ctrl-C during $command ends the run after a checkpoint" \
    "$([ "$status $(readlink hooked/*/latest)" = '130 checkpoints/step-000002' ] || { echo "status $status, $(readlink hooked/*/latest)"; cat err; })"
done
echo 'print(os.execute("exit 3")) print(os.execute("kill -9 $$")) print(os.execute("true")) print(os.execute()) print(pcall(os.execute, {}))' >execute.lua
{ echo 'dofile "execute.lua"'; cat hooked.lua; } >outside.lua
sed 's/on_step = function(m).*end end/on_step = function() dofile "execute.lua" end/' hooked.lua >inside.lua
timeout 60 "$GRPO" run inside.lua --quiet train.steps=1 2>err | head -5 >inside
timeout 60 "$GRPO" check outside.lua 2>err2 | head -5 >outside
result "os.execute gives what Lua's own does" "$([ "$(head -3 inside | tr '\t\n' '  ')" = 'nil exit 3 nil signal 9 true exit 0 ' ] && cmp inside outside || show inside outside err err2)"

# A call of C that waits is late, but not forgotten.
experiment waits.lua 'train = { steps = 1, prompts_per_step = 1 }, reward = { on_error = "zero" }, limits = { reward = { seconds = 0.1 } }' \
  '{ name = "waits", fn = function() os.execute("sleep 0.2") return 1 end }'
timeout 60 "$GRPO" run waits.lua --quiet >out 2>err; status=$?
result "a reward that waits too long in a call of C stops the run" \
  "$([ $status = 1 ] && grep -q '^grpo: rewards\.waits: waits\.lua:[0-9]*: took longer than 0\.1 seconds' err || { echo "status $status"; cat err; })"

# --memory: what the engine and Lua hold together
# limited NAME SIZE FILE PATTERN : a run with SIZE of memory ends with status 5 and one line, which matches and says what was in
# use, what was needed and what to do
limited() {
  timeout 60 "$GRPO" run "$3" --memory "$2" --quiet --dir limited >out 2>err; status=$?
  result "$1" "$([ $status = 5 ] && [ "$(wc -l <err)" = 1 ] && grep -qE "^grpo: $4; --memory is ${2%M} MiB(, and [0-9]+ MiB in use and [0-9]+ more do not fit: raise it to at least [0-9]+M|: raise it( to at least [0-9]+M)?), or need less$" err || { echo "status $status"; cat err; })"
}
experiment plain.lua 'train = { steps = 2, prompts_per_step = 2 }'
timeout 60 "$GRPO" run plain.lua --memory 64M --quiet >out 2>err; status=$?
result "a run that needs less than --memory" "$([ $status = 0 ] || show err)"
{ echo 'local t = {} for i = 1, 1e9 do t[i] = { i } end'; cat plain.lua; } >greedy.lua
limited "a script that fills a table" 40M greedy.lua '.*not enough memory.*'
{ echo 'require("grpo").zeros({ 4096, 4096 })'; cat plain.lua; } >tensor.lua
limited "a tensor" 40M tensor.lua 'tensor\.lua:1: zeros: the result takes 64 MiB, and 3[0-9.]+ MiB are left'
sed 's/hidden_size = 32, intermediate_size = 64/hidden_size = 1024, intermediate_size = 4096/' plain.lua >wide.lua
limited "a model" 40M wide.lua 'model\.config: its weights take 26[0-9] MiB and 3[0-9] MiB are free; no number of layers fits, so make hidden_size, .* smaller'
result "whose advice has the figures" "$(grep -qE 'and [0-9] MiB in use and 26[0-9] more do not fit: raise it to at least 2[0-9]+M' err || show err)"
# a stage or a model that does not fit: what would, each with its figure, and what is advised is enough
# long FILE MODEL : an experiment with long texts
long() {
  cat >"$1" <<END
local grpo = require "grpo"
return grpo.experiment { name = "long", model = { $2 },
  data = { train = grpo.data.list { { prompt = "a" } }, max_prompt_tokens = 512 }, sampling = { group_size = 16, max_new_tokens = 2048 },
  rewards = { function(text) return #text end }, train = { steps = 1, prompts_per_step = 2 } }
END
}
long long.lua 'tokenizer = grpo.tokenizer.chars("ab"), config = { model_type = "llama", hidden_size = 128, intermediate_size = 256,
  num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 4096 }'
long frozen.lua 'path = "saved", dtype = "f32", lora = { rank = 4 }'
needs='the stage needs up to [0-9]+ MiB \(weights and gradients [0-9]+, optimizer [0-9]+, activations [0-9]+, cache [0-9]+\) and [0-9]+ are free for it'
limited "a stage" 200M long.lua "$needs; it fits with sampling\\.max_new_tokens = [0-9]+ \\([0-9]+ MiB\\).*"
fitting=$(grep -oE 'sampling\.max_new_tokens = [0-9]+' err | tr -d ' ')
timeout 60 "$GRPO" run long.lua "$fitting" --memory 200M --quiet >out 2>err; status=$?
result "runs with what is advised ($fitting)" "$([ $status = 0 ] || show err)"
limited "a stage that one change does not make fit" 40M long.lua \
  "$needs; it fits with all of these: model\\.gradient_checkpointing = true, sampling\\.max_new_tokens = [0-9]+, .* \\([0-9]+ MiB\\)"
limited "a stage that nothing makes fit" 8M long.lua "$needs; it does not fit even with all of these: .*, so take a smaller model"
cat >save.lua <<'END'
local grpo = require "grpo"
grpo.model.new({ model_type = "llama", hidden_size = 512, intermediate_size = 1024, num_hidden_layers = 4, num_attention_heads = 8,
  max_position_embeddings = 4096 }, { tokenizer = grpo.tokenizer.chars("ab") }):save("saved")
END
echo 'dofile "save.lua"' | "$GRPO" repl >/dev/null 2>&1
timeout 60 "$GRPO" run frozen.lua --memory 45M --quiet >out 2>err; status=$?
result "weights" "$([ $status = 5 ] && grep -qE "^grpo: saved: the weights take [0-9]+ MiB in the form 'f32' and 4[0-9] MiB are free; frozen, beside an adapter or to generate, they fit with dtype = \"bf16\" \([0-9]+ MiB\), quantize = \"int8\" \([0-9]+ MiB\), quantize = \"nf4\" \([0-9]+ MiB\)" err || { echo "status $status"; cat err; })"
timeout 60 "$GRPO" run frozen.lua --memory 4M --quiet >out 2>err; status=$?
result "weights that fit in no form" "$([ $status = 5 ] && grep -qE "no form of them fits, not even dtype .*quantize = \"nf4\" \([0-9]+ MiB\), so take a smaller model" err || { echo "status $status"; cat err; })"
short='sampling.max_new_tokens=16 data.max_prompt_tokens=16 sampling.group_size=2 train.prompts_per_step=1'
# shellcheck disable=SC2086
timeout 60 "$GRPO" run frozen.lua $short --memory 90M --quiet >out 2>err; status=$?
result "a stage beside a base that may be stored smaller" "$([ $status = 5 ] && grep -qE "^grpo: $needs; it fits with model\.dtype = \"bf16\" \([0-9]+ MiB\), or model\.quantize = \"int8\" \([0-9]+ MiB\), or model\.quantize = \"nf4\" \([0-9]+ MiB\)" err || { echo "status $status"; cat err; })"
# shellcheck disable=SC2086
timeout 60 "$GRPO" run frozen.lua $short model.dtype=bf16 --memory 90M --quiet >out 2>err; status=$?
result "which then runs" "$([ $status = 0 ] || show err)"
experiment hungry.lua 'train = { steps = 2, prompts_per_step = 2 }, limits = { reward = { memory = 2^30 } }, reward = { on_error = "zero" }' \
  '{ name = "hungry", fn = function() local t = {} for i = 1, 1e6 do t[i] = { i } end return 1 end }'
limited "a reward, whatever on_error says" 40M hungry.lua '.*rewards\.hungry: not enough memory.*'
# the advice leads to a size that is enough, from whatever size
for size in 1M 2M 3M 6M; do
  tries=0 now=$size status=5
  while [ $status = 5 ] && [ $tries -lt 4 ]; do
    timeout 60 "$GRPO" run plain.lua --memory $now --quiet --dir limited >out 2>err; status=$?
    tries=$((tries + 1)) before=$now
    now=$(grep -oE 'raise it to at least [0-9]+M' err | grep -oE '[0-9]+M')
    [ -n "$now" ] || now=$before
  done
  result "--memory $size: what is advised is enough ($before, at the second try)" "$([ $status = 0 ] && [ $tries -le 2 ] || { echo "$tries tries, status $status"; cat err; })"
done
sed 's/num_hidden_layers = 2/num_hidden_layers = 16/; s/hidden_size = 32, intermediate_size = 64/hidden_size = 256, intermediate_size = 1024/' plain.lua >deep.lua
limited "a model with many layers" 40M deep.lua 'model\.config: its weights take [0-9]+ MiB and 3[0-9] MiB are free; it fits with num_hidden_layers = [0-9]+ \([0-9]+ MiB\)'
sed 's/num_hidden_layers = 2/num_hidden_layers = 48/; s/hidden_size = 32, intermediate_size = 64/hidden_size = 8192, head_dim = 128, intermediate_size = 32768/; s/num_attention_heads = 2/num_attention_heads = 64/' plain.lua >vast.lua
timeout 60 "$GRPO" run vast.lua --quiet >out 2>err; status=$?
result "a model that the machine has no memory for" "$([ $status = 5 ] && grep -qE '^grpo: model\.config: its weights take [0-9]+ MiB and [0-9]+ MiB are free; (it fits with num_hidden_layers = |no number of layers fits)[^-]*$' err || { echo "status $status"; cat err; })"
timeout 60 "$GRPO" run plain.lua --memory 3Q >out 2>err; status=$?
result "a size that is none" "$([ $status = 2 ] && grep -q "^grpo: run: --memory: '3Q' is not a size of at least 1M, such as 500M or 8G" err || show err)"
finish
