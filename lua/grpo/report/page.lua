-- The parts of a report's page that do not depend on the run: the style, and the script of the
-- table of completions.

local page = {}

page.style = [[
:root { --ink:#1f2937; --dim:#6b7280; --line:#e5e7eb; --back:#fff; --soft:#f9fafb; --good:#059669;
  --bad:#dc2626 }
@media (prefers-color-scheme: dark) {
  :root { --ink:#e5e7eb; --dim:#9ca3af; --line:#374151; --back:#111827; --soft:#1f2937;
    --good:#34d399; --bad:#f87171 }
}
body { font:14px/1.45 system-ui,sans-serif; color:var(--ink); background:var(--back);
  margin:24px auto; max-width:1440px; padding:0 16px }
h1 { font-size:22px; margin:0 } h2 { font-size:16px; margin:28px 0 8px }
.dim { color:var(--dim) } .bad { color:var(--bad) }
table { border-collapse:collapse }
td,th { padding:3px 10px 3px 0; text-align:left; vertical-align:top;
  border-bottom:1px solid var(--line) }
th { font-weight:600 }
.facts td:first-child { color:var(--dim) } .facts td { border:0 }
.panels { display:grid; grid-template-columns:repeat(auto-fill,minmax(400px,1fr)); gap:14px }
figure { margin:0; border:1px solid var(--line); border-radius:6px; padding:8px;
  background:var(--soft) }
figcaption { font-weight:600; font-size:13px } svg { width:100%; height:auto; display:block }
svg path { fill:none; stroke-width:1.4; stroke-linejoin:round }
svg text { font-size:10px; fill:var(--dim) }
svg text.y { text-anchor:end } svg text.x { text-anchor:middle }
.grid { stroke:var(--line); stroke-width:.7 }
.mark { stroke:var(--dim); stroke-dasharray:3 3; stroke-width:.8 } .bar { stroke-width:1.2 }
.legend { font-size:12px; display:flex; flex-wrap:wrap; gap:10px }
.legend i { display:inline-block; width:10px; height:10px; border-radius:2px; margin-right:4px }
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
page.script = [[
(function () {
  'use strict';
  var data = JSON.parse(document.getElementById('data').textContent);
  var columns = data.columns, rows = data.rows, at = {}, page = 0, PER = 50;
  columns.forEach(function (c, i) { at[c] = i; });
  var table = document.getElementById('completions'), find = document.getElementById('find');
  var from = document.getElementById('from'), to = document.getElementById('to');
  var ends = document.getElementById('ends');
  var sort = { by: at.step, down: false }, shown = rows;

  function value(row, i) { return row[i] === null ? -Infinity : row[i]; }

  function choose() {
    var words = find.value.toLowerCase(), low = from.value === '' ? -Infinity : +from.value;
    var high = to.value === '' ? Infinity : +to.value, finish = ends.value;
    shown = rows.filter(function (r) {
      return r[at.step] >= low && r[at.step] <= high && (!finish || r[at.finish] === finish) &&
        (!words || r[at.text].toLowerCase().indexOf(words) >= 0 ||
          r[at.prompt].toLowerCase().indexOf(words) >= 0);
    });
    shown = shown.map(function (r, i) { return [r, i]; }).sort(function (a, b) {
      var x = value(a[0], sort.by), y = value(b[0], sort.by);
      var order = x < y ? -1 : x > y ? 1 : a[1] - b[1];
      return sort.down && x !== y ? -order : order;
    }).map(function (p) { return p[0]; });
    page = 0;
    draw();
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
        sort = { by: i, down: sort.by === i ? !sort.down : number && c !== 'step' };
        choose();
      };
      line.appendChild(th);
    });
    shown.slice(page * PER, page * PER + PER).forEach(function (r) {
      var tr = body.insertRow();
      r.forEach(function (v, i) {
        var td = tr.insertCell(), name = columns[i];
        if (name === 'text' || name === 'prompt') { td.className = name; mark(td, v); return; }
        if (typeof v === 'number' && v % 1) v = +v.toPrecision(4);
        td.textContent = v === null ? '\u2013' : v;
        if (name === 'advantage' && v !== null)
          td.className = v > 0 ? 'plus' : v < 0 ? 'minus' : '';
      });
    });
    table.replaceChildren(head, body);
    var pages = Math.max(1, Math.ceil(shown.length / PER));
    document.getElementById('where').textContent = shown.length + ' of ' + rows.length +
      ' completions, page ' + (page + 1) + ' of ' + pages;
    document.getElementById('back').disabled = page === 0;
    document.getElementById('on').disabled = page + 1 >= pages;
  }

  [find, from, to].forEach(function (e) { e.oninput = choose; });
  ends.onchange = choose;
  document.getElementById('back').onclick = function () { page--; draw(); };
  document.getElementById('on').onclick = function () { page++; draw(); };
  choose();
})();
]]

page.controls = [[
<div class="controls">
<input id="find" type="search" placeholder="search prompts and completions" size="36">
<label>steps <input id="from" type="number" size="6" style="width:80px"></label>
<label>to <input id="to" type="number" style="width:80px"></label>
<select id="ends"><option value="">any end</option><option>eos</option><option>stop</option>
<option>length</option></select>
<button id="back">&larr;</button><button id="on">&rarr;</button>
<span id="where" class="dim"></span></div>
<table id="completions"></table>
]]

return page
