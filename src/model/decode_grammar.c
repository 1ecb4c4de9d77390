#include "model/decode_grammar.h"

#include "base/mem.h"
#include "model/model_struct.h"

static const char *name_of(const Sampling *s) {
  return s->grammar->regex ? "sampling.regex" : "sampling.grammar";
}

/* ---- the tokens that end a turn ------------------------------------------------------------ */

static bool is_end(const Decoder *d, const Sampling *s, int32_t id) {
  const Tokenizer *tok = d->stop.tok;
  if (id == d->tokenizer_eos || config_is_eos(&d->m->config, id)) return true;
  if (!tokenizer_is_special(tok, id)) return false;
  for (int i = 0; i < s->num_stop; i++)
    if (tokenizer_id(tok, s->stop[i]) == id) return true;
  return false;
}

static Status open_with(const Decoder *d, Matcher **m, const Sampling *s, int32_t *ends) {
  const int vocab = d->m->config.vocab_size;
  const uint32_t *allowed;
  int n = 0;
  for (int32_t id = 0; id < vocab; id++)
    if (is_end(d, s, id)) ends[n++] = id;
  if (!matcher_fits(*m, s->grammar, ends, n)) {
    matcher_free(*m);
    *m = NULL;
    try(matcher_new(m, s->grammar, d->stop.tok, vocab, ends, n));
  }
  try(matcher_allowed(*m, 0, &allowed, &n));
  return n ? GRPO_OK : fail(GRPO_EARG, "no token of the vocabulary can begin a text of it");
}

static Status open_grammar(const Decoder *d, Matcher **m, const Sampling *s) {
  if (!d->stop.tok) return fail(GRPO_EARG, "it needs a tokenizer");
  int32_t *ends = mem_alloc((size_t)d->m->config.vocab_size * sizeof *ends);
  if (!ends) return fail(GRPO_ENOMEM, "no memory for its end tokens");
  const Status status = open_with(d, m, s, ends);
  mem_free(ends);
  return status;
}

Status decoder_grammar_open(Decoder *d, Matcher **m, const Sampling *s) {
  const Status status = open_grammar(d, m, s);
  return status == GRPO_OK ? status : err_context(status, "%s", name_of(s));
}

/* ---- a run ---------------------------------------------------------------------------------- */

Status decoder_grammar_begin(Decoder *d) {
  return d->sampling->grammar ? decoder_grammar_open(d, &d->matcher, d->sampling) : GRPO_OK;
}

static Matcher *matcher_of(const Decoder *d, const ActiveSequence *s) {
  if (!s->prompt->sampling->grammar) return NULL;
  return d->sampling ? d->matcher : s->prompt->matcher;
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

static Status allow(Matcher *m, SampleJob *j) {
  int n;
  try(follow(m, j->seq));
  if (j->seq->state == MATCHER_DEAD)
    return fail(GRPO_EINTERNAL, "a sampled token does not follow it");
  try(matcher_allowed(m, j->seq->state, &j->allowed, &n));
  return n ? GRPO_OK
           : fail(GRPO_EARG,
                  "no token of the vocabulary can follow after %d tokens of a completion; "
                  "the vocabulary lacks a character that it needs",
                  j->seq->out->len - j->seq->turn);
}

/* Other requests of a feed have nothing to do with the grammar of this one. */
static Status allow_one(const Decoder *d, SampleJob *j) {
  Matcher *m = matcher_of(d, j->seq);
  const Status s = m ? allow(m, j) : GRPO_OK;
  j->barred = !d->sampling && (s == GRPO_EARG || s == GRPO_ELIMIT);
  if (s == GRPO_OK || j->barred) return GRPO_OK;
  return err_context(s, "%s", name_of(j->seq->prompt->sampling));
}

Status decoder_grammar_jobs(Decoder *d) {
  for (int i = 0; i < d->njobs; i++) {
    Matcher *m = matcher_of(d, d->job[i].seq);
    if (m) try(matcher_trim(m));
  }
  for (int i = 0; i < d->njobs; i++) try(allow_one(d, &d->job[i]));
  return GRPO_OK;
}
