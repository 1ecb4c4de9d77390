/* Decoding against the training forward, bit for bit, and against its own contract. */
#include "base/mem.h"
#include "kern/dispatch.h"
#include "model/decode.h"
#include "model/forward.h"
#include "model/modeltest.h"
#include "model/panels.h"
#include "model/sampler.h"
#include "text/tokenizer.h"
#include "text/tokenizer_make.h"

enum { MAX_REQUESTS = 12, MAX_OUT = 64, MAX_NEW = 24 };

typedef struct Run {
  Request request[MAX_REQUESTS];
  int nrequests, nout;
  int32_t prompt[MAX_REQUESTS][64];
  Completion out[MAX_OUT];
  int32_t ids[MAX_OUT][MAX_NEW];
  float logp[MAX_OUT][MAX_NEW], entropy[MAX_OUT][MAX_NEW];
} Run;

/* Prompts of different lengths, different numbers of completions. */
static void run_init(Run *r, int nrequests, int vocab) {
  static const int lens[] = {1, 7, 16, 17, 33, 40, 3, 15, 2, 31, 32, 5};
  memset(r, 0, sizeof *r);
  r->nrequests = nrequests;
  for (int i = 0; i < nrequests; i++) {
    const int n = i % 5 == 3 ? 6 : 1 + i % 4;
    some_ids(r->prompt[i], lens[i], vocab, 77 + (uint64_t)i);
    r->request[i] = (Request){
        r->prompt[i], lens[i], n, {.seed = 5, .stream = RNG_SAMPLE, .prompt = (uint32_t)i},
        NULL,         0};
    for (int k = 0; k < n; k++, r->nout++) {
      Completion *o = &r->out[r->nout];
      o->ids = r->ids[r->nout];
      o->logp = r->logp[r->nout];
      o->entropy = r->entropy[r->nout];
    }
  }
}

static Sampling sampling(double temperature, int max_new) {
  Sampling s;
  sampling_init(&s);
  s.temperature = temperature;
  s.max_new_tokens = max_new;
  return s;
}

static Status decode(Model *m, Run *r, const Sampling *s, int max_sequences, int max_prompts) {
  Decoder *d;
  try(decoder_new(&d, m, NULL, &(DecoderLimits){max_sequences, max_prompts, 48, MAX_NEW}));
  Status st = decoder_run(d, r->nrequests, r->request, s, r->out, NULL);
  decoder_free(d);
  return st;
}

static bool same_runs(const Run *a, const Run *b) {
  for (int i = 0; i < a->nout; i++) {
    const Completion *x = &a->out[i], *y = &b->out[i];
    const size_t n = (size_t)x->len;
    if (x->len != y->len || x->finish != y->finish || x->request != y->request ||
        x->sample != y->sample || memcmp(x->ids, y->ids, n * 4) ||
        memcmp(x->logp, y->logp, n * 4) || memcmp(x->entropy, y->entropy, n * 4))
      return false;
  }
  return true;
}

/* ---- turns ------------------------------------------------------------------------------ */

/* Up to 13 tokens are injected after a third of all tokens: pieces, where a decoder has few
 * rows. */
static Status long_reply(void *user, const Completion *c, int first, Reply *r) {
  static int32_t ids[13];
  (void)user, (void)first;
  for (int i = 0; i < 13; i++) ids[i] = (c->len + 3 * i) % 29;
  *r = (Reply){.continues = true, .ids = ids, .n = (c->request + c->sample + c->len) % 14};
  return GRPO_OK;
}

static Status decode_turns(Model *m, Run *r, uint8_t sampled[][MAX_NEW], int max_sequences,
                           int max_prompts) {
  const Sampling s = sampling(1.3, MAX_NEW);
  Decoder *d;
  run_init(r, 12, m->config.vocab_size);
  for (int i = 0; i < r->nout; i++) r->out[i].sampled = sampled[i];
  try(decoder_new(&d, m, NULL, &(DecoderLimits){max_sequences, max_prompts, 48, MAX_NEW}));
  decoder_on_turn(d, long_reply, NULL);
  const Status st = decoder_run(d, r->nrequests, r->request, &s, r->out, NULL);
  decoder_free(d);
  return st;
}

