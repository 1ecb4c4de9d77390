#!/bin/sh
# tools.sh MODE [FILE] : an MCP server for tests, with the tools add, get-time and fail.  It writes what it was sent into FILE.
#   good      answers, and pings its client in between     changes  says that its list has changed
#   mute      never answers                                gone     ends at once
#   dies      ends at a call                               once     dies at the first call, and is good when started again
#   hang      does not answer calls                        garbage  answers calls with what is no JSON
#   flood     answers calls with notifications only        huge     answers a call with a line of two mebibytes
#   long      answers calls with 100,000 letters           odd      answers with parts of every kind, and some that are none
#   refuses   answers calls with an error                  wrong    has a tool without a schema
#   twice     has two tools of one name                    endless  has a list without an end
#   null      answers with results that are none           version  names no version
mode=$1 file=${2:-/dev/null}
[ "$mode" = gone ] && exit 3
say() { printf '%s\n' "$1"; }
give() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
text() { give "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}],\"isError\":${2:-false}}"; }
add='{"name":"add","description":"adds","inputSchema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}}'
time='{"name":"get-time","description":"says the time","inputSchema":{"type":"object"}}'
fail='{"name":"fail","inputSchema":{"type":"object","properties":{}}}'
while IFS= read -r line; do
  printf '%s\n' "$line" >>"$file"
  id=$(printf '%s' "$line" | sed -nE 's/.*"id": ?([0-9]+).*/\1/p')
  method=$(printf '%s' "$line" | sed -nE 's/.*"method": ?"([^"]*)".*/\1/p')
  [ "$mode" = mute ] && continue
  case $method in
    initialize) if [ "$mode" = version ]; then give '{"protocolVersion":7}'
      else give '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}'; fi ;;
    tools/list) case $mode in
      wrong) give '{"tools":[{"name":"bad","inputSchema":{"type":"array"}}]}' ;;
      twice) give "{\"tools\":[$add,$add]}" ;;
      endless) give '{"tools":[],"nextCursor":"again"}' ;;
      null) give '{"tools":5}' ;;
      *) case $line in *cursor*) give "{\"tools\":[$fail]}" ;; *) give "{\"tools\":[$add,$time],\"nextCursor\":\"2\"}" ;; esac ;;
    esac ;;
    tools/call)
      [ "$mode" = once ] && { if [ -e "$file.again" ]; then mode=good; else : >"$file.again"; exit 3; fi; }
      case $mode in
        good|changes)
          say '{"jsonrpc":"2.0","id":"p","method":"ping"}'; say '{"jsonrpc":"2.0","id":9,"method":"roots/list"}'
          say '{"jsonrpc":"2.0","method":"notifications/message","params":{}}'; say ''
          [ "$mode" = changes ] && say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
          case $line in
            *'"name": "add"'*) text "$(printf '%s' "$line" | sed -E 's/.*"a": (-?[0-9]+), "b": (-?[0-9]+).*/\1 \2/' | { read -r a b; echo $((a + b)); })" ;;
            *'"name": "fail"'*) text 'it went wrong' true ;;
            *) text noon ;;
          esac ;;
        dies) exit 3 ;;
        hang) ;;
        garbage) say 'well, let me think' ;;
        flood) while :; do say '{"jsonrpc":"2.0","method":"notifications/message"}'; done ;;
        huge) head -c 2097152 /dev/zero | tr '\0' x; echo ;;
        long) text "$(head -c 99998 /dev/zero | tr '\0' y)é" ;;
        odd) give '{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"AA=="},5,{"type":{}},{"type":"resource","resource":{"uri":"file:///x","text":"b"}},{"type":"resource_link","uri":"file:///y"}]}' ;;
        refuses) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32602,\"message\":\"no such thing\"}}" ;;
        null) give null ;;
      esac ;;
  esac
done
