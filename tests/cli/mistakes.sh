#!/usr/bin/env bash
# Faults planted in rewards; first steps that go astray, and what they are told.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

# says NAME STATUS PATTERN COMMAND... : exit status, and a line of stdout or stderr that matches
says() {
  local name=$1 want=$2 pattern=$3 status problem=''; shift 3
  timeout ${LIMIT:-120} "$@" >out 2>&1 </dev/null; status=$?
  [ "$want" = any ] || [ $status = "$want" ] || problem+="exit status $status, want $want"$'\n'
  grep -qE "$pattern" out || problem+="nothing matches: $pattern"$'\n'
  result "$name" "${problem:+$problem$(head -n 40 out)}"
}

# planted NAME REWARD : NAME.lua, sums with demonstrations and this reward (Lua source of a function)
planted() {
  experiment "$1.lua" 'stages = { { kind = "sft", train = { steps = 2, prompts_per_step = 8 } },
    { kind = "grpo", train = { steps = 12, prompts_per_step = 8 } } },' "{ name = \"correct\", fn = $2 }" \
    'train = grpo.data.list(rows):take(90), eval = grpo.data.list(rows):skip(90), target = function(row) return row.answer end'
}

# ---- faults in rewards -----------------------------------------------------------------------------------------------------
planted good 'function(text, row) return text == row.answer end'
planted leaves 'function() os.exit(3) end'
says "a call that rewards may not make is no loop" 1 'os\.exit is not available in rewards, schedules and hooks \(completion' \
  "$GRPO" run leaves.lua --quiet

# ---- math.random wherever a script may call it ------------------------------------------------------------------------------
cat >chance.lua <<'LUA'
local grpo = require "grpo"
local rows = {}
for i = 1, 50 do rows[i] = { a = math.random(0, 9) } end
return grpo.experiment {
  model = { config = { model_type = "gpt2", n_embd = 16, n_layer = 1, n_head = 2, n_positions = 64 },
    tokenizer = grpo.tokenizer.bytes() },
  data = { train = grpo.data.list(rows):map(function(row) return { a = row.a, b = math.random(0, 9) } end),
    eval = grpo.data.generate(function() return { a = math.random(0, 9), b = 1 } end, { seed = 1, n = 5 }),
    prompt = function(row) return row.a .. row.b .. math.random(0, 9) end,
    target = function(row) return tostring(row.a + math.random(0, 9)) end, max_prompt_tokens = 8 },
  sampling = { max_new_tokens = 4 }, checkpoint = { every = 1 },
  rewards = { digits = function(text) return select(2, text:gsub("%d", "")) + 0.1 * math.random() end },
  stages = { { kind = "sft", train = { steps = 3, prompts_per_step = 4 } },
    { kind = "grpo", train = { steps = 3, prompts_per_step = 4 } } },
}
LUA
check "a run with random numbers" "$GRPO" run chance.lua --quiet
check "the same again" "$GRPO" run chance.lua --quiet --steps 4
check "in two parts" "$GRPO" run --resume=runs/chance-002 --quiet
result "two runs and a resume draw the same numbers" "$(different runs/chance-001 runs/chance-002)"

# ---- first steps ----------------------------------------------------------------------------------------------------------
mkdir tests_here && cd tests_here || exit 1
cat >kinds_test.lua <<'LUA'
describe("kinds", function()
  it("busted's checks of types", function()
    assert.is_number(1) assert.is_string("") assert.is_table({}) assert.is_boolean(false) assert.is_function(print)
    assert.is_not.number("1") assert.is_not.is_string(1)
  end)
  it("fails", function() assert.is_number("1") end)
end)
LUA
says "test without words looks here when there is no rewards/" 1 '^1 passed, 1 failed' "$GRPO" test
result "a failed check of a type says what it got" "$(grep -q 'expected a number, got "1"' out || show out)"
cd ..
echo 'return {}' >tests_here/kinds.lua
says "test FILE.lua names FILE_test.lua" 2 "did you mean 'tests_here/kinds_test.lua'" "$GRPO" test tests_here/kinds.lua

