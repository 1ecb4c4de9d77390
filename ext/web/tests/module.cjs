// The module of `make web-module` in node: runs, then scripts that must cost one line and not the module.
//   node ext/web/tests/module.cjs FOLDER run SCRIPT [OPTION...]   prints each checkpoint's weights as sha256sum does, and how it went
//   node ext/web/tests/module.cjs FOLDER cases                    prints "ok NAME" or "not ok NAME: why"; status 1 if one failed
// FOLDER has grpo.js and grpo.wasm.  tools/check-web calls it.
'use strict';
const fs = require('fs'), path = require('path'), crypto = require('crypto');
const [folder, what, ...words] = process.argv.slice(2);
const Grpo = require(path.resolve(folder, 'grpo.js'));

const seconds = () => { const t = process.cpuUsage(); return (t.user + t.system) / 1e6; };

async function open() {
  const said = [];
  const say = line => said.push(line);
  const module = await Grpo({ wasmBinary: fs.readFileSync(path.join(folder, 'grpo.wasm')), print: say, printErr: say });
  const call = (name, returns, ...given) => module.cwrap(name, returns, given.map(() => 'string'))(...given);
  module.FS.mkdirTree('/work');
  module.FS.chdir('/work');
  if (call('web_open', 'number') !== 1) throw Error(call('web_events', 'string'));
  const events = () => JSON.parse(call('web_events', 'string'));
  const start = (script, options = []) => call('web_start', 'number', JSON.stringify({ script, options, force: true }));
  const advance = () => call('web_advance', 'number');
  const line = text => JSON.parse(call('web_line', 'string', text));
  return { FS: module.FS, said, call, events, start, advance, line, heap: () => module.HEAP8.length / 2 ** 20 };
}

// ---- run ----------------------------------------------------------------------------------

function weights(FS, directory, found) {
  for (const name of FS.readdir(directory)) {
    const at = directory + '/' + name;
    if (name[0] === '.' || name === 'latest') continue;
    if (FS.isDir(FS.stat(at).mode)) weights(FS, at, found);
    else if (name === 'model.safetensors') found.push([crypto.createHash('sha256').update(FS.readFile(at)).digest('hex'), at]);
  }
  return found;
}

async function run(script, options) {
  const m = await open(), name = path.basename(script);
  m.FS.writeFile(name, fs.readFileSync(script));
  let result = m.start(name, options), steps = 0;
  const begin = seconds();
  for (; result === 1; steps++) {
    result = m.advance();
    for (const e of m.events()) if (e.type === 'error') console.log('error: ' + e.text);
  }
  const took = seconds() - begin;
  for (const [hash, at] of weights(m.FS, 'runs', [])) console.log(hash + '  ' + at);
  console.log(`${steps} calls in ${took.toFixed(2)} s of core time, heap ${m.heap().toFixed(0)} MiB`);
  for (const line of m.said) console.log(line);
  process.exitCode = result === 0 ? 0 : 1;
}

// ---- cases --------------------------------------------------------------------------------

function script(reward, config = '', before = '') {
  return `local grpo = require "grpo"
${before}
return grpo.experiment {
  name = "tiny",
  model = { config = { model_type = "llama", hidden_size = 16, intermediate_size = 32, num_hidden_layers = 1,
      num_attention_heads = 2, max_position_embeddings = 32, ${config} }, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
  data = { train = grpo.data.list { { prompt = "a" }, { prompt = "b" } }, max_prompt_tokens = 4 },
  sampling = { group_size = 4, max_new_tokens = 4 },
  rewards = { { name = "as", fn = function(text)
    ${reward}
  end } },
  train = { steps = 2, prompts_per_step = 2, lr = 1e-2 },
}
`;
}
const good = script('return #text');

// name: [text of the script, words that the error has, options, line]
const mistakes = {
  'a mistake of syntax': ['local x =\n= 1', 'unexpected symbol', [], 2],
  'an error of its own': ['\n\nerror "my own"', 'my own', [], 3],
  'a file that is not there': ['require("grpo").data.jsonl("nowhere.jsonl")', 'nowhere.jsonl', [], 1],
  'os.exit': ['os.exit(3)', 'os.exit', [], 1],
  'no experiment': ['return 7', 'grpo.experiment'],
  'a reward without an end': [script('while true do end'), 'instructions', [], 10],
  'an endless recursion': [script('local function f(n) return 1 + f(n) end return f(1)'), 'stack overflow', [], 10],
  'a recursion through gsub': [script('local function f(s) return (s:gsub(".", f)) end return #f("a")'), 'stack overflow'],
  'a recursion through sort': [script('local function f() table.sort({ 3, 2, 1 }, f) end f()'), 'stack overflow'],
  'a recursion through __index': [script('local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) return t[k .. k] end return t.a'), 'rewards.as'],
  'a recursion through coroutines': [script('local function f() return coroutine.wrap(f)() end return f()'), 'stack overflow'],
  'parentheses without an end': ['return ' + '('.repeat(100000), 'overflow'],
  'a regular expression that is too deep': [script('return grpo.regex(("("):rep(2000) .. (")"):rep(2000)) and 1'), 'too deeply nested'],
  'JSON that is too deep': [script('return #grpo.json.decode(("["):rep(100000))'), 'nested too deeply'],
  'a string larger than memory': ['return #("xy"):rep((1 << 31) + 8)', 'too large', [], 1],
  'a tensor whose bytes are 0 in 32 bits': ['require("grpo").zeros { 65536, 65536 }', 'zeros', [], 1],
  'a tensor whose bytes are 64 in 32 bits': ['require("grpo").zeros { 1048577, 4096 }', 'zeros', [], 1],
  'more memory than there is': ['local t, x = {}, ("x"):rep(1 << 20) while true do t[#t + 1] = x:rep(64) .. #t end', 'memory'],
};
// sizes that 32 bits cannot hold: [configuration, options]
const sizes = {
  'a wide model': ['hidden_size = 65536, intermediate_size = 262144'],
  'a deep model': ['hidden_size = 8192, num_hidden_layers = 1024'],
  'a large vocabulary': ['hidden_size = 1024, vocab_size = 4194304'],
  'long prompts': ['max_position_embeddings = 16777216', ['data.max_prompt_tokens=1048576', 'sampling.max_new_tokens=1000000']],
  'a large batch': ['max_position_embeddings = 65536', ['sampling.max_new_tokens=60000', 'sampling.group_size=512', 'train.prompts_per_step=512']],
  'a large cache': ['max_position_embeddings = 65536, num_hidden_layers = 16, hidden_size = 256', ['sampling.max_new_tokens=30000', 'sampling.group_size=64']],
  'many completions': ['', ['sampling.group_size=4096', 'train.prompts_per_step=16384']],
  'many positions of many heads': ['max_position_embeddings = 16777216, hidden_size = 4096, num_attention_heads = 4', ['data.max_prompt_tokens=1048576']],
  'a large adapter': ['intermediate_size = 65536, num_hidden_layers = 16', ['model.lora.rank=4096']],
  'a model that fills memory': ['hidden_size = 2048, intermediate_size = 8192, num_hidden_layers = 3'],
};

