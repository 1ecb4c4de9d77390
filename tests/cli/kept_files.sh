#!/usr/bin/env bash
# What a run reads beside its script and modules: files of extends, dofile and loadfile are kept with it, data and
# models are inputs.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
export GRPO_RELOAD_ALWAYS=1
mkdir in && cd in || exit 1 # so that "../" is in the test's own directory

# begun SCRIPT NAME [ARGUMENT...] : runs/NAME ends after four of eight steps
begun() { "$GRPO" run "$1" --quiet --threads 1 --as "$2" --steps 4 "${@:3}" </dev/null >out 2>err || show out err; }
whole() { "$GRPO" run "$1" --quiet --threads 1 --as "$2" "${@:3}" </dev/null >out 2>err || show out err; }
resumed() { "$GRPO" run --resume="runs/$1" --quiet --threads 1 "${@:2}" </dev/null >out 2>err; status=$?; }
# rates NAME : the learning rates of a run's steps, each once
rates() { grep -oE '"learning_rate": [0-9.e-]+' "runs/$1/metrics.jsonl" | cut -d' ' -f2 | uniq | tr '\n' ' '; }

# ---- extends -------------------------------------------------------------------------------------
mkdir -p conf
tail='train = { steps = 8, prompts_per_step = 2 }, checkpoint = { every = 2, keep = 9 }'
for name in base.json conf/base.json ../up.json "$work/whole.json"; do
  file=$name
  text='{"train": {"lr": 0.01}}'; edited='{"train": {"lr": 0.1}}'
  experiment e.lua "extends = \"$file\", $tail"
  rm -rf runs; echo "$text" >"$file"
  whole e.lua ref; begun e.lua kill; begun e.lua gone
  echo "$edited" >"$file"
  resumed kill
  result "extends $name: an edit between stop and resume changes nothing, and is said" \
    "$([ "$status $(rates kill)" = '0 0.01 ' ] && grep -qF "$file has changed since, but the run continues with the copy" err || { rates kill; show err; })"
  result "extends $name: the run is the one that was not stopped" "$(different runs/ref runs/kill)"
  "$GRPO" replay ref 8 --regenerate --count 0 >out 2>err
  result "extends $name: a step is sampled again, the same" "$(grep -q '^8 of 8 completions are the same again$' out || show out err)"
  rm "$file"; resumed gone
  result "extends $name: without the file on disk the copy is there" "$([ "$status $(rates gone)" = '0 0.01 ' ] || show err)"
done
echo '{"train": {"lr": 0.01}}' >base.json; experiment e.lua "extends = \"base.json\", $tail"
rm -rf runs; begun e.lua kill; cp -a runs/kill runs/old; whole e.lua ref
sed 's/0.01/0.1/' base.json >two && mv two base.json
"$GRPO" run e.lua --resume=runs/kill --force --quiet --threads 1 </dev/null >out 2>err
result "--force takes the file as it is now" "$([ "$(rates kill)" = '0.01 0.1 ' ] || { rates kill; show err; })"
result "and says which file has changed" "$([ "$(grep -c '^grpo: note: base.json has changed since, and the run continues with what is on disk, because of --force$' err)" = 1 ] &&
  grep -q '"files": \["base.json"\]' runs/kill/events.jsonl || show err runs/kill/events.jsonl)"
"$GRPO" diff ref kill >out 2>err
result "and diff says so" "$(grep -q 'changed at step 4: reload source/reload-001' out && grep -q 'source reload-001/files/base.json: only in kill' out || show out err)"
whole e.lua edited; "$GRPO" diff ref edited >out 2>err
result "diff names the file that differs" "$(grep -qx 'source files/base.json: differs' out || show out err)"
rm -r runs/old/source/files && unsummed runs/old
resumed old
result "a run without a copy says that it gets one" \
  "$([ $status = 0 ] && grep -q 'base.json was not saved with the run, so it is taken, and saved, as it is now' err && cmp -s base.json runs/old/source/files/base.json || show err)"
