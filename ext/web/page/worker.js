// The run, beside the page: it calls the module between steps and keeps the run in the browser.
// One worker trains one run.  app.js says what the messages are.
"use strict";
importScripts("tar.js", "store.js", "grpo.js");

const HOME = "/work", RUNS = "runs"; // the folder of the script, and the runs in it
const KEEP_EVERY = 5000, KEEP_LARGE_EVERY = 30000, LARGE = 20 << 20; // milliseconds, bytes

let program, web, script, directory = "", going = false, alive = false;
let keeper = null, kept = 0, keptBytes = 0, keeping = null;

const say = (is, more) => postMessage({ is, ...more });

// ---- the module ------------------------------------------------------------------------------

async function load(wasm) {
  program = await Grpo({
    instantiateWasm(imports, done) {
      WebAssembly.instantiate(wasm, imports).then(instance => done(instance, wasm));
      return {};
    },
    print: text => say("events", { list: [{ type: "print", text }] }),
    printErr: text => say("events", { list: [{ type: "line", text }] }),
  });
  web = {};
  for (const name of ["open", "advance", "save", "stop"]) web[name] = program.cwrap("web_" + name, "number", []);
  web.start = program.cwrap("web_start", "number", ["string"]);
  web.events = program.cwrap("web_events", "string", []);
  web.line = program.cwrap("web_line", "string", ["string"]);
  program.FS.mkdirTree(HOME + "/" + RUNS);
  program.FS.chdir(HOME);
  if (web.open() !== 1) throw new Error(events().map(e => e.text).join("; ") || "the program does not start");
}

function events() {
  const list = JSON.parse(web.events());
  for (const e of list) {
    if (e.type === "run") directory = e.dir;
    if (e.type === "script") script = e.path;
    if (e.type === "pause" && e.paused) going = false;
  }
  return list;
}

// Tells the page what has happened.
function tell(result) {
  say("events", { list: events(), going, alive, memory: program.HEAPU8.length, result });
}

// ---- files -----------------------------------------------------------------------------------

// mkdirTree takes a path from the root alone.
const whole = path => path.startsWith("/") ? path : `${HOME}/${path}`;
const folderOf = path => whole(path).slice(0, whole(path).lastIndexOf("/"));

function write(path, data) {
  program.FS.mkdirTree(folderOf(path));
  program.FS.writeFile(path, data);
}

// The entries of a tar below a directory, whose name comes first.
function entriesOf(folder, name) {
  const fs = program.FS, list = [{ path: name, type: "dir" }];
  for (const one of fs.readdir(folder)) {
    if (one === "." || one === ".." || one.endsWith(".sock")) continue;
    const path = `${folder}/${one}`, mode = fs.lstat(path).mode;
    if (fs.isLink(mode)) list.push({ path: `${name}/${one}`, type: "link", target: fs.readlink(path) });
    else if (fs.isDir(mode)) list.push(...entriesOf(path, `${name}/${one}`));
    else list.push({ path: `${name}/${one}`, type: "file", data: fs.readFile(path) });
  }
  return list;
}

function packed() {
  return Tar.pack(entriesOf(directory, directory.slice(directory.lastIndexOf("/") + 1)));
}

// Lays a saved run into the folder of runs; returns its directory.
function unpacked(archive) {
  const entries = Tar.unpack(archive), { above, name } = Tar.runIn(entries), to = `${RUNS}/${name}`;
  for (const e of entries) {
    if (!e.path.startsWith(above) || e.path === above) continue;
    const path = `${to}/${e.path.slice(above.length)}`;
    if (e.type === "dir") program.FS.mkdirTree(whole(path));
    if (e.type === "file") write(path, e.data);
  }
  for (const e of entries)
    if (e.type === "link" && e.path.startsWith(above)) {
      const path = `${to}/${e.path.slice(above.length)}`;
      program.FS.mkdirTree(folderOf(path));
      program.FS.symlink(e.target, path);
    }
  return to;
}

// ---- keeping ---------------------------------------------------------------------------------

// Writes a checkpoint, and the run into the browser.  keeper: what the page wants to know of it after
// a reload.  Nothing is kept over the run of another tab that is newer.
async function keep() {
  if (!keeper || !directory || keeping) return keeping;
  kept = Date.now();
  keeping = (async () => {
    try {
      if (alive && web.save() < 0) tell();
      const tar = packed(), record = await Store.read();
      if (record && record.tab !== keeper.tab && record.time > keeper.since)
        return void say("elsewhere");
      await Store.write({ ...keeper, tar, script, going: going && alive, time: Date.now() });
      keptBytes = tar.length;
      say("kept", { bytes: tar.length });
    } catch (error) {
      say("unkept", { text: String(error && error.message || error) });
    } finally {
      keeping = null;
    }
  })();
  return keeping;
}

function keepIfDue() {
  if (Date.now() - kept > (keptBytes > LARGE ? KEEP_LARGE_EVERY : KEEP_EVERY)) keep();
}

// ---- steps -----------------------------------------------------------------------------------

// Messages of the page come between two steps; a timer would wait longer than a step takes.
const next = new MessageChannel();

function advance() {
  const result = web.advance();
  if (result !== 1) going = alive = false;
  tell(result);
  if (!alive) return void keep();
  keepIfDue();
  if (going) next.port2.postMessage(0);
}

function begin(m) {
  let resume;
  for (const [path, data] of m.files || []) write(path, data);
  if (m.tar) resume = unpacked(m.tar);
  script = m.script;
  if (m.text !== undefined) write(script, m.text);
  keeper = m.keeper;
  // the bits of every machine, so that the run can be continued elsewhere
  const options = resume ? undefined : ["numbers=portable"];
  const request = { script, options, resume, root: RUNS, force: m.force || undefined };
  const result = web.start(JSON.stringify(request));
  alive = result === 1;
  kept = Date.now();
  tell(result);
  say("begun", { result, script });
}

const calls = {
  begin,
  go() {
    if (!alive || going) return;
    going = true;
    web.line("resume()");
    next.port2.postMessage(0);
  },
  async wait() {
    going = false;
    tell();
    await keep();
  },
  async step() {
    if (!alive) return;
    going = false;
    web.line("resume()");
    advance();
    await keep();
  },
  edit(m) {
    write(script, m.text);
    if (keeper) keeper.text = m.text;
  },
  draft(m) { if (keeper) keeper.text = m.text; },
  line(m) {
    const answer = JSON.parse(web.line(`#${m.width}\n${m.text}`));
    if (answer.paused) going = false;
    say("answer", { id: m.id, answer });
    tell();
  },
  async save(m) {
    if (alive && web.save() < 0) tell();
    const tar = packed();
    postMessage({ is: "saved", id: m.id, name: directory.slice(directory.lastIndexOf("/") + 1), tar }, [tar.buffer]);
  },
};

// What ends the module itself, such as memory that the browser does not give, ends the run.
function broken(error) {
  going = alive = false;
  say("broken", { text: String(error && error.message || error) });
}

onmessage = async ({ data: m }) => {
  try {
    if (m.to === "load") {
      await load(m.wasm);
      say("ready", { memory: program.HEAPU8.length });
    } else {
      await calls[m.to](m);
    }
  } catch (error) {
    broken(error);
  }
};
next.port1.onmessage = () => {
  try {
    if (going) advance();
  } catch (error) {
    broken(error);
  }
};
