#!/usr/bin/env bash
# grpo serve: OpenAI's endpoints, many requests in one batch, what is refused, clients that hang up.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
if ! command -v curl >/dev/null || "$GRPO" serve /nowhere 2>&1 | grep -q libmicrohttpd; then
  result "grpo serve # SKIP needs curl and libmicrohttpd"; finish
fi
# shellcheck source=ext/serve/tests/server.bash
. "$root/ext/serve/tests/server.bash"
serve --max-new-tokens 64 --sequences 4 --max-prompt-tokens 400
if ! [ -s address ] && grep -q libmicrohttpd serve.err; then result "grpo serve # SKIP $(cat serve.err)"; finish; fi
# has FILE TEXT... : the file has each text
has() { local file=$1 text; shift; for text; do grep -qF -- "$text" "$file" || { echo "$file has no: $text"; head -c 600 "$file"; }; done; }
# want EXPECTED GOT
want() { [ "$1" = "$2" ] || echo "want '$1', got '$2'"; }

# ---- answers -------------------------------------------------------------------------------------
curl -sS "$base/models" >out
result "/v1/models names the model" "$(has out '"id": "model"' '"object": "list"' '"max_model_len": 464')"
post /chat/completions '{"model":"model","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"seed":1,"logprobs":true,"top_logprobs":2,"return_token_ids":true}' >chat
result "a chat completion has text, usage, log-probabilities and ids" "$(has chat '"object": "chat.completion"' '"role": "assistant"' \
  '"finish_reason": "length"' '"completion_tokens": 5' '"top_logprobs": [{' '"prompt_token_ids": [' '"token_ids": [' '"token_logprobs": [-')"
post /completions '{"prompt":"Hello","max_tokens":6,"seed":4,"logprobs":0,"return_token_ids":true}' >text
"$GRPO" generate model Hello --max-new-tokens 6 --seed 4 --json >alone 2>/dev/null
ids() { grep -oE '"(token_)?ids": \[[^]]*\]' "$1" | head -n 1 | sed 's/.*\[//; s/\]//'; }
result "the same seed gives what grpo generate gives" "$(want "$(ids alone)" "$(grep -oE '"token_ids": \[[^]]*\]' text | tail -n 1 | sed 's/.*\[//; s/\]//')"
  want "$(grep -oE '"logprobs": \[[^]]*' alone | sed 's/.*\[//')" "$(grep -oE '"token_logprobs": \[[^]]*' text | tail -n 1 | sed 's/.*\[//')")"
post /completions '{"prompt":[72,101,108,108,111],"max_tokens":6,"seed":4,"return_token_ids":true}' >byids
result "a prompt of ids is the prompt" "$(want "$(grep -o '"token_ids": [^]]*' text)" "$(grep -o '"token_ids": [^]]*' byids)")"
post /completions '{"prompt":["Hello","you"],"n":3,"max_tokens":4,"temperature":0}' >many
result "several prompts, several completions of each" "$(want "0 1 2 3 4 5 " "$(grep -oE '"index": [0-9]+' many | sed 's/.* //' | tr '\n' ' ')"; has many '"completion_tokens": 24')"

# ---- streams -------------------------------------------------------------------------------------
post /completions '{"prompt":"Hello","max_tokens":6,"seed":4,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}}' -D heads >stream
result "a stream has events, and the same ids" "$(has heads 'text/event-stream'; has stream 'data: [DONE]' '"completion_tokens": 6'
  want "$(grep -o '"token_ids": [^]]*' text | tail -n 1 | sed 's/.*\[//')" "$(grep -o '"token_ids": [^]]*' stream | sed 's/.*\[//' | paste -sd, | sed 's/,/, /g; s/  */ /g')")"
post /chat/completions '{"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"seed":1,"stream":true}' >stream
result "a chat stream begins with who speaks and ends with why" "$(has stream '"role": "assistant"' '"chat.completion.chunk"' '"finish_reason": "length"'; tail -n 2 stream | grep -q DONE || echo no end)"

