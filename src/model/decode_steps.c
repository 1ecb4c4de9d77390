#include "model/decode_steps.h"

#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "kern/token_set.h"
#include "model/decode_draft.h"
#include "model/decode_grammar.h"
#include "model/decode_memory.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/model_struct.h"
#include "model/top_tokens.h"

enum {
  LOGIT_ROWS = 64,
  CHUNK_LOGITS = 2048 /* the fewest logits that a thread samples from at a time */
};

/* ---- limits -------------------------------------------------------------------------- */

int decoder_max_spans(const DecoderLimits *l) { return max_int(l->max_sequences, l->max_prompts); }

int decoder_logit_rows(const DecoderLimits *l) {
  return min_int(LOGIT_ROWS, max_int(decoder_max_spans(l), DRAFT_ROWS));
}

Status decoder_check_request(const Decoder *d, const Request *r, int number) {
  const Config *c = &d->m->config;
  if (r->prompt_len < 1) return fail(GRPO_EARG, "prompt %d is empty", number);
  if (r->prompt_len > d->limits.max_prompt_tokens)
    return fail(GRPO_EARG, "prompt %d has %d tokens, but the decoder was made for %d", number,
                r->prompt_len, d->limits.max_prompt_tokens);
  if (r->prompt_len >= c->max_position_embeddings)
    return fail(GRPO_EARG, "prompt %d has %d tokens and fills the model's context of %d", number,
                r->prompt_len, c->max_position_embeddings);
  for (int k = 0; k < r->prompt_len; k++)
    if (r->prompt[k] < 0 || r->prompt[k] >= c->vocab_size)
      return fail(GRPO_EARG, "prompt %d: token id %d is outside the vocabulary of %d", number,
                  (int)r->prompt[k], c->vocab_size);
  for (int k = 0; k < r->target_len; k++)
    if (r->target[k] < 0 || r->target[k] >= c->vocab_size)
      return fail(GRPO_EARG, "target %d: token id %d is outside the vocabulary of %d", number,
                  (int)r->target[k], c->vocab_size);
  return GRPO_OK;
}

void decoder_forget(Decoder *d) {
  cache_clear(&d->prompts);
  cache_clear(&d->completions);
  for (int i = 0; i < d->limits.max_prompts; i++) d->resident[i].request = NULL;
  d->nactive = 0;
  d->dirty = false;
}

/* ---- rows through the model ---------------------------------------------------------- */

