#!/usr/bin/env bash
# grpo mcp: the protocol by lines, the tools on a run, what is refused.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
# has FILE TEXT... : the file has each text
has() { local file=$1 text; shift; for text; do grep -qF -- "$text" "$file" || { echo "$file has no: $text"; head -c 900 "$file"; }; done; }
# ask LINE... : the answers, one a line, in the file `out`
ask() { printf '%s\n' "$@" | "$GRPO" mcp >out 2>err; }
# call NAME ARGUMENTS : the answer of a tool in the file `out`
call() { ask '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"'"$1"'","arguments":'"$2"'}}'; }
hello='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'

ask "$hello" '{"jsonrpc":"2.0","method":"notifications/initialized"}' '{"jsonrpc":"2.0","id":"a","method":"ping"}' '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
result "it begins, answers a ping and lists its tools" "$(has out '"protocolVersion": "2025-06-18"' '"id": "a", "jsonrpc": "2.0", "result": {}' '"name": "start_run"' '"inputSchema"'
  [ "$(wc -l <out)" = 3 ] || cat out; cat err)"
ask "${hello/2025-06-18/1999-01-01}"
result "a version that it does not know gets the newest one" "$(has out '"protocolVersion": "2025-11-25"')"
ask '{"jsonrpc":"2.0","id":1,"method":"resources/list"}' '{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"grpo://SKILL.md"}}' \
  '{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"grpo://other"}}'
result "the guide is a resource" "$(has out '"uri": "grpo://SKILL.md"' 'name: grpo\ndescription: Train a language model' '"code": -32002')"
"$GRPO" mcp --skill skills/grpo >out
result "--skill writes it" "$([ "$(cat out)" = skills/grpo/SKILL.md ] || cat out; cmp skills/grpo/SKILL.md "$root/docs/skill.md"; cmp skills/grpo/start.md "$root/docs/start.md")"

# ---- a run from its beginning to its end -----------------------------------------------------------
experiment my.lua 'stages = { { kind = "grpo", train = { steps = 6, prompts_per_step = 2 } } },'
call check_script '{"script":"my.lua"}'
result "check_script shows completions and memory" "$(has out '"isError": false' 'sampled completion' 'peak memory')"
call start_run '{"script":"my.lua","overrides":["train.lr=0.01"],"name":"first"}'
result "start_run gives the run" "$(has out '"isError": false' 'runs/first')"
for _ in $(seq 200); do grep -q '"state": "finished"' runs/first/run.json 2>/dev/null && break; sleep 0.1; done
call start_run '{"resume":"first"}'; result "start_run resumes a run by its name alone" "$(has out '"isError": ' 'runs/first')"
call list_runs '{}'; result "list_runs lists it" "$(has out 'first' 'finished')"
call watch_run '{"run":"first","lines":3}'; result "watch_run says where it is" "$(has out 'runs/first: finished, step 6 of 6' 'the last lines:' 'reward')"
call explain_run '{"run":"first"}'; result "explain_run shows its metrics and notes" "$(has out 'metrics of the last step' 'learning_rate: 0.01' 'notes')"
call show_completions '{"run":"first","step":6,"count":1}'; result "show_completions shows them" "$(has out '"isError": false' 'digits')"
cat >other.lua <<'L'
return function(text) return #text end
L
call check_reward '{"run":"first","rewards":"other.lua"}'; result "check_reward scores them again" "$(has out '"isError": false' 'advantage')"
call check_reward '{"script":"my.lua"}'; result "check_reward tries a script's rewards" "$(has out '0 failures')"
call stop_run '{"run":"first"}'; result "stop_run on a run that has ended says so" "$(has out '"isError"' 'first')"
call help '{"topic":"train.lr"}'; result "help explains an option" "$(has out 'train.lr' '"isError": false')"

# ---- what is refused ---------------------------------------------------------------------------------
# wrong TEXT NAME ARGUMENTS : the tool says that text, as a failure
wrong() { call "$2" "$3"; has out '"isError": true' "$1"; }
result "arguments that are no arguments" "$(wrong "the argument 'script' is missing" start_run '{}'; wrong "there is no argument 'scrpt'" start_run '{"scrpt":"a"}'
  wrong 'want a string' start_run '{"script":5}'; wrong "does not begin with '-'" start_run '{"script":"--help"}'; wrong 'is not KEY=VALUE' start_run '{"script":"my.lua","overrides":["dir"]}'; wrong "does not begin with" start_run '{"script":"my.lua","overrides":["--dir=/tmp"]}'
  wrong 'want an integer' show_completions '{"run":"first","step":1.5}'; wrong 'no such run' explain_run '{"run":"nothing"}'; wrong 'want script, or tests' check_reward '{"run":"first"}'
  wrong 'nowhere.lua' start_run '{"script":"nowhere.lua"}')"
result "a flag in help is a word that is left out" "$(call help '{"topic":"train.lr --version"}'; has out 'train.lr')"
deep=$(printf '[%.0s' $(seq 20000))
ask '{' "$deep" '[]' '5' '{"id":1,"method":"ping"}' '{"jsonrpc":"2.0","id":{},"method":"ping"}' '{"jsonrpc":"2.0","id":1}' '{"jsonrpc":"2.0","id":1,"method":"nothing"}' \
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"help","arguments":"x"}}' \
  '{"jsonrpc":"2.0","method":"nothing"}' '{"jsonrpc":"2.0","id":1,"result":{}}' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}' '{"jsonrpc":"2.0","id":9,"method":"ping"}'
