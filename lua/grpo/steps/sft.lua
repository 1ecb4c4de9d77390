-- kind = "sft": maximum likelihood on demonstrations.

local schedule_value = require "grpo.options.schedule_value"

local sft = { title = "Supervised fine-tuning", about = "supervised fine-tuning on demonstrations",
  samples = false, learns_targets = true }

function sft.check(config, complain)
  if type(config.data.target) ~= "function" then
    complain("data.target", "kind = \"sft\" needs function(row) -> the completion to learn")
  end
end

function sft.first_row(source)
  source:demonstration()
end

function sft.line(_, m)
  return ("loss %.4f | %d tokens/s"):format(m.loss, math.floor(m.trained_tokens / m.step_time))
end

function sft.step(stage, p)
  local config = stage.config
  local rows = stage.source:collect(config.train.prompts_per_step, stage.source.demonstration)
  stage.work = { examples = rows }
  local lr = schedule_value(config, "train.lr", config.train.lr, p)
  local metrics = stage.engine:sft(rows, setmetatable({ lr = lr, seed = config.seed,
    step = stage.tr.step_count + 1 }, { __index = config.train }))
  metrics.learning_rate = lr
  return metrics, metrics.num_tokens
end

return sft
