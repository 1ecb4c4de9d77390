-- Several ranks of a run: processes that mpirun or srun has started.  These functions take the
-- place of those in base/ranks.lua.
--
-- Every rank runs the whole script, so that options, schedules, hooks and tr.state are the same
-- everywhere.  A rank samples and rewards its share of the groups, the engine does its share of an
-- update, and all learn the results.  Rank 0 alone writes the run directory and the screen.

local core = require "grpo.core"

local ranks = {}

function ranks.rank()
  return (core.ranks())
end

function ranks.size()
  return select(2, core.ranks())
end

-- Does this process write, and speak to the user?
function ranks.first()
  return ranks.rank() == 0
end

-- The name of the signal that one of the ranks has got, nil: none.  All ranks ask at once.
function ranks.signal()
  for _, name in ipairs(core.ranks_share(core.signal_take() or "")) do
    if name ~= "" then return name end
  end
end

-- Returns on every rank the string that f returns on rank 0.
function ranks.of_first(f)
  return core.ranks_share(ranks.first() and f() or "")[1]
end

-- Is the value true on at least one rank?
function ranks.any(flag)
  for _, said in ipairs(core.ranks_share(flag and "yes" or "")) do
    if said == "yes" then return true end
  end
  return false
end

-- ---- cores ---------------------------------------------------------------------------------

local HOW = "Open MPI binds each rank to a core or a few; give mpirun --bind-to none, or --map-by "
  .. "socket --bind-to socket for one rank with several threads on each socket"

