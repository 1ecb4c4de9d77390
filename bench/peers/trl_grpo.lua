-- bench/peers/trl_grpo.lua - the run that bench/peers/trl_grpo.py repeats with TRL.
--
--   MODEL=FILE OUT=DIR grpo repl < bench/peers/trl_grpo.lua   writes DIR/base, DIR/adapter (fresh),
--                                                             DIR/rows.jsonl and DIR/settings.json
--   grpo run bench/peers/trl_grpo.lua --arg from=DIR          trains the adapter on the rows
--   ... --arg full=1 --arg seed=N                             all weights; samples of seed N
--   TEXTS=FILE grpo repl < bench/peers/trl_grpo.lua           prints the reward of each line of
--                                                             FILE: JSON with text and letter
--
-- The task: continue a list of words that begin with one letter.  Rows, settings and first weights
-- are data that both programs read; the reward is `share` here and `share` there.

local core = require "grpo.core"
local grpo = require "grpo"

local settings = {
  prompts = 1, group = 8, new_tokens = 12, temperature = 1.0, kl = 0.02, clip = 0.2,
  lr = { lora = 2e-4, full = 5e-6 }, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, max_grad_norm = 1,
  steps = 100, iterations = 1,
}

local words = {
  a = "apple arm autumn angle", b = "ball bread bridge button", c = "cat coffee candle corner",
  d = "dog door dinner desk", f = "fish forest finger fence", g = "garden glass goat gate",
  h = "house horse hammer hand", l = "lamp lemon ladder leaf", m = "moon mother market mirror",
  n = "nose night needle north", p = "paper pencil pocket plum", r = "river ring rabbit road",
  s = "sun silver soup stone", t = "table tiger tower tree", w = "water window winter wood",
}

-- One row for every ordered pair of a letter's words.
local function rows()
  local list = {}
  for letter, text in grpo.sorted_pairs(words) do
    for first in text:gmatch "%a+" do
      for second in text:gmatch "%a+" do
        if first ~= second then
          local prompt = ("Different words that begin with %s: %s, %s,"):format(letter:upper(),
            first, second)
          list[#list + 1] = { letter = letter, prompt = prompt }
        end
      end
    end
  end
  return list
end

-- The number of different words that begin with the letter, divided by that of all words (by 4 if
-- there are fewer).
local function share(text, letter)
  local count, right, seen = 0, 0, {}
  for word in text:lower():gmatch "[a-z]+" do
    count = count + 1
    if word:sub(1, 1) == letter and not seen[word] then
      seen[word], right = true, right + 1
    end
  end
  return right / math.max(count, 4)
end

local function write(path, lines)
  assert(core.fs.write(path, table.concat(lines, "\n") .. "\n"))
end

local function prepare(model, out)
  local m = grpo.model.load(model)
  core.fs.mkdirs(out)
  m:save(out .. "/base")
  m:add_lora { rank = 16, alpha = 32, targets = "all-linear", seed = 1 }
  m:save(out .. "/adapter", { format = "adapter", base_name = out .. "/base" })
  local lines = {}
  for i, row in ipairs(rows()) do lines[i] = grpo.json.encode(row) end
  write(out .. "/rows.jsonl", lines)
  write(out .. "/settings.json", { grpo.json.encode(settings) })
end

local function score(path)
  for row in io.lines(path) do
    row = grpo.json.decode(row)
    row.reward = share(row.text, row.letter)
    print(grpo.json.encode(row))
  end
end

if os.getenv "TEXTS" then return score(os.getenv "TEXTS") end
if os.getenv "OUT" then return prepare(os.getenv "MODEL", os.getenv "OUT") end

local from, full = grpo.args.from, grpo.args.full ~= nil

-- Ids, for the replay of the same completions in TRL.
local function record(batch, tr)
  for _, c in ipairs(batch.completions or batch) do
    tr:append("rollouts.jsonl", grpo.json.encode {
      prompt = c.row.prompt, letter = c.row.letter, ids = c.ids, text = c.text,
      reward = c.reward } .. "\n")
  end
end

return grpo.experiment {
  name  = "trl",
  seed  = math.tointeger(tonumber(grpo.args.seed or 0)),
  model = { path = from .. (full and "/base" or "/adapter") },
  data  = { train = grpo.data.jsonl(from .. "/rows.jsonl"), max_prompt_tokens = 48 },
  sampling = {
    group_size = settings.group, max_new_tokens = settings.new_tokens,
    temperature = settings.temperature,
  },
  rewards = {
    { name = "share", fn = function(text, row) return share(text, row.letter) end },
  },
  train = {
    steps = settings.steps, prompts_per_step = settings.prompts, iterations = settings.iterations,
    loss = "grpo", kl = settings.kl, clip = settings.clip, max_grad_norm = settings.max_grad_norm,
    lr = tonumber(grpo.args.lr) or settings.lr[full and "full" or "lora"],
  },
  hooks = { on_rollout = record },
}
