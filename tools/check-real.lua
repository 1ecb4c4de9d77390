-- tools/check-real.lua - one file of real weights, as grpo reads it, for tools/check-real.
--
--   FILE=x.gguf OUT=DIR ./grpo repl < tools/check-real.lua
--
-- Writes to OUT what others must agree with: case.json (texts with their ids, rendered chats,
-- prompts with greedy continuations), logits.f32 (rows of float32 for the first prompts), and the
-- exported models.  Greedy continuations of an export are those of the export read back, so that
-- each file is compared with itself.

local core = require "grpo.core"
local grpo = require "grpo"

local file, out = os.getenv "FILE", os.getenv "OUT"
local NEW, LOGIT_PROMPTS = 64, 6

-- ---- 2,000 texts -------------------------------------------------------------------------------

-- Pieces in many scripts and of many kinds; texts are random sequences of them.
local pieces = {
  "Hello", "world", " the", " quick", "brown", "'s", "'LL", " don't", " I'M", "naïve", " café",
  " Übermaß",
  "Zürich", " São", "你好", "世界", "日本語の文章", "カタカナ", "한국어",
  " Привет", "мир", " γειά", "שלום", " مرحبا", "नमस्ते",
  "ไทย", "😀", "👨‍👩‍👧", "🇫🇷", "👍🏽", "e\u{301}", "\u{fb01}",
  "½", "²", "٣", "१२", "１２", "0", "1", "12", " 123", "1234",
  "12345678", "3.14159", "1,234,567", "-7", "0x1F", " x = y[3] + f(z); // c++",
  "def f(a, *b):\n    return a\n",
  "{\"key\": [1, 2.5, null]}", "<div class=\"a\">", "</think>", "http://example.org/a?b=c&d=%20",
  "a@b.co", "#!/bin/sh",
  " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\r\n", "\u{a0}", "\u{3000}", "\u{200b}",
  "\u{feff}", " \n ", "\t\t\n",
  ".", "...", "!", "?!", ",", ";", ":", "--", "—", "…", "“quoted”", "(a)", "[b]", "***",
  "____", "$5", "€3", "100%", "\\n", "\\",
  "▁", "▁▁word", "\u{0}", "\u{7f}", "\u{1}", "aaaaaaaaaaaaaaaaaaaaaaaa", "HTTPServer",
  "camelCase", "snake_case", "ABC",
}

