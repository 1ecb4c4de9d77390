#include "model/decode_grammar.h"

#include "base/mem.h"
#include "model/model_struct.h"

static const char *name_of(const Decoder *d) {
  return d->sampling->grammar->regex ? "sampling.regex" : "sampling.grammar";
}

/* ---- the tokens that end a turn ------------------------------------------------------------ */

static bool is_end(const Decoder *d, int32_t id) {
  const Tokenizer *tok = d->stop.tok;
  if (id == d->tokenizer_eos || config_is_eos(&d->m->config, id)) return true;
  if (!tokenizer_is_special(tok, id)) return false;
  for (int i = 0; i < d->sampling->num_stop; i++)
    if (tokenizer_id(tok, d->sampling->stop[i]) == id) return true;
  return false;
}

/* Keeps the matcher of the run before where it is the same one. */
static Status open_with(Decoder *d, int32_t *ends) {
  const int vocab = d->m->config.vocab_size;
  const uint32_t *allowed;
  int n = 0;
  for (int32_t id = 0; id < vocab; id++)
    if (is_end(d, id)) ends[n++] = id;
  if (!matcher_fits(d->matcher, d->sampling->grammar, ends, n)) {
    matcher_free(d->matcher);
    d->matcher = NULL;
    try(matcher_new(&d->matcher, d->sampling->grammar, d->stop.tok, vocab, ends, n));
  }
  try(matcher_allowed(d->matcher, 0, &allowed, &n));
  return n ? GRPO_OK : fail(GRPO_EARG, "no token of the vocabulary can begin a text of it");
}

static Status open(Decoder *d) {
  if (!d->stop.tok) return fail(GRPO_EARG, "it needs a tokenizer");
  int32_t *ends = mem_alloc((size_t)d->m->config.vocab_size * sizeof *ends);
  if (!ends) return fail(GRPO_ENOMEM, "no memory for its end tokens");
  const Status s = open_with(d, ends);
  mem_free(ends);
  return s;
}

/* ---- a run ---------------------------------------------------------------------------------- */

Status decoder_grammar_begin(Decoder *d) {
  if (!d->sampling->grammar) return GRPO_OK;
  const Status s = open(d);
  return s == GRPO_OK ? s : err_context(s, "%s", name_of(d));
}

/* Takes the state of a sequence to its newest token. */
static Status follow(Matcher *m, ActiveSequence *s) {
  const bool again = s->matched < s->turn || s->generation != matcher_generation(m);
  if (again) {
    s->matched = s->turn;
    s->state = 0;
    s->generation = matcher_generation(m);
  }
  for (; s->matched < s->out->len; s->matched++)
    try(matcher_token(m, &s->state, s->out->ids[s->matched]));
  return GRPO_OK;
}

static Status allow(Decoder *d, SampleJob *j) {
  int n;
  try(follow(d->matcher, j->seq));
  if (j->seq->state == MATCHER_DEAD)
    return fail(GRPO_EINTERNAL, "a sampled token does not follow it");
  try(matcher_allowed(d->matcher, j->seq->state, &j->allowed, &n));
  return n ? GRPO_OK
           : fail(GRPO_EARG,
                  "no token of the vocabulary can follow after %d tokens of a completion; "
                  "the vocabulary lacks a character that it needs",
                  j->seq->out->len - j->seq->turn);
}

Status decoder_grammar_jobs(Decoder *d) {
  if (!d->sampling || !d->sampling->grammar || !d->njobs) return GRPO_OK;
  Status s = matcher_trim(d->matcher);
  for (int i = 0; i < d->njobs && s == GRPO_OK; i++) s = allow(d, &d->job[i]);
  return s == GRPO_OK ? s : err_context(s, "%s", name_of(d));
}
