-- A model learns between the frames of a game in LuaJIT, such as one of LÖVE: a step is made in
-- parts of at most 2 ms.
--   luajit love.lua [STEPS]      without a window; in LÖVE it is main.lua
local grpo = require "grpo.ffi"

local letters = "abcdefgh"
local prompts = {}
for letter in letters:gmatch "." do prompts[#prompts + 1] = letter end

local context = grpo.context { threads = 1 } -- the game has the other cores
local model = context:model {
  config = {
    model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
    num_attention_heads = 4, max_position_embeddings = 32, initializer_range = 0.1,
  },
  tokenizer = context:chars(letters),
}
local trainer = model:trainer { max_prompt_tokens = 1, max_new_tokens = 8 }

-- The share of the letters wanted that are the prompt's.
local total = 0
local function repeats(sample)
  local _, hits = sample.text:gsub(prompts[sample.prompt], "")
  total = total + hits / 8 / 64
  return hits / 8
end

local mean, training = 0, false

local function update() -- one turn a frame; the game plays here
  if not training then
    total = 0
    trainer:begin { prompts = prompts, reward = repeats, update = { lr = 1e-2 } }
    training = true
  end
  if trainer:advance(2000) then mean, training = total, false end
end

if love then
  love.update = update
  function love.draw()
    love.graphics.print(("step %d: reward %.3f"):format(trainer.steps, mean), 8, 8)
  end
else
  local steps = tonumber(arg[1]) or 60
  while trainer.steps < steps do update() end
  print(("step %3d: reward %.3f"):format(trainer.steps, mean))
end
