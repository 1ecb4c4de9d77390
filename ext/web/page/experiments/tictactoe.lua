-- Tic-tac-toe, learned from wins and losses: nobody shows the model a good move.
--
-- The model is X and reads the board row by row, with the numbers of the squares that are free:
-- "1X3O56789".  It writes the number of a square.  A completion is a whole game against an opponent
-- who moves at random.  A first, supervised stage shows games of random moves, which teach the
-- rules.

local grpo     = require "grpo"
local schedule = require "grpo.schedule"

local EMPTY = "123456789"
local lines = { "123", "456", "789", "147", "258", "369", "159", "357" }

local function at(board, square) return board:sub(square, square) end

local function moved(board, square, player)
  return board:sub(1, square - 1) .. player .. board:sub(square + 1)
end

local function has_line(board, player)
  for _, line in ipairs(lines) do
    local own = 0
    for square in line:gmatch(".") do
      if at(board, tonumber(square)) == player then own = own + 1 end
    end
    if own == 3 then return true end
  end
  return false
end

local function is_full(board) return not board:find("%d") end

-- The board after a move of this player on a random free square.
local function any_move(board, player, rng)
  local free = {}
  for square in board:gmatch("%d") do free[#free + 1] = tonumber(square) end
  return moved(board, free[1 + math.floor(rng() * #free)], player)
end

-- One game.  Each yield shows the model a board and gives the model's move.  The numbers are the
-- rewards: change one while it trains, and press Apply.
local function game(row)
  local board, reward = row.board, nil
  while true do
    local action, c = coroutine.yield(board, reward, board)
    local square = tonumber(action)
    if at(board, square) ~= action then return -1 end -- the square is taken
    board = moved(board, square, "X")
    if has_line(board, "X") then return 1 end
    if is_full(board) then return 0.2 end
    board = any_move(board, "O", c.rng)
    if has_line(board, "O") then return -1 end
    if is_full(board) then return 0.2 end
    reward = 0
  end
end

local squares = {}
for square = 1, 9 do squares[square] = tostring(square) end

-- A game of random moves from a board on: the model's turns, and the boards between them.
local function random_game(board, rng)
  local texts = {}
  while true do
    local free = {}
    for square in board:gmatch("%d") do free[#free + 1] = square end
    local square = free[1 + math.floor(rng() * #free)]
    texts[#texts + 1] = square
    board = moved(board, tonumber(square), "X")
    if has_line(board, "X") or is_full(board) then return texts end
    board = any_move(board, "O", rng)
    if has_line(board, "O") or is_full(board) then return texts end
    texts[#texts + 1] = board
  end
end

-- The model opens half of the games.
local function games(n, seed)
  return grpo.data.generate(function(rng, i)
    local board = i % 2 == 1 and EMPTY or any_move(EMPTY, "O", rng)
    return { board = board, random = random_game(board, rng) }
  end, { n = n, seed = seed })
end

return grpo.experiment {
  name        = "tictactoe",
  model       = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 128,
      num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 64,
      initializer_range = 0.12 },
    tokenizer = grpo.tokenizer.chars(EMPTY .. "XO"),
  },
  data        = { train = games(20000, 1), eval = games(100, 2), max_prompt_tokens = 10,
    target = function(row) return row.random end },
  environment = game,
  turns       = { max = 5 },
  sampling    = { group_size = 8, max_new_tokens = 50, stop = squares, regex = "[1-9]" },
  limits      = { reward = { instructions = 2e6 } }, -- a loop without an end is stopped soon
  rewards     = { { name = "result", fn = function(_, _, c) return c.environment.reward end } },
  stages      = {
    { kind = "sft", train = { steps = 60, prompts_per_step = 32, lr = 3e-3 } },
    { kind = "grpo", train = {
      steps = 120, prompts_per_step = 16, loss = "dapo",
      lr = schedule.linear { from = 1e-3, to = 2e-4, steps = 120 },
      advantage = { scale = "none", turn_weight = 1, turn_discount = 0.9 },
      entropy = schedule.adaptive_entropy { target = 0.4, initial = 0.01, max = 0.1 },
    } },
  },
  -- the share of games that are not lost
  eval        = { every = 10, metric = function(_, _, c)
    return c.environment.done and c.environment.reward > 0
  end },
}
