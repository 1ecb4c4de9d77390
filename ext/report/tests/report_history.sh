#!/usr/bin/env bash
# grpo report: what is read from finished, cut-short and damaged runs, and from stages.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

experiment exp.lua 'train = { steps = 6, prompts_per_step = 2 }, checkpoint = { every = 3, keep = 5 }'
"$GRPO" run exp.lua --quiet >/dev/null 2>&1 || { echo "not ok - the run for these tests"; exit 1; }
run=runs/exp-001

# refused NAME STATUS TEXT WORDS... : one line on stderr that holds TEXT
refused() {
  local name=$1 want=$2 text=$3 status; shift 3
  timeout 60 "$GRPO" "$@" >out 2>err; status=$?
  result "$name" "$([ $status = "$want" ] && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$text" err || { echo "status $status"; cat out err; })"
}
"$GRPO" report exp-001 >out 2>err
page=$run/report.html
result "report writes one page and prints its path" "$([ "$(cat out)" = $page ] && [ -s $page ] || show out err)"
result "with curves" "$([ "$(grep -o '<figure>' $page | wc -l)" -ge 6 ] || grep -o '<figcaption>[^<]*' $page)"
result "that loads nothing" "$(grep -oE '(src|href)=|url\(|@import|https?://' $page)"
result "and holds every completion" "$([ "$(grep -o '"eos"\|"length"' $page | wc -l)" -ge 48 ] || wc -c $page)"
"$GRPO" report $run --out small.html --completions 8 >/dev/null
result "--completions bounds them" "$(grep -q '8 of 48 completions' small.html || grep -o '[0-9]* of [0-9]* completions' small.html)"
# what a model may write, in place of a completion
cp -r $run hostile && unsummed hostile && sed -i '1s/"text": "[^"]*"/"text": "<\/script><script>alert(1)<\/script><!-- \\u202e"/' hostile/completions.jsonl
"$GRPO" report hostile >/dev/null
result "a completion cannot leave its place" "$(none 'alert\(1\)</script>' hostile/report.html | cut -c1-200)"

cp -r $run cut && uncounted cut && truncate -s -20 cut/completions.jsonl && truncate -s -5 cut/metrics.jsonl && rm cut/eval.jsonl cut/run.log
"$GRPO" report cut >out 2>err
result "a run cut short is reported" "$([ -s cut/report.html ] && [ ! -s err ] || show err)"
cp -r $run damaged && sed -i '3s/.*/not json/' damaged/metrics.jsonl
refused "a damaged line is named" 3 "damaged/metrics.jsonl:3: not a JSON object" report damaged
rm damaged/metrics.jsonl && mkfifo damaged/metrics.jsonl
refused "a pipe in the place of the metrics" 3 "cannot read damaged/metrics.jsonl: it is a named pipe" report damaged
cp -r $run empty && uncounted empty && rm -f empty/*.jsonl
"$GRPO" report empty >/dev/null 2>err
result "a run without a step is reported" "$(grep -q 'No step has been recorded' empty/report.html || show err)"

if command -v chromium >/dev/null; then
  probe='<script>document.title = document.querySelectorAll("#completions tbody tr").length + " rows " + document.querySelectorAll("svg path").length + " paths";</script>'
  sed "s|</body>|$probe</body>|" hostile/report.html >probe.html
  timeout 60 chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=2000 --dump-dom "file://$work/probe.html" >dom 2>/dev/null
  result "a browser shows table and curves" "$(grep -qE '<title>48 rows [1-9][0-9]* paths</title>' dom || grep -o '<title>[^<]*' dom)"
else
  result "a browser shows table and curves # SKIP no chromium"
fi

# ---- stages: what they had, not what stands above them
experiment staged.lua 'stages = {
  { kind = "grpo", train = { steps = 1, prompts_per_step = 2, lr = 1e-3 } },
  { kind = "grpo", train = { steps = 1, prompts_per_step = 2, lr = tonumber(grpo.args.lr or 1e-4) } } }' "" \
  'train = grpo.data.list(rows), shuffle = false'
"$GRPO" run staged.lua --quiet >/dev/null 2>&1
"$GRPO" report staged-001 >out 2>err
table() { grep -o '<tr><td>[^<]*</td><td>[^<]*</td><td class=dim>[^<]*' runs/staged-001/report.html | sed 's/<[^>]*>/ /g'; }
result "report: the options that each stage had" \
  "$(table | grep -qE '^ +stages\.1\.train\.lr +0\.001 +stage 1$' && table | grep -qE '^ +stages\.2\.train\.lr +0\.0001 +stage 2$' || table)"
result "report: no default that none had" "$(table | grep -E '^ +train\.lr |1e-06')"
result "report: once what all stages had" "$(table | grep -qE '^ +train\.steps +1 +stage 1, stage 2$' || table)"
result "report: false is false" "$(table | grep -qE '^ +data\.shuffle +false +script$' || table)"
finish
