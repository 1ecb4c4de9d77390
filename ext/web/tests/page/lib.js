// What the tests of the page share: TAP, a page of a real browser, and what a user does with it.
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

let count = 0, failed = 0;

export function result(name, problem) {
  console.log(`${problem ? "not ok" : "ok"} ${++count} - ${name}`);
  if (problem) {
    failed++;
    console.log(String(problem).replace(/^/gm, "# "));
  }
}

// A test that may raise.
export async function test(name, f) {
  try {
    result(name, await f());
  } catch (error) {
    result(name, error.stack);
  }
}

export function finish() {
  console.log(`1..${count}`);
  process.exitCode = failed ? 1 : 0;
}

export const note = text => console.log(`# ${text}`);
export const sha = data => createHash("sha256").update(data).digest("hex");

export async function inFolder(f) {
  const folder = await mkdtemp(join(tmpdir(), "grpo-page-"));
  try {
    return await f(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

let watched; // the page whose state is told when what is waited for does not come

export const watch = page => { watched = page; };

// Waits until f() gives something; fails after so many seconds.
export async function until(f, what, seconds = 120) {
  for (let i = 0; i < seconds * 10; i++) {
    const value = await f();
    if (value) return value;
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  throw new Error(`after ${seconds} s there is no ${what}: ${await state(watched)}; ${await watched.textContent("#problem")}`);
}

// ---- what a user sees and does ---------------------------------------------------------------

export const state = page => page.textContent("#state-text");

export async function step(page) {
  const found = (await state(page)).match(/step (\d+)/);
  return found ? Number(found[1]) : 0;
}

// The held-out accuracy that was measured last, 0 to 1.
export async function heldOut(page) {
  const found = (await state(page)).match(/held-out ([\d.]+) %/);
  return found ? Number(found[1]) / 100 : 0;
}

export async function opened(page, address) {
  await page.goto(address);
  await page.waitForFunction(() => !document.getElementById("run").disabled, null, { timeout: 60000 });
}

export async function write(page, text) {
  const plain = await page.$("#editor textarea");
  if (plain) return plain.fill(text);
  await page.click("#editor .cm-content");
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

export const scriptOf = (page, name) => page.evaluate(async n => (await fetch(`experiments/${n}.lua`)).text(), name);

export async function choose(page, id) {
  await page.selectOption("#experiment", id);
  await page.waitForFunction(() => !document.getElementById("run").disabled);
}

export const ended = page => until(async () => /^finished/i.test(await state(page)), "end of the run", 600);

export async function saved(page, path) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save")]);
  await download.saveAs(path);
  return download.suggestedFilename();
}

export async function ask(page, line) {
  const before = await page.locator("#answers > *").count();
  await page.fill("#line", line);
  await page.press("#line", "Enter");
  await until(async () => await page.locator("#answers > *").count() >= before + 2, `answer to ${line}`);
  return page.locator("#answers > *").last().textContent();
}
