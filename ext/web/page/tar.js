// Directories as tar archives (ustar), for saved runs: files, directories and symbolic links.
// A classic script, for the worker; tests load it too.
"use strict";

globalThis.Tar = (() => {
  const BLOCK = 512, MOST_FILES = 20000, MOST_BYTES = 1 << 30;
  const encoder = new TextEncoder(), decoder = new TextDecoder();

  // A long path has its first directories in a field of their own.
  function split(path) {
    const bytes = encoder.encode(path).length;
    if (bytes <= 100) return ["", path];
    for (let i = path.indexOf("/"); i > 0; i = path.indexOf("/", i + 1)) {
      const first = path.slice(0, i), rest = path.slice(i + 1);
      if (encoder.encode(rest).length <= 100 && encoder.encode(first).length <= 155) return [first, rest];
    }
    throw new Error(`${path}: the name is too long for a tar, because it has ${bytes} bytes; shorten the run's name`);
  }

  function header(entry, size) {
    const block = new Uint8Array(BLOCK);
    const put = (at, text) => block.set(encoder.encode(text), at);
    const octal = (at, length, n) => put(at, n.toString(8).padStart(length - 1, "0"));
    const [first, rest] = split(entry.path);
    put(0, rest);
    octal(100, 8, entry.type === "dir" ? 0o755 : 0o644);
    octal(108, 8, 0);
    octal(116, 8, 0);
    octal(124, 12, size);
    octal(136, 12, Math.floor(Date.now() / 1000));
    put(148, "        ");
    put(156, { file: "0", link: "2", dir: "5" }[entry.type]);
    if (entry.type === "link") {
      if (encoder.encode(entry.target).length > 100) throw new Error(`${entry.path}: the link is too long for a tar`);
      put(157, entry.target);
    }
    put(257, "ustar\u000000");
    put(345, first);
    octal(148, 7, block.reduce((sum, byte) => sum + byte, 0));
    return block;
  }

  // entries: { path, type: "file" | "dir" | "link", data, target }
  function pack(entries) {
    const parts = [];
    let length = 2 * BLOCK;
    for (const entry of entries) {
      const data = entry.type === "file" ? entry.data : new Uint8Array(0);
      parts.push([length - 2 * BLOCK, header(entry, data.length)], [length - BLOCK, data]);
      length += BLOCK + Math.ceil(data.length / BLOCK) * BLOCK;
    }
    const archive = new Uint8Array(length);
    for (const [at, part] of parts) archive.set(part, at);
    return archive;
  }

  function text(archive, at, length) {
    const field = archive.subarray(at, at + length), end = field.indexOf(0);
    return decoder.decode(end < 0 ? field : field.subarray(0, end));
  }

  function octalAt(archive, at, length) {
    const digits = text(archive, at, length).trim();
    if (!/^[0-7]*$/.test(digits)) throw new Error("not a tar, because a header has no number where one belongs; choose a run that was packed with tar");
    return digits ? parseInt(digits, 8) : 0;
  }

  // The path without "./"; one that leads out of the archive is refused.
  function safe(path) {
    const parts = path.split("/").filter(part => part !== "" && part !== ".");
    if (path.startsWith("/") || parts.includes("..") || path.includes("\\"))
      throw new Error(`${path}: refused, because it leads out of the run's directory; pack the run's directory itself`);
    return parts.join("/");
  }

  // The fields of a pax header.
  function paxFields(bytes) {
    const fields = {};
    for (let at = 0; at < bytes.length;) {
      const space = bytes.indexOf(32, at);
      const length = space < 0 ? 0 : parseInt(decoder.decode(bytes.subarray(at, space)), 10);
      if (!(length > 0) || at + length > bytes.length) break;
      const field = decoder.decode(bytes.subarray(space + 1, at + length - 1));
      const equals = field.indexOf("=");
      if (equals > 0) fields[field.slice(0, equals)] = field.slice(equals + 1);
      at += length;
    }
    return fields;
  }

  // Returns entries as pack() takes them; other kinds of files are left out.
  function unpack(archive) {
    const entries = [];
    let longName = "", longLink = "";
    for (let at = 0; at + BLOCK <= archive.length && archive[at] !== 0;) {
      const sum = octalAt(archive, at + 148, 8);
      let own = 8 * 32;
      for (let i = 0; i < BLOCK; i++) if (i < 148 || i >= 156) own += archive[at + i];
      if (own !== sum) throw new Error("not a tar, or a damaged one, because a sum of a header is wrong; choose a run that was packed with tar");
      const size = octalAt(archive, at + 124, 12), kind = String.fromCharCode(archive[at + 156] || 48);
      const from = at + BLOCK;
      if (size > MOST_BYTES || from + size > archive.length) throw new Error("the tar is cut off, because a file in it has more bytes than are left; save it again");
      const data = archive.subarray(from, from + size);
      const prefix = text(archive, at + 257, 5) === "ustar" && archive[at + 262] === 0 ? text(archive, at + 345, 155) : "";
      const path = longName || (prefix ? prefix + "/" : "") + text(archive, at, 100);
      const target = longLink || text(archive, at + 157, 100);
      at = from + Math.ceil(size / BLOCK) * BLOCK;
      if (kind === "L") { longName = text(data, 0, size); continue; }
      if (kind === "K") { longLink = text(data, 0, size); continue; }
      if (kind === "x") {
        const fields = paxFields(data);
        longName = fields.path || longName;
        longLink = fields.linkpath || longLink;
        continue;
      }
      longName = longLink = "";
      if (entries.length >= MOST_FILES) throw new Error(`the tar has more than ${MOST_FILES} files, and no run has; choose a run that was packed with tar`);
      if (kind === "0") entries.push({ path: safe(path), type: "file", data: data.slice() });
      if (kind === "5") entries.push({ path: safe(path), type: "dir" });
      if (kind === "2") entries.push({ path: safe(path), type: "link", target: safe(target) });
    }
    return entries;
  }

  // The run in entries of an archive: its name, and the path above its files.
  function runIn(entries) {
    const info = entries.find(e => e.type === "file" && /^([^/]+\/)*run\.json$/.test(e.path));
    if (!info) throw new Error("it holds no run, because there is no run.json in it; pack the run's directory itself");
    const above = info.path.slice(0, -"run.json".length);
    return { above, name: above.split("/").slice(-2)[0] || "run-001" };
  }

  return { pack, unpack, runIn };
})();
