#!/usr/bin/env bash
# Ranks that are not of one run: other options, words, sources, files, kernels or programs end all of them with one line.
# TAP on stdout; without mpirun, or built without MPI's header, everything is skipped.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"
[ -z "${RUN:-}" ] || { echo "ok 1 - ranks # SKIP built for another machine"; echo 1..1; exit 0; }

# pair WORDS0 - WORDS1 : two ranks with these words behind `env`; stops after 60 s
pair() {
  local first=() second=()
  while [ "$1" != - ]; do first+=("$1"); shift; done
  shift; second=("$@")
  case ${kind:?} in
    openmpi) timeout -k 5 60 mpirun.openmpi --oversubscribe --bind-to none -n 1 env "${first[@]}" : -n 1 env "${second[@]}" ;;
    mpich) timeout -k 5 60 mpirun.mpich -n 1 env "${first[@]}" : -n 1 env "${second[@]}" ;;
  esac
}
host=$(hostname)

experiment exp.lua 'train = { steps = 3, prompts_per_step = 2, lr = 1e-2 }' '' 'train = grpo.data.load("rows.jsonl")'
for a in 1 2 3 4 5 6 7 8; do echo "{\"prompt\": \"$a+1=\", \"answer\": \"$((a + 1))\"}"; done >rows.jsonl
echo 'return function(text) return #text / 6 end' >judge.lua
experiment module.lua 'train = { steps = 3, prompts_per_step = 2, lr = 1e-2 }' '(require "judge")'
experiment stages.lua 'stages = { { kind = "grpo", train = { steps = 1, lr = tonumber(os.getenv("LR") or 1e-2) } }, { kind = "grpo", train = { steps = 1 } } }'
experiment generated.lua 'train = { steps = 2 }' '' 'train = grpo.data.list { { prompt = os.getenv("PROMPT") or "1+1=" } }'
sed 's/train = {/extends = "base.json", train = {/' exp.lua >extended.lua
echo '{"seed": 3}' >base.json
echo 'return function(text) return #text / 6 end' >lib.lua
experiment dofile.lua 'train = { steps = 3 }' '(dofile "lib.lua")'
experiment loadfile.lua 'train = { steps = 3 }' '(loadfile("./lib.lua")())'
experiment open.lua 'train = { steps = 3 }' '(load(io.open("lib.lua"):read("a"))())'
"$GRPO" run exp.lua --quiet --dir one --threads 1 >/dev/null 2>err || show err
"$GRPO" run exp.lua --quiet --dir one --as model --threads 1 >/dev/null 2>err || show err
sed "s|    config = .*|    path = \"one/model\",|; /^      num_attention_heads/d; s/^    tokenizer = .*//" exp.lua >path.lua
# elsewhere FILE COMMAND : a copy of this directory in which a command has changed a file
elsewhere() { rm -rf other; mkdir other; cp -r ./*.lua ./*.json ./*.jsonl one other; (cd other && eval "$1"); }
cp "$(readlink -f "$GRPO")" stripped && strip stripped 2>/dev/null && printf x >>stripped
ln -s "$(dirname "$(readlink -f "$GRPO")")"/libgrpo-*.so .

# refused NAME PATTERN WORDS... : status 2, one line, and nothing is written; of MPICH one of each kind is enough
refused() {
  local name=$1 pattern=$2 status; shift 2
  [[ $kind = openmpi || $name =~ rate|--steps|text|kernels|program$ ]] || return
  rm -rf new
  pair "$@" >out 2>err; status=$?
  result "$kind: $name" "$({ [ $status = 2 ] && [ "$(grep -c '^grpo: ' err)" = 1 ] && grep -qE "^grpo: rank 1 on $host: $pattern" err && [ ! -e new ]; } ||
    { echo "status $status, want 2 and $pattern"; show err; ls new 2>/dev/null; })"
}
go=("$GRPO" run exp.lua --quiet --dir new --threads 1)
for kind in openmpi mpich; do
  if ! has $kind; then
    result "$kind: # SKIP its mpirun or its header is not here"
    continue
  fi
  same='so it is not the same run; start all ranks with the same words and files$'
  refused "another learning rate" "train.lr is 0.1 there and 0.01 on rank 0, $same" "${go[@]}" - "${go[@]}" train.lr=0.1
  refused "another seed" "seed is 5 there and 0 on rank 0, $same" "${go[@]}" - "${go[@]}" seed=5
  refused "several options" "sampling.group_size is 2 there and 4 on rank 0, and 1 more differ, $same" "${go[@]}" - "${go[@]}" train.kl=0.1 sampling.group_size=2 reference=initial
  refused "an option of one stage" "stages.1.train.lr is 0.1 there and 0.01 on rank 0" "$GRPO" run stages.lua --dir new --threads 1 - LR=0.1 "$GRPO" run stages.lua --dir new --threads 1
  refused "--steps" "--steps is 2 there and not set on rank 0" "${go[@]}" - "${go[@]}" --steps 2
  refused "--as" "--as is not set there and x on rank 0" "${go[@]}" --as x - "${go[@]}"
  refused "--dir" "--dir is new2 there and new on rank 0" "${go[@]}" - "${go[@]/new/new2}"
  refused "--arg" "--arg n is 2 there and 1 on rank 0" "${go[@]}" --arg n=1 - "${go[@]}" --arg n=2
  refused "--resume" "--resume is not set there and one/exp-001 on rank 0" "$GRPO" run --resume=one/exp-001 --quiet --dir new - "$GRPO" run exp.lua --quiet --dir new
  refused "another script" "script is module.lua there and exp.lua on rank 0" "${go[@]}" - "${go[@]/exp.lua/module.lua}"
  elsewhere 'echo "-- other" >>exp.lua'
  refused "a script of another text" "exp.lua is [0-9]+ bytes with CRC-32C [0-9a-f]{8} there and [0-9]+ bytes with" "${go[@]}" - --chdir=other "${go[@]}"
  elsewhere 'echo "-- other" >>judge.lua'
  refused "a module of another text" "[./]*judge.lua is [0-9]+ bytes" "${go[@]/exp.lua/module.lua}" - --chdir=other "${go[@]/exp.lua/module.lua}"
  elsewhere 'echo "{\"seed\": 4}" >base.json'
  refused "another extends file" "(base.json is [0-9]+ bytes|seed is 4 there and 3)" "${go[@]/exp.lua/extended.lua}" - --chdir=other "${go[@]/exp.lua/extended.lua}"
  elsewhere 'echo "-- other" >>lib.lua'
  for one in dofile loadfile open; do
    refused "a file of another text that the script reads with $one" "(\./)?lib.lua is 52 bytes with .* there and 43 bytes with .* on rank 0, $same" \
      "${go[@]/exp.lua/$one.lua}" - --chdir=other "${go[@]/exp.lua/$one.lua}"
  done
  elsewhere 'sed -i s/1+1=/1+0=/ rows.jsonl'
  refused "other rows in a file" "row 1/1 is .*, and 1 more differ|rows.jsonl is [0-9]+ bytes" "${go[@]}" - --chdir=other "${go[@]}"
  refused "other rows that the script makes" "row 1/1 is [0-9a-f]{8} there and [0-9a-f]{8} on rank 0" "${go[@]/exp.lua/generated.lua}" - PROMPT=2+2= "${go[@]/exp.lua/generated.lua}"
  elsewhere 'cp -rL one/model m; rm -r one/model; mv m one/model; f=$(echo one/model/checkpoints/*/model.safetensors | cut -d" " -f1); for f in one/model/checkpoints/*/model.safetensors; do printf "\1" | dd of=$f bs=1 seek=$(($(stat -c %s $f) - 3)) conv=notrunc 2>/dev/null; done'
  refused "a model of other weights" ".*model.safetensors is [0-9]+ bytes with" "${go[@]/exp.lua/path.lua}" - --chdir=other "${go[@]/exp.lua/path.lua}"
  refused "other kernels" "its kernels are portable and those of rank 0 are [a-z0-9]+, so its bits could differ; set GRPO_CPU" "${go[@]}" - GRPO_CPU=generic "${go[@]}"
  refused "another program" "its program has [0-9]+ bytes with .* and that of rank 0 has .*; start the same build on both" "${go[@]}" - "$work/stripped" "${go[@]:1}"
  refused "other Lua files of the program" "its Lua files are $root/lua and those of rank 0 are its own" "${go[@]}" - GRPO_LUA="$root/lua" "${go[@]}"

  rm -rf new
  pair "${go[@]}" - "$GRPO" run exp.lua --dir new --threads 2 >out 2>err; status=$?
  result "$kind: threads and --quiet may differ" "$([ $status = 0 ] || show err; different one/exp-001 new/exp-001)"
  elsewhere 'rm rows.jsonl'; rm -rf new
  pair "${go[@]}" - --chdir=other "${go[@]}" >out 2>err; status=$?
  result "$kind: a file that one rank alone does not have" "$({ [ $status = 3 ] && [ "$(grep -c '^grpo: ' err)" = 1 ] && grep -q '^grpo: rank 1 of 2: .*rows.jsonl' err; } || show err)"
  elsewhere true; rm -rf new
  pair "${go[@]}" - --chdir=other "${go[@]}" >out 2>err; status=$?
  result "$kind: so may the directory, if it has the same files" "$([ $status = 0 ] || show err; different one/exp-001 new/exp-001; ls other/new 2>/dev/null)"
  pair "$GRPO" run --resume=new/exp-001 --quiet - "$GRPO" run --resume=new/exp-001 --quiet --force >out 2>err; status=$?
  result "$kind: a resume that one rank forces" "$({ [ $status = 2 ] && grep -q 'rank 1 on .*: --force is given there and not set on rank 0' err; } || show err)"
  rm -rf new
  pair "${go[@]}" --steps 2 - "${go[@]}" --steps 2 >/dev/null 2>err || show err
  pair "$GRPO" run --resume=new/exp-001 --quiet - "$GRPO" run --resume=new/exp-001 --quiet train.lr=0.5 >out 2>err; status=$?
  result "$kind: a resume with another option on one rank" "$({ [ $status = 2 ] && grep -q 'rank 1 on .*: train.lr is 0.5 there and 0.01 on rank 0' err; } || show err)"
  for one in "1:0.01:step-000001 .*there and step-000002 " "2:0.5:step-000002 .*there and step-000002 "; do
    IFS=: read -r steps rate pattern <<<"$one"
    elsewhere 'cp -r ../new .; rm -r new/exp-001/checkpoints'; rm -rf odd
    "$GRPO" run exp.lua --quiet --dir odd --threads 1 --steps $steps train.lr=$rate >/dev/null 2>err || show err
    cp -r odd/exp-001/checkpoints other/new/exp-001
    pair "$GRPO" run --resume=new/exp-001 --quiet - --chdir=other "$GRPO" run --resume=new/exp-001 --quiet >out 2>err; status=$?
    result "$kind: a resume from another checkpoint on one rank, of step $steps" \
      "$({ [ $status = 2 ] && [ "$(grep -c '^grpo: ' err)" = 1 ] && grep -qE "rank 1 on .*: checkpoint is $pattern.*, $same" err; } || { echo $status; show err; })"
  done
  pair "$GRPO" run --resume=new/exp-001 --quiet - "$GRPO" run --resume=new/exp-001 --quiet >out 2>err; status=$?
  result "$kind: the run can still be resumed" "$([ $status = 0 ] || show err; cmp {one,new}/exp-001/latest/model.safetensors 2>&1)"
done
finish