begun e.lua other; echo '{"train": {"lr": 0.5}}' >second.json
resumed other extends=second.json --steps 6
echo '{"train": {"lr": 0.7}}' >second.json; resumed other
result "a file that a resume named is kept from then on" "$([ "$status $(rates other)" = '0 0.1 0.5 ' ] || { rates other; show err; })"

# ---- a file of settings, with what it reads ---------------------------------------------------------
cat >settings.json <<'JSON'
{
  "extends": "base.json",
  "model": { "config": "shape.json", "tokenizer": { "kind": "chars", "path": "letters.txt" } },
  "data": { "train": { "path": "rows.jsonl" }, "max_prompt_tokens": 8 },
  "sampling": { "group_size": 4, "max_new_tokens": 6 },
  "rewards": { "gsm8k.correct": 1.0 },
  "train": { "steps": 8, "prompts_per_step": 2 },
  "checkpoint": { "every": 2 }
}
JSON
echo '{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64}' >shape.json
printf '{"prompt": "1+2=", "answer": "3"}\n{"prompt": "2+2=", "answer": "4"}\n' >rows.jsonl; printf '0123456789+=' >letters.txt
echo '{"train": {"lr": 0.01}}' >base.json
rm -rf runs; whole settings.json ref; begun settings.json kill
echo '{"train": {"lr": 0.1}}' >base.json; sed -i 's/"max_new_tokens": 6/"max_new_tokens": 7/' settings.json; resumed kill
result "a file of settings and the file that it extends: edits change nothing, and are said" \
  "$([ $status = 0 ] && grep -q 'settings.json and base.json have changed since, but the run continues with the copies' err || show err; different runs/ref runs/kill)"
for name in letters.txt shape.json rows.jsonl; do
  begun settings.json "$name"; cp $name whole; echo >>$name; resumed "$name"; mv whole $name
  result "$name, which a file of settings names, is an input" \
    "$([ $status = 2 ] && grep -q "$name has changed; --force" err || show err)"
done
experiment built.lua 'extends = "configs/train/small.json", train = { steps = 4 }, checkpoint = { every = 2 }'
whole built.lua built --steps 2
result "a file that comes with grpo is kept, too" "$(cmp "$root/configs/train/small.json" runs/built/source/files/configs/train/small.json 2>&1; show_if_bad=$(cat err); [ -z "$show_if_bad" ] || echo "$show_if_bad")"
mkdir -p configs/train && echo '{"train": {"lr": 0.5}}' >configs/train/small.json; resumed built
result "and one that takes its place on disk changes nothing" "$([ $status = 0 ] && ! rates built | grep -q '0\.5 ' || { rates built; show err; })"
rm -r configs

# ---- dofile, loadfile, and what is read with io ----------------------------------------------------
answer='function(text, row) return text:find(row.answer, 1, true) ~= nil end'
other='function(text) return #text end'
for call in 'dofile "lib.lua"' 'dofile "./lib.lua"' 'dofile "conf/../lib.lua"' 'assert(loadfile("lib.lua"))()' 'require("part").fn'; do
  experiment d.lua "$tail" "{ name = \"correct\", fn = $call }"
  echo 'return { fn = dofile "lib.lua" }' >part.lua
  rm -rf runs; echo "return $answer" >lib.lua
  whole d.lua ref; begun d.lua kill; begun d.lua gone
  echo "return $other" >lib.lua
  resumed kill
  result "$call: an edit changes nothing, and is said" \
    "$([ $status = 0 ] && grep -q 'lib.lua has changed since, but the run continues' err || show err; different runs/ref runs/kill)"
  rm lib.lua; resumed gone
  result "$call: without the file the copy is there" "$([ $status = 0 ] || show err; different runs/ref runs/gone)"
