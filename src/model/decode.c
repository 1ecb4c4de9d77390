/* decode.c - continuous batching: prompts are prefilled, their completions join and leave, all
 * sequences advance by one token in one forward.  Rows never influence each other, so neither the
 * limits nor the other sequences of a batch can change a bit of a sequence. */
#include "model/decode.h"

#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "model/decode_draft.h"
#include "model/decode_grammar.h"
#include "model/decode_memory.h"
#include "model/decode_steps.h"
#include "model/decode_struct.h"
#include "model/model_struct.h"
#include "model/unnamed.h"

enum { PREFILL_ROWS = 512 };

/* ---- memory ------------------------------------------------------------------------ */

static int max_rows(const DecoderLimits *l) {
  const int64_t prompts = (int64_t)l->max_prompts * l->max_prompt_tokens;
  return max_int(l->max_sequences, prompts < PREFILL_ROWS ? (int)prompts : PREFILL_ROWS);
}

static bool tables_fit(const Config *c, const DecoderLimits *l) {
  enum { OF_SEQUENCE = 1024 }; /* bytes in any one table, and of a layer in the cache's */
  return mem_fits((double)decoder_max_spans(l) * OF_SEQUENCE * c->num_hidden_layers) &&
         mem_fits((double)l->max_prompts * c->vocab_size * sizeof(real));
}

static Status check_limits(const Config *c, const DecoderLimits *l) {
  if (l->max_sequences < 1 || l->max_prompts < 1 || l->max_prompt_tokens < 1 ||
      l->max_new_tokens < 1)
    return fail(GRPO_EARG, "decoder: every limit must be at least 1");
  if (!tables_fit(c, l))
    return fail(GRPO_ENOMEM, "decoder: no memory for tables of %d sequences", l->max_sequences);
  if (l->max_prompt_tokens > c->max_position_embeddings)
    return fail(GRPO_EARG, "decoder: prompts of %d tokens exceed the model's context of %d",
                l->max_prompt_tokens, c->max_position_embeddings);
  return GRPO_OK;
}

static Status allocate_tables(Decoder *d) {
  const DecoderLimits *l = &d->limits;
  const size_t vocab = (size_t)d->m->config.vocab_size;
  d->max_rows = max_rows(l);
  d->max_spans = decoder_max_spans(l);
  d->resident = mem_zalloc((size_t)l->max_prompts * sizeof *d->resident);
  d->active = mem_zalloc((size_t)l->max_sequences * sizeof *d->active);
  d->job = mem_zalloc((size_t)l->max_sequences * sizeof *d->job);
  d->ids = mem_alloc((size_t)d->max_rows * sizeof *d->ids);
  d->pos = mem_alloc((size_t)d->max_rows * sizeof *d->pos);
  d->length = mem_zalloc((size_t)d->max_rows * sizeof *d->length);
  d->span = mem_alloc((size_t)d->max_spans * sizeof *d->span);
  d->run = mem_alloc((size_t)d->max_spans * sizeof *d->run);
  d->scratch =
      mem_alloc((size_t)pool_threads(d->m->pool) * sampler_scratch_bytes(d->m->config.vocab_size));
  d->prompt_logits = mem_alloc_aligned((size_t)l->max_prompts * vocab * sizeof(real));
  d->logits = mem_alloc_aligned((size_t)decoder_logit_rows(l) * vocab * sizeof(real));
  if (!d->resident || !d->active || !d->job || !d->ids || !d->pos || !d->length || !d->span ||
      !d->run || !d->scratch || !d->prompt_logits || !d->logits)
    return fail(GRPO_ENOMEM, "decoder: no memory for tables of %d sequences", l->max_sequences);
  for (int i = 0; i < l->max_prompts; i++) {
    d->resident[i].logits = d->prompt_logits + (size_t)i * vocab;
  }
  return GRPO_OK;
}

/* Runs one row through the model, so that memory of its first use is taken now. */
static Status warm_up(Decoder *d) {
  Tensor *x;
  size_t bytes = 0;
  try(decoder_measure(d, decoder_logit_rows(&d->limits), &bytes));
  try(arena_reserve(&d->tape.arena, bytes));
  const int slot = cache_take(&d->prompts);
  cache_set_len(&d->prompts, slot, 0, 1);
  d->ids[0] = d->pos[0] = 0;
  d->span[0] = (AttnSpan){.own = cache_segment(&d->prompts, slot), .n = 1};
  d->nrows = d->nspans = 1;
  try(decoder_run_rows(d, &x));
  cache_clear(&d->prompts);
  return GRPO_OK;
}

static Status decoder_init(Decoder *d, const Tokenizer *tok) {
  const Config *c = &d->m->config;
  const DecoderLimits *l = &d->limits;
  d->tokenizer_eos = tok ? tokenizer_eos(tok) : -1;
  try(unnamed_ids(c, tok, &d->unnamed, &d->nunnamed));
  try(model_tape(d->m, &d->tape));
  d->tape.off = true;
  try(allocate_tables(d));
  try(model_reserve_positions(d->m, l->max_prompt_tokens + l->max_new_tokens));
  try(stop_init(&d->stop, tok, l->max_new_tokens));
  try(decoder_caches(d));
  try(decoder_draft(d, draft_rows(d->m)));
  return warm_up(d);
}

