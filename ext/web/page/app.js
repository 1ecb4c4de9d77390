// The page: what the user sees and does.  worker.js trains.
//
// Messages to the worker have `to`, those from it `is`; both are handled in the tables below.
import { draw } from "./chart.js";
import { createEditor } from "./editor.js";
import { experiments } from "./experiments.js";
import { download, tarOf } from "./files.js";
import { openPrompt } from "./prompt.js";
import { Store } from "./shared.js";
import { showAnswers, showCompletions, showSamples } from "./texts.js";

const $ = id => document.getElementById(id);
const say = (place, text) => { if (place.textContent !== text) place.textContent = text; };
const SLOW = 10000; // milliseconds without a word of the worker

// This tab, also after a reload of the page.
const tab = sessionStorage.getItem("grpo-tab") || String(Math.random()).slice(2);
sessionStorage.setItem("grpo-tab", tab);

// ---- state -----------------------------------------------------------------------------------

const blank = () => ({
  begun: false, going: false, alive: false, failed: false, ended: "", step: 0, total: 0, name: "",
  stage: "", status: "", held: [], evaluations: [], series: new Map(), stages: [], texts: null,
  seconds: 0, trained: "", // the script that the run trains with
});
let run = blank(), worker = null, ready = false, experiment = experiments[0], original = "", script = "";
let memory = 0, keptAt = 0, keptNote = "", asked = new Map(), number = 0, spoken = 0, heard = 0, wantsGo = false;
const wasm = compiled();

async function compiled() {
  try {
    return await WebAssembly.compileStreaming(fetch("grpo.wasm"));
  } catch { // a server that names another type for it
    return WebAssembly.compile(await (await fetch("grpo.wasm")).arrayBuffer());
  }
}

// ---- the editor ------------------------------------------------------------------------------

const draftName = () => `grpo-script-${experiment.id}`;
const editor = createEditor($("editor"), { label: "The script, in Lua", onChange: edited, onApply: apply });

function edited() {
  const text = editor.text();
  try {
    if (text === original) localStorage.removeItem(draftName());
    else localStorage.setItem(draftName(), text);
  } catch { /* a browser that stores nothing */ }
  if (run.begun) tell({ to: "draft", text });
  say($("applied"), "");
  showButtons();
}

function problem(text, line) {
  $("problem").hidden = !text;
  $("problem").replaceChildren();
  editor.clear();
  if (!text) return;
  if (line) {
    const jump = document.createElement("button");
    jump.type = "button";
    jump.textContent = `Line ${line}`;
    jump.onclick = () => editor.goTo(line);
    $("problem").append(jump);
    editor.mark(line, text);
  }
  $("problem").append(text);
}

// The run takes the script between two steps; a run that waits takes it before its next one.
function apply() {
  const text = editor.text();
  if (!run.begun || run.trained === text) return;
  problem("");
  if (run.alive) tell({ to: "edit", text });
  run.trained = text;
  say($("applied"), run.going ? "The run takes the script before its next step." : "The run takes the script when it continues.");
  showButtons();
}

async function fetched(name) {
  const answer = await fetch(`experiments/${name}`);
  if (!answer.ok) throw new Error(`experiments/${name}: the server answers ${answer.status}`);
  return answer;
}

async function choose(id, keepText) {
  experiment = experiments.find(e => e.id === id) || experiments[0];
  $("experiment").value = experiment.id;
  script = experiment.script;
  say($("about"), experiment.about);
  original = await (await fetched(experiment.script)).text();
  if (keepText === undefined) {
    let draft = null;
    try { draft = localStorage.getItem(draftName()); } catch { /* as above */ }
    keepText = draft === null ? original : draft;
  }
  editor.setText(keepText);
  problem("");
  say($("applied"), "");
  showButtons();
}

// ---- the worker ------------------------------------------------------------------------------

function tell(message) { if (worker) worker.postMessage(message); }

// The worker says nothing more, so that what it did is not taken for the next run's.
function dismiss() {
  if (worker) worker.terminate();
  worker = null;
  ready = false;
  asked.forEach(answered => answered({ err: "the run has ended\n", failed: true }));
  asked.clear();
}

// A worker with the program, ready to begin a run.
async function fresh() {
  dismiss();
  const mine = worker = new Worker("worker.js");
  const loaded = new Promise((resolve, reject) => {
    mine.onmessage = ({ data }) => {
      if (mine !== worker) return;
      heard = performance.now();
      if (data.is === "ready") resolve();
      if (data.is === "broken") reject(new Error(data.text));
      handlers[data.is](data);
    };
    mine.onerror = e => reject(new Error(e.message || "worker.js cannot be loaded"));
  });
  mine.postMessage({ to: "load", wasm: await wasm });
  await loaded;
  ready = true;
}

