-- Rows of foreign_names.lua for what TRL's DistillationConfig, GKDConfig, SDFTConfig and SDPOConfig
-- have beside the options of GRPOConfig.  Their `beta` is train.distill.beta, which their readers
-- are told under lmbda; GRPOConfig's has the row beta.

local one_outcome = "All other tokens together are one more outcome (loss_add_tail there)."
local always_a_tail = "all tokens beside the best ones are always one more outcome"
local one_prompt = "train.distill.prompt is a function(row, c) of the row and of the completion, "
  .. "which has been scored."
local in_process = "the teacher runs in the same process, and gives its whole distribution"

local rows = {
  { "teacher_model_name_or_path", "reference" },
  { "teacher_model_revision", "reference", "The name of a model on the Hub may end in @REVISION.",
    part = true },
  { "teacher_model_init_kwargs", "reference_dtype", "It is auto, f32, bf16, int8 or nf4.",
    part = true, write = "reference_dtype = \"bf16\"" },
  { "lmbda", "train.distill.lambda",
    "The beta of these trainers is train.distill.beta, in the same direction." },
  { "seq_kd", "train.distill.seq_kd" },
  { "distillation_alpha", "train.distill.beta" },
  { "distillation_topk", "train.distill.top_k",
    "The teacher's best tokens count here, the student's there. " .. one_outcome },
  { "loss_top_k", "train.distill.top_k", one_outcome },
  { "loss_add_tail", false, always_a_tail },
  { "distillation_add_tail", false, always_a_tail },
  { "distillation_mode", "train.distill", nil, part = true,
    write = "train.distill = { sampled_token = true }, { top_k = 100 } or {}" },
  { "distillation_weight", "train.distill.weight",
    "The loss is policy + weight x divergence here, (1 - w) x policy + w x divergence there; a "
    .. "stage of kind \"distill\" has no policy term." },
  { "distillation_is_clip", false,
    "completions are those of the present weights; with train.iterations = 1 the ratio is 1" },
  { "num_loss_tokens_to_skip", false, "every token of a completion is learned" },
  { "teacher_model_kind", "reference", nil, values = { base = '"initial"', live = '"policy"',
    ema = "train.sync_reference = { every = 1, mixup = 0.05 }" } },
  { "teacher_update_rate", "train.sync_reference.mixup" },
  { "teacher_sync_steps", "train.sync_reference.every", unit = "update" },
  { "max_reprompt_len", "train.distill.max_prompt_tokens",
    "data.too_long says what happens to a longer one." },
  { "generate_from_teacher", false,
    "a teacher samples behind the student's prompt (train.distill.seq_kd)" },
  { "use_teacher_server", false, in_process },
  { "teacher_model_server_url", false, in_process },
  { "reverse_kl_top_1_mode", "train.distill.sampled_token", nil, part = true,
    write = "train.distill = { sampled_token = true }" },
  { "diagnostics_warning_interval", false, "a run names such steps by itself" },
  { "diagnostics_flat_tolerance", false, "a run names such steps by itself" },
}

for _, name in ipairs { "teacher_prompt_template", "reprompt_template", "solution_template",
  "feedback_template", "include_environment_feedback",
  "environment_feedback_only_without_solution", "use_successful_as_teacher",
  "success_reward_threshold", "dont_reprompt_on_self_success",
  "remove_thinking_from_demonstration" } do
  rows[#rows + 1] = { name, "train.distill.prompt", one_prompt, part = true,
    write = "train.distill = { prompt = function(row, c) ... end }" }
end

return rows
