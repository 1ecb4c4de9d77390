/* A model learns between the frames of a game: a step is made in parts of at most 2 ms.
 *   cc game.c $(pkg-config --cflags --libs grpo) -o game && ./game [steps [budget in us]]
 * At the end it prints how long the parts took. */
#include <grpo.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char letters[] = "abcdefgh";
static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 64,"
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
    "\"max_position_embeddings\": 32, \"initializer_range\": 0.1}";

static grpo_status repeats(void *user, const grpo_sample *s, double *reward) {
  *reward = 0;
  for (size_t i = 0; i < s->text_length; i++) *reward += (s->text[i] == letters[s->prompt]) / 8.0;
  *(double *)user += *reward / 64;
  return GRPO_OK;
}

static grpo_context *context;
static void check(grpo_status s) {
  if (s != GRPO_OK) fprintf(stderr, "game: %s\n", grpo_message(context)), exit(1);
}

static double now_us(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}
static int by_size(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv) {
  enum { MOST = 1 << 20 };
  static double took[MOST];
  const int steps = argc > 1 ? atoi(argv[1]) : 60, budget = argc > 2 ? atoi(argv[2]) : 2000;
  grpo_context_options c;
  grpo_tokenizer *tokenizer;
  grpo_model *model;
  grpo_trainer *trainer;
  grpo_trainer_options o;
  grpo_sampling sampling;
  grpo_update_options update;
  grpo_step step;
  double mean = 0;
  int n = 0;
  check(grpo_context_options_init(&c, sizeof c));
  c.threads = 1; /* the game has the other cores */
  check(grpo_context_new(&c, &context));
  check(grpo_tokenizer_chars(context, letters, 8, &tokenizer));
  check(grpo_model_new(context, config, tokenizer, NULL, &model));
  check(grpo_trainer_options_init(&o, sizeof o));
  o.max_prompt_tokens = 1, o.max_new_tokens = 8;
  check(grpo_trainer_new(model, NULL, tokenizer, &o, &trainer));
  check(grpo_sampling_init(&sampling, sizeof sampling));
  check(grpo_update_options_init(&update, sizeof update));
  update.lr = 1e-2;
  const int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7};
  grpo_prompt prompts[8];
  for (uint32_t i = 0; i < 8; i++) prompts[i] = (grpo_prompt){&ids[i], 1, i, 0};
  check(grpo_step_init(&step, sizeof step));
  step.prompts = prompts, step.count = 8, step.sampling = &sampling, step.update = &update;
  step.reward = repeats, step.user = &mean;
  for (int i = 0; i < steps; i++) {
    int32_t done = 0;
    sampling.step = (uint32_t)i, mean = 0;
    check(grpo_trainer_begin(trainer, &step));
    while (!done) { /* one turn a frame; the game draws and plays here */
      const double start = now_us();
      check(grpo_trainer_advance(trainer, budget, &done, NULL));
      if (n < MOST) took[n++] = now_us() - start;
    }
  }
  qsort(took, (size_t)n, sizeof *took, by_size);
  if (n)
    fprintf(stderr, "%d parts: p50 %.0f us, p99 %.0f us, longest %.0f us; budget %d us\n", n,
            took[n / 2], took[(int)(0.99 * n)], took[n - 1], budget);
  printf("step %3d: reward %.3f\n", steps, mean);
  grpo_trainer_free(trainer), grpo_model_free(model), grpo_tokenizer_free(tokenizer);
  grpo_context_free(context);
}
