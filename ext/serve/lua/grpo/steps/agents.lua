-- kind = "agents": GRPO on conversations that other programs have with the model.  They talk to the
-- run's server and post their rewards (grpo/serve/sessions.lua); the step is that of "grpo".

local Sessions = require "grpo.serve.sessions"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local grpo_step = require "grpo.steps.grpo"
local origins = require "grpo.options.origins"
local ranks = require "grpo.base.ranks"
local rollout = require "grpo.scoring.rollout"
local truncated = require "grpo.options.truncated"
local turns = require "grpo.scoring.turns"

local agents = { title = "GRPO with agents", about = "GRPO from what programs do with the model",
  samples = true, turns = true, waits = true, schedules = grpo_step.schedules,
  card = { "agents.sequences" } }

agents.ignores = {
  ["tools"] = "the programs that talk to the model have tools of their own",
  ["environment"] = "the programs that talk to the model are its environment",
  ["train.skip_zero_std_groups"] = "a step has the sessions of its prompts and no more",
  ["train.reuse_rollout"] = "its completions are sampled by the server",
}

for _, name in ipairs { "needs_reference", "updates", "line", "advantages" } do
  agents[name] = grpo_step[name]
end

function agents.check(config, complain)
  grpo_step.check(config, complain)
  if ranks.size() > 1 then
    complain("stages", "a stage of kind \"agents\" has one server; start one process")
  end
  if config.data.eval then
    complain("data.eval", "a stage of kind \"agents\" has no evaluation, because only its programs "
      .. "can play a row")
  end
  if config.sampling.renormalize and truncated.mask_tokens(config.sampling) > 0 then
    complain("sampling.renormalize", "sessions record log-probabilities of all tokens; set it to "
      .. "false, or leave out top_k, top_p and min_p")
  end
end

-- Every session is a group of the engine, because each may have a prompt of its own.
function agents.engine_options(config)
  local o = grpo_step.engine_options(config)
  o.prompts_per_step = config.train.prompts_per_step * config.sampling.group_size
  o.group_size, o.turns, o.reuse_rollout = 1, true, false
  return o
end

-- Conversations are continued, so that the chat template must show where a turn of the model ends.
function agents.first_row(source, config)
  source:next()
  local ok, err = pcall(turns.following, config, source.tokenizer, {},
    { { role = "user", content = "?" } }, false)
  if ok then return end
  errors.raise_at(origins.position(config, "model.chat_template"), "EARG", "model.chat_template: "
    .. "conversations with agents cannot be continued%s; set one that writes an end token behind "
    .. "each message", tostring(err):match(", because [^;]*") or ", because: " .. errors.line(err))
end

-- ---- the batch ---------------------------------------------------------------------------------

-- The engine's batch of what was said.
local function record_of(stage, places)
  local o = { prompts = {}, completions = {}, sampled = {}, logprobs = {}, finish = {}, n = 1,
    temperature = stage.config.sampling.temperature }
  for i, place in ipairs(places) do
    local session = place.session
    o.prompts[i], o.completions[i] = session.prompt, session.ids
    o.sampled[i], o.logprobs[i], o.finish[i] = session.sampled, session.logprobs, session.finish
  end
  return stage.engine:given(o)
end

-- The prompts as the programs gave them, one for each session.
local function prompts_of(tokenizer, places)
  local list = {}
  for i, place in ipairs(places) do
    local session = place.session
    list[i] = { row = place.prompt.row, number = place.prompt.number, ids = session.prompt,
      text = tokenizer:decode(session.prompt), messages = session.given }
  end
  return list
end

-- The tables `c` of the completions, in the groups of the stage's prompts.
local function completions_of(stage, places, record)
  local tr, n, list = stage.tr, stage.config.sampling.group_size, {}
  local context = { seed = stage.config.seed, step = tr.step_count, tokens_seen = tr.tokens_seen,
    state = rollout.read_only(tr.state), tokenizer = tr.tokenizer }
  local prompts = prompts_of(tr.tokenizer, places)
  for i, place in ipairs(places) do
    local c, session = rollout.completions(record, prompts, 1, i, context, place.k - 1)[1],
      place.session
    local slot = (i - 1) // n
    c.sampled, c.parts, c.turns = session.sampled, session.parts, session.turns
    c.environment = { reward = place.reward, done = true, turns = session.turns }
    c.group = place.k == 1 and {} or list[slot * n + 1].group
    c.group[place.k], c.prompt_index, list[i] = c, slot + 1, c
  end
  return list
end

local function sample(stage)
  local config, tr = stage.config, stage.tr
  if not stage.sessions then
    stage.sessions = Sessions.new(stage)
    tr.recorder:advise { ("agents open sessions at %s/sessions"):format(stage.sessions:address()) }
  end
  local list = stage.source:take(config.train.prompts_per_step)
  local batch = { prompts = list, step = tr.step_count }
  stage.work = { batch = batch }
  local started = core.clock()
  local places = stage.sessions:play(list, config.sampling.group_size, tr.step_count)
  stage.work.seconds = core.clock() - started
  batch.record = record_of(stage, places)
  batch.completions = completions_of(stage, places, batch.record)
  if stage.step + 1 >= stage.steps then
    stage.sessions:close()
    stage.sessions = nil
  end
  return batch
end

function agents.step(stage, p)
  local metrics, tokens = grpo_step.step(stage, p, sample)
  local all, sampled, completions = 0, 0, stage.work.batch.completions
  for _, c in ipairs(completions) do
    all = all + c.turns
    for _, own in ipairs(c.sampled) do sampled = sampled + (own and 1 or 0) end
  end
  metrics["time/generate"] = stage.work.seconds -- the programs' own time is in it
  metrics["tokens_per_second/generate"] = sampled / stage.work.seconds
  metrics["completions/mean_turns"] = all / #completions
  return metrics, tokens
end

return agents
