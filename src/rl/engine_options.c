#include "rl/engine_options.h"

#include "model/sampler.h"

static const Option option_rows[] = {
#define OPTIONS_OF EngineOptions
#include "base/option_rows.h"
#include "rl/engine_options.def"
};

const OptionSet engine_option_set = OPTION_SET(NULL, option_rows);

void engine_options_init(EngineOptions *o) {
  Sampling sampling;
  sampling_init(&sampling);
  *o = (EngineOptions){0};
  options_init_rows(&engine_option_set, o);
  optimizer_options_init(&o->optimizer);
  o->max_new_tokens = sampling.max_new_tokens;
  o->critic = CRITIC_NONE;
  o->train = o->examples = true;
}

static Status check_reuse(const EngineOptions *o, double dropout) {
  if (o->reuse_rollout != REUSE_ON) return GRPO_OK;
  if (o->gradient_checkpointing)
    return fail(GRPO_EARG,
                "train.reuse_rollout: needs the activations that model.gradient_checkpointing "
                "discards; set it to \"auto\" or false");
  if (dropout > 0)
    return fail(GRPO_EARG,
                "train.reuse_rollout: cannot be with model.lora.dropout, because the training "
                "forward then differs from sampling's; set it to \"auto\" or false");
  if (o->critic == CRITIC_SHARED)
    return fail(GRPO_EARG,
                "train.reuse_rollout: cannot be with a shared critic, because that reads the state "
                "after the last token, which sampling never computes; set it to \"auto\" or false");
  return GRPO_OK;
}

int64_t engine_step_rows(const EngineOptions *o) {
  return o->prompts_per_step * (o->max_prompt_tokens + (int64_t)o->group_size * o->max_new_tokens);
}

Status engine_options_check(const EngineOptions *o, double dropout) {
  try(options_check(&engine_option_set, o));
  if (o->max_new_tokens < 1)
    return fail(GRPO_EARG, "sampling.max_new_tokens: %d, want at least 1", o->max_new_tokens);
  if ((int64_t)o->prompts_per_step * o->group_size * o->max_new_tokens > INT32_MAX / 4 ||
      engine_step_rows(o) > INT32_MAX / 4)
    return fail(GRPO_EARG,
                "train.prompts_per_step: %d prompts of %d tokens, each with %d completion%s of %d, "
                "are too many for one step; lower it",
                o->prompts_per_step, o->max_prompt_tokens, o->group_size,
                o->group_size == 1 ? "" : "s", o->max_new_tokens);
  return check_reuse(o, dropout);
}