async function cases() {
  let m = await open();
  const wrong = [];
  const check = (name, why) => {
    if (why) wrong.push(name);
    console.log(why ? `not ok ${name}: ${why}` : `ok ${name}`);
  };
  const result_of = (text, options) => {
    m.FS.writeFile('my.lua', text);
    let result = m.start('my.lua', options);
    while (result === 1) result = m.advance();
    return [result, m.events().filter(e => e.type === 'error')];
  };
  const still_works = () => {
    const [result, errors] = result_of(good);
    return result === 0 ? '' : 'afterwards a good script gives ' + result + ' ' + JSON.stringify(errors);
  };
  const one_line = (text, wanted, options, line) => {
    const [result, errors] = result_of(text, options);
    const e = errors[0] || {};
    if (result !== -1 || errors.length !== 1) return `gives ${result} and ${errors.length} errors`;
    if (/\n/.test(e.text) || !e.text.includes(wanted)) return 'says ' + JSON.stringify(e.text.slice(0, 300));
    if (line && e.line !== line) return `names line ${e.line}: ${e.text}`;
    return m.said.length ? 'prints ' + m.said.splice(0).join(' | ').slice(0, 300) : still_works();
  };
  const guarded = async (name, f) => {
    try {
      check(name, await f());
    } catch (e) { // the module is gone
      check(name, String(e).slice(0, 200));
      m = await open();
    }
  };
  for (const [name, [text, wanted, options, line]] of Object.entries(mistakes))
    await guarded(name, () => one_line(text, wanted, options, line));
  for (const [name, [config, options]] of Object.entries(sizes))
    await guarded(name, () => {
      const [result, errors] = result_of(script('return #text', config), options);
      const lines = errors.map(e => e.text).join('\n');
      if (result === -1 && errors.length === 1 && !/\n/.test(lines)) return still_works();
      return `gives ${result} and says ${JSON.stringify(lines.slice(0, 300))}`;
    });

  await guarded('a file that was renamed over stays away when it is removed', () => {
    m.FS.writeFile('a', 'old');
    m.FS.writeFile('b', 'new');
    m.FS.rename('b', 'a');
    m.FS.unlink('a');
    return m.FS.analyzePath('a').exists ? 'it is there' : '';
  });
  await guarded('the prompt of a live run', () => {
    m.FS.writeFile('my.lua', good);
    m.start('my.lua');
    m.advance();
    const sum = m.line('1 + 1'), mistake = m.line('error "mine"'), endless = m.line('local function f() return 1 + f() end return f()');
    const result = m.advance();
    if (!String(sum.out).includes('2')) return 'answers ' + JSON.stringify(sum);
    if (!mistake.failed || !endless.failed) return 'takes mistakes for answers: ' + JSON.stringify([mistake, endless]);
    return result === 1 ? '' : 'the run gives ' + result;
  });
  await guarded('a run that is stopped', () => {
    m.FS.writeFile('my.lua', good);
    m.start('my.lua');
    m.advance();
    m.call('web_stop', 'number');
    const result = m.advance(), end = m.events().find(e => e.type === 'end');
    return result === 0 && end && end.why === 'stopped' ? '' : `gives ${result} and ${JSON.stringify(end)}`;
  });
  await guarded('closing and opening again', () => {
    for (let i = 0; i < 3; i++) {
      m.call('web_close', null);
      if (m.call('web_start', 'number', '{}') !== -1) return 'a closed module starts a run';
      if (m.call('web_open', 'number') !== 1) return 'it does not open';
      m.events();
    }
    return still_works();
  });
  console.log(`${wrong.length} failed; the heap has ${m.heap().toFixed(0)} MiB`);
  process.exitCode = wrong.length ? 1 : 0;
}

(what === 'run' ? run(words[0], words.slice(1)) : cases()).catch(e => { console.error(e); process.exitCode = 1; });
