/* A whole run from a script: one reward is the script's, one is C's, and C watches every step.
 *   cc run.c $(pkg-config --cflags --libs grpo) -o run && ./run [steps] */
#include <grpo.h>
#include <stdio.h>
#include <stdlib.h>

static const char script[] =
    "local grpo = require 'grpo'\n"
    "local rows = {}\n"
    "for letter in ('abcdefgh'):gmatch '.' do rows[#rows + 1] = { prompt = letter } end\n"
    "return grpo.experiment {\n"
    "  model = { tokenizer = grpo.tokenizer.chars 'abcdefgh', config = { model_type = 'llama',\n"
    "    hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,\n"
    "    num_attention_heads = 4, max_position_embeddings = 32, initializer_range = 0.1 } },\n"
    "  data = { train = grpo.data.list(rows), max_prompt_tokens = 1 },\n"
    "  sampling = { max_new_tokens = 8 },\n"
    "  rewards = { long = { fn = function(text) return #text / 8 end, weight = 0.1 } },\n"
    "  train = { lr = 1e-2, steps = 60 },\n"
    "}\n";

static grpo_status repeats(void *user, const grpo_sample *s, double *reward) {
  const char *letter = grpo_sample_field(s, "prompt"); /* of the dataset's row */
  (void)user, *reward = 0;
  for (size_t i = 0; i < s->text_length; i++) *reward += (s->text[i] == letter[0]) / 8.0;
  return GRPO_OK;
}

static grpo_status show(void *user, int64_t step, const grpo_metrics *m) {
  const double reward = grpo_metric_get(m, "rewards/repeats/mean");
  if (step % 10 == 0) printf("step %3d: reward %.3f\n", (int)step, reward);
  return reward > 0.98 ? grpo_run_stop(user) : GRPO_OK;
}

static void check(grpo_context *c, grpo_status s) {
  if (s != GRPO_OK) fprintf(stderr, "run: %s\n", grpo_message(c)), exit(1);
}

int main(int argc, char **argv) {
  grpo_context *c = NULL;
  grpo_run *run;
  grpo_run_options o;
  int64_t steps;
  int32_t stopped;
  check(c, grpo_context_new(NULL, &c));
  check(c, grpo_run_options_init(&o, sizeof o));
  o.script = script; /* o.path: a file; o.directory: where run directories are made */
  o.max_steps = argc > 1 ? atoi(argv[1]) : 0;
  check(c, grpo_run_new(c, &o, &run));
  check(c, grpo_run_add_reward(run, "repeats", 1.0, repeats, NULL));
  check(c, grpo_run_on_step(run, show, run));
  check(c, grpo_run_execute(run));
  check(c, grpo_run_result(run, &steps, &stopped, NULL));
  printf("%s after %d steps\n", stopped ? "stopped" : "finished", (int)steps);
  grpo_run_free(run), grpo_context_free(c);
}