codes=$(grep -oE '"code": -[0-9]+' out | sed 's/.*: //' | tr '\n' ' ')
result "messages that are none have their codes, and the server stays" "$([ "$codes" = "-32700 -32700 -32600 -32600 -32600 -32600 -32600 -32601 -32602 -32602 -32602 -32602 " ] || echo "$codes"; has out '"id": 9'; cat err)"
# ---- the tools of a server in a rollout ---------------------------------------------------------------
# tooled FILE MODE : an experiment whose model calls a tool of ext/mcp/tests/cases/tools.sh wherever it writes "="
tooled() {
  experiment "$1" "tools = { theirs = grpo.mcp { command = { \"sh\", \"$root/ext/mcp/tests/cases/tools.sh\", \"$2\", \"$work/log\" } } },
  turns = { max = 3, format = { stop = { \"=\" }, write = function(result) return result end,
    read = function(text) return text:find(\"=$\") and { { name = \"add\", arguments = { a = 1, b = 2 } } } or nil end } },
  checkpoint = { every = 1 }, stages = { { kind = \"grpo\", train = { steps = 4, prompts_per_step = 2 } } },
  hooks = { on_checkpoint = function(_, tr) if tonumber(os.getenv \"KILL\") == tr.step_count then os.execute(\"kill -9 \$PPID\") end end }"
}
run() { timeout 60 "$GRPO" run "$@" --quiet </dev/null >out 2>err; }
tooled tools.lua good
run tools.lua --dir whole; status=$?
result "a run calls the tools of a server, which is started once" "$([ $status = 0 ] || show err; has whole/tools-001/completions.jsonl '"name": "add", "result": "3"'
  [ "$(grep -c '"initialize"' log)" = 1 ] || cat log; has whole/tools-001/mcp.json 'get-time'; has whole/tools-001/config.json '"description": "adds"')"
KILL=2 run tools.lua --dir cut; sed -i 's/adds/& it up/' cut/tools-001/mcp.json; run --resume=cut/tools-001 --dir cut; status=$?
result "a killed run continues with the same bytes, and says that the server's words have changed" "$([ $status = 0 ] || show err
  different whole/tools-001 cut/tools-001; has err 'in other words than when the run began')"
tooled dying.lua dies
run dying.lua --dir dying; status=$?
result "a server that dies costs a few lines, and no run" "$([ $status = 0 ] && [ "$(wc -l <err)" -lt 8 ] && grep -q 'note: mcp: .*it has ended' err || show err; has dying/dying-001/completions.jsonl '"failed": true')"
tooled gone.lua gone
run gone.lua --dir gone; status=$?
result "a server without tools is one line" "$([ $status = 2 ] && grep -q 'gives no tools, because: it has ended' err || show err)"

# ---- over HTTP ----------------------------------------------------------------------------------------
# request LINE... : the status and the body of an answer to a request of these lines, in the file `out`
request() {
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf '%s\r\n' "$@" >&3; cat <&3 | tr -d '\r' | sed -n '1p;/^{/p' >out; exec 3>&-
}
"$GRPO" mcp --http=0 >address 2>err & server=$!
for _ in $(seq 100); do { [ -s address ] || [ -s err ]; } && break; sleep 0.05; done
if grep -q libmicrohttpd err; then result "grpo mcp --http # SKIP $(cat err)"; else
  port=$(sed -E 's/.*:([0-9]+).*/\1/' address) body='{"jsonrpc":"2.0","id":1,"method":"ping"}'
  post=("POST /mcp HTTP/1.1" "Host: 127.0.0.1:$port" "Content-Length: 40")
  request "${post[@]}" '' "$body"; result "a message over HTTP is answered" "$(has out '200 OK' '"id": 1, "jsonrpc": "2.0", "result": {}')"
  request "${post[@]}" '' "${body/\"id\":1,/       }"; result "a notification is accepted" "$(has out '202 Accepted')"
  request "${post[@]}" 'Origin: http://elsewhere.example' '' "$body"; result "a page from elsewhere is refused" "$(has out '403 Forbidden')"
  request "${post[@]}" 'mcp-protocol-version: 2025-06-18' '' "$body"; result "a version of the protocol that is known is served" "$(has out '200 OK')"
  request "${post[@]}" 'MCP-Protocol-Version: 1999-01-01' '' "$body"; result "another one is refused" "$(has out '400 Bad')"
  request 'GET /mcp HTTP/1.1' "Host: 127.0.0.1:$port" ''; result "there is no stream" "$(has out '405 ')"
  request 'GET / HTTP/1.1' "Host: 127.0.0.1:$port" ''; result "there is one path" "$(has out '404 ')"
  if "$GRPO" --version | grep -q libcurl; then
    "$GRPO" repl <<<"print(grpo.mcp({ url = '$(cat address)' }).help.fn { topic = 'train.lr' })" >out 2>err
    result "its tools are those of a rollout, by their address" "$(has out 'train.lr'; cat err)"
  fi
  kill $server; wait $server; status=$?
  result "a signal ends it" "$([ $status = 0 ] || echo "exit status $status")"
  "$GRPO" mcp --http=0 --host 0.0.0.0 >out 2>err; status=$?
  result "an address of others wants a token" "$([ $status = 2 ] && grep -q token err || show err)"
fi

head -c 5000000 /dev/zero | tr '\0' 'a' | "$GRPO" mcp >out 2>err
result "a message of any length is refused" "$(has out '"code": -32700' 'too long')"
finish
