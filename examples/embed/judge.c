/* The logits that a reward model gives to texts.
 *   cc judge.c $(pkg-config --cflags --libs grpo) -o judge && ./judge MODEL "a text" ... */
#include <grpo.h>
#include <stdio.h>
#include <stdlib.h>

static grpo_context *context;
static void check(grpo_status s) {
  if (s != GRPO_OK) fprintf(stderr, "judge: %s\n", grpo_message(context)), exit(1);
}

int main(int argc, char **argv) {
  grpo_reward_model *judge;
  int32_t labels;
  if (argc < 3) return fputs("judge MODEL TEXT ...\n", stderr), 2;
  const char *const *texts = (const char *const *)argv + 2;
  const size_t count = (size_t)argc - 2;
  check(grpo_context_new(NULL, &context));
  check(grpo_reward_model_load(context, argv[1], NULL, &judge));
  check(grpo_reward_model_labels(judge, &labels));
  float *logits = calloc(count * (size_t)labels, sizeof *logits);
  if (!logits) return fputs("judge: out of memory\n", stderr), 1;
  check(grpo_reward_model_score(judge, texts, count, logits, count * (size_t)labels));
  for (size_t i = 0; i < count; i++) {
    for (int32_t k = 0; k < labels; k++) printf("%.4f ", (double)logits[i * (size_t)labels + k]);
    printf(" %s\n", texts[i]);
  }
  free(logits), grpo_reward_model_free(judge), grpo_context_free(context);
}
