/* samples.c - prompts, sampling options and completions, and grpo_generate. */
#include "api/samples.h"

#include <string.h>

#include "base/mem.h"
#include "model/sampler.h"

/* ---- sampling --------------------------------------------------------------------- */

static grpo_sampling defaults(void) {
  Sampling s;
  sampling_init(&s);
  grpo_sampling o = {
      .size = sizeof(grpo_sampling),
#define NUMBER(path, field, ...) .field = s.field,
#define INT(path, field, ...)    .field = s.field,
#include "model/sampling.def"
  };
  o.max_new_tokens = 0; /* 256, or what a trainer was made for */
  return o;
}

grpo_status grpo_sampling_init(grpo_sampling *o, size_t size) {
  const grpo_sampling d = defaults();
  return options_init_grown(o, size, &d, sizeof d, FIRST_SAMPLING);
}

void sampling_release(const Sampling *s) {
  regex_free(s->stop_regex);
  grammar_free(s->grammar);
}

static Status take_grammar(const grpo_sampling *o, Sampling *out) {
  const char *text = o->regex ? o->regex : o->grammar;
  if (!text) return GRPO_OK;
  if (o->regex && o->grammar)
    return fail(GRPO_EARG, "sampling.grammar: give grammar or regex, not both");
  const Status s =
      (o->regex ? grammar_from_regex : grammar_from_gbnf)(&out->grammar, text, strlen(text));
  return s == GRPO_OK ? s : err_context(s, "sampling.%s", o->regex ? "regex" : "grammar");
}

Status sampling_take(const grpo_sampling *o, Sampling *out) {
  if (o->max_new_tokens < 0 || o->n < 0)
    return fail(GRPO_EARG, "sampling: neither max_new_tokens (%d) nor n (%d) may be negative",
                o->max_new_tokens, o->n);
  if (o->stops > 1000)
    return fail(GRPO_EARG, "sampling: got %zu stop strings, want at most 1000", o->stops);
  if (o->stops) try(need(o->stop, "sampling.stop"));
  for (size_t i = 0; i < o->stops; i++) try(need(o->stop[i], "sampling.stop"));
  sampling_init(out);
  const int longest = o->max_new_tokens ? o->max_new_tokens : out->max_new_tokens;
#define NUMBER(path, field, ...) out->field = o->field;
#define INT(path, field, ...)    out->field = o->field;
#include "model/sampling.def"
  out->max_new_tokens = longest;
  out->stop = o->stop;
  out->num_stop = (int)o->stops;
  if (o->stop_regex) try(regex_compile(&out->stop_regex, o->stop_regex, strlen(o->stop_regex), 0));
  try(take_grammar(o, out));
  return sampling_check(out);
}

Status prompts_check(const grpo_prompt *p, size_t n) {
  if (n < 1 || n > 1 << 20) return fail(GRPO_EARG, "prompts: got %zu, want 1 to %d", n, 1 << 20);
  try(need(p, "prompts"));
  for (size_t i = 0; i < n; i++) {
    try(need(p[i].ids, "prompts[].ids"));
    if (p[i].length < 1 || p[i].length > 1 << 24)
      return fail(GRPO_EARG, "prompts[%zu]: its length is %zu, want at least 1", i, p[i].length);
  }
  return GRPO_OK;
}

/* ---- completions as the host sees them ------------------------------------------- */

Status texts_decode(Texts *t, const Tokenizer *tok, const Completion *c, size_t n) {
  buf_clear(&t->bytes);
  if (!tok) return GRPO_OK;
  if (n + 1 > t->cap) {
    size_t *grown = mem_realloc(t->at, (n + 1) * sizeof *grown);
    if (!grown) return fail(GRPO_ENOMEM, "texts of %zu completions", n);
    t->at = grown;
    t->cap = n + 1;
  }
  for (size_t i = 0; i < n; i++) {
    t->at[i] = t->bytes.len;
    try(tokenizer_decode(tok, c[i].ids, (size_t)c[i].len, true, &t->bytes));
    buf_putc(&t->bytes, 0);
  }
  t->at[n] = t->bytes.len;
  return buf_status(&t->bytes);
}

void texts_free(Texts *t) {
  buf_free(&t->bytes);
  mem_free(t->at);
  *t = (Texts){0};
}

