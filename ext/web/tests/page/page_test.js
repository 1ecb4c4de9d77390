// The page in a real browser: page_test.js SITE GRPO CHROMIUM [SHOTS], which tools/check-page calls.
// SITE: build/web; GRPO: the program; SHOTS: a folder for pictures.  TAP on stdout.
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import * as t from "./lib.js";
import { serve } from "./serve.js";

const [site, grpo, executablePath, shots] = process.argv.slice(2);
const run = promisify(execFile);
const { test, note, until } = t;

const server = await serve(site, "/a/folder/");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const faults = [], elsewhere = [];

async function tab(options) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 1000 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(120000);
  page.on("pageerror", e => faults.push(e.stack || e.message));
  page.on("console", m => m.type() === "error" && faults.push(m.text()));
  context.on("request", r => { if (!r.url().startsWith(server.address) && !/^(data|blob):/.test(r.url())) elsewhere.push(r.url()); });
  t.watch(page);
  await t.opened(page, server.address);
  return page;
}

// The starter with few steps and a reward of this body.
async function short(page, body = "return text == row.answer", sft = 20, grpo_steps = 6) {
  const text = await t.scriptOf(page, "sums");
  return text.replace("steps = 200", `steps = ${sft}`).replace(/steps = 100/g, `steps = ${grpo_steps}`)
    .replace("return text == row.answer", body);
}

const messages = page => page.textContent("#messages");
const problem = page => page.textContent("#problem");

