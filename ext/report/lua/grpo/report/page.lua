-- The parts of a report's page that do not depend on the run: the style and the script.

local page = {}

page.style = [[
:root { --ink:#1f2937; --dim:#6b7280; --line:#e5e7eb; --back:#fff; --soft:#f9fafb; --good:#059669;
  --bad:#dc2626 }
@media (prefers-color-scheme: dark) {
  :root { --ink:#e5e7eb; --dim:#9ca3af; --line:#374151; --back:#111827; --soft:#1f2937;
    --good:#34d399; --bad:#f87171 }
  svg path, circle, .bar { filter:brightness(1.5) }
}
body { font:14px/1.45 system-ui,sans-serif; color:var(--ink); background:var(--back);
  margin:24px auto; max-width:1440px; padding:0 16px }
h1 { font-size:22px; margin:0; overflow-wrap:anywhere } h2 { font-size:16px; margin:28px 0 8px }
.dim { color:var(--dim) } .bad { color:var(--bad) }
table { border-collapse:collapse }
td,th { padding:3px 10px 3px 0; text-align:left; vertical-align:top;
  border-bottom:1px solid var(--line); overflow-wrap:anywhere }
th { font-weight:600 }
.facts td:first-child { color:var(--dim) } .facts td { border:0 }
.facts td:first-child, .wide td:first-child, .wide th, .wide td.dim { white-space:nowrap }
.wide table:not(#completions) td + td:not(.dim) { min-width:9em }
.panels { display:grid; gap:14px;
  grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr)) }
figure { margin:0; border:1px solid var(--line); border-radius:6px; padding:8px;
  background:var(--soft) }
figcaption { font-weight:600; font-size:13px; overflow-wrap:anywhere }
svg { width:100%; height:auto; display:block; overflow:visible }
svg path { stroke-width:1.4; stroke-linejoin:round } svg path:not(.band) { fill:none }
svg path.faint { stroke-width:1; stroke-opacity:.3 }
svg path.band { fill-opacity:.25; stroke:none }
svg text { font-size:10px; fill:var(--dim) }
@media (max-width:480px) { svg text { font-size:13px } }
svg text.y { text-anchor:end } svg text.x { text-anchor:middle }
.grid { stroke:var(--line); stroke-width:.7 }
.mark { stroke:var(--dim); stroke-dasharray:3 3; stroke-width:.8 } .bar { stroke-width:1.2 }
.resumed { stroke:#d97706; stroke-dasharray:1 2; stroke-width:1.2 }
.legend { font-size:12px; display:flex; flex-wrap:wrap; gap:2px 10px; overflow-wrap:anywhere }
.legend svg { display:inline-block; width:16px; height:10px; margin-right:4px }
.legend svg path { stroke-width:2.5 }
.wide { overflow-x:auto } input[type=number] { width:80px } input[type=search] { max-width:100% }
#live { font-weight:600 } #pen { display:none }
.notes { font-family:ui-monospace,monospace; font-size:12px; white-space:pre-wrap;
  background:var(--soft); border:1px solid var(--line); border-radius:6px; padding:8px;
  max-height:260px; overflow:auto }
.controls { display:flex; flex-wrap:wrap; gap:10px; align-items:center; margin:8px 0 }
input,select,button { font:inherit; color:inherit; background:var(--soft);
  border:1px solid var(--line); border-radius:5px; padding:3px 8px }
#completions { width:100%; font-size:13px } #completions th { cursor:pointer; white-space:nowrap;
  position:sticky; top:0; background:var(--back) }
#completions td.text { white-space:pre-wrap; font-family:ui-monospace,monospace; font-size:12px;
  max-width:720px; overflow-wrap:anywhere }
#completions td.prompt { white-space:pre-wrap; font-size:12px; color:var(--dim);
  max-width:320px; overflow-wrap:anywhere }
mark { background:#fde68a; color:#111 } .plus { color:var(--good) } .minus { color:var(--bad) }
]]

