#!/usr/bin/env bash
# grpo report: what the page says of rows that cannot be judged, other builds, wrong clocks, odd names and lost rows.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

experiment exp.lua 'train = { steps = 4, prompts_per_step = 2 }, checkpoint = { every = 2, keep = 9 }'
"$GRPO" run exp.lua --quiet --as base --steps 2 >/dev/null 2>err || show err
"$GRPO" run --resume=runs/base --quiet >/dev/null 2>err || show err
# page NAME PATTERN... : the report of the run has each pattern
page() {
  local name=$1 pattern; shift
  "$GRPO" report "$name" --out page.html >out 2>err || show err
  for pattern; do
    grep -qE -- "$pattern" page.html || { echo "no $pattern"; grep -o '<td>[^/]*/td>' page.html | head -n 20; }
  done
}
# copied NAME : a copy of the run whose files may be changed
copied() { cp -r runs/base "runs/$1" && unsummed "runs/$1"; }

result "a resume has the step of the whole run" "$(page base 'resumed at step 2')"
native=$("$GRPO" --version | sed -nE 's/^kernels: ([a-z0-9]+);.*/\1/p')
commit=$("$GRPO" --version | sed -nE '1s/.*\(([^)]*)\).*/\1/p')
if GRPO_CPU=generic "$GRPO" --version >/dev/null 2>&1 && [ "$native" != generic ] && [ -n "$commit" ]; then
  "$GRPO" run exp.lua --quiet --as k --steps 2 >/dev/null 2>err || show err
  GRPO_CPU=generic "$GRPO" run --resume=runs/k --quiet >/dev/null 2>err || show err
  result "both kernels of a run" "$(page k "<td>kernels</td><td>$native; portable from step 3</td>")"
  "$GRPO" run exp.lua --quiet --as b --steps 2 >/dev/null 2>err || show err
  sed -i -E 's/"commit": "[^"]*"/"commit": "0123456789ab"/' runs/b/env.json && unsummed runs/b
  "$GRPO" run --resume=runs/b --quiet >/dev/null 2>err || show err
  result "both builds of a run" "$(page b "\(0123456789ab\); [^<]* \($commit\) from step 3</td>")"
fi

experiment unjudged.lua 'train = { steps = 1, prompts_per_step = 2, lr = 1e-3 }' \
  'correct = function(_, row) if row.kept then return 1 end end' 'train = grpo.data.list(rows),
  eval = grpo.data.list { { prompt = "1+1=", answer = "2", kept = true }, { prompt = "2+1=", answer = "words" } }'
"$GRPO" run unjudged.lua --quiet >/dev/null 2>err || show err
result "rows that cannot be judged are counted" \
  "$(page unjudged-001 '<td>held-out rows</td><td>1, and 1 that cannot be judged</td>')"

copied back && sed -i -E 's/"finished": [0-9.]+/"finished": 1000/' runs/back/run.json
result "a clock that went back: no duration is negative" "$(
  page back '<td>took</td><td>unknown, because the clock went back</td>'; grep -oE '[^0-9T:]-[0-9.]+ s\b' page.html)"
for time in 99999999999 200000000000 -1700000000 -9999999999; do
  copied "far$time" && sed -i -E "s/\"(started|finished)\": [0-9.]+/\"\1\": $time/" "runs/far$time/run.json"
  result "a clock that says $time: there is a page" "$(page "far$time" '<td>took</td>')"
done

odd=$'x\e]0;pwn\a\r\e[31m\xc2\x9b2J\n\u202eb'
copied "$odd"
result "a pipe gets the name of a directory as it is" \
  "$([ "$("$GRPO" report "runs/$odd" 2>/dev/null)" = "runs/$odd/report.html" ] || echo another)"

for log in metrics completions; do
  rm -rf lost && cp -r runs/base lost && sed -i 2d lost/$log.jsonl
  timeout 60 "$GRPO" report lost --out page.html >out 2>err; status=$?
  result "a row that is taken out of $log.jsonl is missed" "$([ "$status $(wc -l <err)" = '3 1' ] &&
    grep -q "^grpo: lost/$log.jsonl:2: row 3 of the log stands here, where row 2 has to be; the file is damaged" err ||
    show err)"
  rm -rf lost && cp -r runs/base lost && sed -i '$d' lost/$log.jsonl
  timeout 60 "$GRPO" report lost --out page.html >out 2>err; status=$?
  result "and so is its last row" "$([ "$status $(wc -l <err)" = '3 1' ] &&
    grep -q "^grpo: lost/$log.jsonl: it ends with row .*, which run.json counts" err || show err)"
done
for pair in tensorbord:report "dashboard:report RUN --serve"; do
  "$GRPO" "${pair%:*}" >out 2>err
  result "grpo ${pair%:*} leads to it" \
    "$(echo "grpo: unknown command '${pair%:*}', did you mean '${pair#*:}'?; see 'grpo help'" | diff - err)"
done
finish
