// llama_cpp.mjs NODE_MODULES MODEL.gguf --sequences 1,8,16 --threads N [--prompt 16] [--new 64] [--runs 3] : decoding in
// llama.cpp (npm package node-llama-cpp), as JSON: seconds of a step of so many sequences, one batch a step.
//
// The batch is filled and computed by the package's own binding, below its scheduler; the next token is made up, so that
// what is timed is llama_decode alone, without sampling.  A few steps decide on flash attention.
import {createRequire} from "node:module";
import {resolve} from "node:path";
import {pathToFileURL} from "node:url";

const [modules, file, ...words] = process.argv.slice(2);
const o = {sequences: "1,8,16", threads: "1", prompt: "16", new: "64", runs: "3"};
for (let i = 0; i < words.length; i += 2) o[words[i].slice(2)] = words[i + 1];
const sequences = o.sequences.split(",").map(Number);
const [threads, prompt, fresh, runs] = [o.threads, o.prompt, o.new, o.runs].map(Number);

const entry = createRequire(resolve(modules, "x.js")).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, logger: () => {}});
const model = await llama.loadModel({modelPath: resolve(file), useMmap: false});

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const token = (sequence, at) => (sequence * 131 + at * 37) % 1000;

// Seconds of a step, and core seconds of one: a prompt each, then some steps of a token each.
async function run(ctx, n, steps) {
  ctx.initBatch(n * prompt);
  for (let s = 0; s < n; s++) {
    const ids = Uint32Array.from({length: prompt}, (_, i) => token(s, i));
    ctx.addToBatch(s, 0, ids, Uint32Array.of(prompt - 1));
  }
  await ctx.decodeBatch();
  const cpu = process.cpuUsage();
  const started = process.hrtime.bigint();
  for (let t = 0; t < steps; t++) {
    ctx.initBatch(n);
    for (let s = 0; s < n; s++) ctx.addToBatch(s, prompt + t, Uint32Array.of(token(s, prompt + t)), Uint32Array.of(0));
    await ctx.decodeBatch();
  }
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  const used = process.cpuUsage(cpu);
  for (let s = 0; s < n; s++) ctx.disposeSequence(s);
  return {seconds: seconds / steps, cores: (used.user + used.system) / 1e6 / threads / steps};
}

async function measure(n, flashAttention, times, steps) {
  const context = await model.createContext({
    contextSize: prompt + fresh, sequences: n, batchSize: n * prompt, threads: {ideal: threads, min: threads},
    flashAttention,
  });
  const ctx = context._ctx;
  ctx.setThreads(threads);
  await run(ctx, n, 2);
  const list = [];
  for (let i = 0; i < times; i++) list.push(await run(ctx, n, steps));
  const used = ctx.getThreads();
  await context.dispose();
  return {
    sequences: n, threads: used, flash_attention: flashAttention, seconds: median(list.map((x) => x.seconds)),
    core_seconds: Math.min(...list.map((x) => x.cores)),
  };
}

const rows = [];
for (const n of sequences) {
  const plain = await measure(n, false, 2, 6), flash = await measure(n, true, 2, 6);
  rows.push(await measure(n, flash.seconds < plain.seconds, runs, fresh - 1));
}
const report = {model: file, rows, peak_bytes: process.resourceUsage().maxRSS * 1024};
process.stdout.write(JSON.stringify(report) + "\n", () => process.exit(0));
