#include "model/decode_draft.h"

#include "base/minmax.h"
#include "kern/dispatch.h"
#include "model/model_struct.h"

enum {
  /* How many of the completion's last tokens a guess must follow, at least.  After two tokens
   * one guess of ten is met, after three one of three or more (bench/results). */
  MATCH_LEAST = 3,
  MATCH_MOST = 8, /* more say nothing more */
  GUESSES = 7,    /* of a sequence: with its newest token they are a tile of rows */
  /* One of FEW guesses has to be met, once TRIAL have been made. */
  FEW = 5,
  TRIAL = 64
};

/* Products in float32 with weights in fewer bits take twice as long for 16 rows as for 8. */
static bool unpacks(const Model *m) {
  for (int i = 0; i < m->nparams; i++)
    if (m->param[i].t.quant && m->param[i].t.quant->type != QUANT_F32) return true;
  return false;
}

int draft_rows(const Model *m) {
  return kern_bf16(m->cpu) && (m->compute == COMPUTE_BF16 || !unpacks(m)) ? DRAFT_ROWS : 0;
}

/* A prompt and what follows it. */
typedef struct Text {
  const int32_t *prompt, *ids;
  int prompt_len, len;
} Text;

/* token i behind the prompt; those before are negative */
static int32_t token_at(const Text *t, int i) {
  return i < 0 ? t->prompt[t->prompt_len + i] : t->ids[i];
}

/* The longest match so far, and where the text goes on behind it. */
typedef struct Match {
  int length;
  Text in;
  int next;
} Match;

/* The number of tokens up to position i of `in` that are the last ones of `text`. */
static int match_length(const Text *text, const Text *in, int i) {
  const int most = min_int(MATCH_MOST, text->prompt_len + min_int(i + 1, text->len));
  int n = 0;
  while (n < most && token_at(in, i - n) == token_at(text, text->len - 1 - n)) n++;
  return n;
}

/* Looks at positions from .. to - 1 of `in`, the last one first. */
static void look(const Text *text, const Text *in, int from, int to, Match *best) {
  const int32_t last = token_at(text, text->len - 1);
  for (int i = to; i-- > from && best->length < MATCH_MOST;) {
    if (token_at(in, i) != last) continue;
    const int n = match_length(text, in, i);
    if (n > best->length) *best = (Match){n, *in, i + 1};
  }
}

int draft_tokens(const Decoder *d, const ActiveSequence *s, int most) {
  const Resident *p = s->prompt;
  const Request *r = p->request;
  const Text text = {r->prompt, s->out->ids, r->prompt_len, s->out->len};
  Match best = {0};
  if (most <= 0 || d->met * FEW < d->guessed - TRIAL) return 0;
  look(&text, &text, 0, text.len - 1, &best);
  for (int k = 0; k < p->started; k++) {
    const Completion *o = &p->out[k];
    const Text other = {r->prompt, o->ids, r->prompt_len, o->len};
    if (o != s->out) look(&text, &other, 0, other.len - 1, &best);
  }
  look(&text, &text, -text.prompt_len, 0, &best);
  if (best.length < MATCH_LEAST) return 0;
  const int n = min_int(min_int(most, GUESSES), best.in.len - best.next);
  for (int i = 0; i < n; i++) s->out->ids[text.len + i] = token_at(&best.in, best.next + i);
  return n;
}

void draft_meet(Decoder *d, ActiveSequence *s, int32_t token) {
  if (s->drafts == 0) return;
  if (s->out->ids[s->out->len] != token) {
    s->drafts = 0;
    return;
  }
  s->drafts--;
  s->done++;
  d->met++;
}

int draft_again(const Decoder *d, int before) { return d->spare.slots ? before : 0; }

void draft_forget(Decoder *d, ActiveSequence *s) {
  s->drafts = 0;
  s->done = min_int(s->done, s->out->len - 1); /* the newest token becomes a row again */
  if (s->spare) {
    const bool back = s->stored > s->done;
    if (back) s->done = s->begun;
    cache_choose_states(&d->completions, s->slot, s->spare, back);
    s->spare = NULL;
  }
  if (s->stored > s->done) cache_rewind(&d->completions, s->slot, s->done, s->stored);
  s->stored = s->done;
}