-- Rows are lists in the order of `columns`.  The script sets everything as text, never as HTML.
-- Columns are known by their places, since rewards may have the names of other columns.
local completions_script = [[
function completions() {
  var columns = [], rows = [], at = { step: 0, prompt: 1, text: 2 };
  var page = 0, PER = 50, sort = null;
  var table = document.getElementById('completions'), find = document.getElementById('find');
  var from = document.getElementById('from'), to = document.getElementById('to');
  var ends = document.getElementById('ends');
  var shown = rows;

  function textOf(v) { return v === null ? '' : String(v); }
  function value(row, i) { return row[i] === null ? -Infinity : row[i]; }

  function choose() {
    var words = find.value.toLowerCase(), low = from.value === '' ? -Infinity : +from.value;
    var high = to.value === '' ? Infinity : +to.value, finish = ends.value;
    shown = rows.filter(function (r) {
      return r[at.step] >= low && r[at.step] <= high && (!finish || r[at.finish] === finish) &&
        (!words || textOf(r[at.text]).toLowerCase().indexOf(words) >= 0 ||
          textOf(r[at.prompt]).toLowerCase().indexOf(words) >= 0);
    });
    shown = shown.map(function (r, i) { return [r, i]; }).sort(function (a, b) {
      var x = value(a[0], sort.by), y = value(b[0], sort.by);
      var order = x < y ? -1 : x > y ? 1 : a[1] - b[1];
      return sort.down && x !== y ? -order : order;
    }).map(function (p) { return p[0]; });
    draw();
  }

  function chooseAnew() {
    page = 0;
    choose();
  }

  function mark(cell, text) {
    var words = find.value.toLowerCase(), low = text.toLowerCase(), i = 0, j;
    while (words && (j = low.indexOf(words, i)) >= 0) {
      cell.appendChild(document.createTextNode(text.slice(i, j)));
      var found = cell.appendChild(document.createElement('mark'));
      found.textContent = text.slice(j, j + words.length);
      i = j + words.length;
    }
    cell.appendChild(document.createTextNode(text.slice(i)));
  }

  function draw() {
    var body = document.createElement('tbody'), head = document.createElement('thead');
    var line = head.insertRow();
    columns.forEach(function (c, i) {
      var th = document.createElement('th');
      th.textContent = c + (sort.by === i ? (sort.down ? ' \u25be' : ' \u25b4') : '');
      th.onclick = function () {
        var number = typeof (rows[0] || [])[i] === 'number';
        sort = { by: i, down: sort.by === i ? !sort.down : number && i !== at.step };
        chooseAnew();
      };
      line.appendChild(th);
    });
    var pages = Math.max(1, Math.ceil(shown.length / PER));
    page = Math.min(page, pages - 1);
    shown.slice(page * PER, page * PER + PER).forEach(function (r) {
      var tr = body.insertRow();
      r.forEach(function (v, i) {
        var td = tr.insertCell();
        if (i === at.text || i === at.prompt) {
          td.className = columns[i];
          mark(td, textOf(v));
          return;
        }
        if (typeof v === 'number' && v % 1) v = +v.toPrecision(4);
        td.textContent = v === null ? '\u2013' : v;
        if (i === at.advantage && v !== null)
          td.className = v > 0 ? 'plus' : v < 0 ? 'minus' : '';
      });
    });
    table.replaceChildren(head, body);
    document.getElementById('where').textContent = shown.length + ' of ' + rows.length +
      ' completions, page ' + (page + 1) + ' of ' + pages;
    document.getElementById('back').disabled = page === 0;
    document.getElementById('on').disabled = page + 1 >= pages;
  }

  [find, from, to].forEach(function (e) { e.oninput = chooseAnew; });
  ends.onchange = chooseAnew;
  document.getElementById('back').onclick = function () { page--; draw(); };
  document.getElementById('on').onclick = function () { page++; draw(); };
  return function (data) {
    columns = data.columns;
    rows = data.rows;
    at.advantage = columns.length - 3;
    at.finish = columns.length - 1;
    if (!sort || sort.by >= columns.length) sort = { by: at.step, down: data.newest };
    choose();
  };
}
]]

-- A page that follows a run asks for what is new, unless nobody looks at it.
local start_script = [[
var data = JSON.parse(document.getElementById('data').textContent);
var showCurves = curves(data.sizes), EVERY = 2000;
var showCompletions = document.getElementById('completions') && completions();

function say(text) { document.getElementById('live').textContent = text; }

function show(now) {
  showCurves(now);
  if (now.completions) showCompletions(now.completions);
  if (!now.facts) return;
  var facts = document.createElement('tbody');
  now.facts.forEach(function (row) {
    var line = facts.insertRow();
    row.forEach(function (text) { line.insertCell().textContent = text; });
  });
  document.getElementById('facts').replaceChildren(facts);
  document.getElementById('notes').textContent = now.notes || 'Nothing.';
}

function ask() {
  if (document.hidden) return void setTimeout(ask, EVERY);
  fetch('data?since=' + data.version, { credentials: 'omit' }).then(function (answer) {
    if (!answer.ok) throw new Error(answer.status);
    return answer.json();
  }).then(function (now) {
    if (now.version !== data.version) {
      data = now;
      show(now);
    }
    say('following: ' + data.state);
  }).catch(function () {
    say('no answer; is grpo report --serve still running?');
  }).then(function () { setTimeout(ask, EVERY); });
}

show(data);
if (data.version !== undefined) ask();
]]

page.script = "(function () {\n'use strict';\n" .. require "grpo.report.curves_script"
  .. completions_script .. start_script .. "})();\n"


-- weight: of the smoothing at first; is_logarithmic: the axis at first
function page.curve_controls(weight, is_logarithmic)
  return ('<div class="controls"><label>smoothing <input id="smooth" type="range" min="0" '
    .. 'max="0.99" step="0.01" value="%.2f"></label><span id="weight" class="dim"></span>'
    .. '<label><input id="log" type="checkbox"%s> logarithmic axis</label>'
    .. '<span id="live" class="dim"></span><svg id="pen"></svg></div>'):format(weight,
    is_logarithmic and " checked" or "")
end

page.controls = [[
<div class="controls">
<input id="find" type="search" placeholder="search prompts and completions" size="36">
<label>steps <input id="from" type="number" size="6"></label>
<label>to <input id="to" type="number"></label>
<select id="ends"><option value="">any end</option><option>eos</option><option>stop</option>
<option>length</option></select>
<button id="back">&larr;</button><button id="on">&rarr;</button>
<span id="where" class="dim"></span></div>
<div class="wide"><table id="completions"></table></div>
]]

return page