local function character()
  local blocks = { { 32, 126 }, { 0xa1, 0x24f }, { 0x370, 0x5ff }, { 0x900, 0xdff },
    { 0x2000, 0x2bff }, { 0x3040, 0x30ff },
    { 0x4e00, 0x9fff }, { 0xac00, 0xd7a3 }, { 0x1f300, 0x1faff }, { 0x1d400, 0x1d7ff } }
  local b = blocks[math.random(#blocks)]
  return utf8.char(math.random(b[1], b[2]))
end

local function lines_of(path)
  local found = {}
  for line in assert(core.fs.read(path)):gmatch "[^\n]+" do
    if utf8.len(line) then found[#found + 1] = line end
  end
  return found
end

local sources = { "README.md", "docs/guide.md", "src/text/bpe.c", "src/grad/losses.def",
  "examples/loop_by_hand.lua" }

local function texts()
  math.randomseed(25)
  local list, lines = {}, {}
  for _, path in ipairs(sources) do
    table.move(lines_of(path), 1, #lines_of(path), #lines + 1, lines)
  end
  for i = 1, 2000 do
    local t = {}
    if i % 4 == 0 then
      local at = math.random(#lines - 2)
      t = { lines[at], "\n", lines[at + 1] }
    elseif i % 4 == 1 then
      for j = 1, math.random(1, 24) do t[j] = character() end
    else
      for j = 1, math.random(1, 16) do
        t[j] = math.random(4) > 1 and pieces[math.random(#pieces)] or " " .. character()
      end
    end
    list[i] = table.concat(t)
  end
  return list
end

-- ---- prompts and chats ----------------------------------------------------------------------

local subjects = {
  "The capital of France is", "Once upon a time, there was", "def fibonacci(n):\n",
  "Water boils at", "In 1969,",
  "The three primary colours are", "Question: What is 7 + 5?\nAnswer:", "Dear Sir or Madam,\n\n",
  "Die Hauptstadt von", "1, 2, 3, 4," }
local frames = { "%s", "Complete the sentence. %s", "Here is a fact.\n%s",
  "# Notes\n\n- first\n- second\n\n%s", "He said: \"%s" }

local function prompts()
  local list = {}
  for _, frame in ipairs(frames) do
    for _, subject in ipairs(subjects) do list[#list + 1] = frame:format(subject) end
  end
  return list
end

local user = { role = "user", content = "What is 2 + 2?" }
local chats = {
  { messages = { user }, generation_prompt = true },
  { messages = { { role = "system", content = "Be brief." }, user }, generation_prompt = true },
  { messages = { user, { role = "assistant", content = "It is 4." }, { role = "user",
  content = "  And 3 + 3?\n" } },
    generation_prompt = true },
  { messages = { user, { role = "assistant", content = "4 <|im_end|> é 你好" } },
  generation_prompt = false },
}

-- ---- results -----------------------------------------------------------------------------------

local function greedy(m, ids)
  local results = {}
  for i, c in ipairs(m:generate(ids, { max_new_tokens = NEW, temperature = 0 })) do
    results[i] = c.ids
  end
  return results
end

local function write_logits(m, ids)
  local rows, f = {}, assert(io.open(out .. "/logits.f32", "wb"))
  for i = 1, LOGIT_PROMPTS do
    local table_of = m:logits(ids[i]):totable()
    rows[i] = #table_of
    for _, row in ipairs(table_of) do
      for at = 1, #row, 128 do
        local n = math.min(128, #row - at + 1)
        f:write(string.pack("<" .. ("f"):rep(n), table.unpack(row, at, at + n - 1)))
      end
    end
  end
  f:close()
  return rows
end

core.fs.mkdirs(out)
local m = grpo.model.load(file)
local tok = m.tokenizer
local case = { file = file, texts = texts(), ids = {}, decoded = {}, prompts = prompts(),
  prompt_ids = {}, chats = {}, exports = {} }
for i, text in ipairs(case.texts) do
  case.ids[i] = tok:encode(text, { parse_special = false })
  case.decoded[i] = tok:decode(case.ids[i])
end
for i, text in ipairs(case.prompts) do case.prompt_ids[i] = tok:encode(text, { special = true }) end
for i, chat in ipairs(tok.chat_template and chats or {}) do
  local text = tok:chat(chat.messages, { generation_prompt = chat.generation_prompt })
  case.chats[i] = { messages = chat.messages, generation_prompt = chat.generation_prompt,
    text = text, ids = tok:encode(text) }
end
case.greedy = greedy(m, case.prompt_ids)
case.logit_rows = write_logits(m, case.prompt_ids)

local function export(name, path, options)
  m:save(out .. "/" .. path, options)
  local back = name == "hf" and m or grpo.model.load(out .. "/" .. path)
  case.exports[#case.exports + 1] = { name = name, path = path,
    greedy = name == "hf" and case.greedy or greedy(back, case.prompt_ids) }
end

export("hf", "hf", { dtype = "f32" })
export("gguf f32", "f32.gguf", { format = "gguf", dtype = "f32" })
export("gguf f16", "f16.gguf", { format = "gguf", dtype = "f16" })
export("gguf q8_0", "q8_0.gguf", { format = "gguf", dtype = "q8_0" })

-- An adapter whose B is not zero, large enough to change what is said.
m:add_lora { rank = 8, alpha = 16, targets = "all-linear", seed = 25 }
local parameters = {}
for _, tensor in m:parameters() do
  if tensor.requires_grad then parameters[#parameters + 1] = tensor end
end
local optimizer = grpo.optim.adamw(parameters)
for _ = 1, 2 do
  m:zero_grad()
  local unexpected = tok:encode(" a word that nobody expects here, twice")
  local scored = m:score({ case.prompt_ids[1] }, { unexpected }, { grad = true })
  scored.logp:mean():neg():backward()
  optimizer:step(2e-3)
end
local changed = greedy(m, case.prompt_ids)
m:save(out .. "/adapter", { format = "adapter", base_name = "hf" })
case.exports[#case.exports + 1] = { name = "adapter", path = "adapter", greedy = changed }
m:save(out .. "/adapter.gguf", { format = "adapter" })
case.exports[#case.exports + 1] = { name = "gguf adapter", path = "adapter.gguf",
  base = "f32.gguf", greedy = changed }
m:save(out .. "/merged", { dtype = "f32", merge = true })
case.exports[#case.exports + 1] = { name = "merged", path = "merged", greedy = changed }

assert(core.fs.write(out .. "/case.json", grpo.json.encode(case)))