says "run" 0 '^runs/good-001$' "$GRPO" run good.lua
result "try it: as the program was called" "$(grep -qF "try it: $GRPO generate runs/good-001" out || grep 'try it' out)"
result "a sample's line gives the step that replay wants" "$(grep -qF '  step 3, prompt: ' out || show out)"
says "replay: which steps there are" 2 'steps 3 to 14; step 1 of stage 2 is step 3' "$GRPO" replay good-001 1
says "generate takes a run's name" 0 . "$GRPO" generate good-001 '1+1='
says "generate takes a run's name" 0 . "$GRPO" generate good-001 '1+1='
result "and has nothing to note of a run without tools" "$(none note: out)"
says "eval takes a run's name" 0 '^eval/accuracy' "$GRPO" eval good-001 --rows 4
says "a model that is not there, and a run of nearly that name" 3 "did you mean 'runs/good-001'" "$GRPO" generate god-001 '1+1='
says "an option without its section" 2 "^grpo: command line: lr: unknown option, did you mean 'train.lr'\?" "$GRPO" check good.lua lr=1
says "an option as a flag" 2 "options are written train\.lr=VALUE" "$GRPO" run good.lua --lr 1
says "a script that is not there" 3 "^grpo: god\.lua: no such file, did you mean 'good\.lua'\?" "$GRPO" check god.lua
says "a script without its ending" 3 "did you mean 'good\.lua'" "$GRPO" check good
{ echo 'error()'; cat good.lua; } >raised.lua
says "nil as an error says where" any '^grpo: raised\.lua:1: nil was raised as an error; ' "$GRPO" run raised.lua
says "and in a test" 1 '^ +raised\.lua:1: nil was raised as an error; ' "$GRPO" test raised.lua
planted nothing 'function() error({ code = 5 }) end'
says "a table as an error in a reward says where" 1 'rewards\.correct: nothing\.lua:[0-9]+: a table was raised as an error: \{ code = 5 \}' \
  "$GRPO" run nothing.lua --quiet
mkfifo pipe.lua pipe.json; mkdir folder.lua
LIMIT=10 says "a pipe as a script" 3 '^grpo: cannot read pipe\.lua: it is a named pipe; name a regular file$' "$GRPO" check pipe.lua
LIMIT=10 says "a directory as a script" 3 '^grpo: cannot read folder\.lua: it is a directory$' "$GRPO" check folder.lua
LIMIT=10 says "a pipe as a module" 3 "^grpo: .*module 'pipe': cannot read \./pipe\.lua: it is a named pipe; " \
  "$GRPO" check <(echo 'require "pipe"'; cat good.lua)
LIMIT=10 says "a pipe as a module of ours" 3 "module 'grpo.none': cannot read .*none\.lua: it is a named pipe; " \
  env LUA_PATH='./?.lua' bash -c 'mkdir -p grpo && mkfifo grpo/none.lua; echo "require \"grpo.none\"" | "$1" repl' _ "$GRPO"
LIMIT=10 says "a pipe as a test" any 'cannot read pipe\.lua: it is a named pipe; ' "$GRPO" test pipe.lua
LIMIT=10 says "a pipe as a dataset" 3 'cannot read pipe\.json: it is a named pipe; ' \
  "$GRPO" check <(sed 's/train = grpo.data.list(rows)/train = grpo.data.jsonl("pipe.json")/' good.lua)
LIMIT=10 says "a pipe as a model" 3 'pipe\.json: ' "$GRPO" generate pipe.json '1+1='
rm -rf pipe.* folder.lua grpo
says "an argument that the script does not ask for" 2 '^grpo: --arg modle=x: good\.lua asks for no such argument, there are none$' \
  "$GRPO" check good.lua --arg modle=x
{ echo 'local steps, lr = grpo.args.steps, grpo.args["lr"]'; sed 's/^local grpo = .*//' good.lua; } | sed '1i local grpo = require "grpo"' >asks.lua
for command in check run; do
  says "an argument that is like another one, $command" 2 "^grpo: --arg stpes=1: asks\.lua asks for no such argument, did you mean 'steps'\?$" \
    "$GRPO" $command asks.lua --arg lr=1 --arg stpes=1