done
experiment later.lua "$tail" '{ name = "correct", fn = function(...) chunk = chunk or load_later() return chunk(...) end }'
sed -i '1i local f = loadfile("lib.lua"); local chunk; local function load_later() return f() end' later.lua
rm -rf runs; echo "return $answer" >lib.lua; whole later.lua ref; begun later.lua kill; echo "return $other" >lib.lua; resumed kill
result "loadfile, called later: an edit changes nothing" "$([ $status = 0 ] || show err; different runs/ref runs/kill)"

# a script, and a module of it, that find a file beside themselves, from their own place
mkdir -p beside/sub
echo 'return dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "deep.lua")' >beside/sub/init.lua
echo 'return dofile((select(2, ...):match("^(.*/)")) .. "deep.lua")' >beside/sub/named.lua
for call in 'dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "sub/deep.lua")' 'require("sub")' 'require("sub.named")'; do
  experiment beside/b.lua "$tail" "{ name = \"correct\", fn = $call }"
  rm -rf runs; echo "return $answer" >beside/sub/deep.lua; whole beside/b.lua ref; begun beside/b.lua kill; cp -a runs/kill runs/forced
  resumed kill
  result "beside itself, $call: a resume" "$([ $status = 0 ] || show err; different runs/ref runs/kill)"
  "$GRPO" run beside/b.lua --resume=runs/forced --force --quiet --threads 1 </dev/null >out 2>err; status=$?
  result "beside itself, $call: a resume with --force" "$([ $status = 0 ] || show err; different runs/ref runs/forced)"
  echo "return $other" >beside/sub/deep.lua; rm -rf runs/kill; begun beside/b.lua kill; echo "return $answer" >beside/sub/deep.lua; resumed kill
  result "beside itself, $call: an edit changes nothing, and is said" "$(grep -q 'beside/sub/deep.lua has changed since, but the run continues' err || { echo $status; show err; })"
done

for read in 'io.open("lib.lua"):read("a")' 'io.open("lib.lua", "rb"):read("a")' \
    '(function() local t = {} for l in io.lines("lib.lua") do t[#t + 1] = l end return table.concat(t, "\n") end)()' \
    '(function() io.input("lib.lua") return io.read("a") end)()'; do
  experiment r.lua "$tail" "{ name = \"correct\", fn = load($read)() }"
  rm -rf runs; echo "return $answer" >lib.lua; begun r.lua kill; cp -a runs/kill runs/forced
  echo "return $other" >lib.lua; resumed kill
  result "$read: an edited file is refused as data is" \
    "$([ "$status $(wc -l <err)" = '2 1' ] && grep -q 'lib.lua has changed; --force resumes all the same' err || show err)"
  resumed forced --force
  result "$read: --force is recorded" "$([ $status = 0 ] && grep -q '"changed": \["lib.lua has changed' runs/forced/events.jsonl || show err runs/forced/events.jsonl)"
done
experiment w.lua "$tail"
sed -i '1i io.open("mine.txt", "w"):write(os.time()):close(); io.open("/dev/urandom"):close(); io.open("/proc/self/stat"):close(); mkfifo()' w.lua
sed -i '1i local function mkfifo() end' w.lua
rm -rf runs; begun w.lua kill
result "files that are written, and those of the system, are no inputs" "$(grep -E 'mine|urandom|proc' runs/kill/inputs.json; cat err)"

# ---- a file changes while the run trains ------------------------------------------------------------
echo "return $answer" >lib.lua; echo '{"train": {"lr": 0.01}}' >base.json
experiment hot.lua "extends = \"base.json\", $tail, hooks = { on_step = function(_, tr)
  if tr.step_count == 3 and os.getenv 'EDIT' then os.execute(os.getenv 'EDIT') end
  if tr.step_count == tonumber(os.getenv 'KILL' or 0) then os.execute 'kill -9 \$PPID' end end }" \
  '{ name = "correct", fn = dofile "lib.lua" }'
