#!/usr/bin/env bash
# kind = "agents": sessions are opened, spoken in and rewarded by a program that is not ours, here this script.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
cp "$root/ext/serve/tests/agents.lua" .
if ! command -v curl >/dev/null; then result "agents # SKIP needs curl"; finish; fi
# has FILE TEXT... : the file has each text
has() { local file=$1 text; shift; for text; do grep -qF -- "$text" "$file" || { echo "$file has no: $text"; head -c 900 "$file"; }; done; }
# want EXPECTED GOT
want() { [ "$1" = "$2" ] || echo "want '$1', got '$2'"; }
# begin DIRECTORY FLAG... : a run, whose server is $url
begin() {
  local dir=$1; shift
  rm -f run.err
  "$GRPO" run agents.lua --quiet --dir "$dir" --as r "$@" >run.out 2>run.err & run=$!
  for _ in $(seq 400); do url=$(grep -ohE 'http://[0-9.]+:[0-9]+' "$dir/r/run.log" run.err 2>/dev/null | head -n 1); [ -n "$url" ] && break
    kill -0 $run 2>/dev/null || break; sleep 0.05; done
}
# post PATH BODY : the answer
post() { curl -sS --max-time 120 --data-binary "$2" "$url$1"; }
# field NAME FILE : the first string or number of this name
field() { grep -oE "\"$1\": (\"[^\"]*\"|[-0-9.]+)" "$2" | head -n 1 | sed -E 's/^[^:]*: //; s/"//g'; }
# say MESSAGES : a turn of session $id; the answer is in the file `said`, the model's words as JSON in $words
say() { post "/sessions/$id/v1/chat/completions" '{"messages":['"$1"'],"max_tokens":8,"return_token_ids":true}' >said
  words=$(grep -oE '"content": "([^"\\]|\\.)*", "role"' said | head -n 1 | sed -E 's/^"content": //; s/, "role"$//'); }
code() { field code "$1"; }
ids() { grep -oE "\"$1\": \[[^]]*\]" "$2" | head -n 1 | sed 's/.*\[//; s/\]//'; }

begin runs
if grep -q libmicrohttpd run.err; then result "agents # SKIP $(tail -n 1 run.err)"; finish; fi
post /sessions '{}' >session; id=$(field id session)
result "a session has its row and the address to talk to" "$(has session "\"base_url\": \"$url/sessions/$id/v1\"" '"question": "' '"answer": "' '"messages": [{"content": "')"
question='{"role":"user","content":"'$(grep -oE '"messages": \[\{"content": "[^"]*' session | sed 's/.*"//')'"}'
say "$question"; cp said first; first=$words
say "$question"
result "a client that asks again gets the same answer" "$(want "$(ids token_ids first)" "$(ids token_ids said)")"
result "the endpoint is OpenAI's" "$(has first '"object": "chat.completion"' '"token_ids": [' '"prompt_token_ids": [')"
say "$question,"'{"role":"assistant","content":'"$first"'},{"role":"user","content":"again"}'; cp said second
result "the next prompt is what was said and what is new, token by token" "$(case "$(ids prompt_token_ids second)" in
  "$(ids prompt_token_ids first), $(ids token_ids first), "*) ;; *) echo "$(ids prompt_token_ids second)"; esac)"
