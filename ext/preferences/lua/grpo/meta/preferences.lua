---@meta _
-- The options of kind = "dpo", "online_dpo" and "reward", which the extension preferences adds.

---@alias grpo.PreferenceLoss "sigmoid"|"hinge"|"ipo"|"exo_pair"|"nca_pair"|"robust"|"bco_pair"|"sppo_hard"|"aot"|"aot_unpaired"|"apo_zero"|"apo_down"|"discopop"|"sft"|"sigmoid_norm"|"simpo"|"orpo"|"kto"|"apo_zero_unpaired"

---@class grpo.PreferencePair
---@field chosen? string|integer[]|grpo.Message[]
---@field rejected? string|integer[]|grpo.Message[]
---@field completion? string|integer[]|grpo.Message[] of a row with a label
---@field label? boolean true: desirable
---@field margin? number by which the chosen text is better, for kind = "reward"

---@class grpo.Options.data
---@field pair? fun(row: table): grpo.PreferencePair function(row) -> { chosen =, rejected = }, or { completion =, label = } for losses of rows with a label; kind="reward" reads margin, too; each text as of data.target, or messages; default: the row's own fields

---@class grpo.Options.train
---@field dpo? grpo.Options.train.dpo

---@field reward? grpo.Options.train.reward

---@class grpo.Options.train.reward
---@field center_rewards_coefficient? number weight of (r_chosen + r_rejected)^2, which holds rewards near 0 on average (2312.09244); default: none

---@class grpo.Options.train.dpo
---@field loss_type? grpo.PreferenceLoss|grpo.PreferenceLoss[] the loss of preferences, or a list of losses that are added: of pairs, without a reference (sft, simpo, orpo), or of rows with a label (kto, apo_zero_unpaired) (default "sigmoid")
---@field loss_weights? number[] the weight of each loss of the list loss_type; default: 1
---@field beta? number|grpo.Schedule|string how near the policy stays to the reference: rewards are beta log(p / p_reference); for ipo tau (default 0.1)
---@field label_smoothing? number share of labels that may be wrong, for robust, exo_pair, aot, aot_unpaired and simpo (default 0)
---@field f_divergence_type? "reverse_kl"|"forward_kl"|"js_divergence"|"alpha_divergence" divergence from the reference that the reward stands for (2309.16240) (default "reverse_kl")
---@field f_alpha_divergence_coef? number alpha of alpha_divergence (default 0.5)
---@field ld_alpha? number weight of the tokens of a text behind the length of the pair's shorter one (2409.06411); default: 1
---@field use_weighting? boolean weigh each pair by the probability of its texts under the policy (WPO, 2406.11827); takes one forward more (default false)
---@field discopop_tau? number temperature of discopop (default 0.05)
---@field simpo_gamma? number margin that simpo wants between the rewards (default 0.5)
---@field desirable_weight? number weight of desirable rows, for kto (default 1)
---@field undesirable_weight? number weight of the other rows, for kto (default 1)
