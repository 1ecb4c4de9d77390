// check-llama-lora.mjs NODE_MODULES DIR : DIR/base.gguf with DIR/adapter.gguf in llama.cpp gives the greedy tokens that
// the last line of DIR/host.txt names, and without the adapter it gives others.
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {join, resolve} from "node:path";
import {pathToFileURL} from "node:url";

const [modules, directory] = process.argv.slice(2);
const entry = createRequire(resolve(modules, "x.js")).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, logger: () => {}});
const line = readFileSync(join(directory, "host.txt"), "utf8").trim().split("\n").pop();
const [prompt, want] = line.split("->").map(part => part.trim().split(" ").map(Number));
const model = await llama.loadModel({modelPath: join(directory, "base.gguf"), useMmap: false});

async function greedy(lora) {
  const context = await model.createContext({contextSize: 128, sequences: 1, threads: 1, flashAttention: false, lora});
  const sequence = context.getSequence();
  const tokens = [];
  for (let input = prompt; tokens.length < want.length;) {
    const ask = input.map((id, i) => i < input.length - 1 ? id : [id, {generateNext: {token: true, options: {temperature: 0}}}]);
    const out = await sequence.controlledEvaluate(ask);
    tokens.push(out[out.length - 1].next.token);
    input = [tokens[tokens.length - 1]];
  }
  await context.dispose();
  return tokens;
}

const got = await greedy(join(directory, "adapter.gguf")), base = await greedy(undefined);
const same = JSON.stringify(got) === JSON.stringify(want), changed = JSON.stringify(base) !== JSON.stringify(got);
console.log(`${same && changed ? "ok" : "not ok"} - a host's adapter in llama.cpp: ${got.join(" ")}; without it ${base.join(" ")}`);
process.exit(same && changed ? 0 : 1);
