// check-real.mjs NODE_MODULES DIR ... : what tools/check-real.lua wrote to each DIR, held to llama.cpp.
//
// Ids of the texts, and greedy continuations of the file itself and of every exported GGUF file.  A continuation is
// checked in one pass: each of our tokens must have the largest logit after the prompt and those before it.  With float32
// weights the lead of another one must be a tie of rounding.  llama.cpp rounds the other side of a product to half
// precision where weights are float16, and to 8 bits where they are quantised, so tokens part there: how many prompts
// they part in is printed, and a bound of the lead holds them.
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {basename, join, resolve} from "node:path";
import {pathToFileURL} from "node:url";

const [modules, ...folders] = process.argv.slice(2);
const entry = createRequire(resolve(modules, "x.js")).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, logger: () => {}});
const bounds = {"gguf f32": 5e-3, "gguf adapter": 5e-3, "gguf f16": 0.25, "gguf q8_0": 0.5, file: 2};
let failed = 0;

function say(good, what, figures) {
  if (!good) failed++;
  console.log(`${good ? "ok" : "not ok"} - ${what}: ${figures}`);
}

function tokens(name, model, c) {
  let same = 0;
  const examples = [];
  c.texts.forEach((text, i) => {
    const got = [...model.tokenize(text, false)];
    if (JSON.stringify(got) === JSON.stringify(c.ids[i])) same++;
    else if (examples.length < 5) examples.push(`#   ${JSON.stringify(text)}\n#     ${c.ids[i]}\n#     ${got}`);
  });
  say(same === c.texts.length, `${name} ids, llama.cpp`, `${same} of ${c.texts.length} texts`);
  examples.forEach((e) => console.log(e));
}

// How far the largest logit is above that of each id of a continuation.
async function leads(sequence, prompt, ids) {
  await sequence.clearHistory();
  const all = [...prompt, ...ids];
  const next = (id) => ({generateNext: {logits: {filter: {tokens: [id], includeTop: 1}}, options: {temperature: 0}}});
  const input = all.slice(0, -1).map((id, at) => at < prompt.length - 1 ? id : [id, next(all[at + 1])]);
  const found = (await sequence.controlledEvaluate(input)).slice(prompt.length - 1);
  return ids.map((id, at) => Math.max(...found[at].next.logits.values()) - found[at].next.logits.get(id));
}

async function continuations(name, bound, model, c, greedy, lora) {
  const context = await model.createContext({
    contextSize: 512, batchSize: 512, sequences: 1, threads: 2, experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32", flashAttention: false, swaFullCache: true, lora,
  });
  const sequence = context.getSequence();
  let total = 0, same = 0, parted = 0, worst = 0;
  for (let i = 0; i < greedy.length; i++) {
    const ids = greedy[i], prompt = c.prompt_ids[i];
    if (!ids.length) continue;
    const lead = await leads(sequence, prompt, ids);
    total += ids.length;
    same += lead.filter((x) => x === 0).length;
    parted += lead.some((x) => x > 0);
    worst = Math.max(worst, ...lead);
  }
  // A planted wrong token must be seen.
  const planted = await leads(sequence, c.prompt_ids[0], [greedy[0][0] + 1]);
  if (!(planted[0] > 0)) worst = Infinity;
  await context.dispose();
  say(worst <= bound, `${name}, llama.cpp`, `${greedy.length} prompts, ${same} of ${total} tokens` +
    (parted ? `, ${parted} part, lead ${worst.toExponential(1)}` : ""));
}

async function load(path) {
  return llama.loadModel({modelPath: path, useMmap: false});
}

for (const folder of folders) {
  const c = JSON.parse(readFileSync(join(folder, "case.json"), "utf8"));
  const name = basename(folder);
  let model = await load(c.file);
  tokens(name, model, c);
  await continuations(`${name} continuations`, bounds.file, model, c, c.greedy);
  await model.dispose();
  for (const e of c.exports) {
    if (!e.path.endsWith(".gguf")) continue;
    model = await load(join(folder, e.base ?? e.path));
    if (e.name === "gguf f32") tokens(`${name} exported`, model, c);
    const lora = e.base && {adapters: [{filePath: join(folder, e.path)}]};
    await continuations(`${name} ${e.name}`, bounds[e.name], model, c, e.greedy, lora);
    await model.dispose();
  }
}
process.exit(failed ? 1 : 0);
