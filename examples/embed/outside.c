/* Samples that were made elsewhere train a model: here a table of moves that a game has seen.
 * Gradients of two batches are added up before each step, and the optimizer's state is kept in
 * memory, where a saved game would have it.
 *   cc outside.c $(pkg-config --cflags --libs grpo) -o outside && ./outside [steps] */
#include <grpo.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROCK, PAPER, SCISSORS, MOVES };
static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 32,"
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"max_position_embeddings\": 8,"
    "\"bos_token_id\": null, \"eos_token_id\": 3, \"vocab_size\": 4}";

static grpo_context *context;
static void check(grpo_status s) {
  if (s != GRPO_OK) fprintf(stderr, "outside: %s\n", grpo_message(context)), exit(1);
}

/* The games so far: to each move every answer, and what it won. */
static void put_games(grpo_trainer *t, const int32_t *moves, const int32_t *answers) {
  grpo_prompt prompts[MOVES];
  grpo_sample samples[MOVES * MOVES];
  double won[MOVES * MOVES];
  for (uint32_t m = 0; m < MOVES; m++) {
    prompts[m] = (grpo_prompt){&moves[m], 1, m, 0};
    for (int a = 0; a < MOVES; a++) {
      samples[MOVES * m + a] =
          (grpo_sample){.size = sizeof *samples, .ids = &answers[a], .length = 1};
      won[MOVES * m + a] = a == ((int)m + 1) % MOVES; /* paper covers rock, and so on */
    }
  }
  check(grpo_trainer_put(t, prompts, MOVES, samples, MOVES * MOVES, 1.0));
  check(grpo_trainer_set_rewards(t, won, MOVES * MOVES));
  check(grpo_trainer_advantages(t, NULL, NULL, 0));
}

int main(int argc, char **argv) {
  const int32_t moves[] = {ROCK, PAPER, SCISSORS};
  const int steps = argc > 1 ? atoi(argv[1]) : 60;
  grpo_model *model;
  grpo_trainer *trainer;
  grpo_trainer_options o;
  grpo_update_options u;
  float logits[MOVES + 1];
  size_t bytes;
  int right = 0;
  check(grpo_context_new(NULL, &context));
  check(grpo_model_new(context, config, NULL, NULL, &model));
  check(grpo_trainer_options_init(&o, sizeof o));
  o.prompts_per_step = o.group_size = MOVES, o.max_prompt_tokens = o.max_new_tokens = 1;
  check(grpo_trainer_new(model, NULL, NULL, &o, &trainer));
  check(grpo_update_options_init(&u, sizeof u));
  u.lr = 1e-2;
  for (int step = 0; step < steps; step++) {
    for (int batch = 0; batch < 2; batch++) {
      put_games(trainer, moves, moves);
      u.accumulate = 1;
      check(grpo_trainer_update(trainer, &u, NULL));
    }
    check(grpo_trainer_apply(trainer, &u, NULL));
  }
  check(grpo_trainer_state_get(trainer, NULL, 0, &bytes));
  void *state = malloc(bytes);
  check(grpo_trainer_state_get(trainer, state, bytes, &bytes));
  check(grpo_trainer_state_set(trainer, state, bytes)); /* as when the game is loaded again */
  for (int m = 0; m < MOVES; m++) {
    check(grpo_model_logits(model, &moves[m], 1, logits, MOVES + 1));
    const int best = (m + 1) % MOVES;
    right += logits[best] > logits[m] && logits[best] > logits[(m + 2) % MOVES];
  }
  printf("%d of %d answers win; the optimizer's state has %zu bytes\n", right, MOVES, bytes);
  free(state), grpo_trainer_free(trainer), grpo_model_free(model), grpo_context_free(context);
}