static void check_replies(const char *shape) {
  static Run a, b, c;
  static uint8_t sampled[MAX_OUT][MAX_NEW];
  int put_in = 0;
  Pool *pool;
  REQUIRE(pool_new(&pool, 2));
  Model *m = small_model(shape, pool, 3);
  m->config.num_eos = CONFIG_MAX_EOS;
  for (int i = 0; i < CONFIG_MAX_EOS; i++) m->config.eos_token_id[i] = 5 + 11 * i;
  REQUIRE(decode_turns(m, &a, sampled, 30, 1));
  REQUIRE(decode_turns(m, &b, sampled, 2, 1));
  REQUIRE(decode_turns(m, &c, sampled, 6, 4));
  for (int i = 0; i < c.nout; i++)
    for (int t = 0; t < c.out[i].len; t++) put_in += !sampled[i][t];
  CHECK(put_in > 30);
  CHECK(same_runs(&a, &b) && same_runs(&a, &c));
  model_release(m);
  pool_free(pool);
}

TEST_BOTH(long_replies_give_the_same_in_any_company) {
  for (int i = 0; i < SMALL_SHAPES; i++) check_replies(*small_shapes[i]);
}

/* ---- the same bits as training ------------------------------------------------------ */

static Status score(Model *m, Tape *t, const Run *r, double temperature, Pack *p, Tensor **out) {
  PackGroup g[MAX_REQUESTS];
  static const int32_t *ids[MAX_OUT];
  static int lens[MAX_OUT];
  Tensor *h;
  int at = 0;
  for (int i = 0; i < r->nout; i++) ids[i] = r->out[i].ids, lens[i] = r->out[i].len;
  for (int i = 0; i < r->nrequests; i++) {
    const Request *q = &r->request[i];
    g[i] = (PackGroup){q->prompt, q->prompt_len,          q->n, ids + at, lens + at,
                       0,         q->prompt_len + MAX_NEW};
    at += q->n;
  }
  try(pack_groups(&t->arena, model_config(m), r->nrequests, g, p));
  try(forward_hidden(m, t, p, &h));
  return forward_logp(m, t, p, h, temperature > 0 ? temperature : 1, NULL, NULL, out);
}

static void check_ratio_one(Model *m, const char *what, double temperature, bool trainable) {
  static Run r;
  const Sampling s = sampling(temperature, MAX_NEW);
  Pack p;
  Tape t;
  Tensor *out;
  run_init(&r, 7, model_config(m)->vocab_size);
  REQUIRE(decode(m, &r, &s, 5, 3));
  REQUIRE(model_set_trainable(m, trainable));
  OK(tape_init(&t, m->pool));
  REQUIRE(score(m, &t, &r, temperature, &p, &out));
  int at = 0, differ = 0;
  for (int i = 0; i < r.nout; i++)
    for (int k = 0; k < r.out[i].len; k++, at++)
      differ += r.out[i].logp[k] != out->data[at] || r.out[i].entropy[k] != out->data[p.nout + at];
  CHECK(at == p.nout && at > 50);
  if (differ)
    test_fail(__FILE__, __LINE__, "%s at temperature %g: %d of %d tokens differ from training",
              what, temperature, differ, at);
  tape_free(&t);
  OK(model_set_trainable(m, false));
}

static void check_shape_everywhere(const char *shape) {
  for (int k = 0; kern_path(k); k++) {
    OK(kern_select(kern_path(k)));
    for (int threads = 1; threads <= 2; threads++) {
      Pool *pool;
      REQUIRE(pool_new(&pool, threads));
      Model *m = small_model(shape, pool, 3);
      check_ratio_one(m, kern_name(NULL), 1, true);
      check_ratio_one(m, kern_name(NULL), 0.7, true);
      check_ratio_one(m, kern_name(NULL), 1.3, false);
      check_ratio_one(m, kern_name(NULL), 0, false);
      model_release(m);
      pool_free(pool);
    }
  }
  OK(kern_select(NULL));
}

#define RATIO_ONE(name, shape)                                                                     \
  TEST_BOTH(recorded_log_probabilities_are_those_of_training_##name) {                             \
    check_shape_everywhere(shape);                                                                 \
  }
