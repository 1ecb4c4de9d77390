#include "rl/engine_memory.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "rl/unit_forward.h"

/* ---- the largest units --------------------------------------------------------------------- */

/* `groups` groups, packed together: each has a prompt, n completions of at most `longest` tokens,
 * and `rows` rows.  even: its completions are equally long; else they are as long as possible, one
 * after the other, until the rows are used up. */
typedef struct Texts {
  int groups, prompt, n, longest, rows;
  bool even;
} Texts;

/* The tokens of a completion that takes about this many rows. */
static int tokens_of(const Texts *x, int rows, int end_below) {
  const int len = rows < end_below ? rows : rows + 1; /* does the last token have a row too? */
  return max_int(1, min_int(len, x->longest));
}

static Status pack_texts(Arena *a, const Config *c, const Texts *x, int end_below, Pack *out) {
  const size_t n = (size_t)x->n;
  PackGroup *g = arena_alloc(a, (size_t)x->groups * sizeof *g);
  const int32_t **ids = arena_alloc(a, n * sizeof *ids);
  int *len = arena_alloc(a, n * sizeof *len);
  int32_t *zeros = mem_zalloc((size_t)max_int(x->prompt, x->longest) * sizeof *zeros);
  if (!g || !ids || !len || !zeros) return fail(GRPO_ENOMEM, "engine: no memory for a group");
  for (int i = 0, left = x->rows - x->prompt; i < x->n; i++) {
    len[i] = tokens_of(x, x->even ? left / (x->n - i) : left, end_below);
    left = max_int(0, left - (len[i] < end_below ? len[i] : len[i] - 1));
    ids[i] = zeros;
  }
  for (int i = 0; i < x->groups; i++)
    g[i] = (PackGroup){.prompt = zeros,
                       .prompt_len = x->prompt,
                       .n = x->n,
                       .completion = ids,
                       .completion_len = len,
                       .longest = x->prompt + x->longest,
                       .end_below = end_below};
  const Status s = pack_groups(a, c, x->groups, g, out);
  mem_free(zeros);
  return s;
}

/* A unit in memory: what its forward has made. */
typedef struct InMemory {
  Tensor *logp, *value;
} InMemory;

static Status add_token_sets(Engine *e, Pack *p) {
  if (!e->o.mask_tokens) return GRPO_OK;
  p->token_sets = arena_zalloc(&e->tape.arena, (size_t)p->nout * sizeof *p->token_sets);
  return p->token_sets ? GRPO_OK : fail(GRPO_ENOMEM, "engine: no memory for a group");
}

static Status add_replay(Engine *e, Pack *p) {
  Replay *r = arena_alloc(&e->tape.arena, sizeof *r);
  ReplayRun *run = arena_alloc(&e->tape.arena, (size_t)p->nspans * sizeof *run);
  if (!r || !run) return fail(GRPO_ENOMEM, "engine: no memory for %d spans", p->nspans);
  *r = (Replay){.store = &e->activations.store, .take = true, .run = run};
  p->replay = r;
  return GRPO_OK;
}

/* The largest pack that a reference with prompts of its own runs. */
static Texts ref_texts(const EngineOptions *o) {
  const int one = max_int(1, o->ref_prompt_tokens + o->max_new_tokens - 1);
  const int groups = max_int(1, min_int(o->group_size, UNIT_ROWS / one));
  return (Texts){groups, o->ref_prompt_tokens, 1, o->max_new_tokens, one, false};
}

/* own: the policy's pack */
static Status pack_reference(Engine *e, const Pack *own, RefPacks *out) {
  *out = (RefPacks){1, arena_zalloc(&e->tape.arena, sizeof *out->pack)};
  if (!out->pack) return fail(GRPO_ENOMEM, "engine: no memory for a group");
  out->pack->pack = *own;
  if (!e->o.ref_prompt_tokens) return GRPO_OK;
  const Texts x = ref_texts(&e->o);
  return pack_texts(&e->tape.arena, model_config(e->reference), &x, 0, &out->pack->pack);
}

