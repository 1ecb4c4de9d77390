-- examples/game.lua - a game of several turns, learned from its reward alone.
--
--   ./grpo run examples/game.lua                 about a minute; --arg steps=N, --arg seed=N
--   ./grpo replay runs/game-001                  the last games, turn by turn
--
-- A number from 1 to 9 is hidden.  The model guesses, one character per turn; the answer is "<"
-- (the number is smaller), ">" (it is larger) or "!" (the guess was not a number).  The model has
-- four guesses, as many as halving needs.  It begins with random weights and learns which guess
-- follows which answers.  With greedy decoding it wins 11 of 100 games before and 87 after (seed
-- 0).

local grpo     = require "grpo"
local schedule = require "grpo.schedule"

local steps = math.tointeger(tonumber(grpo.args.steps or 250))
local seed  = math.tointeger(tonumber(grpo.args.seed or 0))
if not (steps and seed) then error("--arg steps and --arg seed want whole numbers", 0) end

-- One game is one coroutine: it yields observations, receives the model's turns, and returns the
-- reward.
local function game(_, rng)
  local secret, answer = 1 + math.floor(rng() * 9), "?"
  for turn = 1, 4 do
    local guess = tonumber((coroutine.yield(answer)))
    if guess == secret then return 1.1 - turn / 10 end -- 1 for the first guess, 0.7 for the fourth
    answer = not guess and "!" or secret < guess and "<" or ">"
  end
  return 0
end

-- Rows are only numbers of games; the hidden number follows from the run's seed and the row.
local function games(n)
  return grpo.data.generate(function(_, i) return { game = i } end, { n = n })
end

local characters = {} -- each of them ends a turn
for character in ("123456789<>!?"):gmatch(".") do characters[#characters + 1] = character end

return grpo.experiment {
  name        = "game",
  seed        = seed,
  model       = {
    config = "configs/models/starter.json",
    tokenizer = grpo.tokenizer.chars(table.concat(characters)),
  },
  data        = { train = games(20000), eval = games(200), max_prompt_tokens = 4 },
  environment = game,
  turns       = { max = 4 },
  sampling    = { group_size = 16, max_new_tokens = 8, stop = characters },
  train       = {
    steps = steps, prompts_per_step = 16,
    lr = schedule.linear { from = 1e-3, to = 1e-4, steps = math.max(1, steps) },
  },
  -- the share of games that are won
  eval        = { metric = function(_, _, c) return c.environment.reward > 0 end },
  log         = { every = 10 },
}