async function picture(page, name) {
  if (!shots) return;
  await mkdir(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`) });
}

// Frames that the page draws in so many milliseconds.
const frames = (page, time) => page.evaluate(ms => new Promise(resolve => {
  let n = 0;
  const began = performance.now();
  requestAnimationFrame(function one(now) {
    n++;
    if (now - began < ms) requestAnimationFrame(one); else resolve(1000 * n / (now - began));
  });
}), time);

// ---- the starter -----------------------------------------------------------------------------

const page = await tab();

await test("Run trains the starter until held-out accuracy passes 0.9", async () => {
  const asked = server.asked.length, began = Date.now();
  await page.click("#run");
  note(`frames per second while it trains: ${(await frames(page, 3000)).toFixed(0)}`);
  await until(async () => await t.heldOut(page) > 0.9, "held-out accuracy above 0.9", 600);
  note(`seconds until held-out accuracy passes 0.9: ${((Date.now() - began) / 1000).toFixed(1)}, ${await page.textContent("#facts")}`);
  await t.ended(page);
  await picture(page, "wide");
  note(`seconds of the whole run: ${((Date.now() - began) / 1000).toFixed(1)}, ${await t.state(page)}`);
  const more = server.asked.slice(asked).filter(path => !/sw\.js|folder\/(?:[\w.-]+)?$/.test(path));
  return more.length ? `asked for while it trained: ${more}` : "";
});

await test("the prompt looks into the run that has ended", async () =>
  await t.ask(page, "tr.step_count") === "300" ? "" : page.textContent("#answers"));

// ---- edits -----------------------------------------------------------------------------------

await test("an edit takes effect in the running run", async () => {
  await t.write(page, await short(page, "return text == row.answer", 5, 4000));
  await page.click("#reset");
  await page.waitForFunction(() => !document.getElementById("run").disabled);
  await page.click("#run");
  await until(async () => await t.step(page) > 8, "step");
  await t.write(page, await short(page, "return 7", 5, 4000));
  await page.keyboard.press("Control+s");
  await until(async () => /reward 7,/.test(await t.state(page)), "reward of 7");
  return /reloaded at step \d+: sums\.lua/.test(await messages(page)) ? "" : await messages(page);
});

await test("a mistake is shown at its line, and the old code stays", async () => {
  await t.write(page, await short(page, "return 7 +", 5, 4000));
  await page.click("#apply");
  await until(async () => /Line 1\d/.test(await problem(page)), "line of the mistake");
  const at = await t.step(page);
  await until(async () => await t.step(page) > at, "step after it");
  const marked = await page.locator("#editor .cm-lint-marker-error, #editor [aria-invalid]").count();
  return /old code stays/.test(await problem(page)) && marked ? "" : await problem(page);
});

await test("a reward that does not end is stopped at its line, and a mended script continues", async () => {
  await t.write(page, await short(page, "while true do end", 5, 4000));
  await page.click("#apply");
  // a reload tries rewards first, so this one is refused; a run that begins with it is stopped
  await until(async () => /instructions|seconds/.test(await problem(page)), "refusal");
  await page.click("#reset");
  await page.waitForFunction(() => !document.getElementById("run").disabled);
  await page.click("#run");
  await until(async () => /^stopped by an error/i.test(await t.state(page)), "error", 300);
  const text = await problem(page);
  if (!/Line 1\d/.test(text)) return text;
  await t.write(page, await short(page, "return 0.5", 5, 4000));
  await page.click("#run");
  await until(async () => await t.step(page) > 6, "step of the mended script");
  return /reward 0\.5,/.test(await t.state(page)) ? "" : await t.state(page);
});

await test("a step by itself, and the keyboard alone", async () => {
  await page.click("#reset");
  await page.waitForFunction(() => !document.getElementById("step").disabled);
  await page.focus("#run");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await until(async () => /waiting, step 0 of/i.test(await t.state(page)), "first evaluation");
  await page.keyboard.press("Enter");
  await until(async () => await t.step(page) === 1, "first step");
  await page.focus("#editor .cm-content, #editor textarea");
  await page.keyboard.press("Tab");
  return await page.evaluate(() => !document.getElementById("editor").contains(document.activeElement)) ? "" : "Tab stays in the editor";
});

// ---- storage ---------------------------------------------------------------------------------

await test("a reload of the page continues the run", async () => {
  await t.write(page, await short(page, "return 0.5", 5, 4000));
  await page.click("#reset");
  await page.waitForFunction(() => !document.getElementById("run").disabled);
  await page.click("#run");
  await until(async () => await t.step(page) > 20, "step");
  await page.click("#run");
  await until(async () => /kept in this browser/.test(await page.textContent("#facts")) && /^waiting/i.test(await t.state(page)), "kept run");
  const at = await t.step(page);
  await t.opened(page, server.address);
  await until(async () => await t.step(page) === at, `step ${at} after the reload`);
  await page.click("#run");
  await until(async () => await t.step(page) > at + 5, "further step");
  await page.waitForTimeout(6000); // it is kept while it trains, too
  await t.opened(page, server.address);
  await until(async () => await t.step(page) > at + 5 && /^training/i.test(await t.state(page)), "run that continues on its own");
  return await page.evaluate(() => document.querySelector("#editor").textContent.includes("return 0.5")
    || document.querySelector("#editor textarea")?.value.includes("return 0.5")) ? "" : "another script";
});

await test("the page works without a network after the first visit", async () => {
  await page.click("#reset");
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.context().setOffline(true);
  try {
    await t.opened(page, server.address);
    await t.choose(page, "shakespeare");
    await page.click("#step");
    await until(async () => /step 0 of/.test(await t.state(page)), "first evaluation");
  } finally {
    await page.context().setOffline(false);
  }
});

// ---- the same bits ---------------------------------------------------------------------------

const checkpoint = async dir => t.sha(await readFile(join(dir, "latest", "model.safetensors")));

await test("begun here, continued by the program, ended here: the bits of one run", () => t.inFolder(async folder => {
  const native = (...words) => run(grpo, ["run", ...words, "--quiet"], { cwd: folder, maxBuffer: 1 << 26 });
  await t.opened(page, server.address);
  await t.choose(page, "sums");
  const text = await short(page, "return text == row.answer", 20, 9);
  await writeFile(join(folder, "sums.lua"), text);
  await native("sums.lua", "numbers=portable", "--dir", "whole");
  const wanted = await checkpoint(join(folder, "whole", "sums-001"));
  await t.write(page, text);
  for (let i = 0; i < 23; i++) {
    await page.click("#step");
    await until(async () => new RegExp(`^waiting, step ${i} of`, "i").test(await t.state(page)), `step ${i}`);
  }
  const name = await t.saved(page, join(folder, "first.tar"));
  if (name !== "sums-001.tar") return `the file is called ${name}`;
  await run("tar", ["xf", "first.tar"], { cwd: folder });
  await native("--resume=sums-001", "--steps", "26");
  await run("tar", ["cf", "second.tar", "sums-001"], { cwd: folder });
  await page.setInputFiles("#file", join(folder, "second.tar"));
  await until(async () => await t.step(page) === 26, "step 26");
  await page.click("#run");
  await t.ended(page);
  await t.saved(page, join(folder, "third.tar"));
  await mkdir(join(folder, "end"));
  await run("tar", ["xf", "third.tar", "-C", "end"], { cwd: folder });
  const got = await checkpoint(join(folder, "end", "sums-001"));
  note(`SHA-256 of the weights: ${got} here, ${wanted} natively`);
  return got === wanted ? "" : "other bits";
}));

await test("a file that is no run is refused in a line", async () => {
  await page.setInputFiles("#file", { name: "odd.tar", mimeType: "application/x-tar", buffer: Buffer.from("x".repeat(2000)) });
  await until(async () => /odd\.tar: /.test(await problem(page)), "refusal");
  return /not a tar/.test(await problem(page)) ? "" : await problem(page);
});
await page.context().close();

// ---- the other experiments, and looks --------------------------------------------------------

const least = { words: 0.3, shakespeare: 0.05, tictactoe: 0.3 };
const looks = { words: ["narrow", { viewport: { width: 390, height: 844 } }], tictactoe: ["dark", { colorScheme: "dark" }], shakespeare: ["play", {}] };
for (const [id, wanted] of Object.entries(least)) {
  await test(`${id} learns`, async () => {
    const [name, options] = looks[id], other = await tab(options), began = Date.now();
    await t.choose(other, id);
    await other.click("#run");
    await until(async () => await t.heldOut(other) > wanted, `held-out measure above ${wanted}`, 600);
    note(`${id}: held-out above ${wanted} after ${((Date.now() - began) / 1000).toFixed(1)} s, ${await t.state(other)}`);
    const wide = await other.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    await until(async () => /reward /.test(await t.state(other)), "stage of rewards", 600);
    await other.waitForTimeout(shots ? 15000 : 0);
    await picture(other, name);
    note(`${id}: ${((Date.now() - began) / 1000).toFixed(1)} s, ${await t.state(other)}, ${await other.textContent("#facts")}`);
    await other.context().close();
    return wide > 0 ? `the page is ${wide} pixels wider than its window` : "";
  });
}

await test("no request leaves the page's folder", async () => elsewhere.join("\n"));
await test("nothing went wrong in the page", async () => faults.join("\n"));

await browser.close();
server.close();
t.finish();