RATIO_ONE(gpt2, tiny_gpt2)
RATIO_ONE(llama, tiny_llama)
RATIO_ONE(with_biases, biased_llama)
RATIO_ONE(qwen2, tiny_qwen2)
RATIO_ONE(qwen3, tiny_qwen3)
RATIO_ONE(mistral, tiny_mistral)
RATIO_ONE(gemma2, tiny_gemma2)
RATIO_ONE(gemma3, tiny_gemma3)
RATIO_ONE(phi3, tiny_phi3)
RATIO_ONE(gpt2_mla, tiny_gpt2_mla)
RATIO_ONE(deepseek_v2, tiny_deepseek)

TEST_BOTH(panels_follow_the_kernels_that_are_chosen_later) {
  Model *m = small_model(tiny_llama, NULL, 3);
  static Run a, b;
  const Sampling s = sampling(1, 8);
  run_init(&a, 3, 101), run_init(&b, 3, 101);
  REQUIRE(decode(m, &a, &s, 4, 2));
  OK(kern_select("generic"));
  REQUIRE(decode(m, &b, &s, 4, 2));
  OK(kern_select(NULL));
  REQUIRE(decode(m, &b, &s, 4, 2));
  CHECK(same_runs(&a, &b));
  model_release(m);
}

/* ---- nothing but the request matters ----------------------------------------------------- */

static void check_company(const char *shape, const Sampling *s) {
  static const int limits[][2] = {{1, 1}, {2, 1}, {3, 5}, {7, 2}, {64, 12}};
  static Run want, got;
  Pool *pool;
  Model *one = small_model(shape, NULL, 9), *two;
  REQUIRE(pool_new(&pool, 2));
  two = small_model(shape, pool, 9);
  const int vocab = model_config(one)->vocab_size;
  run_init(&want, 10, vocab);
  REQUIRE(decode(one, &want, s, 4, 4));
  for (int i = 0; i < 5; i++) {
    run_init(&got, 10, vocab);
    REQUIRE(decode(i % 2 ? one : two, &got, s, limits[i][0], limits[i][1]));
    CHECK(same_runs(&want, &got));
  }
  /* one request alone: the fourth */
  run_init(&got, 10, vocab);
  int at = 0;
  for (int i = 0; i < 3; i++) at += got.request[i].n;
  Decoder *d;
  REQUIRE(decoder_new(&d, two, NULL, &(DecoderLimits){2, 1, 48, MAX_NEW}));
  REQUIRE(decoder_run(d, 1, got.request + 3, s, got.out + at, NULL));
  for (int i = at; i < at + got.request[3].n; i++) {
    CHECK(got.out[i].len == want.out[i].len && got.out[i].request == 0);
    CHECK(!memcmp(got.out[i].ids, want.out[i].ids, (size_t)want.out[i].len * 4));
    CHECK(!memcmp(got.out[i].logp, want.out[i].logp, (size_t)want.out[i].len * 4));
  }
  decoder_free(d);
  model_release(one);
  model_release(two);
  pool_free(pool);
}

TEST_BOTH(company_limits_and_threads_change_no_bit) {
  Sampling s = sampling(1, MAX_NEW);
  for (int i = 0; i < SMALL_SHAPES; i++)
    if (i != 2) check_company(*small_shapes[i], &s);
  s = sampling(0.8, 17);
  s.top_k = 20, s.top_p = 0.9, s.min_p = 0.02, s.repetition_penalty = 1.2;
  check_company(tiny_llama, &s);
}

/* Prompts longer than a forward's rows are prefilled in pieces. */
TEST_BOTH(long_prompts_are_prefilled_in_pieces) {
  Config c;
  Model *m = NULL;
  config_of(&c, "{\"model_type\":\"llama\",\"vocab_size\":50,\"hidden_size\":16,"
                "\"intermediate_size\":24,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
                "\"max_position_embeddings\":2048,\"initializer_range\":0.3}");
  REQUIRE(model_new(&m, NULL, &c, 1));
  static int32_t prompt[1400], ids[2][8];
  static float logp[2][8];
  some_ids(prompt, 1400, 50, 4);
  const Request r[] = {{prompt, 700, 1, {.seed = 1}, NULL, 0},
                       {prompt, 1400, 1, {.seed = 1}, NULL, 0}};
  Completion out[2] = {{.ids = ids[0], .logp = logp[0]}, {.ids = ids[1], .logp = logp[1]}};
  const Sampling s = sampling(1, 8);
  Decoder *d;
  REQUIRE(decoder_new(&d, m, NULL, &(DecoderLimits){2, 2, 1400, 8}));
  REQUIRE(decoder_run(d, 2, r, &s, out, NULL));
  for (int i = 0; i < 2; i++) {
    const int32_t *completion = ids[i];
    const int len = out[i].len;
    const PackGroup g = {prompt, r[i].prompt_len, 1, &completion, &len, 0, 0};
    Pack p;
    Tape t;
    Tensor *h, *lp;
    OK(tape_init(&t, NULL));
    REQUIRE(pack_groups(&t.arena, &c, 1, &g, &p));
    REQUIRE(forward_hidden(m, &t, &p, &h));
    REQUIRE(forward_logp(m, &t, &p, h, 1, NULL, NULL, &lp));
    CHECK(len == 8 && !memcmp(lp->data, logp[i], sizeof logp[i]));
    tape_free(&t);
  }
  decoder_free(d);
  model_release(m);
}