done
sed 's/^local rows/if not grpo.args.model then error("no model") end\n&/' asks.lua >needs.lua
says "a misspelt argument that is needed" 2 "^grpo: --arg modle=1: needs\.lua asks for no such argument, did you mean 'model'\?$" "$GRPO" check needs.lua --arg modle=1
sed 's/^return grpo/local mine = grpo.args; local first = mine.first; local function later() return mine.second end\n&/' good.lua >alias.lua
says "an argument that is asked for later, by another name of the table" 0 'findings' "$GRPO" check alias.lua --arg second=1
says "an argument that is asked for by no name" 2 '^grpo: --arg third=1: alias\.lua asks for no such argument' "$GRPO" check alias.lua --arg third=1
says "an argument that has the name of an option" 2 '^grpo: --arg prompt=1: asks\.lua asks for no such argument, known: lr, steps$' "$GRPO" check asks.lua --arg prompt=1
"$GRPO" run <(sed 's/return grpo.experiment {/&\n  hooks = { on_start = function() return grpo.args.late end },/' good.lua) --quiet --steps 1 --as late --arg late=x >out 2>err
result "an argument for which a hook asks is taken" "$(grep 'asks for no such' err; ls runs | grep -q late || show err)"
says "reward = { function }" 2 "did you mean 'rewards'" "$GRPO" check <(sed 's/rewards = {.*/reward = { function() return 1 end },/' good.lua)
says "help of an option" 0 '^option train\.lr ' "$GRPO" help train.lr
says "help of a section: an option in one line" 0 '^  sampling\.top_k  sample from the k most probable tokens$' "$GRPO" help sampling
says "help of a section in a section" 0 '^options of train\.ppo ' "$GRPO" help train.ppo
says "help of a section names its sections, and options of its name elsewhere" 0 '^  train\.ppo\.\*  a section$' "$GRPO" help train
says "help of an option that is a section" 0 '^  model\.lora\.rank  rank of the adapter$' "$GRPO" help model.lora
says "help of run: without a script" 0 '^       grpo run --resume=RUN \[key=value' "$GRPO" help run
says "help of a function" 0 '^data\.jsonl\(path, opts\)' "$GRPO" help grpo.data.jsonl
says "help of a module" 0 '^  grpo\.tokenizer\.chars\(text, opts\)' "$GRPO" help grpo.tokenizer
says "help of everything names the modules" 0 '^  \.tokenizer ' "$GRPO" help grpo
says "help of a variable of the environment" 0 '^GRPO_CPU=VALUE, a variable of the environment: kernels ' "$GRPO" help GRPO_CPU
says "a GRPO_SHARE that is not there" 3 '^grpo: GRPO_SHARE=nowhere: no such directory; ' env GRPO_SHARE=nowhere "$GRPO" check good.lua
says "a GRPO_SHARE without what belongs there" 3 '^grpo: GRPO_SHARE=\.: has no lua/grpo/meta/grpo\.lua; ' env GRPO_SHARE=. "$GRPO" init fresh
says "a GRPO_LUA that is not there" 3 '^grpo: GRPO_LUA=nowhere: no such directory; ' env GRPO_LUA=nowhere "$GRPO" check good.lua
says "help of no name at all" 2 "^grpo: help: nothing is known of '\.'; " "$GRPO" help .
says "help rewards: what a reward is" 0 'function\(text, row, c\)' "$GRPO" help rewards
says "help of nothing known" 2 "nothing is known of 'runn', did you mean 'run'" "$GRPO" help runn
# ---- what other programs' users write --------------------------------------------------------------------------------------
# python NAME PATTERN CODE : a script with this line in front
python() { { echo 'local grpo = require "grpo"'; echo "$3"; cat good.lua; } >python.lua; says "$1" 2 "^grpo: python.lua:2: $2" "$GRPO" check python.lua; }
python "a reader that there is not" "grpo.data.jsonll: there is no such function, did you mean 'jsonl'\?" 'local d = grpo.data.jsonll("x")'
sed 's/train = grpo.data.list(rows):take(90)/train = "openai\/gsm8k"/' good.lua >named.lua
says "a name as data.train" 2 "data.train: got 'openai/gsm8k', want a dataset; write grpo.data.load\(\"openai/gsm8k\"\)$" "$GRPO" check named.lua
says "run --seed" 2 "unknown flag --seed; options are written seed=VALUE; see" "$GRPO" run good.lua --seed 3
says "run --config" 2 "unknown flag --config; a file of settings is given in place of SCRIPT; see" "$GRPO" run --config x.yaml
mkdir here && cd here || exit 1
says "init here" 0 '^next: grpo check experiment\.lua && grpo run experiment\.lua$' "$GRPO" init
cd ..
cp here/experiment.lua two.lua; cp here/sums.lua .
says "a stage that is not there" 2 '^grpo: command line: stages\.3\.train\.steps: there is no such stage; they are stages\.1 to stages\.2$' \
  "$GRPO" run two.lua stages.3.train.steps=1
says "a stage as Lua writes it" 0 '^runs/sums-[0-9]+$' "$GRPO" run two.lua 'stages[1].train.steps=1' 'stages[2].train.steps=1' --quiet
printf GGUF >model.gguf
says "eval of a model says what it takes" 2 '^grpo: eval: model\.gguf is a model; to evaluate a model, give a script: grpo eval SCRIPT model\.path=model\.gguf$' \
  "$GRPO" eval model.gguf
says "a model is not a script" 2 '^grpo: model\.gguf: a model is not a script; write a script that names it, with model = ' "$GRPO" check model.gguf
for word in quit exit help 'exit()'; do
  result "the prompt knows what '$word' wants" "$("$GRPO" repl <<LUA 2>&1
local told = ""
local s = require "grpo.commands.repl.session".new { env = {}, out = print, err = function(text) told = told .. text end }
s:run("$word")
assert(told:find("Ctrl-D or .quit leaves; .help", 1, true), told)
LUA
)"
done

finish