static Status forward(Engine *e, const Texts *x, bool replay, InMemory *out) {
  const bool shared = e->critic && !critic_trunk(e->critic);
  Arena *a = &e->tape.arena;
  Pack *p = arena_alloc(a, sizeof *p);
  RngKey *key = arena_alloc(a, sizeof *key);
  if (!p || !key) return fail(GRPO_ENOMEM, "engine: no memory for a group");
  *key = dropout_key(0, 0, 0, 0);
  try(pack_texts(a, model_config(e->policy), x, shared ? e->o.max_new_tokens : 0, p));
  try(add_token_sets(e, p));
  p->dropout = key;
  if (replay) try(add_replay(e, p));
  *out = (InMemory){0};
  RefPacks ref;
  if (e->reference) try(pack_reference(e, p, &ref));
  return unit_forward(e, p, engine_has_reference(e) ? &ref : NULL, 1, shared ? &out->value : NULL,
                      &out->logp);
}

static Status seed_of(Tape *t, const Tensor *out, real **seed) {
  *seed = arena_zalloc(&t->arena, out->n * sizeof **seed);
  return *seed ? GRPO_OK : fail(GRPO_ENOMEM, "engine: no memory for %zu gradients", out->n);
}

static Status backward(Tape *t, const InMemory *m) {
  const ArenaMark mark = arena_mark(&t->arena);
  real *seed;
  if (!m->logp->needs_grad) return GRPO_OK;
  if (m->value) {
    try(seed_of(t, m->value, &seed));
    try(tape_seed(t, m->value, seed));
  }
  try(seed_of(t, m->logp, &seed));
  try(tape_backward_from(t, m->logp, seed));
  arena_release(&t->arena, mark);
  return GRPO_OK;
}

/* Units of these texts whose forwards are in memory at once, the last of which may be smaller. */
static Status run_units(Engine *e, const Texts *x, int rows, bool replay) {
  InMemory *m = mem_alloc(((size_t)(rows / x->rows) + 2) * sizeof *m);
  if (!m) return fail(GRPO_ENOMEM, "engine: no memory for a list of groups");
  int n = 0;
  Status s = GRPO_OK;
  tape_reset(&e->tape);
  for (int left = max_int(rows, x->rows); left >= x->n + 1 && s == GRPO_OK; left -= x->rows) {
    Texts some = *x;
    some.rows = min_int(left, x->rows);
    some.prompt = min_int(x->prompt, some.rows - x->n);
    s = forward(e, left >= x->rows ? x : &some, replay, &m[n++]);
  }
  for (int i = 0; i < n && s == GRPO_OK; i++) s = backward(&e->tape, &m[i]);
  mem_free(m);
  return s;
}

/* The trunk of a separate critic runs after the policy. */
static Status run_trunk(Engine *e, const Texts *x) {
  Model *trunk = critic_trunk(e->critic);
  Pack p;
  Tensor *hidden;
  InMemory m = {0};
  tape_reset(&e->tape);
  try(pack_texts(&e->tape.arena, model_config(trunk), x, e->o.max_new_tokens, &p));
  try(forward_hidden(trunk, &e->tape, &p, &hidden));
  try(critic_values(e->critic, &e->tape, &p, hidden, &m.logp));
  return backward(&e->tape, &m);
}

/* The reference's own pass (reference.c). */
static Status run_reference(Engine *e, const Texts *x) {
  Tensor *hidden, *out;
  Pack p;
  tape_reset(&e->tape);
  e->tape.off = true;
  Status s = pack_texts(&e->tape.arena, model_config(e->reference), x, 0, &p);
  if (s == GRPO_OK) s = forward_hidden(e->reference, &e->tape, &p, &hidden);
  if (s == GRPO_OK) s = forward_logp(e->reference, &e->tape, &p, hidden, 1, NULL, NULL, &out);
  e->tape.off = false;
  return s;
}

static Status run_texts(Engine *e, const Texts *x, int rows) {
  try(run_units(e, x, rows, false));
  if (e->o.reuse_rollout == REUSE_ON) try(run_units(e, x, rows, true));
  if (e->critic && critic_trunk(e->critic)) try(run_trunk(e, x));
  if (e->reference) try(run_reference(e, x));
  const Texts own = ref_texts(&e->o);
  return e->reference && e->o.ref_prompt_tokens ? run_reference(e, &own) : GRPO_OK;
}

/* Examples of kind "sft": the longest, and many short ones. */
static Status run_examples(Engine *e) {
  enum { SHORT = 16 };
  const int most = e->o.max_prompt_tokens + e->o.max_new_tokens - 1;
  const Texts longest = {max_int(1, SFT_UNIT_ROWS / most), 1, 1, most, most, false};
  const int few = min_int(SHORT, most);
  const Texts many = {SFT_UNIT_ROWS / few, 1, 1, few, few, false};
  try(run_units(e, &longest, 0, false));
  return run_units(e, &many, 0, false);
}

