#include "model/decode_memory.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "kern/token_set.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/layer_kind.h"
#include "model/model_struct.h"
#include "model/panels.h"

Status decoder_caches(Decoder *d) {
  const Config *c = &d->m->config;
  const DecoderLimits *l = &d->limits;
  LayerCache layer[CONFIG_MAX_LAYERS];
  const int layers = c->num_hidden_layers;
  layer_caches(c, d->m->compute, d->m->cpu, layer);
  try(cache_new(&d->prompts, layer, layers, l->max_prompts, l->max_prompt_tokens, 0));
  return cache_new(&d->completions, layer, layers, l->max_sequences, l->max_new_tokens, -1);
}

/* Adds a span of n rows, which are the last keys of the longest prompt, or of the longest
 * completion of such a prompt. */
static void add_longest(Decoder *d, int slot, bool prompt, int n) {
  const int before = d->limits.max_prompt_tokens, most = d->limits.max_new_tokens;
  const int keys = prompt ? before : most;
  Cache *c = prompt ? &d->prompts : &d->completions;
  cache_set_len(&d->prompts, prompt ? slot : 0, 0, before);
  if (!prompt) cache_set_len(c, slot, before, most);
  d->span[d->nspans] = (AttnSpan){.prefix = prompt ? NULL : cache_segment(&d->prompts, 0),
                                  .own = cache_segment(c, slot),
                                  .row = d->nrows,
                                  .n = n,
                                  .own_at = keys - n};
  d->run[d->nspans++] = (ReplayRun){d->nrows, n, 0};
  for (int i = 0; i < n; i++, d->nrows++) d->ids[d->nrows] = d->pos[d->nrows] = 0;
}

/* Fills a forward up with spans of at most n rows. */
static void add_spans(Decoder *d, bool prompts, int spans, int n) {
  const int longest = prompts ? d->limits.max_prompt_tokens : d->limits.max_new_tokens;
  d->nrows = d->nspans = 0;
  for (int i = 0; i < spans && d->nrows < d->max_rows; i++)
    add_longest(d, i, prompts, min_int(min_int(n, longest), d->max_rows - d->nrows));
}

static Status measure_forward(Decoder *d, int logit_rows) {
  ReplayStore any = {.columns = SIZE_MAX / 2};
  Replay replay = {.store = &any, .nruns = d->nspans, .run = d->run};
  Rows r = {.n = d->nrows,
            .ids = d->ids,
            .pos = d->pos,
            .length = d->length,
            .nspans = d->nspans,
            .spans = d->span,
            .replay = &replay};
  Tensor *x, *last, *hidden;
  tape_reset(&d->tape);
  try(forward_layers(d->m, &d->tape, &r, &x));
  const int n = max_int(d->nspans, logit_rows);
  try(tape_tensor(&d->tape, 2, (const int[]){n, d->m->config.hidden_size}, &last));
  try(forward_final_norm(d->m, &d->tape, last, &hidden));
  return forward_row_logits(d->m, &d->tape.cx, logit_rows, hidden->data, d->logits);
}

/* Forwards over few rows and over many, of which the largest is wanted. */
static Status measure_forwards(Decoder *d, int logit_rows) {
  const DecoderLimits *l = &d->limits;
  for (int n = 1; n < 2 * l->max_sequences; n *= 2) {
    add_spans(d, false, min_int(n, l->max_sequences), 1);
    try(measure_forward(d, logit_rows));
  }
  add_spans(d, false, l->max_sequences, max_int(1, d->max_rows / l->max_sequences));
  try(measure_forward(d, logit_rows));
  add_spans(d, true, l->max_prompts, max_int(1, d->max_rows / l->max_prompts));
  try(measure_forward(d, logit_rows));
  add_spans(d, true, l->max_prompts, d->max_rows);
  return measure_forward(d, logit_rows);
}

Status decoder_measure(Decoder *d, int logit_rows, size_t *bytes) {
  const Tape tape = d->tape;
  try(panels_renew(d->m, &(Ctx){.pool = d->m->pool, .cpu = d->m->cpu}));
  mem_measure_begin();
  Status s = model_tape(d->m, &d->tape);
  d->tape.off = true;
  if (s == GRPO_OK) s = measure_forwards(d, logit_rows);
  *bytes = d->tape.arena.high;
  tape_free(&d->tape);
  mem_measure_end();
  d->tape = tape;
  d->tape.cx.arena = &d->tape.arena;
  return s;
}

Status decoder_reserve_mask(const Decoder *d, Completion *o) {
  const int vocab = d->m->config.vocab_size, mask_tokens = sampling_mask_tokens(d->sampling, vocab);
  const size_t most = sampling_mask_words(vocab, mask_tokens, d->sampling->max_new_tokens);
  const size_t need = o->sampling_mask->len + token_set_words(vocab, mask_tokens);
  if (need <= o->sampling_mask->room) return GRPO_OK;
  return sampling_mask_reserve(o->sampling_mask, max_size(need, min_size(2 * need, most)));
}
