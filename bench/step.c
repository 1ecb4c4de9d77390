/* step.c - one optimizer step: a group packed behind its shared prompt against the same completions
 * each behind its own, and where the time of a whole step goes.
 *
 *   build/release/bench/step [config.json] [prompt] [completion] [group]
 *
 * Prints milliseconds, the least of some runs; run it on a quiet machine.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "formats/json.h"
#include "grad/policy.h"
#include "model/config_read.h"
#include "model/model_copy.h"
#include "rl/engine.h"
#include "rl/engine_impl.h"
#include "rl/engine_memory.h"
#include "rl/reference.h"
#include "rl/rollout.h"
#include "rl/update.h"

enum { RUNS = 5, VOCAB = 4096 };

static void die(void) {
  fprintf(stderr, "step: %s (%s)\n", err_message(), err_where());
  exit(1);
}

static void must(Status s) {
  if (s) die();
}

static Config read_config(const char *path) {
  Json *j;
  Config c;
  must(json_read_file(path, 0, &j));
  must(config_read(&c, j, path));
  json_free(j);
  if (c.vocab_size > VOCAB) c.vocab_size = VOCAB;
  c.num_eos = 0; /* completions run to the limit */
  return c;
}

typedef struct Times {
  double rollout, reference, update;
} Times;

static void least(double *best, double t) {
  if (*best == 0 || t < *best) *best = t;
}

static Times run(Pool *pool, const Config *c, int prompts, int group, int prompt_len,
                 int new_tokens) {
  EngineOptions eo;
  Model *m, *ref;
  Engine *e;
  Times best = {0};
  EngineNeeds needs;
  engine_options_init(&eo);
  eo.prompts_per_step = prompts;
  eo.group_size = group;
  eo.max_prompt_tokens = prompt_len;
  eo.max_new_tokens = new_tokens;
  must(model_new(&m, pool, c, 1));
  must(model_copy(&ref, m));
  must(engine_new(&e, pool, m, ref, NULL, &eo));
  must(engine_measure(pool, m, ref, &eo, NULL, &needs));
  int32_t *ids = malloc((size_t)prompt_len * sizeof *ids);
  Prompt *p = malloc((size_t)prompts * sizeof *p);
  double *advantage = malloc((size_t)(prompts * group) * sizeof *advantage);
  if (!ids || !p || !advantage) exit(1);
  for (int i = 0; i < prompt_len; i++) ids[i] = i * 37 % c->vocab_size;
  for (int i = 0; i < prompts; i++)
    p[i] = (Prompt){.ids = ids, .len = prompt_len, .index = (uint32_t)i};
  for (int i = 0; i < prompts * group; i++) advantage[i] = i % 2 ? 1 : -1;
  for (int r = 0; r < RUNS; r++) {
    RolloutOptions ro = {.group = group};
    UpdateOptions uo;
    StepMetrics metrics;
    sampling_init(&ro.sampling);
    ro.sampling.max_new_tokens = new_tokens;
    update_options_init(&uo, LOSS_grpo);
    uo.advantage = advantage;
    double t = clock_seconds();
    must(engine_rollout(e, BATCH_SAMPLE, prompts, p, &ro));
    least(&best.rollout, clock_seconds() - t);
    t = clock_seconds();
    must(engine_reference(e, engine_batch(e, BATCH_SAMPLE)));
    least(&best.reference, clock_seconds() - t);
    t = clock_seconds();
    must(engine_update(e, engine_batch(e, BATCH_SAMPLE), &uo, &metrics));
    least(&best.update, clock_seconds() - t);
  }
  printf(
      "%3d x %-3d rollout %8.1f  reference %8.1f  update %8.1f  arena %6.1f MiB (reserved %.1f)\n",
      prompts, group, 1e3 * best.rollout, 1e3 * best.reference, 1e3 * best.update,
      (double)e->tape.arena.high / 1048576.0, (double)needs.tape / 1048576.0);
  engine_free(e);
  model_release(m);
  model_release(ref);
  free(ids);
  free(p);
  free(advantage);
  return best;
}

int main(int argc, char **argv) {
  const Config c = read_config(argc > 1 ? argv[1] : "configs/models/tiny.json");
  const int prompt = argc > 2 ? atoi(argv[2]) : 512, new_tokens = argc > 3 ? atoi(argv[3]) : 64;
  const int group = argc > 4 ? atoi(argv[4]) : 8;
  Pool *pool;
  if (prompt < 1 || new_tokens < 1 || group < 1) {
    fprintf(stderr, "usage: step [config.json] [prompt] [completion] [group]\n");
    return 2;
  }
  must(pool_new(&pool, 0));
  const Times packed = run(pool, &c, 1, group, prompt, new_tokens);
  const Times plain = run(pool, &c, group, 1, prompt, new_tokens);
  const double rows = group * (prompt + new_tokens - 1.0) / (prompt + group * (new_tokens - 1.0));
  printf("rows, plain / packed: %.2f; time of the update: %.2f (%.0f %% of it), of the reference: "
         "%.2f\n",
         rows, plain.update / packed.update, 100 * plain.update / packed.update / rows,
         plain.reference / packed.reference);
  pool_free(pool);
  return 0;
}
