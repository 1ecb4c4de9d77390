#!/usr/bin/env bash
# grpo report: smoothing, logarithmic axis, several runs on one page, marks; what a browser shows.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
write_experiment exp.lua
run=runs/exp-001
"$GRPO" run exp.lua --quiet --steps 8 >/dev/null 2>err || show err
"$GRPO" run --quiet --resume=$run >/dev/null 2>err || show err
"$GRPO" run exp.lua --quiet name=short seed=3 --steps 9 >/dev/null 2>err || show err
result "run.json of a resumed run has one checksum, at its end" "$([ "$(grep -c '^  "crc32c"' $run/run.json)" = 1 ] || grep -n crc32c $run/run.json)"
has() { local word; for word in "${@:2}"; do grep -qF -- "$word" "$1" || { echo "no $word in $1"; }; done; }
count() { grep -oF -- "$2" "$1" | wc -l; }

# ---- the look of curves --------------------------------------------------------------------------------------------------------------
"$GRPO" report exp-001 --out plain.html >/dev/null
"$GRPO" report exp-001 --out smooth.html --smooth 0.5 >/dev/null
"$GRPO" report exp-001 --out log.html --log >/dev/null
result "stages and resumes are marked, with words" "$(has plain.html '<title>stage 2 begins</title>' '<title>resumed at step 8</title>')"
result "--smooth shows averages over faint values" "$([ "$(count plain.html 'class="faint"')" = 0 ] && [ "$(count smooth.html '<path class="faint"')" -ge 10 ] || echo none
  has smooth.html 'step="0.01" value="0.50"')"
result "--log shows a logarithmic axis" "$(has log.html 'type="checkbox" checked' '>0.001</text>'; cmp -s plain.html log.html && echo equal)"
for bad in -0.1 1 2; do "$GRPO" report exp-001 --smooth=$bad >out 2>err; echo "$? $(cat err)"; done >refused
result "--smooth has bounds" "$([ "$(grep -c '^2 grpo: .*0 to 0.99' refused)" = 3 ] || cat refused)"

# ---- several runs --------------------------------------------------------------------------------------------------------------------
answer=$("$GRPO" report exp-001 short-001 2>err)
page=$run/report-overlay.html
result "runs of different lengths are on one page" "$([ "$answer" = $page ] || show err; has $page '<title>exp-001, short-001</title>' '</svg>exp-001: reward</span>' \
  '</svg>short-001: reward</span>' 'finished, step 14 of 14' 'stopped, step 9 of 14' '<title>exp-001: resumed at step 8</title>')"
result "with the options that differ" "$(sed 's/<details>.*//' $page | tr '<' '\n' | grep -qx 'td>seed' || echo no seed; sed 's/<details>.*//' $page | grep -o 'td>sampling.group_size')"
result "a page loads nothing" "$(grep -hoE '(src|href)=|url\(|@import|https?://' plain.html $page)"
# what a model, a script or a name may hold
hostile='</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> \u2028'
for name in exp-001 short-001; do
  cp -r runs/$name hostile-$name && unsummed hostile-$name
  sed -i -E "1s|\"text\": \"[^\"]*\"|\"text\": \"$hostile\"|; s|\"reward\": |\"rewards/</script><img src=x>/mean\": 0.5, &|" hostile-$name/completions.jsonl hostile-$name/metrics.jsonl
  echo "2026-01-01T00:00:00Z note: $hostile" >>hostile-$name/run.log
done
"$GRPO" report hostile-exp-001 >/dev/null 2>err || show err
"$GRPO" report hostile-exp-001 hostile-short-001 >/dev/null 2>>err || show err
result "no text of a run becomes a tag" "$(cat err; grep -hoE '<(img|!--)|<script>alert' hostile-exp-001/report.html hostile-exp-001/report-overlay.html)"
result "the policy of the page allows no other source" "$(has plain.html "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';")"

# ---- what a browser shows ------------------------------------------------------------------------------------------------------------
# dom PAGE OUT : the page after its script has run
dom() {
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update \
    --disable-sync --user-data-dir="$work/browser" --virtual-time-budget=2000 --dump-dom "file://$PWD/$1" 2>/dev/null | sed 's/<script.*//' >"$2"
}
# the curves of a page, one path a line; numbers with one digit less, because two programs round
paths() { grep -oE '<path[^>]* d="[^"]*"' "$1" | grep -oE ' d="[^"]*"' | sed -E 's/[0-9](\.[0-9])/\1/g; s/\.[0-9]+//g'; }
browser=$(command -v chromium || command -v chromium-browser || true)
if [ -n "$browser" ]; then
  for look in plain smooth log; do
    dom $look.html $look.dom
    sed 's/<script.*//' $look.html >$look.drawn
    result "the page's script draws the curves that the program has drawn: $look" \
      "$([ "$(count $look.drawn '<path')" -ge 20 ] || echo few; diff <(paths $look.drawn) <(paths $look.dom) | head -n 4
      diff <(grep -oE '<text[^>]*>[^<]*' $look.drawn | sed 's/.*>//') <(grep -oE '<text[^>]*>[^<]*' $look.dom | sed 's/.*>//') | head -n 4)"
  done
  dom hostile-exp-001/report.html hostile.dom
  result "a hostile text is text in the browser too" "$(grep -oE '<(img|script)' hostile.dom; has hostile.dom '&lt;img src=x onerror=alert(2)&gt;')"
else
  for look in plain smooth log hostile; do result "what a browser shows: $look # SKIP chromium is not installed"; done
fi
finish