edit="echo '{\"train\": {\"lr\": 0.1}}' >base.json; echo 'return function() return 7 end' >lib.lua"
rm -rf runs; EDIT=$edit whole hot.lua hot
result "an extends file and a dofile file are loaded again while the run trains" \
  "$([ "$(rates hot)" = '0.01 0.1 ' ] && grep -q 'reloaded at step 3: base.json, lib.lua' runs/hot/run.log && grep -q 'return 7' runs/hot/source/reload-001/files/lib.lua || { cat runs/hot/run.log; rates hot; })"
echo "return $answer" >lib.lua; echo '{"train": {"lr": 0.01}}' >base.json
{ EDIT=$edit KILL=7 "$GRPO" run hot.lua --quiet --threads 1 --as hotkill </dev/null; } >/dev/null 2>&1
rm lib.lua base.json; resumed hotkill
result "a resume repeats that with the copies" "$([ $status = 0 ] || show err; different runs/hot runs/hotkill)"

# ---- replay says what has changed -------------------------------------------------------------------
experiment n.lua "$tail" '{ name = "n", fn = function(text) return #text * n end }'
sed -i '1i local n = tonumber(io.open("n.txt"):read("a"))' n.lua
rm -rf runs; echo 1 >n.txt; whole n.lua n; echo 2 >n.txt
"$GRPO" replay n 3 --regenerate --count 0 >out 2>err
result "replay names an input that has changed" "$(grep -q 'note: n.txt has changed, since the run began' err || show out err)"
rm n.txt; "$GRPO" replay n 3 --regenerate --count 0 >out 2>err
result "and one that is gone" "$(grep -q 'note: n.txt is missing, since the run began' err || show out err)"

# ---- models ------------------------------------------------------------------------------------------
# changed NAME : a byte of the weights in a directory of that name is another
changed() { printf '\252' | dd of="$1/model.safetensors" bs=1 seek=$(($(stat -c %s "$1/model.safetensors") - 3)) conv=notrunc 2>/dev/null; }
rm -rf runs; experiment m.lua "$tail"; whole m.lua made; cp -rL runs/made/latest ref; rm ref/manifest.json; cp -r "$root/tests/cases/classifier/llama" judge
experiment judged.lua "$tail" '{ name = "judge", group_fn = judge.group_fn }'
sed -i '2i local judge = grpo.reward_model("judge", { tokenizer = grpo.tokenizer.chars("0123456789+=") })' judged.lua
experiment near.lua "reference = \"ref\", train = { steps = 8, prompts_per_step = 2, kl = 0.1 }"
experiment staged.lua 'stages = { { kind = "grpo", reference = "ref", train = { steps = 8, prompts_per_step = 2, kl = 0.1 } } }'
experiment token.lua "$tail"; sed -i 's/tokenizer = .*/tokenizer = grpo.tokenizer.load "ref" },/; /^  },$/d' token.lua
for one in judged:judge near:ref staged:ref; do
  begun ${one%:*}.lua kill-$one; cp -a runs/kill-$one runs/forced-$one; cp -a ${one#*:} kept
  result "the weights in ${one#*:} are an input of ${one%:*}.lua" \
    "$(grep -qF "\"path\": \"${one#*:}/model.safetensors\"" runs/kill-$one/inputs.json || show err runs/kill-$one/inputs.json)"
  changed ${one#*:}; resumed kill-$one
  result "a resume of ${one%:*}.lua with other ones is refused" \
    "$([ "$status $(wc -l <err)" = '2 1' ] && grep -q "${one#*:}/model.safetensors has changed; --force" err || show err)"
  resumed forced-$one --force
  result "--force takes them, and that is recorded" "$([ $status = 0 ] && grep -q "${one#*:}/model.safetensors has changed (" runs/forced-$one/events.jsonl || show err)"
  rm -r ${one#*:}; mv kept ${one#*:}
done
begun token.lua token
result "files of a tokenizer are inputs; weights beside them are not" \
  "$(grep -q '"path": "ref/tokenizer.json"' runs/token/inputs.json && ! grep -q safetensors runs/token/inputs.json || show err runs/token/inputs.json)"
finish