/* ---- ends ------------------------------------------------------------------------------------ */

TEST(an_end_token_ends_and_is_included) {
  Model *m = small_model(tiny_llama, NULL, 21);
  static Run a, b;
  const Sampling s = sampling(1, MAX_NEW);
  run_init(&a, 8, 101), run_init(&b, 8, 101);
  REQUIRE(decode(m, &a, &s, 6, 3));
  m->config.num_eos = 2;
  m->config.eos_token_id[0] = a.out[0].ids[5];
  m->config.eos_token_id[1] = a.out[3].ids[0];
  REQUIRE(decode(m, &b, &s, 6, 3));
  CHECK(b.out[0].len <= 6 && b.out[0].finish == FINISH_EOS);
  CHECK(b.out[3].len == 1 && b.out[3].finish == FINISH_EOS);
  for (int i = 0; i < a.nout; i++) {
    const Completion *o = &b.out[i];
    CHECK(!memcmp(o->ids, a.out[i].ids, (size_t)o->len * 4));
    for (int k = 0; k < o->len; k++)
      CHECK(config_is_eos(&m->config, o->ids[k]) == (k == o->len - 1 && o->finish == FINISH_EOS));
    CHECK(o->finish == FINISH_EOS || o->len == MAX_NEW);
  }
  CHECK_STR(finish_name(FINISH_EOS), "eos");
  model_release(m);
}

TEST(the_context_is_never_passed) {
  Model *m = small_model(tiny_gpt2, NULL, 4); /* 80 positions */
  int32_t prompt[79], ids[MAX_NEW];
  float logp[MAX_NEW];
  some_ids(prompt, 79, 97, 1);
  Request r = {prompt, 70, 1, {0}, NULL, 0};
  Completion o = {.ids = ids, .logp = logp};
  const Sampling s = sampling(1, MAX_NEW);
  Decoder *d;
  REQUIRE(decoder_new(&d, m, NULL, &(DecoderLimits){1, 1, 80, MAX_NEW}));
  REQUIRE(decoder_run(d, 1, &r, &s, &o, NULL));
  CHECK(o.len == 10 && o.finish == FINISH_LENGTH);
  r.prompt_len = 79;
  REQUIRE(decoder_run(d, 1, &r, &s, &o, NULL));
  CHECK(o.len == 1 && o.finish == FINISH_LENGTH);
  prompt[3] = 97;
  REFUSED(decoder_run(d, 1, &r, &s, &o, NULL), GRPO_EARG, "outside the vocabulary");
  r.prompt_len = 0;
  REFUSED(decoder_run(d, 1, &r, &s, &o, NULL), GRPO_EARG, "prompt 1 is empty");
  decoder_free(d);
  model_release(m);
}

static Tokenizer *byte_tokenizer(void) {
  Tokenizer *t = NULL;
  OK(tokenizer_bytes(&t));
  return t;
}

static Model *byte_model(void) {
  return small_model("{\"model_type\":\"llama\",\"vocab_size\":258,\"hidden_size\":32,"
                     "\"intermediate_size\":48,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                     "\"max_position_embeddings\":128,\"initializer_range\":0.05}",
                     NULL, 8);
}

