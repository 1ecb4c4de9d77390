// The official SDK's client against grpo mcp: node client.mjs GRPO.  TAP on stdout.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.cwd() + '/');
const load = (name) => import(pathToFileURL(require.resolve('@modelcontextprotocol/sdk/' + name)));
const { Client } = await load('client/index.js');
const { StdioClientTransport } = await load('client/stdio.js');

const client = new Client({ name: 'check-mcp', version: '1' });
await client.connect(new StdioClientTransport({ command: process.argv[2], args: ['mcp'], cwd: process.cwd() }));
let count = 0, failed = 0;
async function test(name, f) {
  count++;
  try {
    await f();
    console.log(`ok ${count} - ${name}`);
  } catch (e) {
    failed++;
    console.log(`not ok ${count} - ${name}\n# ${String(e).replaceAll('\n', '\n# ')}`);
  }
}
const call = async (name, args = {}) => {
  const r = await client.callTool({ name, arguments: args });
  return { text: r.content.map((c) => c.text).join('\n'), failed: r.isError };
};

await test('the server says who it is', () => {
  assert.equal(client.getServerVersion().name, 'grpo');
  assert.ok(client.getServerCapabilities().tools && client.getServerCapabilities().resources);
  assert.match(client.getInstructions(), /SKILL/);
});
await test('ping', () => client.ping());
await test('tools have schemas and annotations', async () => {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((t) => t.name).sort(), ['check_reward', 'check_script', 'explain_run', 'help', 'list_runs', 'show_completions',
    'start_run', 'stop_run', 'watch_run']);
  for (const t of tools) assert.equal(t.inputSchema.type, 'object');
  assert.equal(tools.find((t) => t.name === 'watch_run').annotations.readOnlyHint, true);
});
await test('resources are listed and read', async () => {
  const { resources } = await client.listResources();
  assert.equal(resources[0].uri, 'grpo://SKILL.md');
  const { contents } = await client.readResource({ uri: 'grpo://SKILL.md' });
  assert.match(contents[0].text, /^---\nname: grpo\ndescription: /);
  assert.deepEqual((await client.listResourceTemplates()).resourceTemplates, []);
  await assert.rejects(client.readResource({ uri: 'grpo://other' }), /no resource/);
});
await test('check_script', async () => {
  const r = await call('check_script', { script: 'my.lua' });
  assert.equal(r.failed, false);
  assert.match(r.text, /peak memory/);
});
await test('check_reward', async () => assert.match((await call('check_reward', { script: 'my.lua' })).text, /0 failures/));
await test('start_run, watch_run, stop_run', async () => {
  const r = await call('start_run', { script: 'my.lua', overrides: ['train.steps=100000'], name: 'long' });
  assert.match(r.text, /runs\/long/);
  for (let i = 0; i < 100 && !/step [1-9]/.test((await call('watch_run', { run: 'long' })).text); i++) await new Promise((f) => setTimeout(f, 100));
  assert.match((await call('watch_run', { run: 'long' })).text, /running, step [1-9]/);
  await call('stop_run', { run: 'long' });
  for (let i = 0; i < 100 && !/interrupted|stopped/.test((await call('watch_run', { run: 'long' })).text); i++) await new Promise((f) => setTimeout(f, 100));
  assert.match((await call('watch_run', { run: 'long' })).text, /interrupted|stopped/);
});
await test('explain_run', async () => assert.match((await call('explain_run', { run: 'long' })).text, /metrics of the last step/));
await test('show_completions', async () => assert.match((await call('show_completions', { run: 'long', count: 1 })).text, /digits/));
await test('list_runs', async () => assert.match((await call('list_runs')).text, /"name": "long"/));
await test('help', async () => assert.match((await call('help', { topic: 'train.lr' })).text, /train\.lr/));
await test('a failure of a tool is a text that the model reads', async () => {
  const r = await call('explain_run', { run: 'nothing' });
  assert.equal(r.failed, true);
  assert.match(r.text, /no such run/);
});
await test('an unknown tool is an error', () => assert.rejects(client.callTool({ name: 'rm' }), /unknown tool/));
await client.close();
console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