Status decoder_run_rows(Decoder *d, Tensor **x) {
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

static real inv_temp(const Sampling *s) {
  return (real)(s->temperature > 0 ? 1 / s->temperature : 1);
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

/* Says where the activations of the next span go: n rows from row `at` of a completion on (sample
 * -1: of the prompt). */
static void record_span(Decoder *d, const Resident *p, int sample, int at, int n) {
  if (!d->activations) return;
  const int slot = d->slots ? d->slots[p->number] : p->number;
  d->run[d->nspans] =
      (ReplayRun){d->nrows, n, rollout_activations_row(d->activations, slot, sample) + (size_t)at};
}

/* The most tokens that a prompt and a completion of it can have. */
static int most_tokens(const Decoder *d, const Resident *p) {
  const int context = d->m->config.max_position_embeddings, n = p->request->prompt_len;
  return n + min_int(p->sampling->max_new_tokens, context - n);
}

static void add_prompt_rows(Decoder *d, Resident *p, int n) {
  const int32_t *ids = p->request->prompt;
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
    logits_row(d->m->cpu, (int)vocab, ended[i]->logits, inv_temp(ended[i]->sampling),
               &ended[i]->row);
    if (isfinite(ended[i]->row.lse)) continue;
    Completion *first = ended[i]->out;
    first->request = ended[i]->number;
    first->sample = 0;
    first->len = 0;
    return check_row(d, &ended[i]->row, first);
  }
  return GRPO_OK;
}

/* Runs one forward over as many rows of waiting prompts as fit; *more: some are left. */
Status decoder_prefill_some(Decoder *d, bool *more) {
  Resident *ended[LOGIT_ROWS];
  int rows[LOGIT_ROWS], n = 0;
  Tensor *x;
  d->nrows = d->nspans = 0;
  *more = false;
  for (int i = 0; i < d->limits.max_prompts; i++) {
    Resident *p = &d->resident[i];
    const int left = p->request ? p->request->prompt_len - p->done : 0;
    const int take = min_int(left, d->max_rows - d->nrows);
    if (n == LOGIT_ROWS || take < left) *more = true;
    if (!take || n == LOGIT_ROWS) continue;
    add_prompt_rows(d, p, take);
    if (take < left) continue;
    ended[n] = p;
    rows[n++] = d->nrows - 1;
  }
  if (!d->nrows) return GRPO_OK;
  try(decoder_run_rows(d, &x));
  return n ? finish_prompts(d, x, ended, rows, n) : GRPO_OK;
}

Resident *decoder_unused_resident(Decoder *d) {
  for (int i = 0; i < d->limits.max_prompts; i++)
    if (!d->resident[i].request) return &d->resident[i];
  return NULL;
}

void decoder_admit(Decoder *d, const Resident *r) {
  Resident *p = decoder_unused_resident(d);
  real *logits = p->logits;
  Matcher *matcher = p->matcher;
  *p = *r;
  p->matcher = matcher;
  p->slot = cache_take(&d->prompts);
  p->logits = logits;
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
  logits_row(d->m->cpu, token_set_compact(set, vocab, j->logits, row), row,
             inv_temp(j->seq->prompt->sampling), &j->row);
}

static void sample_job(const Decoder *d, SampleJob *j, void *scratch) {
  Completion *o = j->seq->out;
  const Request *r = j->seq->prompt->request;
  const Sampling *sampling = j->seq->prompt->sampling;
  const int vocab = d->m->config.vocab_size;
  if (j->fresh) logits_row(d->m->cpu, vocab, j->logits, inv_temp(sampling), &j->row);
  if (!isfinite(j->row.lse)) return;
  RngKey key = r->key;
  key.sample += (uint32_t)o->sample;
  const SamplerInput draw = {.sampling = sampling,
                             .cpu = d->m->cpu,
                             .vocab = vocab,
                             .logits = j->logits,
                             .inv_temp = inv_temp(sampling),
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
  if (o->top_n) {
    int32_t *best = o->top_ids + (size_t)o->len * (size_t)o->top_n;
    top_tokens(j->logits, vocab, o->top_n, best);
    for (int i = 0; i < o->top_n; i++)
      o->top_logp[best - o->top_ids + i] =
          logits_row_logp(&j->row, j->logits[best[i]], draw.inv_temp);
  }
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
  return most_tokens(d, s->prompt) - s->prompt->request->prompt_len;
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
  if (has_target(j->seq->prompt->request, o)) o->target_logp[o->len] = j->target_logp;
  draft_meet(d, s, j->token);
  o->ids[o->len] = j->token;
  o->logp[o->len] = j->logp;
  if (o->entropy) o->entropy[o->len] = j->row.entropy;
  if (o->sampled) o->sampled[o->len] = 1;
  o->len++;
  o->finish = FINISH_EOS;
  if (d->on_token) try(d->on_token(d->on_token_user, o));
  if (!ended) {
    try(stop_reached(&d->stop, s->prompt->sampling, o->ids + s->turn, o->len - s->turn, &ended));
    o->finish = ended ? FINISH_STOP : FINISH_LENGTH;
  }
  s->turn_over = ended && d->on_turn;
  *over = !s->turn_over && (ended || o->len == longest(d, s));
  d->sampled += *over ? s->prompt->sampling->max_new_tokens - o->len + 1 : 1;
  return GRPO_OK;
}

void decoder_leave(Decoder *d, ActiveSequence *s) {
  Resident *p = s->prompt;
  draft_forget(d, s);
  cache_give(&d->completions, s->slot);
  s->slot = -1;
  s->out->over = true;
  if (++p->finished < p->request->n) return;
  cache_give(&d->prompts, p->slot);
  p->request = NULL;
}

/* The jobs of sequences that cannot continue are over. */
static void leave_barred(Decoder *d) {
  int n = 0;
  for (int i = 0; i < d->njobs; i++) {
    ActiveSequence *s = d->job[i].seq;
    if (!d->job[i].barred) {
      d->job[n++] = d->job[i];
      continue;
    }
    s->out->finish = FINISH_LENGTH;
    decoder_leave(d, s);
  }
  d->njobs = n;
}

/* Samples the tokens of all jobs, then appends them in order.  Sequences that end get slot -1. */
static Status sample_tokens(Decoder *d) {
  const int run = jobs_a_chunk(d);
  for (int i = 0; i < d->njobs; i++)
    if (d->job[i].seq->out->sampling_mask) try(decoder_reserve_mask(d, d->job[i].seq->out));
  try(decoder_grammar_jobs(d));
  leave_barred(d);
  pool_run(d->tape.cx.pool, (d->njobs + run - 1) / run, sample_chunk, d);
  for (int i = 0; i < d->njobs; i++) {
    bool over;
    try(append_token(d, &d->job[i], &over));
    if (over) decoder_leave(d, d->job[i].seq);
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
  decoder_leave(d, s);
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

void decoder_drop_finished(Decoder *d) {
  int n = 0;
  for (int i = 0; i < d->nactive; i++)
    if (d->active[i].slot >= 0) d->active[n++] = d->active[i];
  d->nactive = n;
}

/* Starts completions of resident prompts while there is room, each with its first token. */
Status decoder_start_sequences(Decoder *d) {
  d->njobs = 0;
  for (int i = 0; i < d->limits.max_prompts; i++) {
    Resident *p = &d->resident[i];
    while (p->request && p->done == p->request->prompt_len && p->started < p->request->n &&
           d->nactive < d->limits.max_sequences) {
      const int sample = p->started++;
      ActiveSequence *s = &d->active[d->nactive++];
      *s = (ActiveSequence){
          .prompt = p, .out = p->out + sample, .slot = cache_take(&d->completions)};
      s->out->len = 0;
      s->out->over = false;
      s->out->request = p->number;
      s->out->sample = sample;
      d->job[d->njobs++] = (SampleJob){.seq = s, .logits = p->logits, .row = p->row};
    }
  }
  try(sample_tokens(d));
  try(end_turns(d));
  decoder_drop_finished(d);
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
    d->pos[d->nrows] = s->prompt->request->prompt_len + at + i;
    d->length[d->nrows] = most_tokens(d, s->prompt);
  }
  s->begun = at;
  s->done += n;
  s->stored = at + rows;
  cache_set_len(&d->completions, s->slot, s->prompt->request->prompt_len, s->stored);
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

Status decoder_advance(Decoder *d) {
  Tensor *x, *hidden;
  add_sequence_rows(d);
  try(decoder_run_rows(d, &x));
  Tensor last = last_rows(d, x);
  try(forward_final_norm(d->m, &d->tape, &last, &hidden));
  for (int i = 0, n, at = 0, rows; i < d->nactive; i += n, at += rows) {
    for (n = rows = 0; i + n < d->nactive; n++) {
      const int more = 1 + d->active[i + n].drafts;
      if (rows + more > decoder_logit_rows(&d->limits)) break;
      rows += more;
    }
    try(run_logits(d, hidden, at, rows));
    try(sample_sequences(d, i, n, at));
  }
  try(end_turns(d));
  for (int i = 0; i < d->nactive; i++) draft_forget(d, &d->active[i]);
  decoder_drop_finished(d);
  return GRPO_OK;
}