void sample_fill(grpo_sample *s, const Completion *c, const Texts *t, size_t i, int group) {
  *s = (grpo_sample){.size = sizeof *s,
                     .ids = c->ids,
                     .logprobs = c->logp,
                     .length = (size_t)c->len,
                     .sampled = c->sampled,
                     .finish = finish_name(c->finish),
                     .prompt = (int64_t)i / group,
                     .index = (int64_t)i % group};
  if (!t->at) return;
  s->text = t->bytes.data + t->at[i];
  s->text_length = t->at[i + 1] - t->at[i] - 1;
}

/* ---- tokens as they come ----------------------------------------------------------- */

/* The length of a text without the character at its end that further tokens may complete.  Decoders
 * write U+FFFD for bytes that are no UTF-8. */
static size_t complete_length(const char *text, size_t n) {
  while (n >= 3 && memcmp(text + n - 3, "\xEF\xBF\xBD", 3) == 0) n -= 3;
  for (size_t back = 1; back <= 3 && back <= n; back++) {
    const unsigned char byte = (unsigned char)text[n - back];
    if (byte < 0x80) return n;
    if (byte < 0xC0) continue;
    const size_t whole = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return back < whole ? n - back : n;
  }
  return n;
}

static Status show_text(TokenCall *t, const Completion *c, grpo_sample *s) {
  buf_clear(&t->text);
  if (!t->tok) return GRPO_OK;
  try(tokenizer_decode(t->tok, c->ids, (size_t)c->len, true, &t->text));
  s->text_length = complete_length(t->text.data, t->text.len);
  t->text.len = s->text_length;
  buf_putc(&t->text, 0);
  s->text = t->text.data;
  return buf_status(&t->text);
}

static Status call_on_token(void *user, const Completion *c) {
  TokenCall *t = user;
  grpo_sample s = {.size = sizeof s,
                   .ids = c->ids,
                   .logprobs = c->logp,
                   .length = (size_t)c->len,
                   .prompt = c->request,
                   .index = c->sample,
                   .step = t->step};
  try(show_text(t, c, &s));
  const LocaleMark ours = callback_enter(t->c);
  const grpo_status st = t->fn(t->user, &s);
  try(callback_leave(t->c, ours));
  if (st == GRPO_OK) return GRPO_OK;
  return fail(GRPO_ECANCELED, "sampling was cancelled: on_token returned %s", grpo_status_name(st));
}

TokenFn token_fn(const TokenCall *t) { return t->fn ? call_on_token : NULL; }

/* ---- generate -------------------------------------------------------------------- */

struct grpo_samples {
  HANDLE_FIELDS;
  size_t n;
  int group;
  int64_t step;
  Completion *completion; /* [n] */
  Request *request;       /* [n / group] */
  int32_t *ids;           /* [n, max_new_tokens] */
  float *logp;
  Texts texts;
};

static void samples_free(grpo_samples *s) {
  mem_free(s->completion);
  mem_free(s->request);
  mem_free(s->ids);
  mem_free(s->logp);
  texts_free(&s->texts);
  mem_free(s);
}

static Status samples_new(size_t prompts, int group, int max, grpo_samples **out) {
  const size_t n = prompts * (size_t)group;
  if (n > (size_t)1 << 24 || n * (size_t)max > (size_t)1 << 31)
    return fail(GRPO_EARG, "generate: %zu completions of %d tokens are too many for one call", n,
                max);
  grpo_samples *s = *out = mem_zalloc(sizeof *s);
  if (!s) return fail(GRPO_ENOMEM, "generate");
  s->n = n;
  s->group = group;
  s->completion = mem_zalloc(n * sizeof *s->completion);
  s->request = mem_zalloc(prompts * sizeof *s->request);
  s->ids = mem_alloc(n * (size_t)max * sizeof *s->ids);
  s->logp = mem_alloc(n * (size_t)max * sizeof *s->logp);
  if (!s->completion || !s->request || !s->ids || !s->logp)
    return fail(GRPO_ENOMEM, "generate: %zu completions", n);
  for (size_t i = 0; i < n; i++) {
    s->completion[i].ids = s->ids + i * (size_t)max;
    s->completion[i].logp = s->logp + i * (size_t)max;
  }
  return GRPO_OK;
}

static int at_most(size_t n, int most) { return n < (size_t)most ? (int)n : most; }

