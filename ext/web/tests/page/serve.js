// A web server for a folder, as plain as there is: no header but the type of a file.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

// Serves `root` below the path `below`; returns the address, the paths that were asked for, and close().
export async function serve(root, below) {
  const asked = [];
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://x").pathname));
    asked.push(path);
    try {
      if (!path.startsWith(below)) throw new Error("elsewhere");
      const file = join(root, path.slice(below.length) || "index.html");
      const data = await readFile(file);
      response.writeHead(200, { "content-type": types[extname(file)] || "application/octet-stream" });
      response.end(data);
    } catch {
      response.writeHead(404);
      response.end();
    }
  });
  await new Promise(resolve => server.listen(0, "127.0.0.1", resolve));
  return { address: `http://127.0.0.1:${server.address().port}${below}`, asked, close: () => server.close() };
}