const keeper = () => ({ tab, since: Date.now(), experiment: experiment.id, text: editor.text() });

// Begins a run with the script; tar: the run that it continues, with force the edited script.
async function begin(tar, force) {
  const text = editor.text();
  problem("");
  run.begun = true;
  run.failed = false;
  run.trained = text;
  run.status = "loading the script";
  heard = performance.now();
  showAll();
  const files = [];
  for (const name of tar && !force ? [] : experiment.files)
    files.push([name, new Uint8Array(await (await fetched(name)).arrayBuffer())]);
  tell({ to: "begin", script, text: tar && !force ? undefined : text, files, tar, force, keeper: keeper() });
}

const handlers = {
  ready(m) { memory = m.memory; },
  begun(m) {
    script = m.script || script;
    run.status = "";
    if (m.result === 1 && wantsGo) tell({ to: "go" });
    if (m.result === 1 && wantsGo) run.going = true;
    if (m.result === -1) { run.failed = true; if (run.step === 0) run.begun = false; }
    if (m.result === 0) run.ended = "finished";
    wantsGo = false;
  },
  events(m) {
    for (const e of m.list) (events[e.type] || (() => {}))(e);
    if (m.going !== undefined) { run.going = m.going; run.alive = m.alive; memory = m.memory; }
    if (m.result === -1) run.failed = true;
  },
  answer(m) { asked.get(m.id)?.(m.answer); asked.delete(m.id); },
  saved(m) { asked.get(m.id)?.(m); asked.delete(m.id); },
  kept(m) { keptAt = Date.now(); keptNote = `kept in this browser (${megabytes(m.bytes)})`; },
  unkept(m) { keptNote = `not kept in this browser: ${m.text}`; },
  elsewhere() { keptNote = "not kept in this browser, because another tab keeps its run there; Save writes a file"; },
  broken(m) {
    run.alive = run.going = false;
    run.failed = true;
    problem(/memory|allocat/i.test(m.text) ? "The browser gives the page no more memory, so the run has ended; make the model or the steps smaller." : `The program has ended: ${m.text}`);
  },
};
for (const [name, f] of Object.entries(handlers)) handlers[name] = m => { f(m); showAll(); };

const events = {
  script(e) {
    script = e.path;
    run.trained = e.text;
    if (run.keepsText === undefined) editor.setText(e.text);
  },
  run(e) { run.name = e.name; run.dir = e.dir; run.step = e.step; run.total = e.total; run.alive = !e.finished; run.ended = e.finished ? "finished" : ""; },
  stage(e) {
    run.stage = `stage ${e.stage} of ${e.stages}: ${e.about}`;
    run.total = e.total;
    run.samples = e.samples;
    noteStage(e.step, e.kind);
  },
  step(e) {
    run.step = Math.max(run.step, e.step);
    run.status = "";
    run.seconds += e.metrics.step_time || 0;
    noteStage(e.step - 1, e.kind);
    for (const [name, v] of Object.entries(e.metrics)) {
      if (!run.series.has(name)) run.series.set(name, []);
      run.series.get(name).push([e.step, v]);
    }
    if (applying()) say($("applied"), "");
  },
  completions(e) { run.texts = { show: showCompletions, e }; },
  samples(e) { if (e.list.length) run.texts = { show: showSamples, e }; },
  evaluation(e) {
    const m = e.metrics, name = ["eval/sampled/metric", "eval/metric", "eval/accuracy"].find(n => m[n] !== undefined);
    if (!name) return;
    run.heldName = name === "eval/sampled/metric" ? "measure" : "accuracy";
    run.held.push([e.step, m[name]]);
    run.evaluations.push([e.step, e.label, m[name], e.rows]);
    run.status = "";
    if (!run.samples && e.answers && e.answers.length) run.texts = { show: showAnswers, e };
  },
  status(e) { run.status = e.text; },
  line(e) { message("", e.text); about(e); },
  note(e) { message("note", `note: ${e.text}`); },
  print(e) { message("", e.text); },
  error(e) {
    message("error", e.text);
    run.failed = true;
    problem(e.text, e.file === script ? e.line : 0);
  },
  pause(e) { if (e.paused) message("", `paused at step ${e.step}`); },
  end(e) { run.ended = e.why; message("", `${e.why} at step ${e.step}${e.reason ? `: ${e.reason}` : ""}`); },
};

const applying = () => $("applied").textContent.startsWith("The run takes");

// A line about the script that a user has edited.
function about(e) {
  if (e.text.startsWith("not reloaded")) {
    say($("applied"), "");
    problem(e.text, e.file === script ? e.line : 0);
  } else if (/^(reloaded|as it was)/.test(e.text)) {
    problem("");
    say($("applied"), e.text);
  }
}