static Status decode(grpo_model *m, const Tokenizer *tok, const grpo_prompt *p, size_t n,
                     const grpo_sampling *o, const Sampling *sampling, grpo_samples *s) {
  enum { SIDE_BY_SIDE = 64 };
  DecoderLimits limits = {.max_sequences = at_most(s->n, SIDE_BY_SIDE),
                          .max_prompts = at_most(n, SIDE_BY_SIDE),
                          .max_prompt_tokens = 1,
                          .max_new_tokens = sampling->max_new_tokens};
  for (size_t i = 0; i < n; i++) {
    if ((int)p[i].length > limits.max_prompt_tokens) limits.max_prompt_tokens = (int)p[i].length;
    s->request[i] = (Request){
        .prompt = p[i].ids,
        .prompt_len = (int)p[i].length,
        .n = s->group,
        .key = {.seed = o->seed, .stream = RNG_USER, .step = o->step, .prompt = p[i].index}};
  }
  Decoder *d = NULL;
  TokenCall call = {
      .c = m->c, .tok = tok, .fn = o->on_token, .user = o->on_token_user, .step = o->step};
  try(decoder_new(&d, m->m, tok, &limits));
  decoder_on_token(d, token_fn(&call), &call);
  const Status st = decoder_run(d, (int)n, s->request, sampling, s->completion, NULL);
  decoder_free(d);
  buf_free(&call.text);
  try(st);
  return texts_decode(&s->texts, tok, s->completion, s->n);
}

static Status sample(grpo_model *m, grpo_tokenizer *t, const grpo_prompt *p, size_t n,
                     const grpo_sampling *o, Sampling *sampling, grpo_samples **out) {
  const int room = model_config(m->m)->max_position_embeddings - 1;
  const Tokenizer *tok = t ? t->t : NULL;
  if (!tok && (sampling->num_stop || sampling->stop_regex || sampling->grammar))
    return fail(GRPO_EARG, "generate: stop strings and grammars need a tokenizer, but it is NULL");
  if (sampling->max_new_tokens > room) sampling->max_new_tokens = room > 1 ? room : 1;
  grpo_samples *s = NULL;
  Status st = samples_new(n, o->n ? o->n : 1, sampling->max_new_tokens, &s);
  if (st == GRPO_OK) st = decode(m, tok, p, n, o, sampling, s);
  if (st == GRPO_OK) {
    s->step = o->step;
    s->c = context_retain(m->c);
    *out = s;
  } else if (s) {
    samples_free(s);
  }
  return st;
}

static Status generate(grpo_model *m, grpo_tokenizer *t, const grpo_prompt *p, size_t n,
                       const grpo_sampling *o, grpo_samples **out) {
  grpo_sampling own = defaults();
  Sampling sampling = {0};
  try(need(out, "out"));
  if (t) try(same_context(t->c, m->c, "generate: the tokenizer"));
  try(options_take_grown(&own, sizeof own, FIRST_SAMPLING, o, "grpo_sampling"));
  try(prompts_check(p, n));
  Status s = sampling_take(&own, &sampling);
  if (s == GRPO_OK) s = sample(m, t, p, n, &own, &sampling, out);
  sampling_release(&sampling);
  return s;
}

grpo_status grpo_generate(grpo_model *m, grpo_tokenizer *t, const grpo_prompt *prompts,
                          size_t count, const grpo_sampling *o, grpo_samples **out) {
  in_call(call_begin, m ? m->c : NULL, generate(m, t, prompts, count, o, out));
}

size_t grpo_samples_count(const grpo_samples *s) { return s ? s->n : 0; }

static Status sample_at(const grpo_samples *s, size_t i, grpo_sample *out) {
  grpo_sample v;
  if (i >= s->n) return fail(GRPO_EARG, "sample %zu: there are %zu samples", i, s->n);
  sample_fill(&v, &s->completion[i], &s->texts, i, s->group);
  v.step = s->step;
  return struct_put_grown(out, &v, sizeof v, FIRST_SAMPLE, "grpo_sample");
}

grpo_status grpo_samples_at(const grpo_samples *s, size_t i, grpo_sample *out) {
  in_call(call_begin, s ? s->c : NULL, sample_at(s, i, out));
}

void grpo_samples_free(grpo_samples *s) {
  if (!s || free_refused(s->c, __func__)) return;
  grpo_context *c = s->c;
  samples_free(s);
  context_release(c);
}