/* micro_batch_tokens, or all rows of a step where that is less. */
static int rows_at_once(const EngineOptions *o) {
  const int64_t all = engine_step_rows(o);
  return all < o->micro_batch_tokens ? (int)all : o->micro_batch_tokens;
}

static Status run_largest(Engine *e) {
  const EngineOptions *o = &e->o;
  Texts x = {.groups = 1,
             .prompt = o->max_prompt_tokens,
             .n = o->group_size,
             .longest = o->max_new_tokens,
             .rows = unit_rows_max(o->group_size, o->max_prompt_tokens, o->max_new_tokens)};
  try(run_texts(e, &x, rows_at_once(o)));
  x.even = true;
  try(run_texts(e, &x, rows_at_once(o)));
  return o->examples ? run_examples(e) : GRPO_OK;
}

/* ---- reuse_rollout ------------------------------------------------------------------------- */

static Status check_reuse(const EngineOptions *o, const RolloutActivations *k) {
  const size_t need = rollout_activations_bytes(k), free = mem_available();
  if (o->reuse_rollout != REUSE_ON || !free || need <= free) return GRPO_OK;
  return fail(GRPO_ENOMEM,
              "train.reuse_rollout: the activations of %zu rows take %zu MiB and %zu are free; use "
              "\"auto\" or false, or lower train.prompts_per_step or the lengths",
              k->store.rows, need >> 20, free >> 20);
}

/* Is there so much memory that some may be spent on speed alone? */
static bool has_plenty(size_t need, size_t others) {
  const size_t total = mem_total(), free = mem_available();
  return need <= total / 4 && others < free && need <= (free - others) / 2;
}

/* May the activations be kept, if there is memory for them? */
static bool may_reuse(const Model *policy, const EngineOptions *o) {
  if (o->reuse_rollout != REUSE_AUTO) return o->reuse_rollout == REUSE_ON;
  return o->train && !o->gradient_checkpointing && lora_dropout(policy) == 0 &&
         o->critic != CRITIC_SHARED;
}

/* ---- building one -------------------------------------------------------------------------- */

/* The sets of tokens that truncated sampling leaves, of a whole step. */
static size_t mask_bytes(const Config *c, const EngineOptions *o) {
  const int most = min_int(o->mask_tokens, c->vocab_size);
  const size_t sequences = (size_t)o->prompts_per_step * (size_t)o->group_size;
  return sequences * sampling_mask_words(c->vocab_size, most, o->max_new_tokens) * sizeof(uint32_t);
}

static size_t sum(const EngineBytes *b) {
  return b->weights + b->reference + b->optimizer + b->critic + b->cache + b->batch + b->masks +
         b->activations + b->kept;
}

/* Outlines of an engine's models. */
typedef struct Outlines {
  Model *base;     /* of a policy that is a view; else NULL */
  Model *ref_base; /* of a reference that is a view of another model; else NULL */
  Model *policy, *reference;
} Outlines;

static void free_outlines(Outlines *m) {
  model_release(m->reference);
  model_release(m->policy);
  model_release(m->ref_base);
  model_release(m->base);
}

/* Bytes that were allocated since. */
static size_t since(size_t before) { return mem_live_bytes() - before; }

static Status outline_policy(const Model *m, const ModelForm *form, Outlines *out, size_t *bytes) {
  const bool view = model_owner(m) != m;
  if (view) try(model_outline(&out->base, m, NULL));
  const size_t before = mem_live_bytes();
  try(view ? model_outline_view(&out->policy, out->base, m) : model_outline(&out->policy, m, form));
  *bytes = since(before);
  return GRPO_OK;
}

static Status outline_reference(const Model *policy, const Model *m, bool of_policy, Outlines *out,
                                size_t *bytes) {
  const bool view = model_owner(m) != m;
  if (m == policy) {
    out->reference = model_retain(out->policy);
    return GRPO_OK;
  }
  const bool own = of_policy || (view && model_owner(m) == model_owner(policy));
  if (view && !own) try(model_outline(&out->ref_base, m, NULL));
  Model *base = !own ? out->ref_base : out->base ? out->base : out->policy;
  const size_t before = mem_live_bytes();
  try(base ? model_outline_view(&out->reference, base, m)
           : model_outline(&out->reference, m, NULL));
  *bytes = since(before);
  return GRPO_OK;
}

/* The activations of the rollout, which are kept where there is memory for them; others: bytes of
 * the rest of the engine, without its models. */
