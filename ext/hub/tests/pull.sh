#!/usr/bin/env bash
# grpo pull, against a server of ours that speaks the Hub's protocol and fails on demand.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/seven.bash
. "$root/tests/cli/lib/seven.bash"

server=$(dirname "$(readlink -f "$GRPO")")/tests/hub_server
skip_all() { echo "ok 1 - grpo pull # SKIP $1"; echo 1..1; exit 0; }
[ -x "$server" ] || skip_all "not built: make test builds tests/hub_server"
"$GRPO" --version | grep -q 'HTTP: libcurl' || skip_all "no libcurl"

hub=$work/hub commit=1111111111111111111111111111111111111111 newer=2222222222222222222222222222222222222222
mkdir "$hub"
mkfifo stop
"$server" "$hub" <stop & exec 9>stop
for _ in $(seq 100); do [ -e "$hub/addresses" ] && break; sleep 0.05; done
HF_ENDPOINT=$(head -n 1 "$hub/addresses"); export HF_ENDPOINT
cdn=$(tail -n 1 "$hub/addresses")
export GRPO_RETRY_SECONDS=0.02

# repository NAME COMMIT DIR : a model at the Hub
repository() {
  mkdir -p "$hub/models/$1/refs" && cp -rL "$3" "$hub/models/$1/$2" && printf %s "$2" >"$hub/models/$1/refs/main"
}
# faults LINE... : the next faults; see tests/hub_server.c
faults() { printf '%s\n' "$@" >"$hub/faults.new"; mv "$hub/faults.new" "$hub/faults"; sleep 0.02; }
fresh() { rm -rf cache; : >"$hub/log"; }
# whole NAME COMMIT : the snapshot is the repository, except for what other programs read
whole() {
  diff -r -x '*.bin' "$hub/models/$1/$2" "$HF_HUB_CACHE/models--${1//\//--}/snapshots/$2"
  find "$HF_HUB_CACHE" -name '*.incomplete' -o -name '.grpo-pull'
  [ -n "$3" ] && [ "$(cat "$HF_HUB_CACHE/models--${1//\//--}/refs/main")" != "$3" ] && echo "refs/main"
}
# nothing NAME : nothing looks whole
nothing() {
  ls "$HF_HUB_CACHE/models--${1//\//--}/snapshots" "$HF_HUB_CACHE/models--${1//\//--}/refs" 2>/dev/null
  "$GRPO" generate "$1" x >/dev/null 2>&1 && echo "the model opens"
}

learn 7 seven
echo '# Seven' >seven/README.md
repository org/seven $commit seven
head -c 400000 /dev/urandom >"$hub/models/org/seven/$commit/pytorch_model.bin"
mkdir "$hub/models/org/seven/$commit/more" && echo 'x' >"$hub/models/org/seven/$commit/more/a b%#?é.txt"
: >"$hub/models/org/seven/$commit/empty"

# ---- Hub name to chat --------------------------------------------------------------------------------------------------
says "before: the command that brings it" 3 "'grpo pull org/seven' brings it" "$GRPO" chat org/seven
fresh
is "pull prints the directory of the snapshot" "$HF_HUB_CACHE/models--org--seven/snapshots/$commit" "$("$GRPO" pull org/seven 2>err)"
result "all files that grpo reads, and a reference" "$(whole org/seven $commit $commit; ls "cache/models--org--seven/snapshots/$commit/pytorch_model.bin" 2>/dev/null)"
result "links are relative" "$([ "$(readlink "cache/models--org--seven/snapshots/$commit/more/"*)" = "../../../blobs/$(
  printf 'blob 2\0x\n' | sha1sum | cut -c1-40)" ] || ls -lR cache)"
is "chat by name" 7 "$(echo '1+1=' | "$GRPO" chat org/seven --temperature 0 --max-new-tokens 4 2>/dev/null)"
is "generate by name" 7 "$("$GRPO" generate org/seven '1+1=' --temperature 0 --max-new-tokens 4)"
cat >tune.lua <<'LUA'
local grpo = require "grpo"
return grpo.experiment {
  model = { path = "org/seven" },
  data = { train = grpo.data.list { { prompt = "1+1=" } }, max_prompt_tokens = 12 },
  sampling = { group_size = 2, max_new_tokens = 3 },
  rewards = { function(text) return #text end },
  train = { steps = 1, prompts_per_step = 1, lr = 1e-3 },
}
LUA
check "a run by name" "$GRPO" run --quiet tune.lua
: >"$hub/log"
"$GRPO" pull org/seven >out 2>err
is "a second pull brings nothing" 2 "$(wc -l <"$hub/log")"

# ---- revisions, datasets, choices -----------------------------------------------------------------------------------------
cp -r seven three && echo '# Newer' >three/README.md
repository org/seven $newer three
printf %s $commit >"$hub/models/org/seven/refs/v1"
check "main has moved" "$GRPO" pull org/seven
result "what was there already is not brought again" "$(whole org/seven $newer $newer; [ "$(grep -c resolve "$hub/log")" = 1 ] || cat "$hub/log")"
check "a tag" "$GRPO" pull org/seven@v1
result "is a reference of its own" "$([ "$(cat cache/models--org--seven/refs/v1)" = $commit ] || echo other)"
check "a commit" "$GRPO" pull org/seven@$commit
other=3333333333333333333333333333333333333abc
for name in $other ${other^^}; do
  printf %s $commit >"$hub/models/org/seven/refs/$name"
  says "another commit than the one that was asked for" 3 "^grpo: org/seven@$name: the server answers with another commit, $commit; ask the Hub" "$GRPO" pull org/seven@$name
done
result "is not taken" "$([ -d cache/models--org--seven/refs ] || echo no refs; compgen -G "cache/models--org--seven/refs/*$other*")"
says "a revision that there is not" 3 'org/seven@v9: the Hub does not have this revision' "$GRPO" pull org/seven@v9
says "a name that there is not" 3 'org/none: the Hub does not have it \(404\)' "$GRPO" pull org/none
says "a word that is not a name" 2 '../x is not a name of the Hub' "$GRPO" pull ../x
mkdir -p "$hub/datasets/org/sums/refs" "$hub/datasets/org/sums/$commit/data"
printf %s $commit >"$hub/datasets/org/sums/refs/main"
for i in 1 2 3 4 5 6 7; do echo "{\"n\":$i}" >"$hub/datasets/org/sums/$commit/data/$i.jsonl"; done
echo 2 >"$hub/page"
is "a dataset, whose list has several pages" "$HF_HUB_CACHE/datasets--org--sums/snapshots/$commit" "$("$GRPO" pull --dataset org/sums 2>err)"
rm "$hub/page"
result "its files" "$(diff -r "$hub/datasets/org/sums/$commit" "cache/datasets--org--sums/snapshots/$commit" || show err)"
is "a script finds it" "$HF_HUB_CACHE/datasets--org--sums/snapshots/$commit	$commit" \
  "$("$GRPO" repl 2>/dev/null <<<'print(grpo.hub.snapshot("org/sums", { kind = "dataset" }))')"

# the README's dataset, as lines of JSON
gsm8k=$hub/datasets/openai/gsm8k
mkdir -p "$gsm8k/refs" "$gsm8k/$commit/main"
printf %s $commit >"$gsm8k/refs/main"
printf -- '---\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n    path: main/train-*\n---\n' >"$gsm8k/$commit/README.md"
for i in 1 2 3 4 5; do echo "{\"question\": \"$i+$i=\", \"answer\": \"$((i + i))\"}"; done >"$gsm8k/$commit/main/train-00000-of-00001.jsonl"
block() { sed -n "/^\`\`\`$1$/,/^\`\`\`$/{/^\`\`\`/d;p}" "$root/ext/hub/README.md"; }
{ echo 'local grpo = require "grpo"'; echo 'return grpo.experiment {'; block lua; cat <<'LUA'
  model = { config = { model_type = "llama", hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
    num_attention_heads = 2, max_position_embeddings = 64 }, tokenizer = grpo.tokenizer.bytes() },
  sampling = { group_size = 2, max_new_tokens = 2 }, rewards = { even = function(text) return #text % 2 end },
  train = { steps = 1, prompts_per_step = 2 },
}
LUA
} >my.lua
(PATH=$(dirname "$GRPO"):$PATH; eval "$(block sh)") >out 2>err; status=$?
result "the README's dataset is trained on" "$([ $status = 0 ] || show err)"
result "the run has its commit" "$(grep -q "\"dataset openai/gsm8k\": *\"$commit\"" runs/my-001/run.json || show runs/my-001/run.json)"
fresh
"$GRPO" pull org/seven@v1 --include 'tokenizer*' --include '*.bin' >/dev/null 2>err
is "--include" "pytorch_model.bin tokenizer.json tokenizer_config.json" "$(cd cache/models--org--seven/snapshots/$commit && echo *)"
says "what is missing then" 3 "incomplete: .* does not have config.json; 'grpo pull org/seven@v1' brings" "$GRPO" generate org/seven@v1 x
check "a pull of the rest" "$GRPO" pull org/seven@v1
is "completes it" 7 "$("$GRPO" generate org/seven@v1 '1+1=' --temperature 0 --max-new-tokens 4)"
says "--include that matches nothing" 2 "none of its .* files matches --include \*\.gguf" "$GRPO" pull org/seven --include '*.gguf'
mkdir quantised && echo 1 >quantised/a.Q4.gguf && echo 2 >quantised/b.Q8.gguf
repository org/quantised $commit quantised
says "several GGUF files" 2 "has 2 .gguf files, .*--include 'a.Q4.gguf'" "$GRPO" pull org/quantised
fresh
is "--json" "{\"commit\": \"$newer\", \"files_downloaded\": $(find three -type f | wc -l), \"path\": \"$HF_HUB_CACHE/models--org--seven/snapshots/$newer\"}" \
  "$("$GRPO" pull org/seven --json 2>err)"

# ---- faults that pass ------------------------------------------------------------------------------------------------------
weights=org/seven/$newer/model.safetensors
size=$(stat -c %s seven/model.safetensors)
# passes NAME FAULT... : the pull succeeds all the same, with the right bytes
passes() {
  local name=$1 status; shift
  fresh; faults "$@"
  timeout 60 "$GRPO" pull org/seven >out 2>err; status=$?
  result "$name" "$([ $status = 0 ] || { echo "status $status"; cat err; }; whole org/seven $newer $newer)"
}
passes "cut at its beginning" "cut 1 0 $weights"
passes "cut at a third" "cut 1 $((size / 3)) $weights?"
is "continues there" "cdn 206 - $((size / 3))" "$(grep "cdn.* 206 " "$hub/log" | cut -d' ' -f1,3-)"
passes "cut three times" "cut 1 $((size / 4)) $weights?" "cut 1 100 $weights?" "cut 1 1 $weights?"
passes "cut before its last byte" "cut 1 $((size - 1)) $weights?"
passes "cut, and then the server has no ranges" "cut 1 $((size / 2)) $weights?" "whole 1 0 $weights?"
passes "cut, and then another part is sent" "cut 1 1000 $weights?" "shift 1 10 $weights?"
passes "a byte that is wrong, once" "flip 1 1234 $weights?"
passes "a file that is short, once" "short 1 7 $weights?"
passes "a small file that is wrong, once" "flip 1 3 config.json"
passes "429 with Retry-After" "status 1 429:1 $weights"
result "waits as long as it is asked" "$(grep -q 'model.safetensors: the server answered 429; trying again in 1 s' err || show err)"
for wait in 1e300 -5 nan inf 0x7fff 1e1 '' ' ' x 'Wed, 21 Oct 2099 07:28:00 GMT'; do
  passes "429 with Retry-After: '$wait'" "status 1 429:${wait// /_} $weights"
  result "Retry-After: '$wait' is no wait" "$(grep -q 'the server answered 429; trying again in 0.02 s' err || show err)"
done
passes "429 for the list" "status 2 429:0 /tree/"
passes "500, 502, 503 and 504" "status 1 500 /api/" "status 1 502 /tree/" "status 1 503 README" "status 1 504 config.json"
passes "a list that is cut" "cut 1 20 /revision/"
passes "another host for a moment without the file" "status 1 503 signature="
mkdir -p cache/models--org--seven/blobs
fresh; mkdir -p cache/models--org--seven/blobs
sum=$(sha256sum <seven/model.safetensors | cut -c1-64)
head -c "$((size + 99))" /dev/zero >"cache/models--org--seven/blobs/$sum.incomplete"
check "a partial file that is too long" "$GRPO" pull org/seven
result "is thrown away" "$(whole org/seven $newer $newer)"
fresh; mkdir -p cache/models--org--seven/blobs
head -c 5000 /dev/zero >"cache/models--org--seven/blobs/$sum.incomplete"
check "a partial file of other bytes" "$GRPO" pull org/seven
result "is found out and replaced" "$(whole org/seven $newer $newer)"

# ---- faults that stay ------------------------------------------------------------------------------------------------------
# fails NAME STATUS PATTERN FAULT... : one line, and nothing looks whole; then a pull without faults completes it
fails() {
  local name=$1 want=$2 pattern=$3; shift 3
  fresh; faults "$@"
  says "$name" "$want" "$pattern" timeout 60 "$GRPO" pull org/seven
  result "$name: nothing looks whole" "$(nothing org/seven)"
  faults "none 0 0 none"
  timeout 60 "$GRPO" pull org/seven >out 2>err
  result "$name: the next pull completes it" "$(whole org/seven $newer $newer; [ -s out ] || cat err)"
}
fails "wrong bytes" 3 'model.safetensors has the SHA-256 .*, but .* was listed; it was downloaded twice, and nothing of it was kept' "flip 9 1234 $weights?"
fails "a wrong small file" 3 'config.json has the git SHA-1 ' "flip 9 3 config.json"
fails "a wrong size" 3 'model.safetensors has [0-9]+ bytes, but [0-9]+ were listed' "short 9 7 $weights?"
fails "too many bytes" 5 'model.safetensors: the server sent more bytes than it had announced' "long 9 0 $weights?"
fails "another ETag" 3 'model.safetensors has the sum .*, but .* was listed' "tag 9 0 resolve/$newer/model.safetensors"
fails "another commit" 3 'comes from commit ffff.*, but 2222' "commit 9 0 config.json"
fails "503 for ever" 5 'README.md: the server answered 503' "status 99 503:0 README"
fails "cut for ever" 5 'model.safetensors: ' "cut 99 0 $weights?"
fails "a wait that is too long" 5 'answered 429 and asks to wait 86400 seconds; try again later' "status 9 429:86400 README"
fails "a wait without end" 5 'answered 429 and asks to wait 1e\+25 seconds; try again later' "status 9 429:10000000000000000000000000 README"
fails "403" 2 'the Hub refuses it \(403\): accept its terms at .*/org/seven, and no token is set' "status 9 403 README"
fails "404 for a file" 3 'README.md: the Hub does not have it \(404\)' "status 9 404 README"
fails "a redirect in a circle" 5 'redirects in a circle' "redirect 99 /again README" "redirect 99 /again /again"
fails "a redirect to a file of this machine" 5 'redirects to an address that is not followed' "redirect 9 file:///etc/passwd README"
fails "a redirect with a name and a password" 5 'redirects to an address that is not followed' "redirect 9 http://a:b@127.0.0.2/x README"

# ---- tokens ----------------------------------------------------------------------------------------------------------------
echo hf_secret >"$hub/token"; : >"$hub/models/org/seven/private"
fresh
says "a private model without a token" 2 'refuses it \(401\): it is private or does not exist; no token is set' "$GRPO" pull org/seven
says "with another token" 2 'refuses it \(401\): .*; the token may not read it' env HF_TOKEN=wrong "$GRPO" pull org/seven
result "the token is not shown" "$(none wrong err)"
: >"$hub/log"
HF_TOKEN=hf_secret "$GRPO" pull org/seven >out 2>err
result "with the token" "$(whole org/seven $newer $newer; cat err | grep hf_secret)"
is "which another host does not see" "cdn -
hub hf_secret" "$(cut -d' ' -f1,4 "$hub/log" | sort -u)"
fresh; mkdir -p hf && echo hf_secret >hf/token
HF_HOME=$work/hf "$GRPO" pull org/seven >out 2>err
result "the token of HF_HOME/token" "$(whole org/seven $newer $newer)"
result "is in no file of the cache" "$([ -d cache ] || echo no cache; grep -r hf_secret cache)"
fresh; faults "redirect 1 $cdn/models/org/seven/$newer/config.json /config.json"
HF_TOKEN=hf_secret "$GRPO" pull org/seven >out 2>err
result "a redirect of any file to another host goes without it" "$(whole org/seven $newer $newer; grep '^cdn.*hf_secret' "$hub/log")"
for proxy in http_proxy all_proxy; do
  fresh
  env no_proxy=127.0.0.2 "$proxy=${cdn%/}" HF_TOKEN=hf_secret "$GRPO" pull org/seven >out 2>err
  result "$proxy does not see the token" "$(whole org/seven $newer $newer; grep '^cdn.*hf_secret' "$hub/log")"
done
rm "$hub/models/org/seven/private"
says "a token with a line break" 2 'HF_TOKEN: the token holds a blank' env HF_TOKEN=$'a\nHost: b' "$GRPO" pull org/seven
says "a token and an address that does not encrypt" 5 'grpo: org/seven: ' \
  timeout 60 env HF_TOKEN=hf_secret HF_ENDPOINT=http://hub.invalid "$GRPO" pull org/seven
result "is not sent" "$(grep -q 'the token is not sent, because http://hub.invalid does not encrypt' err || show err)"

# ---- what other programs call it --------------------------------------------------------------------------------------
for pair in "--revision v1:write NAME@REVISION" "--repo-type dataset:write --dataset" "--token x:set HF_TOKEN" \
    "--local-dir x:set HF_HUB_CACHE" "--cache-dir x:set HF_HUB_CACHE" "--force-download:a pull compares"; do
  # shellcheck disable=SC2086
  says "pull ${pair%%:*}" 2 "unknown flag ${pair%%[ :]*}[,;:] .*${pair#*:}" "$GRPO" pull org/seven ${pair%%:*}
done
says "an address in place of a name" 2 "is not a name of the Hub; write org/seven$" "$GRPO" pull https://huggingface.co/org/seven/tree/main
says "also for a model" 3 "https://huggingface.co/org/seven: .*; write org/seven$" "$GRPO" generate https://huggingface.co/org/seven x

# ---- what the server says is untrusted ------------------------------------------------------------------------------------------
fresh
# tree NAME JSON PATTERN
tree() {
  echo "$2" >"$hub/models/org/seven/tree"
  says "a list with $1" 3 "$3" "$GRPO" pull org/seven
  result "a list with $1: nothing is written" "$(find cache "$work/evil" /tmp/evil -type f -not -name grpo-pull.lock -not -name CACHEDIR.TAG 2>/dev/null)"
}
blob() { printf '[{"type":"file","path":"%s","size":%s,"oid":"%s"}]' "$1" "${2:-3}" "${3:-3333333333333333333333333333333333333333}"; }
tree "a path upwards" "$(blob ../../../evil)" 'leads out of its directory'
tree "an absolute path" "$(blob /tmp/evil)" 'begins or ends with a slash'
tree "a path upwards inside" "$(blob a/../../evil)" 'leads out of its directory'
tree "a zero byte" "$(blob 'a\u0000b')" 'control character|JSON'
tree "a backslash" "$(blob 'a\\b')" 'a backslash'
tree "an escape sequence" "$(blob 'a\u001b[2Jb')" 'control character'
tree "a sum that is a path" "$(blob a 3 ../../../../evil)" 'a has no sum'
tree "a size below zero" "$(blob a -1)" 'a has no size'
tree "a size that no disk has" "$(blob a 9007199254740991)" 'a has no size|are to come'
tree "no name" '[{"type":"file","size":3,"oid":"3333333333333333333333333333333333333333"}]' 'the name of a file is empty'
tree "a name twice" "$(blob a | tr -d ']'),$(blob a | tr -d '[')" 'a is listed twice'
tree "a file that is a directory" "$(blob a | tr -d ']'),$(blob a/b | tr -d '[')" 'a is a file and a directory'
tree "an unknown kind" '[{"type":"link","path":"a"}]' 'neither a file nor a directory'
tree "what is not JSON" '<html>' 'org/seven:1:1: '
tree "what is not a list of objects" '[1]' 'an entry is not an object'
rm "$hub/models/org/seven/tree"

# ---- libcurl -----------------------------------------------------------------------------------------------------------
mkdir broken && for name in libcurl.so.4 libcurl-gnutls.so.4; do echo none >broken/$name; done
: >"$hub/log"; fresh
says "libcurl is not on the machine" 2 '^grpo: libcurl.so.4 is not on this machine, so nothing can be downloaded; install libcurl4$' \
  env LD_LIBRARY_PATH="$work/broken" "$GRPO" pull org/seven
result "is one line, and nothing is written" "$(sed 1d err; find cache -type f 2>/dev/null)"
result "--version says so" "$(LD_LIBRARY_PATH=$work/broken "$GRPO" --version | grep -q 'HTTP: none' || echo no)"

# ---- offline, the disk, kills, two at once ------------------------------------------------------------------------------------------
: >"$hub/log"
says "HF_HUB_OFFLINE" 2 'HF_HUB_OFFLINE is set, so nothing is downloaded' env HF_HUB_OFFLINE=1 "$GRPO" pull org/seven
is "asks for nothing" "" "$(cat "$hub/log")"
says "an address that is none" 2 'HF_ENDPOINT=ftp://x: want an address' env HF_ENDPOINT=ftp://x "$GRPO" pull org/seven
head -c 6000000 /dev/urandom >seven/model-00001-of-00001.safetensors
repository org/large $commit seven
fresh
(ulimit -f 2000; timeout 60 "$GRPO" pull org/large >out 2>err; echo $? >status)
result "a disk that is full: status 5 and one line" "$([ "$(cat status)" = 5 ] && tail -n 1 err | grep -q 'cannot write .*incomplete: ' || show err)"
result "a disk that is full: nothing looks whole" "$(nothing org/large)"
timeout 60 "$GRPO" pull org/large >out 2>err
result "the next pull continues" "$(whole org/large $commit $commit; grep -q ' 206 - [1-9]' "$hub/log" || cat "$hub/log")"
for wait in 0.05 0.15 0.3 0.5; do
  fresh; faults "slow 99 20 org/large"
  "$GRPO" pull org/large >out 2>err & pid=$!
  sleep $wait; kill -9 $pid; wait $pid 2>/dev/null
  result "killed after $wait s: nothing looks whole" "$(nothing org/large)"
  faults "none 0 0 none"
  timeout 60 "$GRPO" pull org/large >out 2>err
  result "killed after $wait s: the next pull completes it" "$(whole org/large $commit $commit)"
done
fresh; faults "slow 99 5 org/large"
asked=$(grep -c org/large "$hub/log")
"$GRPO" pull org/large >out1 2>err1 & pid=$!
for _ in {1..200}; do [ "$(grep -c org/large "$hub/log")" = "$asked" ] || break; sleep 0.05; done # it has begun
timeout 60 "$GRPO" pull org/large >out2 2>err2
wait $pid
result "two at once: both succeed" "$(whole org/large $commit $commit; cmp out1 out2 2>&1; [ -s out1 ] || cat err1)"
is "and each file came once" "" "$(grep ' 20[06] ' "$hub/log" | grep -E ' /(org|models)/' | cut -d' ' -f1,2 | sort | uniq -d)"
result "and the second said that it waits" "$(grep -q 'waiting for another pull of org/large' err2 || show err2)"
exec 9>&-
finish