Status decoder_new(Decoder **out, Model *m, const Tokenizer *tok, const DecoderLimits *limits) {
  try(check_limits(&m->config, limits));
  Decoder *d = mem_zalloc(sizeof *d);
  if (!d) return fail(GRPO_ENOMEM, "decoder: no memory for its tables");
  d->m = model_retain(m);
  d->limits = *limits;
  Status s = decoder_init(d, tok);
  if (s != GRPO_OK) {
    decoder_free(d);
    return s;
  }
  *out = d;
  return GRPO_OK;
}

void decoder_free(Decoder *d) {
  if (!d) return;
  mem_free(d->unnamed);
  mem_free(d->scratch);
  for (int i = 0; d->resident && i < d->limits.max_prompts; i++)
    matcher_free(d->resident[i].matcher);
  mem_free(d->resident);
  mem_free(d->active);
  mem_free(d->job);
  mem_free(d->ids);
  mem_free(d->pos);
  mem_free(d->length);
  mem_free(d->span);
  mem_free(d->run);
  mem_free_aligned(d->prompt_logits);
  mem_free_aligned(d->logits);
  stop_free(&d->stop);
  matcher_free(d->matcher);
  cache_free(&d->prompts);
  cache_free(&d->completions);
  cache_free(&d->spare);
  tape_free(&d->tape);
  model_release(d->m);
  mem_free(d);
}

/* ---- a run ---------------------------------------------------------------------------------- */

static int waiting_completions(const Decoder *d) {
  int n = 0;
  for (int i = 0; i < d->limits.max_prompts; i++) {
    const Resident *p = &d->resident[i];
    if (p->request) n += p->request->n - p->started;
  }
  return n;
}

/* Admits prompts while there is room for their completions. */
static Status admit(Decoder *d) {
  int room = d->limits.max_sequences - d->nactive - waiting_completions(d);
  bool more = false;
  while (room > 0 && d->next_request < d->nrequests) {
    if (!decoder_unused_resident(d)) break;
    const int number = d->next_request++;
    const Request *r = &d->request[number];
    if (r->n == 0) continue;
    decoder_admit(d, &(Resident){.request = r,
                                 .number = number,
                                 .sampling = d->sampling,
                                 .out = d->out + d->next_out});
    d->next_out += r->n;
    room -= r->n;
    more = true;
  }
  while (more) try(decoder_prefill_some(d, &more));
  return GRPO_OK;
}

static Status run_all(Decoder *d) {
  for (;;) {
    if (d->cancel && *d->cancel) return fail(GRPO_ELIMIT, "generation was cancelled");
    try(progress_reached("sample", d->sampled, d->most));
    try(admit(d));
    try(decoder_start_sequences(d));
    if (d->nactive)
      try(decoder_advance(d));
    else if (d->next_request == d->nrequests && !waiting_completions(d))
      return GRPO_OK;
  }
}

void decoder_on_token(Decoder *d, Status (*f)(void *user, const Completion *c), void *user) {
  d->on_token = f;
  d->on_token_user = user;
}

void decoder_on_turn(Decoder *d, TurnFn f, void *user) {
  d->on_turn = f;
  d->on_turn_user = user;
}

void decoder_record(Decoder *d, RolloutActivations *a, const int *slots) {
  d->activations = a;
  d->slots = slots;
}

Status decoder_draft(Decoder *d, int rows) {
  /* a sequence with guesses has two rows or more */
  const int sequences = min_int(d->limits.max_sequences, DRAFT_ROWS / 2);
  d->draft_rows = min_int(min_int(rows, DRAFT_ROWS), d->max_rows);
  if (d->draft_rows < 2 || d->spare.slots || !cache_has_states(&d->completions)) return GRPO_OK;
  return cache_new_states(&d->spare, &d->completions, sequences);
}

const Completion *decoder_diverged(const Decoder *d) { return d->diverged; }

Status decoder_run(Decoder *d, int nrequests, const Request *requests, const Sampling *s,
                   Completion *out, const volatile int *cancel) {
  d->request = requests;
  d->nrequests = nrequests;
  d->next_request = d->next_out = 0;
  d->sampling = s;
  d->out = out;
  d->diverged = NULL;
  d->cancel = cancel;
  d->guessed = d->met = 0;
  d->sampled = d->most = 0;
  for (int i = 0; i < nrequests; i++) d->most += (int64_t)requests[i].n * s->max_new_tokens;
  try(sampling_check(s));
  try(stop_check(&d->stop, s));
  try(decoder_grammar_begin(d));
  if (s->max_new_tokens > d->limits.max_new_tokens)
    return fail(GRPO_EARG, "decoder: max_new_tokens = %d, but the decoder was made for %d",
                s->max_new_tokens, d->limits.max_new_tokens);
  for (int i = 0; i < nrequests; i++) try(decoder_check_request(d, &requests[i], i + 1));
  if (d->dirty) decoder_forget(d);
  d->dirty = true;
  try(run_all(d));
  d->dirty = false;
  return GRPO_OK;
}
