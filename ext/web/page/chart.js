// The curve: held-out accuracy as dots on the left axis, a number of each step as a line on the
// right one, and a line where a stage begins.

const PAD = { left: 46, right: 50, top: 12, bottom: 24 };

// Values at round distances, about four.
function ticks(low, high) {
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) list.push(i * step);
  return list;
}

function numberText(v) {
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e4 || size < 1e-3) return v.toExponential(1);
  return String(+v.toPrecision(3));
}

// The range of values and of `least`; what lies outside of that gets some room.
function range(values, least) {
  let low = Math.min(...least), high = Math.max(...least);
  for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
  if (!(high > low)) { low -= 0.5; high += 0.5; }
  const room = (high - low) * 0.05;
  return [least.includes(low) ? low : low - room, least.includes(high) ? high : high + room];
}

// The mean of the values around each, for the line through noise.
function smooth(points, reach) {
  const list = [];
  let sum = 0, from = 0, to = 0;
  for (let i = 0; i < points.length; i++) {
    while (to < points.length && to <= i + reach) sum += points[to++][1];
    while (from < i - reach) sum -= points[from++][1];
    list.push([points[i][0], sum / (to - from)]);
  }
  return list;
}

// data: { held: [[step, share]], shown: [[step, value]], stages: [[step, name]], total, name }
export function draw(canvas, data) {
  const style = getComputedStyle(document.documentElement), colour = name => style.getPropertyValue(name);
  const width = canvas.clientWidth, height = canvas.clientHeight, scale = window.devicePixelRatio || 1;
  if (!width) return;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "12px system-ui, sans-serif";
  g.lineJoin = "round";

  const last = Math.max(1, data.total || 0, ...[data.held, data.shown].map(p => p.length ? p[p.length - 1][0] : 0));
  const x = step => PAD.left + (width - PAD.left - PAD.right) * step / last;
  const y = ([low, high]) => v => height - PAD.bottom - (height - PAD.top - PAD.bottom) * (v - low) / (high - low);
  const best = data.held.reduce((most, p) => Math.max(most, p[1]), 0);
  const left = [0, best > 0.3 ? 1 : best > 0.12 ? 0.4 : best > 0.05 ? 0.16 : best > 0 ? 0.08 : 1];
  const right = range(data.shown.map(p => p[1]), data.name === "reward" ? [0, 1] : [0]);
  const yLeft = y(left), yRight = y(right);

  g.strokeStyle = colour("--line");
  g.lineWidth = 1;
  g.textBaseline = "middle";
  g.textAlign = "right";
  g.fillStyle = colour("--held");
  for (const v of ticks(...left)) {
    g.beginPath(); g.moveTo(PAD.left, yLeft(v)); g.lineTo(width - PAD.right, yLeft(v)); g.stroke();
    g.fillText(+(100 * v).toFixed(1) + " %", PAD.left - 6, yLeft(v));
  }
  g.textAlign = "left";
  g.fillStyle = colour("--shown");
  for (const v of ticks(...right)) g.fillText(numberText(v), width - PAD.right + 6, yRight(v));

  g.fillStyle = colour("--soft");
  g.textBaseline = "alphabetic";
  g.textAlign = "center";
  for (const v of ticks(0, last)) if (Number.isInteger(v)) g.fillText(v, x(v), height - 7);
  g.setLineDash([3, 4]);
  g.strokeStyle = colour("--soft");
  g.textAlign = "left";
  for (const [step, name] of data.stages) {
    if (step > 0) { g.beginPath(); g.moveTo(x(step), PAD.top); g.lineTo(x(step), height - PAD.bottom); g.stroke(); }
    g.fillText(name, x(step) + 5, PAD.top + 8);
  }
  g.setLineDash([]);

  g.save();
  g.beginPath(); g.rect(PAD.left - 4, 0, width - PAD.left - PAD.right + 8, height); g.clip();
  line(g, data.shown, x, yRight, colour("--shown"), 1, 0.35);
  line(g, smooth(data.shown, Math.max(2, Math.round(data.shown.length / 40))), x, yRight, colour("--shown"), 2, 1);
  line(g, data.held, x, yLeft, colour("--held"), 1.5, 0.8);
  g.fillStyle = colour("--held");
  for (const [step, v] of data.held) { g.beginPath(); g.arc(x(step), yLeft(v), 3, 0, 7); g.fill(); }
  g.restore();
}

function line(g, points, x, y, colour, width, alpha) {
  if (points.length < 2) return;
  const every = Math.max(1, Math.floor(points.length / 2000));
  g.strokeStyle = colour; g.lineWidth = width; g.globalAlpha = alpha;
  g.beginPath();
  points.forEach(([step, v], i) => { if (i % every === 0 || i === points.length - 1) g.lineTo(x(step), y(v)); });
  g.stroke();
  g.globalAlpha = 1;
}
