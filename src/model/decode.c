/* decode.c - continuous batching: prompts are prefilled, their completions join and leave, all
 * sequences advance by one token in one forward.  Rows never influence each other, so neither the
 * limits nor the other sequences of a batch can change a bit of a sequence. */
#include "model/decode.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "kern/token_set.h"
#include "model/decode_draft.h"
#include "model/decode_grammar.h"
#include "model/decode_memory.h"
#include "model/decode_struct.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/model_struct.h"
#include "model/unnamed.h"

enum {
  PREFILL_ROWS = 512,
  LOGIT_ROWS = 64,
  CHUNK_LOGITS = 2048 /* the fewest logits that a thread samples from at a time */
};

/* ---- memory ------------------------------------------------------------------------ */

static int max_rows(const DecoderLimits *l) {
  const int64_t prompts = (int64_t)l->max_prompts * l->max_prompt_tokens;
  return max_int(l->max_sequences, prompts < PREFILL_ROWS ? (int)prompts : PREFILL_ROWS);
}

static int max_spans(const DecoderLimits *l) { return max_int(l->max_sequences, l->max_prompts); }

static int logit_rows(const DecoderLimits *l) {
  return min_int(LOGIT_ROWS, max_int(max_spans(l), DRAFT_ROWS));
}

static Status check_limits(const Config *c, const DecoderLimits *l) {
  if (l->max_sequences < 1 || l->max_prompts < 1 || l->max_prompt_tokens < 1 ||
      l->max_new_tokens < 1)
    return fail(GRPO_EARG, "decoder: every limit must be at least 1");
  if (l->max_prompt_tokens > c->max_position_embeddings)
    return fail(GRPO_EARG, "decoder: prompts of %d tokens exceed the model's context of %d",
                l->max_prompt_tokens, c->max_position_embeddings);
  return GRPO_OK;
}

static Status allocate_tables(Decoder *d) {
  const DecoderLimits *l = &d->limits;
  const size_t vocab = (size_t)d->m->config.vocab_size;
  d->max_rows = max_rows(l);
  d->max_spans = max_spans(l);
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
  d->logits = mem_alloc_aligned((size_t)logit_rows(l) * vocab * sizeof(real));
  if (!d->resident || !d->active || !d->job || !d->ids || !d->pos || !d->length || !d->span ||
      !d->run || !d->scratch || !d->prompt_logits || !d->logits)
    return fail(GRPO_ENOMEM, "decoder: no memory for tables of %d sequences", l->max_sequences);
  for (int i = 0; i < l->max_prompts; i++) {
    d->resident[i].request = -1;
    d->resident[i].logits = d->prompt_logits + (size_t)i * vocab;
  }
  return GRPO_OK;
}

static Status run_rows(Decoder *d, Tensor **x);

