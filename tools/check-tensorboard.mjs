// node tools/check-tensorboard.mjs MODULES RUN : see tools/check-tensorboard
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';

const [modules, run] = process.argv.slice(2);
const require = createRequire(path.resolve(modules, 'package.json'));
const { RecordReader } = require('tfrecord-stream/lib/record_reader.js');
const protobuf = require('protobufjs');

// The fields of TensorFlow's event.proto and summary.proto that matter here.
const { root } = protobuf.parse(`syntax = "proto3";
  message Tensor { int32 dtype = 1; repeated bytes string_val = 8; }
  message Value { string tag = 1; float simple_value = 2; Tensor tensor = 8; }
  message Summary { repeated Value value = 1; }
  message Event { double wall_time = 1; int64 step = 2; oneof what { string file_version = 3; Summary summary = 5; } }`);
const Event = root.lookupType('Event');

const files = fs.readdirSync(run).filter((name) => name.startsWith('events.out.tfevents.'));
const seen = new Map();
let records = 0, version = '';
for (const name of files) {
  const reader = await RecordReader.create(path.join(run, name));
  for (;;) {
    const record = await reader.readRecord(); // checks both checksums
    if (!record) break;
    const event = Event.toObject(Event.decode(record), { longs: Number });
    records += 1;
    if (event.fileVersion) version = event.fileVersion;
    for (const value of event.summary?.value ?? [])
      if (value.simpleValue !== undefined) seen.set(`${event.step ?? 0} ${value.tag}`, value.simpleValue);
  }
}

let numbers = 0, wrong = 0;
for (const line of fs.readFileSync(path.join(run, 'metrics.jsonl'), 'utf8').trim().split('\n')) {
  const metrics = JSON.parse(line);
  for (const [tag, x] of Object.entries(metrics)) {
    if (typeof x !== 'number' || tag === 'step' || tag === 'log_line') continue; // these two say which row it is
    numbers += 1;
    if (seen.get(`${metrics.step} ${tag}`) !== Math.fround(x)) {
      wrong += 1;
      console.log(`step ${metrics.step}: ${tag} is ${x} in metrics.jsonl, ${seen.get(`${metrics.step} ${tag}`)} in the event file`);
    }
  }
}
console.log(`check-tensorboard: ${files.length} file, ${records} records, version ${version}: ${numbers} numbers, ${wrong} wrong`);
process.exit(wrong || !numbers || version !== 'brain.Event:2' ? 1 : 0);
