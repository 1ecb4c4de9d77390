-- The extension preferences: stages of kind = "dpo" and "reward", which learn from pairs of texts.

local losses = require "grpo.preferences.losses"

return {
  commands = { { name = "pairs", before = "export", also = { "preferences" } } },
  stages = { { name = "dpo" }, { name = "reward" }, { name = "online_dpo" } },
  options = {
    { "data.pair", "function",
      "function(row) -> { chosen =, rejected = }, or { completion =, label = } for losses of rows "
      .. "with a label; kind=\"reward\" reads margin, too; each text as of data.target, or "
      .. "messages; default: the row's own fields" },
    { "train.dpo.loss_type", "enum|list",
      "the loss of preferences, or a list of losses that are added: of pairs, without a reference "
      .. "(sft, simpo, orpo), or of rows with a label (kto, apo_zero_unpaired)",
      default = "sigmoid", choices = losses.names },
    { "train.dpo.loss_weights", "list",
      "the weight of each loss of the list loss_type; default: 1" },
    { "train.dpo.beta", "schedule",
      "how near the policy stays to the reference: rewards are beta log(p / p_reference); for ipo "
      .. "tau", default = 0.1, min = 0, live = true },
    { "train.dpo.label_smoothing", "number",
      "share of labels that may be wrong, for robust, exo_pair, aot, aot_unpaired and simpo",
      default = 0.0, min = 0, max = 1 },
    { "train.dpo.f_divergence_type", "enum",
      "divergence from the reference that the reward stands for (2309.16240)",
      default = "reverse_kl",
      choices = { "reverse_kl", "forward_kl", "js_divergence", "alpha_divergence" } },
    { "train.dpo.f_alpha_divergence_coef", "number", "alpha of alpha_divergence", default = 0.5 },
    { "train.dpo.ld_alpha", "number",
      "weight of the tokens of a text behind the length of the pair's shorter one (2409.06411); "
      .. "default: 1", min = 0, max = 1 },
    { "train.dpo.use_weighting", "boolean",
      "weigh each pair by the probability of its texts under the policy (WPO, 2406.11827); takes "
      .. "one forward more", default = false },
    { "train.dpo.discopop_tau", "number", "temperature of discopop", default = 0.05, min = 1e-6 },
    { "train.dpo.simpo_gamma", "number", "margin that simpo wants between the rewards",
      default = 0.5 },
    { "train.dpo.desirable_weight", "number", "weight of desirable rows, for kto", default = 1.0,
      min = 0 },
    { "train.dpo.undesirable_weight", "number", "weight of the other rows, for kto", default = 1.0,
      min = 0 },
    { "train.reward.center_rewards_coefficient", "number",
      "weight of (r_chosen + r_rejected)^2, which holds rewards near 0 on average (2312.09244); "
      .. "default: none", min = 0 },
  },
}
