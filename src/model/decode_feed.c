#include "model/decode_feed.h"

#include "model/decode_grammar.h"
#include "model/decode_steps.h"

void decoder_feed_open(Decoder *d) {
  d->request = NULL;
  d->nrequests = d->next_request = d->next_out = 0;
  d->sampling = NULL;
  d->out = d->diverged = NULL;
  d->cancel = NULL;
  d->guessed = d->met = 0;
  decoder_forget(d);
  d->dirty = true; /* a later decoder_run begins with empty caches */
}

Status decoder_feed_add(Decoder *d, const Request *r, const Sampling *s, Completion *out,
                        bool *taken) {
  *taken = false;
  try(sampling_check(s));
  try(stop_check(&d->stop, s));
  if (s->max_new_tokens > d->limits.max_new_tokens)
    return fail(GRPO_EARG, "decoder: max_new_tokens = %d, but the decoder was made for %d",
                s->max_new_tokens, d->limits.max_new_tokens);
  try(decoder_check_request(d, r, 1));
  if (r->n < 1) return fail(GRPO_EARG, "decoder: a request has at least one completion");
  Resident *place = decoder_unused_resident(d);
  if (!place) return GRPO_OK;
  if (s->grammar) try(decoder_grammar_open(d, &place->matcher, s));
  for (int i = 0; i < r->n; i++) out[i].len = 0, out[i].over = false;
  decoder_admit(d, &(Resident){.request = r, .sampling = s, .out = out});
  *taken = true;
  return GRPO_OK;
}

static bool is_busy(const Decoder *d) {
  for (int i = 0; i < d->limits.max_prompts; i++)
    if (d->resident[i].request) return true;
  return false;
}

/* A step prefills one piece of a prompt, so that a long one does not keep the others waiting. */
static Status step(Decoder *d) {
  bool more;
  try(decoder_prefill_some(d, &more));
  try(decoder_start_sequences(d));
  return d->nactive ? decoder_advance(d) : GRPO_OK;
}

Status decoder_feed_step(Decoder *d, bool *busy) {
  const Status s = step(d);
  if (s != GRPO_OK) decoder_forget(d);
  *busy = is_busy(d);
  d->dirty = true;
  return s;
}

static Resident *resident_of(Decoder *d, const Completion *out) {
  for (int i = 0; i < d->limits.max_prompts; i++)
    if (d->resident[i].request && d->resident[i].out == out) return &d->resident[i];
  return NULL;
}

void decoder_feed_drop(Decoder *d, const Completion *out) {
  Resident *p = resident_of(d, out);
  if (!p) return;
  p->finished += p->request->n - p->started; /* those that have not begun */
  p->started = p->request->n;
  for (int i = 0; i < d->nactive; i++)
    if (d->active[i].prompt == p) decoder_leave(d, &d->active[i]);
  decoder_drop_finished(d);
  if (!p->request) return;
  cache_give(&d->prompts, p->slot); /* no completion of it had begun */
  p->request = NULL;
}
