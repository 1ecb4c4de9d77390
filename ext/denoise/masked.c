#include "denoise/masked.h"

#include "grad/op_loghead.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/model_struct.h"

Status masked_pack(Arena *a, const Config *c, int n, const MaskedSequence *seq, int nout,
                   const int32_t *rows, const int32_t *targets, Pack *out) {
  PackGroup *g = arena_zalloc(a, (size_t)n * sizeof *g);
  if (!g) return fail(GRPO_ENOMEM, "no memory for a pack of %d sequences", n);
  for (int i = 0; i < n; i++) g[i] = (PackGroup){.prompt = seq[i].ids, .prompt_len = seq[i].len};
  try(pack_groups(a, c, n, g, out));
  out->bidirectional = true;
  out->nout = nout;
  out->out_rows = rows;
  out->targets = targets;
  return GRPO_OK;
}

static Status visit_chunks(Model *m, Tape *t, const Pack *p, LogitsFn visit, void *user) {
  const size_t vocab = (size_t)m->config.vocab_size;
  const int most = loghead_rows(m->config.vocab_size);
  Tensor *hidden;
  real *out;
  try(forward_hidden(m, t, p, &hidden));
  try(forward_out_hidden(t, p, hidden, &out));
  real *logits = arena_alloc(&t->arena, (size_t)most * vocab * sizeof *logits);
  if (!logits) return fail(GRPO_ENOMEM, "model: no memory for logits of %d rows", most);
  for (int at = 0, n; at < p->nout; at += n) {
    n = p->nout - at < most ? p->nout - at : most;
    try(forward_row_logits(m, &t->cx, n, out + (size_t)at * (size_t)hidden->dim[1], logits));
    visit(user, at, n, logits);
  }
  return GRPO_OK;
}

Status masked_logits(Model *m, Tape *t, const Pack *p, LogitsFn visit, void *user) {
  const bool off = t->off;
  t->off = true;
  const Status s = visit_chunks(m, t, p, visit, user);
  t->off = off;
  return s;
}
