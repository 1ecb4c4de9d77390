// Runs as files of the user.
import { Tar } from "./shared.js";

// The tar in a file, which holds a run; raises if it does not.
export async function tarOf(file) {
  let bytes = new Uint8Array(await file.arrayBuffer());
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  Tar.runIn(Tar.unpack(bytes));
  return bytes;
}

// Gives the user a file.
export function download(name, data) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([data], { type: "application/x-tar" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