# ---- stops: a byte that occurs in the text ends it, and is not shown ------------------------------
post /completions '{"prompt":"Hello","max_tokens":64,"seed":9,"temperature":0.3}' >whole
stop=$(sed -E 's/.*"text": "//; s/"\}\], "created.*//; s/\\\\u....//g; s/\\\\.//g' whole | grep -oE '[G-Zg-tv-z]' | tail -n 1)
post /completions '{"prompt":"Hello","max_tokens":64,"seed":9,"temperature":0.3,"stop":["nowhere","'"$stop"'"]}' >stopped
result "a stop string ends the text and is not in it" "$(has stopped '"finish_reason": "stop"'; sed -E 's/.*"text": "//; s/".*//' stopped | grep -F "$stop")"

# ---- many at once --------------------------------------------------------------------------------
for i in $(seq 12); do post /completions '{"prompt":"Hello","max_tokens":'$((i * 5))',"seed":4,"return_token_ids":true}' >many.$i & wait_for[i]=$!; done
wait "${wait_for[@]}"
result "requests that share a batch have the ids of one alone" "$(first=$(grep -o '"token_ids": \[[^]]*' text | tail -n 1 | cut -d, -f 1-4)
  for i in $(seq 12); do want "$first" "$(grep -o '"token_ids": \[[^]]*' many.$i | tail -n 1 | cut -d, -f 1-4)"; done)"

# ---- tools ---------------------------------------------------------------------------------------
tool='[{"type":"function","function":{"name":"add","description":"adds","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}]'
post /chat/completions '{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"return_token_ids":true,"tools":'"$tool"'}' >tools
post /chat/completions '{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"return_token_ids":true,"tool_choice":"none","tools":'"$tool"'}' >notools
result "tools are rendered by the template, unless tool_choice is none" "$(tokens() { grep -oE '"prompt_tokens": [0-9]+' "$1" | grep -oE '[0-9]+'; }
  [ "$(tokens tools)" -gt $(($(tokens notools) + 60)) ] || echo "$(tokens tools) $(tokens notools)")"
history='[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"call_1","content":"2"}]'
result "calls and their results are messages" "$(want "200 " "$(status /chat/completions '{"messages":'"$history"',"max_tokens":2,"tools":'"$tool"'}')")"

# ---- what is refused -----------------------------------------------------------------------------
refused() { want "$1" "$(status "$2" "$3")"; }
result "fields of the wrong type or range are named" "$(refused '400 invalid_value' /completions '{"prompt":"a","max_tokens":65}'
  refused '400 invalid_value' /completions '{"prompt":"a","max_tokens":1.5}'; refused '400 invalid_value' /completions '{"prompt":"a","temperature":-1}'
  refused '400 invalid_value' /completions '{"prompt":"a","temperature":"warm"}'; refused '400 invalid_value' /completions '{"prompt":"a","n":1000000}'
  refused '400 invalid_value' /completions '{"prompt":"a","top_p":0}'; refused '400 invalid_value' /completions '{"prompt":"a","stop":[""]}'
  refused '400 invalid_value' /completions '{"prompt":"a","stop":"\u0000"}'; refused '400 invalid_value' /completions '{"prompt":"a","stream":1}'
  refused '400 invalid_value' /completions '{"prompt":[1,999]}'; refused '400 invalid_value' /completions '{"prompt":[1.5]}'
  refused '400 invalid_value' /completions '{"n":64,"prompt":["a"'"$(printf ',"a"%.0s' $(seq 32))"']}'
  refused '400 invalid_value' /completions '{"prompt":{"a":1}}'; refused '400 invalid_value' /completions '{"prompt":[[],true]}'; refused '400 invalid_value' /completions '{}'
  refused '400 empty_prompt' /completions '{"prompt":""}'; refused '400 invalid_value' /chat/completions '{"messages":"hi"}'
  refused '400 invalid_value' /chat/completions '{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:x"}}]}]}'
  refused '400 chat_template' /chat/completions '{"messages":[]}'; refused '400 chat_template' /chat/completions '{"messages":[1]}'
  refused '400 chat_template' /chat/completions '{"messages":[{"role":"user","content":7}]}'; refused '400 invalid_value' /chat/completions '{"messages":[{"role":"user","content":"a"}],"top_logprobs":3}'
  refused '400 invalid_value' /chat/completions '{"messages":[{"role":"user","content":"a"}],"tools":[{}]}'; refused '400 invalid_value' /chat/completions '{"messages":[{"role":"user","content":"a"}],"tool_choice":"required"}'
  refused '400 invalid_value' /completions '{"prompt":"a","logit_bias":{"1":2}}'; refused '400 unknown_field' /completions '{"prompt":"a","max_tokes":3}')"
