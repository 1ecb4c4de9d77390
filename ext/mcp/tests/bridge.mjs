// grpo mcp behind HTTP, for conformance tests that know servers by address: node bridge.mjs GRPO.  Prints the address.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const child = spawn(process.argv[2], ['mcp'], { stdio: ['pipe', 'pipe', 'inherit'] });
const waiting = new Map();
let next = 1;
createInterface({ input: child.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  const [id, answer] = waiting.get(message.id) ?? [];
  waiting.delete(message.id);
  if (answer) answer({ ...message, id });
});
const server = createServer(async (request, response) => {
  if (request.method !== 'POST') return response.writeHead(405).end();
  let body = '';
  for await (const piece of request) body += piece;
  const message = JSON.parse(body);
  if (message.id === undefined) {
    child.stdin.write(JSON.stringify(message) + '\n');
    return response.writeHead(202).end();
  }
  const id = next++; // several clients share the process
  const answer = await new Promise((f) => { waiting.set(id, [message.id, f]); child.stdin.write(JSON.stringify({ ...message, id }) + '\n'); });
  response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer));
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
