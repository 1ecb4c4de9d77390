/* A host that has llama.cpp's files and nothing else.  It reads a model as GGUF, trains an adapter
 * on a reward in C, and writes the adapter as GGUF, for llama.cpp's --lora.
 *   cc llama_files.c $(pkg-config --cflags --libs grpo) -o llama_files
 *   ./llama_files BASE.gguf ADAPTER.gguf PROMPT [steps]
 * It prints the rewards and the ids that the trained model answers with, one greedy token after
 * another.  The library needs the extension gguf. */
#include <ctype.h>
#include <grpo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static grpo_context *context;
static void check(grpo_status s) {
  if (s != GRPO_OK) fprintf(stderr, "llama_files: %s\n", grpo_message(context)), exit(1);
}

/* The number of letters in an answer: put what your program wants here. */
static grpo_status letters(void *user, const grpo_sample *s, double *reward) {
  (void)user, *reward = 0;
  for (size_t i = 0; i < s->text_length; i++) *reward += isalpha((unsigned char)s->text[i]) != 0;
  return GRPO_OK;
}

int main(int argc, char **argv) {
  enum { GROUP = 16, NEW = 8, MOST = 4096 };
  const int steps = argc > 4 ? atoi(argv[4]) : 20;
  grpo_tokenizer *tokenizer;
  grpo_model *model;
  grpo_trainer *trainer;
  grpo_trainer_options o;
  grpo_sampling sampling;
  grpo_update_options update;
  grpo_samples *answer;
  int32_t ids[MOST];
  double rewards[GROUP], mean = 0;
  size_t count;
  if (argc < 4) return fputs("llama_files BASE.gguf ADAPTER.gguf PROMPT [steps]\n", stderr), 2;
  check(grpo_context_new(NULL, &context));
  check(grpo_tokenizer_load(context, argv[1], &tokenizer));
  check(grpo_model_load(context, argv[1], NULL, &model));
  check(grpo_tokenizer_encode(tokenizer, argv[3], strlen(argv[3]), GRPO_ADD_SPECIAL, ids, MOST,
                              &count));
  check(grpo_model_add_lora(model, 8, 16, 0, "all-linear", 1));
  check(grpo_trainer_options_init(&o, sizeof o));
  o.prompts_per_step = 1, o.group_size = GROUP;
  o.max_prompt_tokens = (int32_t)count, o.max_new_tokens = NEW;
  check(grpo_trainer_new(model, NULL, tokenizer, &o, &trainer));
  check(grpo_sampling_init(&sampling, sizeof sampling));
  check(grpo_update_options_init(&update, sizeof update));
  update.lr = 5e-3;
  const grpo_prompt prompt = {ids, count, 0, 0};
  for (int step = 0; step < steps; step++, mean = 0) {
    sampling.step = (uint32_t)step;
    check(grpo_trainer_rollout(trainer, &prompt, 1, &sampling));
    check(grpo_trainer_score(trainer, letters, NULL));
    check(grpo_trainer_rewards(trainer, rewards, GROUP));
    check(grpo_trainer_advantages(trainer, NULL, NULL, 0));
    check(grpo_trainer_update(trainer, &update, NULL));
    for (int i = 0; i < GROUP; i++) mean += rewards[i] / GROUP;
    if (step == 0 || step == steps - 1) printf("step %d: reward %.3f\n", step + 1, mean);
  }
  check(grpo_model_export(model, argv[2], NULL)); /* the adapter alone; .gguf: for llama.cpp */
  grpo_sample s = {.size = sizeof s};
  sampling.temperature = 0, sampling.max_new_tokens = NEW;
  check(grpo_generate(model, tokenizer, &prompt, 1, &sampling, &answer));
  check(grpo_samples_at(answer, 0, &s));
  for (size_t i = 0; i < count; i++) printf("%d ", (int)ids[i]);
  printf("->");
  for (size_t i = 0; i < s.length; i++) printf(" %d", (int)s.ids[i]);
  printf("\n");
  grpo_samples_free(answer), grpo_trainer_free(trainer), grpo_model_free(model);
  grpo_tokenizer_free(tokenizer), grpo_context_free(context);
}
