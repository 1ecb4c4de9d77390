// The other half of bench/tokenizer: Hugging Face's tokenizers on the same pieces; rows as tokenizer.lua prints them.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'

const { Tokenizer } = createRequire(resolve(process.env.MODULES) + '/')('tokenizers')
const folder = process.env.TOKENIZER
const tokenizer = Tokenizer.fromFile(`${folder}/tokenizer.json`)
const bytes = readFileSync(process.env.TEXT)
const text = bytes.toString('utf8')
const options = { addSpecialTokens: false }

const pieces = []
let piece = '', size = 0
for (const line of text.match(/[^\n]*\n?/g)) {
  piece += line
  size += Buffer.byteLength(line)
  if (size > 2000) {
    pieces.push(piece)
    piece = ''
    size = 0
  }
}
if (piece) pieces.push(piece)

async function pass(list) {
  return list.length > 1 ? tokenizer.encodeBatch(list, options) : [await tokenizer.encode(list[0], null, options)]
}

for (const [way, list] of [['pieces', pieces], ['whole', [text]]]) {
  let count = 0, sum = 0
  for (const encoding of await pass(list)) {
    const ids = encoding.getIds()
    count += ids.length
    for (const id of ids) sum = (sum * 31 + id) % 1000003
  }
  for (let i = 0; i < Number(process.env.REPEATS); i++) {
    const start = performance.now(), before = process.cpuUsage()
    await pass(list)
    const clock = (performance.now() - start) / 1e3, used = process.cpuUsage(before)
    const cpu = (used.user + used.system) / 1e6
    console.log([basename(folder), 'tokenizers', way, bytes.length / clock / 1e6, bytes.length / cpu / 1e6, count, sum].join('\t'))
  }
}
