-- The extension verl: rewards.numeric.verl, which scores as verl does.

return {
  rewards = {
    { module = "numeric", name = "verl", load = function() return require "grpo.verl_reward" end },
  },
}
