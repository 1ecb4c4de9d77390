/* GRPO with a reward written in C: a tiny model learns to repeat the letter that it is shown.
 *   cc train.c $(pkg-config --cflags --libs grpo) -o train && ./train [steps] */
#include <grpo.h>
#include <stdio.h>
#include <stdlib.h>

static const char letters[] = "abcdefgh";
static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 64,"
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
    "\"max_position_embeddings\": 32, \"initializer_range\": 0.1}";

/* The reward: the share of eight letters that repeat the prompt's letter. */
static grpo_status repeats(void *user, const grpo_sample *s, double *reward) {
  (void)user, *reward = 0;
  for (size_t i = 0; i < s->text_length; i++) *reward += (s->text[i] == letters[s->prompt]) / 8.0;
  return GRPO_OK;
}

static grpo_context *context;
static void check(grpo_status s) {
  if (s != GRPO_OK) fprintf(stderr, "train: %s\n", grpo_message(context)), exit(1);
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 60;
  grpo_tokenizer *tokenizer;
  grpo_model *model;
  grpo_trainer *trainer;
  grpo_trainer_options o;
  grpo_sampling sampling;
  grpo_update_options update;
  const grpo_metrics *metrics;
  check(grpo_context_new(NULL, &context));
  check(grpo_tokenizer_chars(context, letters, 8, &tokenizer));
  check(grpo_model_new(context, config, tokenizer, NULL, &model));
  check(grpo_trainer_options_init(&o, sizeof o)); /* 8 prompts, 8 completions of each */
  o.max_prompt_tokens = 1, o.max_new_tokens = 8;
  check(grpo_trainer_new(model, NULL, tokenizer, &o, &trainer));
  check(grpo_sampling_init(&sampling, sizeof sampling));
  check(grpo_update_options_init(&update, sizeof update));
  update.lr = 1e-2;
  const int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7};
  grpo_prompt prompts[8];
  for (uint32_t i = 0; i < 8; i++) prompts[i] = (grpo_prompt){&ids[i], 1, i, 0};
  for (int step = 0; step < steps; step++) {
    double rewards[64], mean = 0;
    sampling.step = (uint32_t)step;
    check(grpo_trainer_rollout(trainer, prompts, 8, &sampling));
    check(grpo_trainer_score(trainer, repeats, NULL));
    check(grpo_trainer_rewards(trainer, rewards, 64));
    check(grpo_trainer_advantages(trainer, NULL, NULL, 0));
    check(grpo_trainer_update(trainer, &update, &metrics));
    for (int i = 0; i < 64; i++) mean += rewards[i] / 64;
    if (step % 10 == 9) printf("step %3d: reward %.3f\n", step + 1, mean);
  }
  grpo_trainer_free(trainer), grpo_model_free(model), grpo_tokenizer_free(tokenizer);
  grpo_context_free(context);
}
