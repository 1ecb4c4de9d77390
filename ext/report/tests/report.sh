#!/usr/bin/env bash
# grpo report: smoothing, logarithmic axis, several runs on one page, marks; what a browser shows.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
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
# ticks of steps, panel by panel: all panels have those of the whole run, of 14 steps in two stages
panels() { sed 's/<figure>/\n&/g' plain.html | grep '^<figure>.*class="grid"' | while read -r panel; do
  grep -oE '<text class="x"[^>]*>[0-9]+' <<<"$panel" | sed 's/.*>//' | tr '\n' ' '; echo; done; }
result "all panels have one axis of steps" "$([ "$(panels | wc -l)" -ge 6 ] && [ "$(panels | sort -u | wc -l)" = 1 ] || panels)"
result "the outcome stands below the title" "$(grep -oE '</h1><div id="outcome"><p>[^<]*' plain.html |
  grep -qE 'The (held-out accuracy went from [0-9.]+ % to [0-9.]+ %|reward was [-0-9.]+ at first)' || grep -oE '</h1>.{200}' plain.html)"
unsummed_copy=long-001; cp -r runs/exp-001 $unsummed_copy && unsummed $unsummed_copy
for pair in "1215:20 minutes" "60:1 minute" "11100:3 hours 5 minutes" "3600:1 hour" "12.34:12.3 s"; do
  sed -i -E 's/"started": [0-9.]+/"started": 1000000/; s/"finished": [0-9.]+/"finished": '"$(awk "BEGIN { printf \"%.2f\", 1000000 + ${pair%%:*} }")"'/' $unsummed_copy/run.json
  "$GRPO" report $unsummed_copy --out took.html >/dev/null 2>err
  result "took ${pair#*:}" "$(grep -qF "took</td><td>${pair#*:}</td>" took.html || { cat err; grep -oE 'took</td><td>[^<]*' took.html; })"
done
result "--smooth shows averages over faint values" "$([ "$(count plain.html 'class="faint"')" = 0 ] && [ "$(count smooth.html '<path class="faint"')" -ge 10 ] || echo none
  has smooth.html 'step="0.01" value="0.50"')"
result "--log shows a logarithmic axis" "$(has log.html 'type="checkbox" checked' '>0.001</text>'; cmp -s plain.html log.html && echo equal)"
for weight in -0.1 1 2; do "$GRPO" report exp-001 --smooth=$weight >out 2>err; echo "$? $(cat err)"; done >refused
result "--smooth has bounds" "$([ "$(grep -c '^2 grpo: .*0 to 0.99' refused)" = 3 ] || cat refused)"

# ---- several runs --------------------------------------------------------------------------------------------------------------------
answer=$("$GRPO" report exp-001 short-001 2>err)
page=$run/report-overlay.html
result "runs of different lengths are on one page" "$([ "$answer" = $page ] || show err; has $page '<title>exp-001, short-001</title>' '</svg>exp-001: reward</span>' \
  '</svg>short-001: reward</span>' 'finished, step 14 of 14' 'stopped, step 9 of 14' '<title>exp-001: resumed at step 8</title>')"
result "a count of tokens has all its digits" "$(grep -qE '<td>tokens</td><td>([0-9]{1,3}|[0-9]{1,3}(,[0-9]{3})+)</td>' $page plain.html || grep -ohE '<td>tokens</td><td>[^<]*' $page plain.html)"
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

# ---- rewards with the names of other columns -----------------------------------------------------------------------------------------
cat >browse.js <<'JS'
// Runs the page's list of completions on what stands for a document; prints what it says, and the cells with a class.
const html = require('fs').readFileSync(process.argv[2], 'utf8');
const data = JSON.parse(html.match(/<script type="application\/json" id="data">([^]*?)<\/script>/)[1]);
const element = () => ({ value: '', kids: [], insertRow() { return this.appendChild(element()); }, insertCell() { return this.appendChild(element()); },
  appendChild(x) { this.kids.push(x); return x; }, replaceChildren(...all) { this.kids = all; } });
const all = {}, get = (id) => all[id] || (all[id] = element());
const document = { getElementById: get, createElement: element, createTextNode: (t) => ({ textContent: t }) };
const source = html.match(/function completions\(\) \{[^]*?\n\}\n/)[0];
const show = new Function('document', source + 'return completions();')(document);
const say = (what) => console.log(what + ': ' + get('where').textContent);
show(data.completions); say('all');
const row = get('completions').kids[1].kids[0].kids;
console.log('classes: ' + row.map((cell, i) => cell.className ? i + cell.className : '').filter(Boolean).join(' ').replace('plus', 'sign').replace('minus', 'sign'));
get('from').value = '2'; get('from').oninput(); say('from step 2');
get('from').value = ''; get('find').value = '='; get('find').oninput(); say('with =');
get('find').value = ''; get('ends').value = 'length'; get('ends').onchange(); say('cut off');
get('ends').value = ''; get('completions').kids[0].kids[0].kids.forEach((head) => head.onclick()); say('sorted');
JS
# named NAME : a run whose only reward has this name, and what its page says
named() {
  experiment named.lua '' "{ name = '$1', fn = function(text) return select(2, text:gsub('%d', '')) / 6 end }"
  "$GRPO" run named.lua --quiet --dir named --as "$1" --steps 3 >/dev/null 2>err || show err
  "$GRPO" report "named/$1" >/dev/null 2>err || show err
  node browse.js "named/$1/report.html"
}
if command -v node >/dev/null; then
  named fine >fine; cat fine
  for name in text prompt step reward advantage length finish completion id group index __proto__ constructor toString total mean; do
    named $name >other 2>&1
    cmp -s fine other || { echo "$name:"; diff fine other; }
  done >names
  result "a reward may have the name of any other column" "$(grep -q 'from step 2: [1-9]' fine || cat fine; cat names)"