-- Returns what is wrong with how ranks are bound to cores, nil: nothing.  list: of each rank
-- { cores = it is bound to, online = of its machine, threads =, node = its machine's first rank }.
function ranks.binding_problem(list)
  local of_node = {}
  for r, rank in ipairs(list) do
    of_node[rank.node] = (of_node[rank.node] or 0) + 1
    if rank.threads > rank.cores and rank.cores < rank.online then
      return ("rank %d has %d threads, but is bound to %d of %d cores: %s"):format(r - 1,
        rank.threads, rank.cores, rank.online, HOW)
    end
  end
  for r, rank in ipairs(list) do
    if rank.cores * of_node[rank.node] < rank.online then
      return ("rank %d is bound to %d of %d cores, and its machine has %d ranks, so cores are "
        .. "idle: %s"):format(r - 1, rank.cores, rank.online, of_node[rank.node], HOW)
    end
  end
end

-- Says in one line, on the first rank, that ranks are bound to fewer cores than they could use.
function ranks.note_binding()
  if ranks.size() == 1 then return end
  local cores, online = core.ranks_cores()
  local problem = ranks.binding_problem(ranks.exchange("cores", function()
    return { cores = cores, online = online, threads = core.threads(),
      node = (core.ranks_node()) }
  end))
  if problem and ranks.first() then core.notice("note: " .. problem) end
end

-- ---- what a rank tells the others -------------------------------------------------------------

-- An error of one rank becomes that of all, and rank 0 reports it.
local function raise_same(parts)
  for _, part in ipairs(parts) do
    local e = part.error
    if e then
      local err = core.error(e.code or "ESCRIPT", e.message)
      err.nonfinite, err.fatal, err.traceback, err.of_all_ranks = e.nonfinite, e.fatal,
        e.traceback, true
      error(err, 0)
    end
  end
end

local function described(err)
  if type(err) ~= "table" then return { message = tostring(err) } end
  return { message = err.message or tostring(err), code = err.code, nonfinite = err.nonfinite,
    fatal = err.fatal, traceback = err.traceback }
end

-- Calls f on every rank.  Returns what each rank's call has returned, rank 0's first: a plain
-- value.  An error of one rank is raised on all.
function ranks.exchange(what, f)
  local ok, value = pcall(f)
  local encoded, text = ok, nil
  if ok then
    encoded, text = pcall(core.state_encode, { value = value }, what)
    if not encoded then value = text end
  end
  if not encoded then text = core.state_encode({ error = described(value) }, what) end
  local parts, values = {}, {}
  for r, piece in ipairs(core.ranks_share(text)) do parts[r] = core.state_decode(piece) end
  raise_same(parts)
  for r, part in ipairs(parts) do values[r] = part.value end
  return values
end

-- ---- what ranks of a node have in common -----------------------------------------------------

-- Returns what load() returns, a model first.  Of a model with an adapter the ranks of a node hold
-- the frozen base once: they load it in turn, so that there are never more than two of it, and each
-- but the first then gives up what it has loaded for the same bytes of the first.
function ranks.load(adapted, load)
  if ranks.size() == 1 or not adapted then return load() end
  local first, place, most = core.ranks_node()
  local results, card, made = nil, "", ""
  for turn = 0, most - 1 do
    if turn == place then
      results = table.pack(load())
      if turn == 0 then
        made = core.common_put(results[1])
      else
        core.common_take(results[1], card)
      end
    end
    local cards = core.ranks_share(turn == 0 and made or "")
    if turn == 0 then card = cards[first + 1] end
  end
  core.common_close(made)
  return table.unpack(results, 1, results.n)
end

-- ---- checkpoints ------------------------------------------------------------------------------

local leads, alone = false, false

-- Runs f on rank 0, which may write checkpoints; the others wait for its end and call part() each
-- time that it calls ranks.gather_state.  An error of f is rank 0's own.
function ranks.lead(f, part)
  if ranks.size() == 1 or leads then return f() end
  if alone then
    error(core.error("EARG", "one rank has failed, and a checkpoint needs them all"), 0)
  end
  if not ranks.first() then
    while core.ranks_share("")[1] == "state" do part() end
    return
  end
  leads = true
  local ok, result = pcall(f)
  leads = false
  core.ranks_share("end")
  if not ok then error(result, 0) end
  return result
end

-- Rank 0 is about to write the state of training, of which every rank has a part.
function ranks.gather_state()
  if leads then core.ranks_share("state") end
end

-- This rank has failed, and the others do not know.
function ranks.fail_alone(err)
  alone = not ranks.agreed(err)
end

-- ---- turns ----------------------------------------------------------------------------------

local episode_fields = { "parts", "turns", "calls", "failures", "reward", "done", "error",
  "key" }

-- A rank has played the episodes of the completions that it sampled; all learn what happened.
function ranks.share_episodes(list)
  if ranks.size() == 1 then return end
  local played = ranks.exchange("turns", function()
    local own = {}
    for i, prompt in ipairs(list) do
      for k, episode in ipairs(prompt.episodes) do
        if episode.turns > 0 then
          local seen = { prompt = i, sample = k }
          for _, name in ipairs(episode_fields) do seen[name] = episode[name] end
          own[#own + 1] = seen
        end
      end
    end
    return own
  end)
  for r, of_rank in ipairs(played) do
    for _, seen in ipairs(r == ranks.rank() + 1 and {} or of_rank) do
      local episode = list[seen.prompt].episodes[seen.sample]
      for _, name in ipairs(episode_fields) do episode[name] = seen[name] end
    end
  end
end

-- ---- rewards -------------------------------------------------------------------------------

-- The completions of this rank, and whose each one is: whole groups, consecutive ones.
local function own_part(completions)
  local size, mine, owner, groups = ranks.size(), {}, {}, 0
  local number = {}
  for i, c in ipairs(completions) do
    if not number[c.group] then groups, number[c.group] = groups + 1, groups end
    owner[i] = number[c.group]
  end
  for i, c in ipairs(completions) do
    owner[i] = owner[i] * size // groups
    if owner[i] == ranks.rank() then mine[#mine + 1] = c end
  end
  return mine, owner
end

-- The results that scoring leaves in a completion, without core.none, "does not apply".
local function outcome(c, entries)
  local rewards = {}
  for _, entry in ipairs(entries) do
    local r = c.rewards[entry.name]
    if r ~= core.none then rewards[entry.name] = r end
  end
  return { rewards = rewards, errors = c.errors, extra = c.extra, tokens = c.token_rewards }
end

local function take(c, result, entries)
  for _, entry in ipairs(entries) do
    local r = result.rewards[entry.name]
    c.rewards[entry.name] = r == nil and core.none or r
  end
  c.errors, c.extra, c.token_rewards = result.errors, result.extra, result.tokens
end

-- Scores every completion on one rank: score(completions) sets its results and returns the number
-- of errors and the seconds by entry.
function ranks.score(entries, completions, score)
  if ranks.size() == 1 then return score(completions) end
  local mine, owner = own_part(completions)
  local seconds
  local parts = ranks.exchange("rewards", function()
    local failures, took = score(mine)
    seconds = took
    local results = {}
    for i, c in ipairs(mine) do results[i] = outcome(c, entries) end
    return { results = results, failures = failures }
  end)
  local sum, next_of = 0, {}
  for r, part in ipairs(parts) do sum, next_of[r] = sum + part.failures, 0 end
  for i, c in ipairs(completions) do
    local r = owner[i] + 1
    next_of[r] = next_of[r] + 1
    if r ~= ranks.rank() + 1 then take(c, parts[r].results[next_of[r]], entries) end
  end
  return sum, seconds
end

-- ---- the end ---------------------------------------------------------------------------------

-- Ends all ranks now, because this one has failed.
ranks.abort = core.ranks_abort

-- Is an error that of all ranks, which rank 0 reports, or of this one alone?
function ranks.agreed(err)
  return core.ranks_agreed() or type(err) == "table" and err.of_all_ranks == true
end

return ranks
