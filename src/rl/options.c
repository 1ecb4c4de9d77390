#include "rl/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grad/policy.h"

#define ANY  NAN
#define LIVE OPTION_LIVE

static const Option options[] = {
#define OPT(path, type, fallback, low, high, choices, flags, doc)                                  \
  {path, type, fallback, low, high, choices, flags, doc},
#include "rl/options.def"
};

static const LossDefault loss_defaults[] = {
#define LOSS_DEFAULT(loss, path, fallback) {#loss, path, fallback},
#include "rl/options.def"
};

int option_count(void) { return (int)(sizeof options / sizeof *options); }
const Option *option_at(int i) { return &options[i]; }
int loss_default_count(void) { return (int)(sizeof loss_defaults / sizeof *loss_defaults); }
const LossDefault *loss_default_at(int i) { return &loss_defaults[i]; }

const Option *option_find(const char *path) {
  for (int i = 0; i < option_count(); i++)
    if (!strcmp(options[i].path, path)) return &options[i];
  return NULL;
}

/* Our own reading of the table's literals: strtod would follow the host's locale. */
static double literal_number(const char *s) {
  double v = 0, scale = 1;
  if (*s < '0' || *s > '9') return NAN;
  for (; *s >= '0' && *s <= '9'; s++) v = v * 10 + (*s - '0');
  if (*s == '.')
    for (s++; *s >= '0' && *s <= '9'; s++) v = v * 10 + (*s - '0'), scale *= 10;
  int exponent = *s == 'e' ? atoi(s + 1) : 0;
  for (; exponent < 0; exponent++) scale *= 10;
  for (; exponent > 0; exponent--) v *= 10;
  return v / scale;
}

double option_number(const char *path) {
  const Option *o = option_find(path);
  return o ? literal_number(o->fallback) : NAN;
}

bool option_boolean(const char *path) {
  const Option *o = option_find(path);
  return o && !strcmp(o->fallback, "true");
}

/* Place of the word s[0..n) in "a|b|c". */
static int place(const char *choices, const char *s, size_t n) {
  for (int i = 0; *choices; i++) {
    size_t len = strcspn(choices, "|");
    if (len == n && !memcmp(choices, s, n)) return i;
    choices += len + (choices[len] == '|');
  }
  return -1;
}

int option_choice_of(const char *path, const char *word) {
  const Option *o = option_find(path);
  return o ? place(o->choices, word, strlen(word)) : -1;
}

int option_choice(const char *path) {
  const Option *o = option_find(path);
  if (!o || *o->fallback != '"') return -1;
  return place(o->choices, o->fallback + 1, strlen(o->fallback) - 2);
}

static bool sequence_loss(LossKind k) { return k == LOSS_gspo || k == LOSS_luspo; }

Status loss_options_check(const LossOptions *o) {
  const char *name = loss_kind_name(o->kind);
  if (o->kl > 0 && o->kl_estimator == KL_K1)
    return fail(GRPO_EARG,
                "train.kl_estimator: k1 in the loss has no expected gradient; use k2 or k3, "
                "or kl_in = \"reward\"");
  if (o->kl > 0 && o->kl_bias_correction && o->kl_estimator == KL_FULL)
    return fail(GRPO_EARG,
                "train.kl_bias_correction: full KL has no sampling bias to correct; turn it off");
  if (sequence_loss(o->kind) && o->importance != IMPORTANCE_SEQUENCE)
    return fail(GRPO_EARG, "train.importance: %s is defined with \"sequence\" only", name);
  if (o->importance == IMPORTANCE_SEQUENCE && (o->kind == LOSS_gmpo || o->kind == LOSS_vespo ||
                                               o->kind == LOSS_rloo || o->kind == LOSS_reinforce))
    return fail(GRPO_EARG, "train.importance: %s has a weight of its own; leave \"token\"", name);
  return GRPO_OK;
}

void optimizer_options_default(OptimizerOptions *o) {
  *o = (OptimizerOptions){.beta1 = option_number("train.optimizer.beta1"),
                          .beta2 = option_number("train.optimizer.beta2"),
                          .eps = option_number("train.optimizer.eps"),
                          .weight_decay = option_number("train.optimizer.weight_decay")};
}

void sampling_default(Sampling *s) {
  sampling_init(s);
  s->max_new_tokens = (int)option_number("sampling.max_new_tokens");
  s->temperature = option_number("sampling.temperature");
  s->top_p = option_number("sampling.top_p");
  s->top_k = (int)option_number("sampling.top_k");
  s->min_p = option_number("sampling.min_p");
  s->repetition_penalty = option_number("sampling.repetition_penalty");
}