/* Decode 16 free completions, take a string from the middle of one, and stop at it. */
TEST(stop_strings_and_patterns_end_where_they_first_appear) {
  Model *m = byte_model();
  Tokenizer *tok = byte_tokenizer();
  static Run a, b;
  Sampling s = sampling(1, MAX_NEW);
  Decoder *d;
  run_init(&a, 6, 258), run_init(&b, 6, 258);
  REQUIRE(decoder_new(&d, m, tok, &(DecoderLimits){4, 4, 48, MAX_NEW}));
  REQUIRE(decoder_run(d, 6, a.request, &s, a.out, NULL));
  const int32_t *ids = a.out[2].ids;
  CHECK(a.out[2].len == MAX_NEW);
  char text[4] = {(char)ids[7], (char)ids[8], (char)ids[9], 0};
  CHECK(ids[7] && ids[8] && ids[9]);
  const char *stops[] = {"never in there", text};
  s.num_stop = 2;
  s.stop = stops;
  REQUIRE(decoder_run(d, 6, b.request, &s, b.out, NULL));
  CHECK(b.out[2].len == 10 && b.out[2].finish == FINISH_STOP);
  CHECK(!memcmp(b.out[2].ids, ids, 10 * 4));
  s.num_stop = 0;
  REQUIRE(regex_compile(&s.stop_regex, "[a-m].?[a-m]", 12, REGEX_DOTALL));
  REQUIRE(decoder_run(d, 6, b.request, &s, b.out, NULL));
  int stopped = 0;
  for (int i = 0; i < b.nout; i++) {
    Buf all = {0};
    bool found = false;
    const size_t *bounds;
    const int n = b.out[i].len;
    if (b.out[i].finish == FINISH_EOS) continue;
    OK(tokenizer_decode(tok, b.out[i].ids, (size_t)n - 1, false, &all));
    OK(regex_exec(s.stop_regex, n > 1 ? all.data : "", all.len, 0, &found, &bounds));
    CHECK(!found);
    OK(tokenizer_decode(tok, b.out[i].ids + n - 1, 1, false, &all));
    OK(regex_exec(s.stop_regex, all.data, all.len, 0, &found, &bounds));
    buf_free(&all);
    CHECK(found == (b.out[i].finish == FINISH_STOP));
    stopped += found;
  }
  CHECK(stopped > 0);
  regex_free(s.stop_regex);
  decoder_free(d);
  REQUIRE(decoder_new(&d, m, NULL, &(DecoderLimits){4, 4, 48, MAX_NEW}));
  s.stop_regex = NULL, s.num_stop = 1;
  REFUSED(decoder_run(d, 6, b.request, &s, b.out, NULL), GRPO_EARG, "need a tokenizer");
  decoder_free(d);
  tokenizer_free(tok);
  model_release(m);
}

/* ---- conduct --------------------------------------------------------------------------------- */

TEST_BOTH(a_second_run_allocates_nothing) {
  for (int i = 0; i < SMALL_SHAPES; i++) {
    Pool *pool;
    REQUIRE(pool_new(&pool, 2));
    Model *m = small_model(*small_shapes[i], pool, 2);
    static Run r;
    Sampling s = sampling(0.9, MAX_NEW);
    s.top_p = 0.9;
    Decoder *d;
    REQUIRE(decoder_new(&d, m, NULL, &(DecoderLimits){6, 5, 48, MAX_NEW}));
    const uint64_t before = mem_allocations();
    for (int k = 0; k < 3; k++) {
      run_init(&r, 8 + k, model_config(m)->vocab_size);
      REQUIRE(decoder_run(d, r.nrequests, r.request, &s, r.out, NULL));
    }
    CHECK(mem_allocations() == before);
    decoder_free(d);
    model_release(m);
    pool_free(pool);
  }
}

TEST_BOTH(a_decoder_takes_what_is_measured) {
  static const DecoderLimits limits[] = {{128, 16, 64, 512}, {64, 200, 80, 500}};
  for (int k = 0; k < SMALL_SHAPES; k++)
    for (int i = 0; i < 2; i++) {
      Model *m = small_model(*small_shapes[k], NULL, 2);
      Decoder *d;
      OK(panels_renew(m, &(Ctx){0}));
      OK(model_reserve_positions(m, 96)); /* they stay with the model */
      double bytes[2];
      for (int taken = 0; taken < 2; taken++) {
        if (!taken) mem_measure_begin();
        const size_t before = mem_live_bytes();
        REQUIRE(decoder_new(&d, m, NULL, &limits[i]));
        bytes[taken] = (double)(mem_live_bytes() - before);
        decoder_free(d);
        CHECK(mem_live_bytes() == before);
        if (!taken) mem_measure_end();
      }
      if (fabs(bytes[1] - bytes[0]) > 0.01 * bytes[1])
        test_fail(__FILE__, __LINE__, "shape %d, limits %d: took %g, measured %g", k, i, bytes[1],
                  bytes[0]);
      model_release(m);
    }
}

