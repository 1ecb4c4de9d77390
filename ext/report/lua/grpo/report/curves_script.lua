-- The part of the page's script that draws curves, as svg.lua does, with the smoothing and the axis
-- that the reader has chosen.  It sets everything as text and attributes, never as HTML.

return [==[
function curves(sizes) {
  var NS = document.getElementById('pen').namespaceURI, S = sizes; // that of SVG
  var LEAST = 1e-12; // of a logarithmic axis
  var shown = { panels: [], marks: [], steps: [0, 1], smooth: 0, log: false };

  function element(name, attributes, text) {
    var e = document.createElementNS(NS, name);
    Object.keys(attributes).forEach(function (k) { e.setAttribute(k, attributes[k]); });
    if (text !== undefined) e.textContent = text;
    return e;
  }

  function numberText(v) {
    var size = Math.abs(v);
    if (size < LEAST) return '0';
    if (size >= 1e4 || size < 1e-4) return (+v.toPrecision(2)).toExponential().replace('e+', 'e');
    return String(+v.toPrecision(size < 1e-3 ? 2 : 4));
  }

  function ticks(low, high, log) {
    var list = [], i, step, power, raw = (high - low) / 4;
    if (log) {
      var first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
      var factors = last - first > 2 ? [1] : [1, 2, 5];
      for (i = first; i <= last; i += Math.max(1, Math.floor((last - first) / 6)))
        factors.forEach(function (f) {
          var v = f * Math.pow(10, i);
          if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) list.push(v);
        });
      return list.length ? list : [low];
    }
    if (raw <= 0) return [low];
    power = Math.pow(10, Math.floor(Math.log10(raw)));
    step = power * [1, 2, 5, 10].filter(function (m) { return m * power >= raw; })[0];
    for (i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++)
      list.push(i * step);
    return list;
  }

  function scale(low, high, from, to, log) {
    var place = log ? Math.log : function (v) { return v; };
    var first = place(low), by = (to - from) / (place(high) - first);
    return function (v) { return high > low ? from + (place(v) - first) * by : (from + to) / 2; };
  }

  function average(points, weight) {
    var sum = 0, total = 0;
    return points.map(function (p) {
      sum = weight * sum + (1 - weight) * p[1];
      total = weight * total + (1 - weight);
      return [p[0], sum / total];
    });
  }

  function least(p) { return p.length > 2 ? p[2] : p[1]; }
  function most(p) { return p.length > 2 ? p[3] : p[1]; }

  // the first and the last step that any panel shows
  function steps(panels) {
    var r = [Infinity, -Infinity];
    panels.forEach(function (panel) {
      panel.series.forEach(function (s) {
        r[0] = Math.min(r[0], s.points[0][0]);
        r[1] = Math.max(r[1], s.points[s.points.length - 1][0]);
      });
    });
    return r;
  }

  function range(series, log) {
    var r = [shown.steps[0], shown.steps[1], Infinity, -Infinity], pad;
    series.forEach(function (s) {
      s.points.forEach(function (p) {
        var low = Math.min(least(p), p.length > 4 ? p[4] : p[1]);
        if (log && low <= LEAST) low = p[1];
        r[2] = Math.min(r[2], low);
        r[3] = Math.max(r[3], most(p), p.length > 4 ? p[5] : p[1]);
      });
    });
    if (log) {
      pad = r[3] > r[2] ? Math.pow(r[3] / r[2], 0.05) : 2;
      return [r[0], r[1], r[2] / pad, r[3] * pad];
    }
    pad = r[3] > r[2] ? (r[3] - r[2]) * 0.05 : Math.max(1e-9, Math.abs(r[3]) * 0.1);
    return [r[0], r[1], r[2] - pad, r[3] + pad];
  }

  function path(points, x, y) {
    return points.map(function (p, i) {
      return (i ? 'L' : 'M') + x(p[0]).toFixed(1) + ' ' + y(p[1]).toFixed(1);
    }).join('');
  }

  function line(svg, points, x, y, s, faint) {
    var a = { d: path(points, x, y), stroke: S.colours[s.colour % S.colours.length] };
    var dash = S.dashes[s.dash % S.dashes.length];
    if (dash) a['stroke-dasharray'] = dash;
    if (faint) a['class'] = 'faint';
    svg.appendChild(element('path', a));
  }

  function band(svg, points, x, y, s) {
    var low = function (p) { return shown.log && least(p) <= LEAST ? p[1] : least(p); };
    if (!points.some(function (p) { return low(p) < most(p); })) return;
    var upper = points.map(function (p) { return [p[0], most(p)]; });
    var lower = points.map(function (p) { return [p[0], low(p)]; }).reverse();
    svg.appendChild(element('path', { 'class': 'band', d: path(upper.concat(lower), x, y) + 'Z',
      fill: S.colours[s.colour % S.colours.length] }));
  }

  function dots(svg, points, x, y, s) {
    var colour = S.colours[s.colour % S.colours.length];
    points.forEach(function (p) {
      if (p.length > 4 && (!shown.log || p[4] > LEAST))
        svg.appendChild(element('line', { 'class': 'bar', stroke: colour, x1: x(p[0]), x2: x(p[0]),
          y1: y(p[4]), y2: y(p[5]) }));
      var dot = element('circle', { fill: colour, cx: x(p[0]), cy: y(p[1]), r: 3 });
      dot.appendChild(element('title', {}, 'step ' + p[0] + ': ' + numberText(p[1])));
      svg.appendChild(dot);
    });
  }

  function axes(svg, x, y, r) {
    ticks(r[2], r[3], shown.log).forEach(function (v) {
      svg.appendChild(element('line', { 'class': 'grid', x1: S.left, x2: S.width - S.right,
        y1: y(v), y2: y(v) }));
      svg.appendChild(element('text', { 'class': 'y', x: S.left - 5, y: y(v) + 3.5 },
        numberText(v)));
    });
    ticks(r[0], r[1]).forEach(function (v) {
      if (v === Math.floor(v))
        svg.appendChild(element('text', { 'class': 'x', x: x(v), y: S.height - 8 }, numberText(v)));
    });
    shown.marks.forEach(function (m) {
      if (m[0] <= r[0] || m[0] >= r[1]) return;
      var mark = element('line', { 'class': m[2] ? 'resumed' : 'mark', x1: x(m[0]), x2: x(m[0]),
        y1: S.top, y2: S.height - S.bottom });
      mark.appendChild(element('title', {}, m[1]));
      svg.appendChild(mark);
    });
  }

  function legend(series) {
    var box = document.createElement('div');
    box.className = 'legend';
    series.forEach(function (s) {
      var item = box.appendChild(document.createElement('span'));
      var sign = item.appendChild(element('svg', { viewBox: '0 0 16 10' }));
      line(sign, [[0, 5], [16, 5]], Number, Number, s);
      item.appendChild(document.createTextNode(s.name));
    });
    return box;
  }

  function draw(panel) {
    var figure = document.createElement('figure'), log = shown.log;
    figure.appendChild(document.createElement('figcaption')).textContent = panel.title;
    var series = panel.series.map(function (s) {
      var points = log ? s.points.filter(function (p) { return p[1] > LEAST; }) : s.points;
      return { name: s.name, dots: s.dots, colour: s.colour, dash: s.dash, points: points };
    }).filter(function (s) { return s.points.length; });
    if (!series.length) {
      var nothing = figure.appendChild(document.createElement('p'));
      nothing.className = 'dim';
      nothing.textContent = 'No value is above 0.';
      return figure;
    }
    var r = range(series, log), x = scale(r[0], r[1], S.left, S.width - S.right);
    var y = scale(r[2], r[3], S.height - S.bottom, S.top, log);
    var svg = figure.appendChild(element('svg', { viewBox: '0 0 ' + S.width + ' ' + S.height,
      role: 'img', 'aria-label': panel.title }));
    axes(svg, x, y, r);
    series.forEach(function (s) {
      if (s.dots) {
        line(svg, s.points, x, y, s);
        dots(svg, s.points, x, y, s);
      } else if (shown.smooth > 0) {
        line(svg, s.points, x, y, s, true);
        line(svg, average(s.points, shown.smooth), x, y, s);
      } else {
        band(svg, s.points, x, y, s);
        line(svg, s.points, x, y, s);
      }
    });
    figure.appendChild(legend(series));
    return figure;
  }

  function redraw() {
    var box = document.getElementById('panels');
    box.replaceChildren.apply(box, shown.panels.map(draw));
  }

  var slider = document.getElementById('smooth'), tick = document.getElementById('log');
  function choose() {
    shown.smooth = +slider.value;
    shown.log = tick.checked;
    document.getElementById('weight').textContent = shown.smooth ? shown.smooth.toFixed(2) : 'off';
    redraw();
  }
  slider.oninput = choose;
  tick.onchange = choose;
  return function (data) {
    shown.panels = data.panels;
    shown.marks = data.marks;
    shown.steps = steps(data.panels);
    choose();
  };
}
]==]