static Status keep_activations(Engine *e, RolloutActivations *k, size_t others, EngineNeeds *out) {
  size_t before = mem_live_bytes();
  if (out->options.reuse_rollout == REUSE_AUTO && !has_plenty(rollout_activations_bytes(k), others))
    return GRPO_OK;
  try(rollout_activations_allocate(k));
  out->bytes.kept = since(before);
  e->activations = *k; /* it frees them */
  e->o.reuse_rollout = REUSE_ON;
  out->activations = *k;
  out->activations.store.data = NULL;
  out->activations.store.operations = 0;
  return run_largest(e);
}

static Status measure_steps(Engine *e, bool may_keep, EngineNeeds *out) {
  const EngineBytes *b = &out->bytes;
  const EngineOptions *o = &out->options;
  RolloutActivations k = rollout_activations_of(o->prompts_per_step, o->group_size,
                                                o->max_prompt_tokens, o->max_new_tokens);
  try(run_largest(e));
  if (may_keep) {
    const size_t others = b->optimizer + b->critic + b->cache + b->batch + b->masks;
    try(rollout_activations_measure(&k, e->policy));
    try(check_reuse(o, &k));
    try(keep_activations(e, &k, others + e->tape.arena.high, out));
  }
  enum { SMALL = 1 << 16 }; /* seeds and lists of a real step that are not measured */
  out->tape = e->tape.arena.high + SMALL;
  out->nodes = e->tape.cap;
  out->bytes.activations = mem_aligned_size(out->tape) + (size_t)out->nodes * sizeof(Node *);
  return GRPO_OK;
}

static Status measure_engine(Pool *pool, const Outlines *m, EngineNeeds *out) {
  const bool may_keep = may_reuse(m->policy, &out->options);
  EngineNeeds without = *out;
  Engine *e;
  without.options.reuse_rollout = REUSE_OFF;
  try(engine_build(&e, pool, m->policy, m->reference, NULL, &without, &out->bytes));
  const Status s = measure_steps(e, may_keep, out);
  engine_unbuild(e);
  out->options.reuse_rollout = out->bytes.kept ? REUSE_ON : REUSE_OFF;
  return s;
}

static Status outline_all(const Model *policy, const Model *reference, const EngineOptions *o,
                          const ModelForm *form, Outlines *m, EngineBytes *b) {
  try(outline_policy(policy, form, m, &b->weights));
  if (reference)
    try(outline_reference(policy, reference, form && form->lora, m, &b->reference));
  else if (o->source.of)
    b->reference = o->source.bytes(o->source.of);
  return GRPO_OK;
}

/* The bytes of the models that there are. */
static Status measure_held(const Model *policy, const Model *reference, const EngineOptions *o,
                           size_t *held) {
  Outlines m = {0};
  EngineBytes b = {0};
  const Status s = outline_all(policy, reference, o, NULL, &m, &b);
  free_outlines(&m);
  *held = sum(&b);
  return s;
}

static Status measure(Pool *pool, const Model *policy, const Model *reference,
                      const ModelForm *form, EngineNeeds *out) {
  const EngineOptions *o = &out->options;
  EngineBytes *b = &out->bytes;
  Outlines m = {0};
  try(measure_held(policy, reference, o, &b->held));
  Status s = outline_all(policy, reference, o, form, &m, b);
  b->masks = mask_bytes(model_config(policy), o);
  if (s == GRPO_OK) s = measure_engine(pool, &m, out);
  free_outlines(&m);
  b->total = sum(b);
  return s;
}

static Status check_routers(const Config *policy, const EngineOptions *o) {
  if (o->router_aux_loss_coef == 0 || config_has_aux_loss(policy)) return GRPO_OK;
  return fail(GRPO_EARG,
              "train.router_aux_loss_coef: it is %g, but a model of type %s has no auxiliary loss; "
              "leave it at 0",
              o->router_aux_loss_coef, config_model_type(policy));
}

Status engine_measure(Pool *pool, const Model *policy, const Model *reference,
                      const EngineOptions *o, const ModelForm *form, EngineNeeds *out) {
  if (o->reuse_rollout == REUSE_ON && !o->train)
    return fail(GRPO_EARG, "engine: reuse_rollout without an optimizer has no use");
  try(check_routers(model_config(policy), o));
  *out = (EngineNeeds){.options = *o};
  mem_measure_begin();
  const Status s = measure(pool, policy, reference, form, out);
  mem_measure_end();
  return s;
}