TEST(a_cancelled_or_failed_run_leaves_a_usable_decoder) {
  Model *m = small_model(tiny_llama, NULL, 2);
  static Run a, b;
  const Sampling s = sampling(1, 12);
  const volatile int cancel = 1;
  Decoder *d;
  run_init(&a, 5, 101), run_init(&b, 5, 101);
  REQUIRE(decoder_new(&d, m, NULL, &(DecoderLimits){3, 2, 48, MAX_NEW}));
  REQUIRE(decoder_run(d, 5, a.request, &s, a.out, NULL));
  REFUSED(decoder_run(d, 5, b.request, &s, b.out, &cancel), GRPO_ELIMIT, "cancelled");
  Tensor *head = m->t[M_HEAD];
  const real kept = head->data[7];
  head->data[7] = NAN;
  model_updated(m);
  REFUSED(decoder_run(d, 5, b.request, &s, b.out, NULL), GRPO_EDIVERGED, "not finite");
  head->data[7] = kept;
  model_updated(m);
  REQUIRE(decoder_run(d, 5, b.request, &s, b.out, NULL));
  CHECK(same_runs(&a, &b));
  decoder_free(d);
  model_release(m);
}

TEST_BOTH(a_decoder_without_memory_is_an_error_and_leaks_nothing) {
  Model *m = small_model(tiny_llama, NULL, 2);
  Tokenizer *tok = byte_tokenizer();
  OK(panels_renew(m, &(Ctx){0}));
  OK(model_reserve_positions(m, 96)); /* they stay with the model */
  const size_t before = mem_live_bytes();
  Decoder *d = NULL;
  int failures = 0;
  for (uint64_t n = 1; n < 200; n++) {
    mem_fail_after(n);
    Status st = decoder_new(&d, m, tok, &(DecoderLimits){3, 2, 48, MAX_NEW});
    mem_fail_after(0);
    if (st == GRPO_OK) break;
    failures++;
    CHECK(st == GRPO_ENOMEM && mem_live_bytes() == before);
  }
  CHECK(failures > 10 && d);
  decoder_free(d);
  tokenizer_free(tok);
  model_release(m);
}

TEST(senseless_sampling_is_refused_by_name) {
  Sampling s = sampling(1, 4);
  s.max_new_tokens = 0;
  REFUSED(sampling_check(&s), GRPO_EARG, "max_new_tokens");
  s = sampling(-1, 4);
  REFUSED(sampling_check(&s), GRPO_EARG, "temperature");
  s = sampling((double)NAN, 4);
  REFUSED(sampling_check(&s), GRPO_EARG, "temperature");
  s = sampling(1, 4), s.top_p = 0;
  REFUSED(sampling_check(&s), GRPO_EARG, "top_p");
  s = sampling(1, 4), s.min_p = 2;
  REFUSED(sampling_check(&s), GRPO_EARG, "min_p");
  s = sampling(1, 4), s.top_k = -1;
  REFUSED(sampling_check(&s), GRPO_EARG, "top_k");
  s = sampling(1, 4), s.repetition_penalty = 0;
  REFUSED(sampling_check(&s), GRPO_EARG, "repetition_penalty");
  const char *empty = "";
  s = sampling(1, 4), s.num_stop = 1, s.stop = &empty;
  REFUSED(sampling_check(&s), GRPO_EARG, "string 1 is empty");
}

TEST(a_weight_behind_logits_that_are_not_finite_is_named) {
  static const char router[] = "model.layers.2.mlp.gate.weight";
  const Sampling s = sampling(1, 4);
  static Run r;
  Model *m = small_model(tiny_qwen3_moe, NULL, 3);
  Param *p = model_find(m, router);
  CHECK(p != NULL);
  if (p) p->t.data[5] = (real)NAN;
  model_updated(m);
  run_init(&r, 1, 101);
  REFUSED(decode(m, &r, &s, 2, 2), GRPO_EDIVERGED, router);
  model_release(m);
}