function noteStage(step, kind) {
  const last = run.stages[run.stages.length - 1];
  const name = { sft: "imitation", grpo: "rewards", ppo: "rewards" }[kind] || kind;
  if (!last || last[1] !== name) run.stages.push([step, name]);
}

// ---- what is shown ---------------------------------------------------------------------------

const megabytes = bytes => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
const percent = v => `${(100 * v).toFixed(v < 0.1 && v > 0 ? 1 : 0)} %`;
let due = false, shownTexts = null, textsAt = 0;

function showAll() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; show(); });
}

function sentence() {
  if (run.failed) return `Stopped by an error${run.step ? ` after step ${run.step}` : ""}; change the script and press Run`;
  if (!run.begun) return ready ? "Ready" : "Loading the program";
  const at = run.total ? `step ${run.step} of ${run.total}` : "";
  const reward = run.series.get("reward"), held = run.held;
  const parts = [run.ended ? run.ended : run.going ? run.status || "training" : run.status || "waiting", at];
  if (reward && reward.length) parts.push(`reward ${+reward[reward.length - 1][1].toPrecision(3)}`);
  if (held.length) parts.push(`held-out ${percent(held[held.length - 1][1])}`);
  return parts.filter(Boolean).join(", ");
}

// The line of state is spoken, so it changes at most every few seconds while nothing else happens.
function showState() {
  const text = sentence(), now = performance.now();
  $("dot").className = run.failed ? "failed" : run.going ? "running" : "";
  const live = now - spoken > 10000 || !run.going ? "polite" : "off";
  if (live === "polite") spoken = now;
  $("state-text").setAttribute("aria-live", live);
  say($("state-text"), text[0].toUpperCase() + text.slice(1));
  say($("stage"), run.stage && run.going ? `\u00b7 ${run.stage}` : "");
  $("progress").value = run.total ? run.step / run.total : 0;
}

function showButtons() {
  const text = editor.text();
  say($("run"), run.going ? "Pause" : run.ended === "finished" ? "Run again" : "Run");
  $("run").disabled = !ready;
  $("step").disabled = !ready || run.going || Boolean(run.ended) || run.failed;
  $("save").disabled = !ready || !run.dir;
  $("reset").disabled = !run.begun && !run.failed;
  $("apply").hidden = !(run.begun && !run.failed && !run.ended && text !== run.trained);
  $("original").hidden = text === original;
}

function showCurve() {
  const select = $("metric"), names = [...run.series.keys()].filter(n => run.series.get(n).length);
  const wanted = ["reward", ...names.filter(n => n !== "reward" && !/^(step|stage|update|memory)/.test(n)).sort()];
  if (select.options.length !== wanted.length) {
    const before = select.value;
    select.replaceChildren(...wanted.map(n => new Option(n, n, false, n === before)));
  }
  say($("held-name"), run.heldName || "accuracy");
  const shown = run.series.get(select.value) || [];
  draw($("chart"), { held: run.held, shown, stages: run.stages, total: run.total, name: select.value });
  const last = list => list.length ? list[list.length - 1] : null;
  const h = last(run.held), s = last(shown);
  $("chart").setAttribute("aria-label", h || s ? `Curve up to step ${run.step}.${h ? ` Held-out ${percent(h[1])}.` : ""}${s ? ` ${select.value} ${+s[1].toPrecision(3)}.` : ""}` : "No step yet");
  const table = $("evaluations");
  if (table.childElementCount > run.evaluations.length) table.replaceChildren();
  while (table.childElementCount < run.evaluations.length) {
    const row = document.createElement("tr"), [step, label, value, rows] = run.evaluations[table.childElementCount];
    for (const text of [step, label, percent(value), rows]) row.insertCell().textContent = text;
    table.append(row);
  }
}

// Completions stay for a moment, so that they can be read.
function showTexts() {
  const now = performance.now();
  if (!run.texts || run.texts === shownTexts || (run.going && now - textsAt < 400)) return;
  shownTexts = run.texts;
  textsAt = now;
  run.texts.show($("texts"), run.texts.e);
  say($("texts-step"), `step ${run.texts.e.step}`);
}

function showFacts() {
  const parts = [];
  if (memory) parts.push(`${megabytes(memory)} of memory`);
  if (run.seconds) parts.push(`${run.seconds.toFixed(0)} s of training`);
  if (keptNote) parts.push(keptNote);
  say($("facts"), parts.join(" \u00b7 "));
}

function show() {
  showState();
  showButtons();
  showCurve();
  showTexts();
  showFacts();
}

function message(kind, text) {
  const place = $("messages"), atEnd = place.scrollTop + place.clientHeight > place.scrollHeight - 30;
  const line = document.createElement("div");
  line.className = kind;
  line.textContent = text;
  place.append(line);
  while (place.childElementCount > 500) place.firstChild.remove();
  if (atEnd) place.scrollTop = place.scrollHeight;
}

