#include "rl/reference.h"

#include <string.h>

#include "base/progress.h"
#include "kern/logits.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "os/comm.h"
#include "rl/engine_impl.h"
#include "rl/share.h"
#include "rl/units.h"

/* Log-probabilities, and entropies or NULL, of a batch: [completions, max_new]. */
typedef struct LogpRows {
  float *logp, *entropy;
} LogpRows;

/* Stores one number of each token of the unit's completions from output `at` on. */
static void store_rows(const Batch *b, const Unit *unit, int at, int n, const real *from,
                       float *rows) {
  int before = 0;
  for (int i = unit->first; i < unit->first + unit->n; before += b->completion[i++].len) {
    const int len = b->completion[i].len;
    if (before < at || before >= at + n) continue;
    memcpy(rows + (size_t)i * (size_t)b->max_new, from + (before - at), (size_t)len * sizeof *from);
  }
}

static Status run_pack(Engine *e, Model *m, const Batch *b, const Unit *unit, const RefPack *part,
                       const LogpRows *rows) {
  Tape *t = &e->tape;
  Tensor *hidden, *out;
  const Pack *p = &part->pack;
  try(forward_hidden(m, t, p, &hidden));
  try(forward_logp(m, t, p, hidden, b->temperature, NULL, NULL, &out));
  store_rows(b, unit, part->at, p->nout, out->data, rows->logp);
  if (rows->entropy) store_rows(b, unit, part->at, p->nout, out->data + p->nout, rows->entropy);
  return GRPO_OK;
}

static Status run_unit(Engine *e, Model *m, const Batch *b, const Unit *unit,
                       const LogpRows *rows) {
  Arena *a = &e->tape.arena;
  RefPacks parts;
  tape_reset(&e->tape);
  try(unit_pack_reference(a, model_config(m), b, unit, &parts));
  for (int i = 0; i < parts.n; i++) {
    const ArenaMark mark = arena_mark(a);
    try(run_pack(e, m, b, unit, &parts.pack[i], rows));
    arena_release(a, mark);
  }
  return GRPO_OK;
}

/* Runs the units of this rank's groups. */
static Status run_units(Engine *e, Model *m, const Batch *b, const LogpRows *rows) {
  Unit *unit = arena_alloc(&e->step, (size_t)batch_size(b) * sizeof *unit);
  if (!unit) return fail(GRPO_ENOMEM, "reference: %d completions", batch_size(b));
  const int n = units_of_batch(b, 0, unit);
  Status s = GRPO_OK;
  e->tape.off = true;
  int first, end;
  share_range(e, share_slot(e, b), b->nprompts, comm_rank(), &first, &end);
  for (int i = 0; i < n && s == GRPO_OK; i++) {
    const int group = unit[i].first / b->group;
    if (group < first || group >= end) continue;
    s = progress_reached("reference", i, n);
    if (s == GRPO_OK) s = run_unit(e, m, b, &unit[i], rows);
  }
  e->tape.off = false;
  return s;
}

Status reference_rows(Engine *e, Model *m, Batch *b, float *logp, float *entropy) {
  const size_t bytes = (size_t)b->max_new * sizeof *logp;
  arena_reset(&e->step);
  try(comm_agree(run_units(e, m, b, &(LogpRows){logp, entropy})));
  try(share_rows(e, b, logp, bytes));
  return entropy ? share_rows(e, b, entropy, bytes) : GRPO_OK;
}

/* row [vocab]: scratch memory */
static void source_reference(const Ctx *cx, const ReferenceSource *source, Batch *b, real *row) {
  const real inv_temp = (real)(1 / b->temperature);
  for (int i = 0; i < batch_size(b); i++) {
    const Completion *c = &b->completion[i];
    int n;
    const int32_t *prompt = batch_prompt(b, i / b->group, &n);
    for (int t = 0; t < c->len; t++) {
      const int32_t prev = t ? c->ids[t - 1] : prompt[n - 1];
      LogitsRow sums;
      source->row(source->of, prev, row);
      logits_row(cx->cpu, source->vocab, row, inv_temp, &sums);
      b->ref_logp[(size_t)i * (size_t)b->max_new + (size_t)t] =
          logits_row_logp(&sums, row[c->ids[t]], inv_temp);
    }
  }
  b->has_ref = true;
}

Status engine_reference(Engine *e, Batch *b) {
  try(engine_check_policy(e));
  if (!engine_has_reference(e)) return fail(GRPO_EARG, "reference: the engine has none");
  if (!b->ref_logp)
    return fail(GRPO_EARG, "reference: this batch keeps no reference log-probabilities");
  const ReferenceSource *source = &e->o.source;
  if (source->of) {
    arena_reset(&e->step);
    real *row = arena_alloc(&e->step, (size_t)source->vocab * sizeof *row);
    if (!row) return fail(GRPO_ENOMEM, "reference: a row of %d tokens", source->vocab);
    source_reference(&e->tape.cx, source, b, row);
    return GRPO_OK;
  }
  const Status s = reference_rows(e, e->reference, b, b->ref_logp, NULL);
  b->has_ref = s == GRPO_OK;
  return s;
}
