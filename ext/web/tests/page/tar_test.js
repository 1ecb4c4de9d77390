// The archives of tar.js: tar reads them, it reads those of tar, and it refuses what is none.  tar_test.js SITE.  TAP on stdout.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import * as t from "./lib.js";

await import(resolve(process.argv[2], "tar.js"));
const { Tar } = globalThis;
const bytes = text => new TextEncoder().encode(text);
const long = "a-directory-with-a-name/".repeat(6) + "and-a-file-with-a-name-of-its-own.txt";
const entries = [
  { path: "run", type: "dir" }, { path: "run/run.json", type: "file", data: bytes("{}") },
  { path: `run/${long}`, type: "file", data: new Uint8Array(1025).fill(7) },
  { path: "run/empty", type: "file", data: new Uint8Array(0) },
  { path: "run/latest", type: "link", target: "checkpoints/step-000001" },
];

const refused = (archive, wanted) => {
  try {
    Tar.unpack(archive);
    return "taken";
  } catch (error) {
    return wanted.test(error.message) ? "" : error.message;
  }
};

await t.inFolder(async folder => {
  await t.test("tar reads what is packed", async () => {
    writeFileSync(join(folder, "a.tar"), Tar.pack(entries));
    execFileSync("tar", ["xf", "a.tar"], { cwd: folder });
    const data = readFileSync(join(folder, "run", long));
    return data.length === 1025 && data[1024] === 7 && readlinkSync(join(folder, "run", "latest")) === entries[4].target ? "" : "other files";
  });
  for (const format of ["gnu", "pax", "ustar"]) {
    await t.test(`what tar packs as ${format} is read`, async () => {
      execFileSync("tar", ["cf", "b.tar", `--format=${format}`, "./run"], { cwd: folder });
      const found = new Map(Tar.unpack(new Uint8Array(readFileSync(join(folder, "b.tar")))).map(e => [e.path, e]));
      const file = found.get(`run/${long}`);
      return file && file.data.length === 1025 && found.get("run/latest").target === entries[4].target && found.get("run/empty").data.length === 0
        ? "" : [...found.keys()].join("\n");
    });
  }
  await t.test("paths and links that lead out are refused", async () => {
    mkdirSync(join(folder, "bad"));
    symlinkSync("/etc/passwd", join(folder, "bad", "link"));
    execFileSync("tar", ["cf", "c.tar", "bad"], { cwd: folder });
    const pathOut = Tar.pack([{ path: "../x", type: "file", data: bytes("") }]);
    return refused(new Uint8Array(readFileSync(join(folder, "c.tar"))), /leads out/) || refused(pathOut, /leads out/);
  });
});
await t.test("other bytes are refused in a line", async () => refused(bytes("x".repeat(5000)), /^not a tar/));
await t.test("an archive that is cut off is refused", async () => refused(Tar.pack(entries).slice(0, 2048), /cut off/));
await t.test("an archive with a damaged header is refused", async () => {
  const archive = Tar.pack(entries);
  archive[513] ^= 1;
  return refused(archive, /damaged/);
});
await t.test("any bytes are read or refused", async () => {
  const good = Tar.pack(entries);
  let seed = 1;
  const random = n => (seed = (seed * 48271) % 2147483647) % n;
  for (let i = 0; i < 3000; i++) {
    const archive = good.slice(0, random(good.length) + 1);
    for (let k = random(4); k > 0; k--) archive[random(archive.length)] = random(256);
    try { Tar.unpack(archive); } catch (error) { if (!(error instanceof Error) || error instanceof RangeError || error instanceof TypeError) return error.stack; }
  }
});
t.finish();