result "null, and fields that change nothing, are no fields" "$(want '200 ' "$(status /completions '{"prompt":"a","max_tokens":1,"stop":null,"user":"me","presence_penalty":0,"logit_bias":{},"echo":false}')")"
result "another model, another path" "$(refused '404 model_not_found' /completions '{"prompt":"a","model":"gpt"}'; refused '404 not_found' /embeddings '{}'
  want 405 "$(curl -sS -o /dev/null -w '%{http_code}' -X DELETE "$base/models")")"
deep=$(printf '[%.0s' $(seq 20000))
result "bodies that are no JSON" "$(refused '400 invalid_json' /completions '{"prompt":'; refused '400 invalid_json' /completions ''; refused '400 invalid_json' /completions '{"temperature":NaN}'
  refused '400 invalid_json' /completions '{"temperature":1e999}'; refused '400 invalid_json' /completions $'{"prompt":"\xff"}'; refused '400 invalid_json' /completions "$deep"; refused '400 invalid_value' /completions '[]'; refused '400 invalid_value' /completions '"a"')"
result "a prompt that is too long" "$(refused '400 context_length_exceeded' /completions '{"prompt":"'"$(printf 'a%.0s' $(seq 401))"'"}')"
head -c 9000000 /dev/zero | tr '\0' 'a' >huge
result "a body that is too large" "$(want 413 "$(curl -sS -o /dev/null -w '%{http_code}' --data-binary @huge "$base/completions")")"
result "pages from elsewhere" "$(want 421 "$(curl -sS -o /dev/null -w '%{http_code}' -H 'Host: evil.example' "$base/models")"
  want 403 "$(curl -sS -o /dev/null -w '%{http_code}' -H 'Origin: http://evil.example' --data '{}' "$base/completions")")"
exec 8<>"/dev/tcp/127.0.0.1/$port"; printf 'POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nContent-Length: 100\r\n\r\n{"pro' "$port" >&8 # half of a request
curl -sS --max-time 60 "$base/models" >out
result "half of a request keeps nobody waiting" "$(has out '"id": "model"')"
exec 8>&-

# ---- clients that hang up ------------------------------------------------------------------------
for _ in 1 2 3 4 5 6; do post /completions '{"prompt":"Hello","max_tokens":64,"n":64}' --max-time 0.05 >/dev/null 2>&1; done
post /completions '{"prompt":"Hello","max_tokens":6,"seed":4,"return_token_ids":true}' >after
result "clients that hang up leave the batch" "$(want "$(grep -o '"token_ids": [^]]*' text)" "$(grep -o '"token_ids": [^]]*' after)")"

# ---- the end -------------------------------------------------------------------------------------
post /completions '{"prompt":"Hello","max_tokens":64,"n":64,"stream":true}' >cut 2>&1 & client=$!
for _ in $(seq 100); do [ -s cut ] && break; sleep 0.02; done
kill -INT $server; wait $server; status=$?; wait $client
result "Ctrl-C ends it, and tells who waits" "$(want 130 $status; cat serve.err; grep -q '"the server ends"\|DONE' cut || tail -c 300 cut)"

# ---- a token -------------------------------------------------------------------------------------
"$GRPO" serve model --port 0 --host 0.0.0.0 >out 2>err; status=$?
result "another address wants a token" "$(want 2 $status; has err 'wants a token')"
GRPO_SERVE_TOKEN=secret serve --host 0.0.0.0 --name tiny; base=${base/0.0.0.0/127.0.0.1}
result "the token is demanded" "$(want '401 invalid_api_key' "$(status /completions '{"prompt":"a","max_tokens":1}')"
  want '401 invalid_api_key' "$(status /completions '{"prompt":"a","max_tokens":1}' -H 'Authorization: Bearer secre')"
  want '200 ' "$(status /completions '{"prompt":"a","max_tokens":1,"model":"tiny"}' -H 'Authorization: Bearer secret')")"
kill -TERM $server; wait $server; status=$?
result "SIGTERM ends it" "$(want 143 $status)"
finish
