-- examples/tictactoe.lua - self-play: one model plays both sides of tic-tac-toe and is measured
-- against perfect play.
--
--   ./grpo run examples/tictactoe.lua              some minutes; --arg steps=N, --arg seed=N
--   ./grpo run examples/tictactoe.lua --arg baseline=role
--   ./grpo replay runs/tictactoe-001               the last games, move by move
--
-- The model reads the board and whose move it is ("X..O.....X"), and writes a square, 1 to 9.  A
-- completion is a whole game.  The one who moves is rewarded: 1 for a line, -1 for a square that is
-- taken, else 0.  With turn_discount = -1 a move's return is what its own player gets in the end,
-- because the players move in turn and one loses what the other wins.  Returns are compared among
-- moves from the same position (baseline=state, GiGPO's anchor states) or among all moves of the
-- same role (baseline=role): X, who moves first, wins more often, so each role has its own mean.
-- A supervised stage shows games of random moves, which teach the rules.  Nobody shows the model a
-- good move.  Training games begin at random positions.

local grpo     = require "grpo"
local schedule = require "grpo.schedule"

local steps    = math.tointeger(tonumber(grpo.args.steps or 800))
local games    = math.tointeger(tonumber(grpo.args.games or 300)) -- steps of random games
local seed     = math.tointeger(tonumber(grpo.args.seed or 0))
local baseline = grpo.args.baseline or "state"
if not (steps and games and seed) then
  error("--arg steps, --arg games and --arg seed want whole numbers", 0)
end
if baseline ~= "state" and baseline ~= "role" then error("--arg baseline: state or role", 0) end

-- ---- the game -------------------------------------------------------------------------------

local EMPTY = ("."):rep(9)
local lines = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 1, 4, 7 }, { 2, 5, 8 }, { 3, 6, 9 },
  { 1, 5, 9 }, { 3, 5, 7 } }

local function moved(board, square, player)
  return board:sub(1, square - 1) .. player .. board:sub(square + 1)
end

local function other(player) return player == "X" and "O" or "X" end

-- The player who moves: X is first.
local function mover(board)
  local _, x = board:gsub("X", "")
  local _, o = board:gsub("O", "")
  return x == o and "X" or "O"
end

local function has_line(board, player)
  for _, line in ipairs(lines) do
    if board:sub(line[1], line[1]) == player and board:sub(line[2], line[2]) == player
      and board:sub(line[3], line[3]) == player then
      return true
    end
  end
  return false
end

local function free(board)
  local list = {}
  for square = 1, 9 do
    if board:sub(square, square) == "." then list[#list + 1] = square end
  end
  return list
end

-- The value of a position for the one who moves, -1, 0 or 1, and the best squares.
local known = {}
local function solve(board)
  if known[board] then return known[board].value, known[board].best end
  local player, value, best = mover(board), nil, {}
  if has_line(board, other(player)) then
    value = -1
  else
    for _, square in ipairs(free(board)) do
      local v = -solve(moved(board, square, player))
      if not value or v > value then value, best = v, {} end
      if v == value then best[#best + 1] = square end
    end
  end
  known[board] = { value = value or 0, best = best }
  return known[board].value, best
end
solve(EMPTY)

local function pick(list, rng) return list[1 + math.floor(rng() * #list)] end

-- The reward of the one who moved to this square, and whether the game is over.
local function judge(board, square, player)
  if not square or board:sub(square, square) ~= "." then return -1, true end
  board = moved(board, square, player)
  if has_line(board, player) then return 1, true end
  return 0, not board:find(".", 1, true)
end

-- ---- the environment ------------------------------------------------------------------------

-- Without row.perfect the model plays both sides; with it, it plays row.role, and the best moves
-- answer it.
local function game(row, rng)
  local board, reward, over = row.board, nil, false
  local function move(square)
    local player = mover(board)
    local result
    result, over = judge(board, square, player)
    if square and result >= 0 then board = moved(board, square, player) end
    return result
  end
  local function answer(draw)
    if not row.perfect or over or mover(board) == row.role then return 0 end
    local _, best = solve(board)
    return move(pick(best, draw))
  end
  answer(rng)
  while not over do
    local player = mover(board)
    local text = board .. player
    local action, c = coroutine.yield(text, reward, baseline == "state" and text or player)
    reward = move(tonumber(action))
    reward = reward - answer(c.rng)
  end
  return reward
end

-- ---- rows -----------------------------------------------------------------------------------

-- A position after 0 to 7 random moves in which nobody has a line.
local function position(rng)
  while true do
    local board = EMPTY
    for _ = 1, math.floor(rng() * 8) do
      board = moved(board, pick(free(board), rng), mover(board))
    end
    if not has_line(board, "X") and not has_line(board, "O") then return board end
  end
end

-- A game of random moves from there, as the model's turns and what is injected between them.
local function random_game(board, rng)
  local texts = {}
  while true do
    local square, player = pick(free(board), rng), mover(board)
    texts[#texts + 1] = tostring(square)
    local _, over = judge(board, square, player)
    if over then return texts end
    board = moved(board, square, player)
    texts[#texts + 1] = board .. mover(board)
  end
end

local squares = {}
for square = 1, 9 do squares[square] = tostring(square) end

return grpo.experiment {
  name        = "tictactoe",
  seed        = seed,
  model       = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 192,
      num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 128 },
    tokenizer = grpo.tokenizer.chars(table.concat(squares) .. ".XO"),
  },
  data        = {
    train = grpo.data.generate(function(rng)
      local board = position(rng)
      return { board = board, random = random_game(board, rng) }
    end, { n = 20000, seed = 1 }),
    target = function(row) return row.random end,
    eval = grpo.data.generate(function(_, i)
      return { board = EMPTY, perfect = true, role = i % 2 == 1 and "X" or "O" }
    end, { n = 100, seed = 2 }),
    max_prompt_tokens = 12,
  },
  environment = game,
  turns       = { max = 9 },
  sampling    = { group_size = 8, max_new_tokens = 99, stop = squares, regex = "[1-9]" },
  -- The game's result is in the turns; a completion is rewarded for moves that are allowed.
  rewards     = { { name = "allowed", weight = 0.1, fn = function(_, _, c)
    return c.parts[#c.parts].reward ~= -1
  end } },
  stages      = {
    { kind = "sft", train = { steps = games, prompts_per_step = 64, lr = 3e-3 } },
    { kind = "grpo", train = {
      steps = steps, prompts_per_step = 16,
      lr = schedule.linear { from = 1e-3, to = 1e-4, steps = math.max(1, steps) },
      advantage = { scale = "none", turn_weight = 1, turn_discount = -1 },
      loss = "dapo",
      entropy = schedule.adaptive_entropy { target = 0.7, initial = 0.02, max = 0.1 },
    } },
  },
  -- the share of games against perfect play that are not lost
  eval        = { every = 200, metric = function(_, _, c)
    return c.environment.done and c.environment.reward >= 0
  end },
  log         = { every = 10 },
}
