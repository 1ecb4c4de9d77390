/* Two trainers in two threads, each with a context of its own; one seed gives the same weights.
 *   cc threads.c $(pkg-config --cflags --libs grpo) -pthread -o threads && ./threads [steps] */
#include <grpo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 64,"
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
    "\"max_position_embeddings\": 32, \"initializer_range\": 0.1}";

typedef struct Job {
  int steps;
  float norm[32]; /* a weight that training has moved */
  grpo_status status;
  char message[256];
} Job;

/* Rewards a letter that is the same as the one before it. */
static grpo_status plain(void *user, const grpo_sample *s, double *reward) {
  (void)user, *reward = 0;
  for (size_t i = 1; i < s->text_length; i++) *reward += (s->text[i] == s->text[i - 1]) / 7.0;
  return GRPO_OK;
}

static grpo_status steps(Job *job, grpo_trainer *t) {
  static const int32_t ids[] = {0, 1};
  const grpo_prompt prompts[] = {{&ids[0], 1, 0, 0}, {&ids[1], 1, 1, 0}};
  grpo_sampling sampling;
  grpo_update_options update;
  grpo_status s = grpo_sampling_init(&sampling, sizeof sampling);
  if (!s) s = grpo_update_options_init(&update, sizeof update);
  update.lr = 1e-2;
  for (int i = 0; i < job->steps && !s; i++) {
    sampling.step = (uint32_t)i;
    s = grpo_trainer_rollout(t, prompts, 2, &sampling);
    if (!s) s = grpo_trainer_score(t, plain, NULL);
    if (!s) s = grpo_trainer_advantages(t, NULL, NULL, 0);
    if (!s) s = grpo_trainer_update(t, &update, NULL);
  }
  return s;
}

static void *train(void *arg) {
  Job *job = arg;
  grpo_context *c = NULL;
  grpo_tokenizer *tokenizer = NULL;
  grpo_model *model = NULL;
  grpo_trainer *trainer = NULL;
  grpo_trainer_options o;
  grpo_status s = grpo_context_new(NULL, &c);
  if (!s) s = grpo_tokenizer_chars(c, "abcd", 4, &tokenizer);
  if (!s) s = grpo_model_new(c, config, tokenizer, NULL, &model);
  if (!s) s = grpo_trainer_options_init(&o, sizeof o);
  o.prompts_per_step = 2, o.max_prompt_tokens = 1, o.max_new_tokens = 8;
  if (!s) s = grpo_trainer_new(model, NULL, tokenizer, &o, &trainer);
  if (!s) s = steps(job, trainer);
  if (!s) s = grpo_model_parameter_get(model, "model.norm.weight", job->norm, 32);
  if (s) snprintf(job->message, sizeof job->message, "%s", grpo_message(c));
  job->status = s;
  grpo_trainer_free(trainer), grpo_model_free(model), grpo_tokenizer_free(tokenizer);
  grpo_context_free(c); /* NULL is fine everywhere */
  return NULL;
}

int main(int argc, char **argv) {
  Job job[2] = {{0}};
  pthread_t thread[2];
  for (int i = 0; i < 2; i++) {
    job[i].steps = argc > 1 ? atoi(argv[1]) : 20;
    if (pthread_create(&thread[i], NULL, train, &job[i]) != 0) return 1;
  }
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 2; i++)
    if (job[i].status) return fprintf(stderr, "threads: %s\n", job[i].message), 1;
  const int same = memcmp(job[0].norm, job[1].norm, sizeof job[0].norm) == 0;
  printf("%d steps in each thread: %s\n", job[0].steps, same ? "the same bits" : "different bits");
  return !same;
}
