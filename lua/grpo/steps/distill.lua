-- kind = "distill": the student is drawn towards a teacher, token by token (GKD, 2306.13649; with
-- a prompt of the teacher's own SDFT, 2601.19897, and SDPO, 2601.20802).

local core = require "grpo.core"
local sampling = require "grpo.steps.sampling"
local schedule_value = require "grpo.options.schedule_value"
local scoring = require "grpo.scoring.scoring"
local step_log = require "grpo.steps.step_log"
local teacher = require "grpo.steps.teacher"
local turns = require "grpo.scoring.turns"
local update_schedules = require "grpo.steps.update_schedules"

local WEIGHT = "train.distill.weight"

local distill = { title = "Distillation", about = "distillation from a teacher", samples = true,
  turns = true, learns_targets = true, schedules = { WEIGHT, "train.entropy" },
  defaults = { train = { distill = {} } },
  card = { "reference", "train.distill.beta" } }

distill.ignores = {
  ["train.loss"] = "its loss is the divergence from the teacher, a mean over tokens",
  ["train.advantage.scale"] = "it has no advantages",
  ["train.advantage.baseline"] = "it has no advantages",
  ["train.advantage.normalize"] = "it has no advantages",
  ["train.skip_zero_std_groups"] = "it learns from groups with equal rewards too",
}

function distill.check(config, complain)
  local o = config.train.distill
  teacher.check(config, complain)
  if config.reference == "initial" and not o.prompt then
    complain("reference", "\"initial\" is the student itself, so there is nothing to learn; give a "
      .. "teacher's path, or train.distill.prompt")
  end
  if o.seq_kd and o.lambda == 1 then
    complain("train.distill.seq_kd", "has no effect, because train.distill.lambda is 1, and every "
      .. "step learns on completions of the student; lower that")
  end
  if o.seq_kd and turns.wanted(config) then
    complain("train.distill.seq_kd", "a teacher takes no turns; learn on data.target")
  end
  if o.lambda < 1 and not o.seq_kd and type(config.data.target) ~= "function" then
    complain("data.target", "train.distill.lambda is %g, so some steps learn on the targets of "
      .. "data.train; give function(row) -> the completion", o.lambda)
  end
  if o.lambda < 1 and o.sampled_token then
    complain("train.distill.sampled_token", "is for tokens that the student has sampled; leave out "
      .. "train.distill.lambda")
  end
end

function distill.engine_options(config)
  return { ref_prompt_tokens = teacher.prompt_tokens(config) }
end

function distill.updates(config)
  return config.train.iterations
end

function distill.needs_reference()
  return true
end

function distill.first_row(source, config)
  local prompt = source:next()
  if turns.wanted(config) then turns.try(config, source.tokenizer, prompt) end
end

function distill.line(tr, m)
  local text = ("loss %.4f | length %5.1f"):format(m.loss, m["completions/mean_length"])
  if m.reward and m.reward == m.reward then text = ("reward %6.3f | "):format(m.reward) .. text end
  return text .. step_log.speed(tr.settings, m)
end

function distill.advantages(_, completions)
  for _, c in ipairs(completions) do c.advantage = 0.0 end
end

-- The completions of a step: by lambda those of the student, or those of the data or the teacher.
local function batch_of(stage)
  local o = stage.config.train.distill
  local drawn = core.rng(stage.config.seed, "user", stage.tr.step_count, 0, 3)()
  if o.lambda == 1 or drawn < o.lambda then return sampling.sample(stage) end
  return o.seq_kd and sampling.of_reference(stage) or sampling.targets(stage)
end

local function update(stage, batch, chosen)
  local config, train = stage.config, stage.config.train
  chosen.loss, chosen.max_new_tokens, chosen.seed = "dapo", config.sampling.max_new_tokens,
    config.seed
  chosen.step = stage.tr.step_count + 1
  chosen.older_sampler = batch.given
  chosen.before = update_schedules.between(stage, chosen, WEIGHT, train.distill.weight)
  teacher.choose(train, chosen)
  return stage.engine:update(batch.record, batch.completions,
    setmetatable(chosen, { __index = train }))
end

function distill.step(stage, p)
  local config, train = stage.config, stage.config.train
  local weight = schedule_value(config, WEIGHT, train.distill.weight, p)
  local entropy, entropy_coef = schedule_value(config, "train.entropy", train.entropy, p)
  local chosen = { lr = schedule_value(config, "train.lr", train.lr, p), p = p, kl = weight,
    entropy = entropy }
  local weights = scoring.weights(config, p)
  local log = { weights = weights, reward_errors = 0, reward_seconds = {} }
  stage.entropy = entropy

  local batch = batch_of(stage)
  log.given = batch.given
  if #config.reward_entries > 0 then
    log.reward_errors, log.reward_seconds = scoring.reward(config, batch.completions, weights)
  end
  teacher.prompts(stage, batch, log)
  if teacher.needs_logprobs(config) then sampling.reference(stage, batch, log) end
  sampling.publish(stage, batch) -- hooks.on_rollout
  distill.advantages(config, batch.completions)
  local metrics = update(stage, batch, chosen)
  metrics.beta, metrics.learning_rate = chosen.kl, chosen.lr
  metrics.entropy_coef = step_log.entropy_coef(train.entropy, entropy, entropy_coef)
  return metrics, step_log.add(config, batch.completions, log, metrics)
end

return distill
