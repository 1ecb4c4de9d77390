/* A whole run whose rows, learning rate and group reward are the host's: the script asks for them.
 *   cc run_parts.c $(pkg-config --cflags --libs grpo) -o run_parts && ./run_parts [steps] */
#include <grpo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char script[] =
    "local grpo = require 'grpo'\n"
    "return grpo.experiment {\n"
    "  model = { tokenizer = grpo.tokenizer.chars 'abcdefgh', config = { model_type = 'llama',\n"
    "    hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,\n"
    "    num_attention_heads = 4, max_position_embeddings = 32, initializer_range = 0.1 } },\n"
    "  data = { train = grpo.data.list(grpo.host.rows 'train'), max_prompt_tokens = 1 },\n"
    "  sampling = { max_new_tokens = 8 },\n"
    "  train = { steps = 60, lr = function(p) return grpo.host.rate(p.step) end },\n"
    "}\n";

/* grpo.host.rows(name): arguments is ["train"], the answer a list of rows. */
static grpo_status rows(void *user, const char *arguments, grpo_answer *answer) {
  char json[512] = "";
  (void)user, (void)arguments;
  for (char c = 'a'; c <= 'h'; c++)
    sprintf(json + strlen(json), "%c{\"prompt\": \"%c\"}", c == 'a' ? '[' : ',', c);
  strcat(json, "]");
  return grpo_answer_json(answer, json, strlen(json));
}

/* grpo.host.rate(step): arguments is [step]. */
static grpo_status rate(void *user, const char *arguments, grpo_answer *answer) {
  char json[32];
  const int n = snprintf(json, sizeof json, "%g", atoi(arguments + 1) < 40 ? 1e-2 : 3e-3);
  (void)user;
  return grpo_answer_json(answer, json, (size_t)n);
}

/* Completions of one prompt are judged together: each by how many of the others it beats. */
static grpo_status ranks(void *user, const grpo_sample *s, size_t n, double *rewards) {
  const char letter = grpo_sample_field(s, "prompt")[0];
  int hits[64] = {0};
  (void)user;
  for (size_t i = 0; i < n && i < 64; i++)
    for (size_t k = 0; k < s[i].text_length; k++) hits[i] += s[i].text[k] == letter;
  for (size_t i = 0; i < n && i < 64; i++) {
    rewards[i] = hits[i] == 8; /* a completion that is right beats a draw */
    for (size_t k = 0; k < n && k < 64; k++) rewards[i] += (hits[i] > hits[k]) / (double)n;
  }
  return GRPO_OK;
}

static grpo_status show(void *user, int64_t step, const grpo_metrics *m) {
  (void)user;
  if (step % 20 == 0)
    printf("step %2d: reward %.2f at rate %g\n", (int)step,
           grpo_metric_get(m, "rewards/ranks/mean"), grpo_metric_get(m, "learning_rate"));
  return GRPO_OK;
}

static void check(grpo_context *c, grpo_status s) {
  if (s != GRPO_OK) fprintf(stderr, "run_parts: %s\n", grpo_message(c)), exit(1);
}

int main(int argc, char **argv) {
  grpo_context *c = NULL;
  grpo_run *run;
  grpo_run_options o;
  check(c, grpo_context_new(NULL, &c));
  check(c, grpo_run_options_init(&o, sizeof o));
  o.script = script;
  o.max_steps = argc > 1 ? atoi(argv[1]) : 0;
  check(c, grpo_run_new(c, &o, &run));
  check(c, grpo_run_add_function(run, "rows", rows, NULL));
  check(c, grpo_run_add_function(run, "rate", rate, NULL));
  check(c, grpo_run_add_group_reward(run, "ranks", 1.0, ranks, NULL));
  check(c, grpo_run_on_step(run, show, NULL));
  check(c, grpo_run_execute(run));
  grpo_run_free(run), grpo_context_free(c);
}