// ---- what the user does ----------------------------------------------------------------------

function cleared() {
  dismiss();
  run = blank();
  shownTexts = null;
  keptNote = "";
  $("messages").replaceChildren();
  $("texts").replaceChildren(Object.assign(document.createElement("p"), { className: "empty", textContent: "Press Run. The model's answers to one prompt appear here with their rewards, the best one first." }));
  say($("texts-step"), "");
}

// Nothing can be pressed until a fresh worker is there.
function wait() {
  ready = false;
  wantsGo = false;
  showButtons();
}

async function reset() {
  wait();
  cleared();
  problem("");
  say($("applied"), "");
  showAll();
  await forget();
  await fresh();
  showAll();
}

// A run that failed, or that a script or the prompt has stopped, continues from its last checkpoint,
// with the script as it is now.
async function again() {
  wait();
  const tar = run.step > 0 && run.dir ? (await saved()).tar : null;
  const text = editor.text(), edited = text !== run.trained;
  cleared();
  await fresh();
  run.keepsText = text;
  wantsGo = true;
  await begin(tar, edited);
}

async function runOrPause() {
  if (run.going) return void tell({ to: "wait" });
  if (run.ended === "finished") await reset();
  if (run.failed || run.ended) return void await again();
  if (!run.begun) {
    wantsGo = true;
    return void await begin();
  }
  apply();
  tell({ to: "go" });
  run.going = true;
  showAll();
}

async function step() {
  if (!run.begun) {
    wantsGo = false;
    await begin();
  } else {
    apply();
  }
  tell({ to: "step" });
}

// What the worker answers to a message.
function answerTo(message) {
  const id = ++number;
  return new Promise(resolve => {
    asked.set(id, resolve);
    tell({ ...message, id });
  });
}

const saved = () => answerTo({ to: "save" });

async function save() {
  const { name, tar } = await saved();
  if (!tar) return;
  download(`${name}.tar`, tar);
}

async function openFile(file) {
  let tar;
  try {
    tar = await tarOf(file);
  } catch (error) {
    return problem(`${file.name}: ${error.message}`);
  }
  wait();
  cleared();
  await fresh();
  const id = (file.name.match(/^([a-z]+)-/) || [])[1], known = experiments.find(e => e.id === id);
  if (known) await choose(id);
  await begin(tar);
}

async function switchTo(id) {
  wait();
  await choose(id);
  await reset();
}

// ---- the browser's storage -------------------------------------------------------------------

async function forget() {
  try { await Store.forget(); } catch { /* a browser that stores nothing */ }
}

// Continues the run that the browser has kept, if there is one.
async function restored() {
  let record = null;
  try { record = await Store.read(); } catch { return false; }
  if (!record) return false;
  await choose(record.experiment, record.text);
  wantsGo = record.going && record.tab === tab;
  run.keepsText = record.text;
  await begin(record.tar);
  return true;
}

// ---- beginning -------------------------------------------------------------------------------

$("experiment").append(...experiments.map(e => new Option(e.name, e.id)));
$("run").onclick = runOrPause;
$("step").onclick = step;
$("reset").onclick = reset;
$("save").onclick = save;
$("open").onclick = () => $("file").click();
$("file").onchange = () => { if ($("file").files[0]) openFile($("file").files[0]); $("file").value = ""; };
$("apply").onclick = apply;
$("original").onclick = () => { editor.setText(original); edited(); };
$("experiment").onchange = () => switchTo($("experiment").value);
$("metric").onchange = showAll;
document.addEventListener("keydown", e => { if ((e.ctrlKey || e.metaKey) && e.key === "s") { e.preventDefault(); apply(); } });
openPrompt(async (text, width) => ready && run.begun ? answerTo({ to: "line", text, width })
  : { err: "no run is there; press Run or Step\n", failed: true });
new ResizeObserver(showAll).observe($("chart"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAll);
document.addEventListener("dragover", e => e.preventDefault());
document.addEventListener("drop", e => { e.preventDefault(); if (e.dataTransfer.files[0]) openFile(e.dataTransfer.files[0]); });

// A script that never comes to its end holds the worker; the page says how to leave it.
setInterval(() => {
  if (!run.going && run.status !== "loading the script") return;
  if (performance.now() - heard < SLOW) return;
  run.status = `no answer for ${Math.round((performance.now() - heard) / 1000)} s; Reset ends it`;
  showAll();
}, 1000);

if ("serviceWorker" in navigator) navigator.serviceWorker.register("sw.js").catch(() => {});

try {
  await choose(experiment.id);
  await fresh();
  await restored();
} catch (error) {
  problem(`The page cannot begin: ${error.message}`);
}
showAll();
