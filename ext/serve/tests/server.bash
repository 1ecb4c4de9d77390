# Sourced after tiny.bash: a server of a tiny model.
# shellcheck shell=bash
"$GRPO" repl <"$root/ext/serve/tests/make_model.lua" >made 2>&1 || cat made
cat >model/chat_template.jinja <<'J'
{% if tools %}{{ '<|im_start|>system\n' }}{% for t in tools %}{{ t | tojson }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' }}{% if m.content %}{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}{{ '<tool_call>' ~ (c.function | tojson) ~ '</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
J
# serve FLAG... : starts a server; $base is its address, $server its process
serve() {
  rm -f address
  "$GRPO" serve model --port 0 "$@" >address 2>serve.err & server=$!
  for _ in $(seq 400); do [ -s address ] && break; sleep 0.05; done
  base=$(cat address)
  port=${base##*:} port=${port%/v1}
}
# post PATH BODY [CURL'S ARGUMENT...] : the answer
post() { local path=$1 body=$2; shift 2; curl -sS --max-time 60 "$@" -H 'Content-Type: application/json' --data-binary "$body" "$base$path"; }
# status PATH BODY [CURL'S ARGUMENT...] : its status alone, and the code of an error
status() { local path=$1 body=$2; shift 2
  post "$path" "$body" -w ' %{http_code}' "$@" >status.out
  echo "$(sed -E 's/.* //' <(tail -c 4 status.out)) $(grep -oE '"code": ?("[a-z_]+"|null)' status.out | sed 's/.*: *//; s/"//g')"; }