/* Runs one row through the model, so that memory of its first use is taken now. */
static Status warm_up(Decoder *d) {
  Tensor *x;
  size_t bytes = 0;
  try(decoder_measure(d, logit_rows(&d->limits), &bytes));
  try(arena_reserve(&d->tape.arena, bytes));
  const int slot = cache_take(&d->prompts);
  cache_set_len(&d->prompts, slot, 0, 1);
  d->ids[0] = d->pos[0] = 0;
  d->span[0] = (AttnSpan){.own = cache_segment(&d->prompts, slot), .n = 1};
  d->nrows = d->nspans = 1;
  try(run_rows(d, &x));
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

/* ---- rows through the model ---------------------------------------------------------- */

static Status run_rows(Decoder *d, Tensor **x) {
  Replay replay = {.nruns = d->nspans, .run = d->run};
  Rows r = {.n = d->nrows,
            .ids = d->ids,
            .pos = d->pos,
            .length = d->length,
            .nspans = d->nspans,
            .spans = d->span};
  if (d->activations) {
    replay.store = &d->activations->store;
    r.replay = &replay;
  }
  tape_reset(&d->tape);
  return forward_layers(d->m, &d->tape, &r, x);
}

static real inv_temp(const Decoder *d) {
  return (real)(d->sampling->temperature > 0 ? 1 / d->sampling->temperature : 1);
}

/* d->logits = the logits of n rows of the normed hidden states. */
static Status run_logits(Decoder *d, const Tensor *hidden, int row, int n) {
  const size_t k = (size_t)d->m->config.hidden_size;
  return forward_row_logits(d->m, &d->tape.cx, n, hidden->data + (size_t)row * k, d->logits);
}

/* out: the completion that the row's token is for */
static Status check_row(Decoder *d, const LogitsRow *row, Completion *out) {
  if (isfinite(row->lse)) return GRPO_OK;
  d->diverged = out;
  return forward_diverged(d->m, &d->tape.cx);
}

/* ---- prompts -------------------------------------------------------------------------- */

static const Request *request_of(const Decoder *d, const Resident *p) {
  return &d->request[p->request];
}

/* Says where the activations of the next span go: n rows from row `at` of a completion on (sample
 * -1: of the prompt). */
static void record_span(Decoder *d, const Resident *p, int sample, int at, int n) {
  if (!d->activations) return;
  const int slot = d->slots ? d->slots[p->request] : p->request;
  d->run[d->nspans] =
      (ReplayRun){d->nrows, n, rollout_activations_row(d->activations, slot, sample) + (size_t)at};
}

/* The most tokens that a prompt and a completion of it can have. */
static int most_tokens(const Decoder *d, const Resident *p) {
  const int context = d->m->config.max_position_embeddings, n = request_of(d, p)->prompt_len;
  return n + min_int(d->sampling->max_new_tokens, context - n);
}

static void add_prompt_rows(Decoder *d, Resident *p, int n) {
  const int32_t *ids = request_of(d, p)->prompt;
  record_span(d, p, -1, p->done, n);
  d->span[d->nspans++] = (AttnSpan){
      .own = cache_segment(&d->prompts, p->slot), .row = d->nrows, .n = n, .own_at = p->done};
  for (int i = 0; i < n; i++, d->nrows++) {
    d->ids[d->nrows] = ids[p->done + i];
    d->pos[d->nrows] = p->done + i;
    d->length[d->nrows] = most_tokens(d, p);
  }
  p->done += n;
  cache_set_len(&d->prompts, p->slot, 0, p->done);
}

/* Stores the logits after the last token of each prompt that this forward has completed. */
static Status finish_prompts(Decoder *d, Tensor *x, Resident *const *ended, const int *rows,
                             int n) {
  const int c = d->m->config.hidden_size;
  const size_t row_bytes = (size_t)c * sizeof(real);
  const size_t vocab = (size_t)d->m->config.vocab_size;
  Tensor *last, *hidden;
  try(tape_tensor(&d->tape, 2, (const int[]){n, c}, &last));
  for (int i = 0; i < n; i++)
    memcpy(last->data + (size_t)i * (size_t)c, x->data + (size_t)rows[i] * (size_t)c, row_bytes);
  try(forward_final_norm(d->m, &d->tape, last, &hidden));
  try(run_logits(d, hidden, 0, n));
  for (int i = 0; i < n; i++) {
    memcpy(ended[i]->logits, d->logits + (size_t)i * vocab, vocab * sizeof(real));
    logits_row(d->m->cpu, (int)vocab, ended[i]->logits, inv_temp(d), &ended[i]->row);
    if (isfinite(ended[i]->row.lse)) continue;
    Completion *first = &d->out[ended[i]->first_out];
    first->request = ended[i]->request;
    first->sample = 0;
    first->len = 0;
    return check_row(d, &ended[i]->row, first);
  }
  return GRPO_OK;
}

/* Runs one forward over as many rows of waiting prompts as fit; *more: some are left. */
static Status prefill_some(Decoder *d, bool *more) {
  Resident *ended[LOGIT_ROWS];
  int rows[LOGIT_ROWS], n = 0;
  Tensor *x;
  d->nrows = d->nspans = 0;
  *more = false;
  for (int i = 0; i < d->limits.max_prompts; i++) {
    Resident *p = &d->resident[i];
    const int left = p->request < 0 ? 0 : request_of(d, p)->prompt_len - p->done;
    const int take = min_int(left, d->max_rows - d->nrows);
    if (n == LOGIT_ROWS || take < left) *more = true;
    if (!take || n == LOGIT_ROWS) continue;
    add_prompt_rows(d, p, take);
    if (take < left) continue;
    ended[n] = p;
    rows[n++] = d->nrows - 1;
  }
  if (!d->nrows) return GRPO_OK;
  try(run_rows(d, &x));
  return n ? finish_prompts(d, x, ended, rows, n) : GRPO_OK;
}

static Resident *unused_resident(Decoder *d) {
  for (int i = 0; i < d->limits.max_prompts; i++)
    if (d->resident[i].request < 0) return &d->resident[i];
  return NULL;
}

static int waiting_completions(const Decoder *d) {
  int n = 0;
  for (int i = 0; i < d->limits.max_prompts; i++) {
    const Resident *p = &d->resident[i];
    if (p->request >= 0) n += request_of(d, p)->n - p->started;
  }
  return n;
}

/* Admits prompts while there is room for their completions. */
static Status admit(Decoder *d) {
  int room = d->limits.max_sequences - d->nactive - waiting_completions(d);
  bool more = false;
  while (room > 0 && d->next_request < d->nrequests) {
    Resident *p = unused_resident(d);
    if (!p) break;
    const int request = d->next_request++;
    if (d->request[request].n == 0) continue;
    *p = (Resident){.request = request,
                    .first_out = d->next_out,
                    .slot = cache_take(&d->prompts),
                    .logits = p->logits};
    d->next_out += d->request[request].n;
    room -= d->request[request].n;
    more = true;
  }
  while (more) try(prefill_some(d, &more));
  return GRPO_OK;
}

/* ---- tokens ----------------------------------------------------------------------------- */

/* Has the request's target a token at the completion's next position? */
static bool has_target(const Request *r, const Completion *o) {
  return o->target_logp && o->len < r->target_len;
}

/* From now on j->row is of the distribution renormalised over the tokens that the filters left. */
static void renormalise(const Decoder *d, SampleJob *j, SamplingMask *mask, real *row) {
  const int vocab = d->m->config.vocab_size;
  const uint32_t *set = mask->words + mask->len;
  mask->len += token_set_words(vocab, (int)set[0]);
  if (!set[0]) return;
  logits_row(d->m->cpu, token_set_compact(set, vocab, j->logits, row), row, inv_temp(d), &j->row);
}

static void sample_job(const Decoder *d, SampleJob *j, void *scratch) {
  const Completion *o = j->seq->out;
  const Request *r = request_of(d, j->seq->prompt);
  const int vocab = d->m->config.vocab_size;
  if (j->fresh) logits_row(d->m->cpu, vocab, j->logits, inv_temp(d), &j->row);
  if (!isfinite(j->row.lse)) return;
  RngKey key = r->key;
  key.sample += (uint32_t)o->sample;
  const SamplerInput draw = {.sampling = d->sampling,
                             .cpu = d->m->cpu,
                             .vocab = vocab,
                             .logits = j->logits,
                             .inv_temp = inv_temp(d),
                             .max = j->row.max,
                             .lse = j->row.lse,
                             .uniform = rng_uniform(&key, (uint64_t)o->len),
                             .prompt = r->prompt,
                             .ids = o->ids,
                             .prompt_len = r->prompt_len,
                             .len = o->len,
                             .allowed = j->allowed,
                             .forbidden = d->unnamed,
                             .nforbidden = d->nunnamed};
  j->token = sampler_token(
      &draw, scratch, o->sampling_mask ? o->sampling_mask->words + o->sampling_mask->len : NULL);
  if (has_target(r, o))
    j->target_logp = logits_row_logp(&j->row, j->logits[r->target[o->len]], draw.inv_temp);
  if (o->sampling_mask) renormalise(d, j, o->sampling_mask, scratch);
  j->logp = logits_row_logp(&j->row, j->logits[j->token], draw.inv_temp);
}

static int jobs_a_chunk(const Decoder *d) { return CHUNK_LOGITS / d->m->config.vocab_size + 1; }

static void sample_chunk(void *arg, int chunk, int worker) {
  const Decoder *d = arg;
  const int run = jobs_a_chunk(d), end = min_int(d->njobs, (chunk + 1) * run);
  char *scratch = d->scratch + (size_t)worker * sampler_scratch_bytes(d->m->config.vocab_size);
  for (int i = chunk * run; i < end; i++) sample_job(d, &d->job[i], scratch);
}

/* The length at which a completion ends. */
static int longest(const Decoder *d, const ActiveSequence *s) {
  return most_tokens(d, s->prompt) - request_of(d, s->prompt)->prompt_len;
}

static bool is_eos(const Decoder *d, int32_t id) {
  return id == d->tokenizer_eos || config_is_eos(&d->m->config, id);
}

/* Appends the sampled token; *over: the completion is finished. */
static Status append_token(Decoder *d, const SampleJob *j, bool *over) {
  ActiveSequence *s = j->seq;
  Completion *o = s->out;
  bool ended = is_eos(d, j->token);
  try(check_row(d, &j->row, o));
  if (has_target(request_of(d, j->seq->prompt), o)) o->target_logp[o->len] = j->target_logp;
  draft_meet(d, s, j->token);
  o->ids[o->len] = j->token;
  o->logp[o->len] = j->logp;
  if (o->entropy) o->entropy[o->len] = j->row.entropy;
  if (o->sampled) o->sampled[o->len] = 1;
  o->len++;
  o->finish = FINISH_EOS;
  if (d->on_token) try(d->on_token(d->on_token_user, o));
  if (!ended) {
    try(stop_reached(&d->stop, d->sampling, o->ids + s->turn, o->len - s->turn, &ended));
    o->finish = ended ? FINISH_STOP : FINISH_LENGTH;
  }
  s->turn_over = ended && d->on_turn;
  *over = !s->turn_over && (ended || o->len == longest(d, s));
  return GRPO_OK;
}

static void leave(Decoder *d, ActiveSequence *s) {
  Resident *p = s->prompt;
  draft_forget(d, s);
  cache_give(&d->completions, s->slot);
  s->slot = -1;
  if (++p->finished < request_of(d, p)->n) return;
  cache_give(&d->prompts, p->slot);
  p->request = -1;
}

/* Samples the tokens of all jobs, then appends them in order.  Sequences that end get slot -1. */
static Status sample_tokens(Decoder *d) {
  const int run = jobs_a_chunk(d);
  for (int i = 0; i < d->njobs; i++)
    if (d->job[i].seq->out->sampling_mask) try(decoder_reserve_mask(d, d->job[i].seq->out));
  try(decoder_grammar_jobs(d));
  pool_run(d->tape.cx.pool, (d->njobs + run - 1) / run, sample_chunk, d);
  for (int i = 0; i < d->njobs; i++) {
    bool over;
    try(append_token(d, &d->job[i], &over));
    if (over) leave(d, d->job[i].seq);
  }
  return GRPO_OK;
}

/* ---- turns ------------------------------------------------------------------------------ */

static Status inject(Decoder *d, ActiveSequence *s, const Reply *r) {
  Completion *o = s->out;
  if (!o->sampled)
    return fail(GRPO_EARG,
                "decoder: tokens cannot be injected, because the completion has no mask for them");
  for (int i = 0; i < r->n; i++, o->len++) {
    if (r->ids[i] < 0 || r->ids[i] >= d->m->config.vocab_size)
      return fail(GRPO_EARG, "injected token id %d is outside the vocabulary of %d", (int)r->ids[i],
                  d->m->config.vocab_size);
    if (o->sampling_mask) {
      try(decoder_reserve_mask(d, o));
      token_set_begin(o->sampling_mask->words + o->sampling_mask->len++, d->m->config.vocab_size,
                      d->m->config.vocab_size);
    }
    o->ids[o->len] = r->ids[i];
    o->logp[o->len] = 0;
    if (o->entropy) o->entropy[o->len] = 0;
    o->sampled[o->len] = 0;
    if (o->target_logp) o->target_logp[o->len] = 0;
  }
  s->turn = o->len;
  return GRPO_OK;
}

static Status end_turn(Decoder *d, ActiveSequence *s) {
  Reply r = {0};
  s->turn_over = false;
  try(d->on_turn(d->on_turn_user, s->out, s->turn, &r));
  if (r.continues && r.n < longest(d, s) - s->out->len) return inject(d, s, &r);
  if (r.continues) s->out->finish = FINISH_LENGTH;
  leave(d, s);
  return GRPO_OK;
}

/* Calls come in the order of completions, which is not that of slots. */
static Status end_turns(Decoder *d) {
  while (d->on_turn) {
    ActiveSequence *first = NULL;
    for (int i = 0; i < d->nactive; i++) {
      ActiveSequence *s = &d->active[i];
      if (s->slot >= 0 && s->turn_over && (!first || s->out < first->out)) first = s;
    }
    if (!first) break;
    try(end_turn(d, first));
  }
  return GRPO_OK;
}

static void drop_finished(Decoder *d) {
  int n = 0;
  for (int i = 0; i < d->nactive; i++)
    if (d->active[i].slot >= 0) d->active[n++] = d->active[i];
  d->nactive = n;
}

/* Starts completions of resident prompts while there is room, each with its first token. */
static Status start_sequences(Decoder *d) {
  d->njobs = 0;
  for (int i = 0; i < d->limits.max_prompts; i++) {
    Resident *p = &d->resident[i];
    while (p->request >= 0 && p->started < request_of(d, p)->n &&
           d->nactive < d->limits.max_sequences) {
      const int sample = p->started++;
      ActiveSequence *s = &d->active[d->nactive++];
      *s = (ActiveSequence){
          .prompt = p, .out = &d->out[p->first_out + sample], .slot = cache_take(&d->completions)};
      s->out->len = 0;
      s->out->request = p->request;
      s->out->sample = sample;
      d->job[d->njobs++] = (SampleJob){.seq = s, .logits = p->logits, .row = p->row};
    }
  }
  try(sample_tokens(d));
  try(end_turns(d));
  drop_finished(d);
  return GRPO_OK;
}

/* The next n tokens become rows, and so do the guesses behind them. */
static void add_rows_of(Decoder *d, ActiveSequence *s, int n) {
  const int at = s->done, rows = n + s->drafts;
  record_span(d, s->prompt, s->out->sample, at, rows);
  d->span[d->nspans++] = (AttnSpan){.prefix = cache_segment(&d->prompts, s->prompt->slot),
                                    .own = cache_segment(&d->completions, s->slot),
                                    .row = d->nrows,
                                    .n = rows,
                                    .own_at = at};
  for (int i = 0; i < rows; i++, d->nrows++) {
    d->ids[d->nrows] = s->out->ids[at + i];
    d->pos[d->nrows] = request_of(d, s->prompt)->prompt_len + at + i;
    d->length[d->nrows] = most_tokens(d, s->prompt);
  }
  s->begun = at;
  s->done += n;
  s->stored = at + rows;
  cache_set_len(&d->completions, s->slot, request_of(d, s->prompt)->prompt_len, s->stored);
}

/* How many rows may hold guesses of active sequence i, if `spare` rows are left.  Rows that the
 * sequences before it did not use are shared by it and the later ones. */
static int guess_rows(const Decoder *d, int i, int spare) {
  const ActiveSequence *s = &d->active[i];
  const int left = d->nactive - i, filled = d->nrows + left;
  return min_int(min_int(spare, (d->draft_rows - filled) / left), longest(d, s) - s->out->len - 1);
}

/* The newest token of every active sequence becomes a row.  So do the injected tokens before it, as
 * far as there is room; the others become rows of later forwards.  Where sequences are few, guesses
 * become rows too. */
static void add_sequence_rows(Decoder *d) {
  int spare = d->max_rows - d->nactive, kept = 0;
  d->nrows = d->nspans = 0;
  for (int i = 0; i < d->nactive; i++) {
    ActiveSequence *s = &d->active[i];
    const int more = min_int(s->out->len - s->done - 1, spare);
    const bool all = s->done + 1 + more == s->out->len;
    spare -= more;
    s->drafts = all ? draft_tokens(d, s, guess_rows(d, i, spare) - draft_again(d, more)) : 0;
    s->spare = s->drafts && d->spare.slots ? cache_segment(&d->spare, kept++) : NULL;
    if (s->spare) cache_keep_states(&d->completions, s->slot, s->spare);
    d->guessed += s->drafts;
    spare -= s->drafts;
    add_rows_of(d, s, 1 + more);
  }
}

/* Moves the rows that tokens are sampled from to the front of x: the last one of each sequence, and
 * those of its guesses. */
static Tensor last_rows(Decoder *d, const Tensor *x) {
  const int c = d->m->config.hidden_size;
  const size_t row_bytes = (size_t)c * sizeof(real);
  int n = 0;
  for (int i = 0; i < d->nactive; i++) {
    const int last = d->span[i].row + d->span[i].n - 1 - d->active[i].drafts;
    const int rows = 1 + d->active[i].drafts;
    d->active[i].row = n;
    if (last != n)
      memmove(x->data + (size_t)n * (size_t)c, x->data + (size_t)last * (size_t)c,
              (size_t)rows * row_bytes);
    n += rows;
  }
  return tensor_view(x->data, 2, (const int[]){n, c});
}

/* Samples the next tokens of the sequences first .. first + n - 1, whose logits begin at row `at`,
 * and those behind each guess that was met. */
static Status sample_sequences(Decoder *d, int first, int n, int at) {
  const size_t vocab = (size_t)d->m->config.vocab_size;
  do {
    d->njobs = 0;
    for (int i = first; i < first + n; i++) {
      ActiveSequence *s = &d->active[i];
      /* it is over, waits for the next forward, or for the rest of its injected tokens */
      if (s->slot < 0 || s->turn_over || s->row < 0 || s->done < s->out->len) continue;
      d->job[d->njobs++] =
          (SampleJob){.seq = s, .logits = d->logits + (size_t)(s->row - at) * vocab, .fresh = true};
      s->row = s->drafts > 0 ? s->row + 1 : -1;
    }
    try(sample_tokens(d));
  } while (d->njobs > 0);
  return GRPO_OK;
}

static Status advance(Decoder *d) {
  Tensor *x, *hidden;
  add_sequence_rows(d);
  try(run_rows(d, &x));
  Tensor last = last_rows(d, x);
  try(forward_final_norm(d->m, &d->tape, &last, &hidden));
  for (int i = 0, n, at = 0, rows; i < d->nactive; i += n, at += rows) {
    for (n = rows = 0; i + n < d->nactive; n++) {
      const int more = 1 + d->active[i + n].drafts;
      if (rows + more > logit_rows(&d->limits)) break;
      rows += more;
    }
    try(run_logits(d, hidden, at, rows));
    try(sample_sequences(d, i, n, at));
  }
  try(end_turns(d));
  for (int i = 0; i < d->nactive; i++) draft_forget(d, &d->active[i]);
  drop_finished(d);
  return GRPO_OK;
}

/* ---- a run ---------------------------------------------------------------------------------- */

static Status check_requests(const Decoder *d) {
  const Config *c = &d->m->config;
  for (int i = 0; i < d->nrequests; i++) {
    const Request *r = &d->request[i];
    if (r->prompt_len < 1) return fail(GRPO_EARG, "prompt %d is empty", i + 1);
    if (r->prompt_len > d->limits.max_prompt_tokens)
      return fail(GRPO_EARG, "prompt %d has %d tokens, but the decoder was made for %d", i + 1,
                  r->prompt_len, d->limits.max_prompt_tokens);
    if (r->prompt_len >= c->max_position_embeddings)
      return fail(GRPO_EARG, "prompt %d has %d tokens and fills the model's context of %d", i + 1,
                  r->prompt_len, c->max_position_embeddings);
    for (int k = 0; k < r->prompt_len; k++)
      if (r->prompt[k] < 0 || r->prompt[k] >= c->vocab_size)
        return fail(GRPO_EARG, "prompt %d: token id %d is outside the vocabulary of %d", i + 1,
                    (int)r->prompt[k], c->vocab_size);
    for (int k = 0; k < r->target_len; k++)
      if (r->target[k] < 0 || r->target[k] >= c->vocab_size)
        return fail(GRPO_EARG, "target %d: token id %d is outside the vocabulary of %d", i + 1,
                    (int)r->target[k], c->vocab_size);
  }
  return GRPO_OK;
}

static Status run_all(Decoder *d) {
  for (;;) {
    if (d->cancel && *d->cancel) return fail(GRPO_ELIMIT, "generation was cancelled");
    try(admit(d));
    try(start_sequences(d));
    if (d->nactive)
      try(advance(d));
    else if (d->next_request == d->nrequests && !waiting_completions(d))
      return GRPO_OK;
  }
}

static void forget_everything(Decoder *d) {
  cache_clear(&d->prompts);
  cache_clear(&d->completions);
  for (int i = 0; i < d->limits.max_prompts; i++) d->resident[i].request = -1;
  d->nactive = 0;
  d->dirty = false;
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
  try(sampling_check(s));
  try(stop_check(&d->stop, s));
  try(decoder_grammar_begin(d));
  if (s->max_new_tokens > d->limits.max_new_tokens)
    return fail(GRPO_EARG, "decoder: max_new_tokens = %d, but the decoder was made for %d",
                s->max_new_tokens, d->limits.max_new_tokens);
  try(check_requests(d));
  if (d->dirty) forget_everything(d);
  d->dirty = true;
  try(run_all(d));
  d->dirty = false;
  return GRPO_OK;
}
