-- The extension tensorboard: log.tensorboard, event files beside the logs of a run.

return {
  log_sinks = { { name = "tensorboard", open = function(run)
    return require("grpo.runs.tensorboard").open(run)
  end } },
}
