// check-llama-cpp.mjs NODE_MODULES CASES.json : what tools/check-llama-cpp.lua exported, seen by llama.cpp.
//
// A case is a GGUF file with a prompt, our greedy tokens and the log-probabilities of every next token (1e-4 where the
// weights are float32), and texts with our ids.  The key/value cache is float32: half precision alone costs 3e-4.
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {dirname, join, resolve} from "node:path";
import {pathToFileURL} from "node:url";

const [modules, file] = process.argv.slice(2);
const entry = createRequire(resolve(modules, "x.js")).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, logger: () => {}});
const cases = JSON.parse(readFileSync(file, "utf8"));
const sampling = {temperature: 1, topK: 0, topP: 1, minP: 0};
let failed = 0;

async function distribution(sequence, ids, from) {
  const input = ids.map((id, i) => i < ids.length - 1 ? id : [id, {generateNext: {probabilities: true, options: sampling}}]);
  const out = await sequence.controlledEvaluate(input.slice(from));
  return out[out.length - 1].next.probabilities;
}

async function compare(model, c) {
  const context = await model.createContext({
    contextSize: 128, sequences: 1, threads: 1, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32",
    flashAttention: false, swaFullCache: true,
  });
  const sequence = context.getSequence();
  const ids = [...c.ids];
  let worst = 0, tokens = 0;
  for (let step = 0, seen = 0; step < c.greedy.length; step++) {
    const p = await distribution(sequence, ids, seen);
    seen = ids.length;
    let best = -1;
    for (const [id, x] of p) {
      if (best < 0 || x > p.get(best)) best = id;
      // a probability below 1e-6 has few digits left as a float32
      if (x > 1e-6) worst = Math.max(worst, Math.abs(Math.log(x) - c.logprobs[step][id]));
    }
    if (p.size !== c.logprobs[step].length) worst = Infinity;
    tokens += best === c.greedy[step];
    ids.push(c.greedy[step]);
  }
  await context.dispose();
  return {worst, tokens};
}

function tokenizes(model, c) {
  for (const {text, ids} of c.texts ?? []) {
    const got = model.tokenize(text, true);
    if (JSON.stringify([...got]) !== JSON.stringify(ids))
      return `${JSON.stringify(text)} is ${JSON.stringify([...got])}, we say ${JSON.stringify(ids)}`;
  }
  return null;
}

for (const c of cases) {
  let why = null, figures = "";
  try {
    const model = await llama.loadModel({modelPath: join(dirname(file), c.file), useMmap: false});
    if (c.greedy) {
      const {worst, tokens} = await compare(model, c);
      figures = `, ${tokens} of ${c.greedy.length} greedy tokens, log-probabilities within ${worst.toExponential(1)}`;
      if (!(worst <= c.bound) || (c.exact && tokens !== c.greedy.length)) why = `bound ${c.bound}`;
    }
    const wrong = tokenizes(model, c);
    if (c.texts) figures += `, ${c.texts.length} texts`;
    why = wrong ?? why;
    await model.dispose();
  } catch (e) {
    why = String(e?.message ?? e).split("\n")[0];
  }
  if (why) failed++;
  console.log(`${why ? "not ok" : "ok"} - ${c.name}${figures}${why ? `: ${why}` : ""}`);
}
console.log(`${cases.length - failed} of ${cases.length} agree with llama.cpp`);
process.exit(failed ? 1 : 0);