say "$question,"'{"role":"assistant","content":'"$first"'},{"role":"user","content":"again"}'
result "also to a later request" "$(want "$(ids token_ids second)" "$(ids token_ids said)")"
say '{"role":"user","content":"something else"}'
result "another conversation is refused" "$(want does_not_continue "$(code said)"; has said 'message 1 is not what was said')"
say "$question,"'{"role":"assistant","content":"words in its mouth"},{"role":"user","content":"again"}'
result "so are words that the model has not said" "$(want does_not_continue "$(code said)")"
say "$question,"'{"role":"assistant","content":'"$first"'},{"role":"user","content":"'"$(printf 'a%.0s' $(seq 60))"'"}'
result "and nothing is remembered of what was refused" "$(want does_not_continue "$(code said)")"
post "/sessions/$id/v1/chat/completions" '{"messages":['"$question"'],"response_format":{"type":"json_object"}}' >bad
result "a session is bound to no grammar" "$(want invalid_value "$(code bad)"; has bad 'samples as its run does')"
for text in '{' '{"reward":"much"}' '{"reward":1e300}' '{}' '[]' '{"reward":[1]}'; do post "/sessions/$id/reward" "$text" >bad; want invalid_value "$(code bad)"; done >bads
result "a reward is a number" "$(cat bads)"
post "/sessions/$id/reward" '{"reward":0.25}' >ended
result "the reward ends the session" "$(has ended '"turns": 2'; say "$question"; want no_such_session "$(code said)"; post "/sessions/$id/reward" '{"reward":1}' >bad; want no_such_session "$(code bad)")"
post /sessions '{}' >session; id=$(field id session)
post "/sessions/$id/reward" '{"reward":1}' >bad
result "a session in which nothing was said has no reward" "$(want nothing_said "$(code bad)")"
# play REWARD : the open session, in one turn
play() { question='{"role":"user","content":"another prompt than the row has"}'; say "$question"; post "/sessions/$id/reward" '{"reward":'"$1"'}' >ended; }
play true
for reward in 3 null; do post /sessions '{}' >session; id=$(field id session); play $reward; done # step 1 has 4 sessions
for reward in 1 0 1 0; do post /sessions '{}' >session; id=$(field id session); play $reward; done
wait $run; status=$?
result "the run trains on them and ends" "$(want 0 $status; cat run.err; want 8 "$(wc -l <runs/r/completions.jsonl)")"
result "with the rewards that were posted" "$(want "0.25 1 3 1 0 1 0" "$(grep -oE '"reward": [^,]*, "rewards"' runs/r/completions.jsonl | sed -E 's/"reward": //; s/,.*//' | paste -sd' ')")"
result "and with turns, of which the model said its own" "$(head -n 1 runs/r/completions.jsonl >one; has one '"role": "assistant"' '"role": "environment"' '"turns": 2')"
result "the ratio of every sampled token is exactly 1" "$(want 2 "$(grep -c '"ratio_max_deviation": 0[,.]' runs/r/metrics.jsonl)"; grep -h 'ratio' runs/r/run.log; has runs/r/metrics.jsonl '"completions/mean_turns": 1.25')"

result "the time of a step's conversations is told" "$(grep -oE '"(time|tokens_per_second)/generate": [^,]*' runs/r/metrics.jsonl | grep -vE ': [0-9.e-]*[1-9]'; want 4 "$(grep -oE '"(time|tokens_per_second)/generate":' runs/r/metrics.jsonl | wc -l)")"

# ---- a program that goes away, and one that comes late ------------------------------------------
begin lost --arg seconds=1
post /sessions '{}' >session # and nothing more
while post /sessions '{}' >session 2>/dev/null; do id=$(field id session); [ -n "$id" ] || break; play 1 2>/dev/null; done
wait $run; status=$?
result "the session of a program that went away is given to another" "$(want 0 $status; want 8 "$(wc -l <lost/r/completions.jsonl)")"
begin stopped
post /sessions '{}' >session
kill -INT $run; wait $run; status=$?
result "Ctrl-C ends a run that waits" "$(want 130 $status)"
"$GRPO" check agents.lua >check.out 2>check.err; status=$?
result "grpo check waits for nobody" "$(want 0 $status; has check.out 'as its programs')"
sed 's/stages = {/& { kind = "sft", data = { target = function(row) return row.answer end }, train = { steps = 1 } },/' agents.lua >taught.lua
"$GRPO" check taught.lua >check.out 2>check.err; status=$?
result "and tries no posted reward on demonstrations" "$(want 0 $status; grep -F finding: check.out)"
sed 's/tok.chat_template = .*/tok.chat_template = "chatml"/; /{% endfor/d' agents.lua >other.lua
"$GRPO" run other.lua >out 2>err; status=$?
result "a template whose turns have no end is refused" "$(want 2 $status; has err 'cannot be continued, because it has no token that ends one')"
finish