else
  result "a reward may have the name of any other column # SKIP needs node"
fi

# ---- a page that follows a run -------------------------------------------------------------------------------------------------------
refuses() { "$GRPO" report "$@" >out 2>err; [ $? = 2 ] && grep -q -- '--serve follows one run' err || show out err; }
result "--serve follows one run and writes nothing" "$(refuses exp-001 short-001 --serve; refuses exp-001 --serve --out x.html)"
SLOW=0.1 "$GRPO" run exp.lua --quiet name=live >/dev/null 2>&1 & trainer=$!
for _ in $(seq 200); do grep -q '"step"' runs/live-001/metrics.jsonl 2>/dev/null && break; sleep 0.05; done
"$GRPO" report live-001 --serve --port 0 >address 2>err & server=$!
for _ in $(seq 200); do [ -s address ] && break; kill -0 $server 2>/dev/null || break; sleep 0.05; done
if grep -q libmicrohttpd err; then
  kill $trainer; result "a page that follows a run # SKIP $(cat err)"
else
port=$(sed -n -E 's,^http://127\.0\.0\.1:([0-9]+)/$,\1,p' address)
# ask METHOD PATH [HOST] : the answer
ask() {
  exec 9<>"/dev/tcp/127.0.0.1/$port" || return
  printf '%s %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$1" "$2" "${3:-127.0.0.1:$port}" >&9
  cat <&9; exec 9>&-
}
version() { ask GET /data | grep -oE '"version":[0-9]+' | head -n 1; }
ask GET / >page.out; first=$(version)
result "--serve prints the address and serves the page" "$(has page.out 'HTTP/1.1 200 OK' '<title>live-001</title>' '<script src="script.js"></script>'
  [ "$(count page.out '<figure>')" -ge 5 ] || echo few curves; grep -oE '<script>[^<]*|style="[^"]*"' page.out)"
result "its style and script are files of its own" "$(ask GET /style.css >style.out; ask GET /script.js >script.out; has style.out text/css .panels; has script.out text/javascript 'function curves')"
for _ in $(seq 100); do [ "$(version)" != "$first" ] && break; sleep 0.1; done
result "the data follow the run" "$([ "$(version)" != "$first" ] || echo "still $first")"
wait $trainer; status=$?
for _ in $(seq 100); do ask GET /data >data.out; grep -q '"state":"finished"' data.out && break; sleep 0.1; done
result "to its end, which it reaches beside the server" "$([ $status = 0 ] || echo "status $status"; has data.out '"state":"finished"' 'finished, step 14 of 14' '"newest":true')"
now=$(version)
result "what has not changed is not sent again" "$([ "$(ask GET "/data?since=${now#*:}" | tail -n 1)" = "{$now}" ] || ask GET "/data?since=${now#*:}" | head -c 300)"
result "nothing but the page is served" "$(for path in /run.json /../live-001/run.json /metrics.jsonl //etc/passwd /%2e%2e/run.json; do ask GET $path | head -n 1; done | grep -v '^HTTP/1.1 404 ')"
result "another name for this machine, another method: refused" "$(ask GET / evil.example | head -n 1 | grep -v ' 421 '; ask GET / "evil.example:$port" | grep -o '<title>'; ask POST / | head -n 1 | grep -v ' 405 ')"
cp runs/live-001/metrics.jsonl kept; echo 'not json' >>runs/live-001/metrics.jsonl; sleep 1.2
ask GET /data | grep -o '"state":"cannot be read: [^"]*not a JSON object' >state.out
result "a file that cannot be read is named, and the server stays" "$([ -s state.out ] || ask GET /data | head -c 300)"
mv kept runs/live-001/metrics.jsonl
kill -INT $server; wait $server; status=$?
result "Ctrl-C ends it; it has written nothing" "$([ $status = 130 ] || echo "status $status"; cat err; ls runs/live-001 | grep report)"
fi

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
  cp "$page" several.html
  for look in plain smooth log several; do
    dom $look.html $look.dom
    sed 's/<script.*//' $look.html >$look.drawn
    result "the page's script draws the curves that the program has drawn: $look" \
      "$([ "$(count $look.drawn '<path')" -ge 20 ] || echo few; diff <(paths $look.drawn) <(paths $look.dom) | head -n 4
      grep -o 'id="weight" class="dim"></span>' $look.dom # the script came to its end
      diff <(grep -oE '<text[^>]*>[^<]*' $look.drawn | sed 's/.*>//') <(grep -oE '<text[^>]*>[^<]*' $look.dom | sed 's/.*>//') | head -n 4)"
  done
  dom hostile-exp-001/report.html hostile.dom
  result "a hostile text is text in the browser too" "$(grep -oE '<(img|script)' hostile.dom; has hostile.dom '&lt;img src=x onerror=alert(2)&gt;')"
else
  for look in plain smooth log several hostile; do result "what a browser shows: $look # SKIP chromium is not installed"; done
fi
report=$(find . -name report.html | head -n 1) run=$(dirname "$report")
cp "$run/run.json" run.before
"$GRPO" report "$run" --out "$run/run.json" >out 2>err; status=$?
result "a file that is no report is not replaced" "$([ $status = 2 ] && grep -q 'run.json is a file, and not a report; give another name' err || show err
  cmp run.before "$run/run.json" 2>&1)"
finish
