/* Guesses change the number of forwards and no bit: every family, sampler, turns, stop strings,
 * adapters, quantised weights, recorded activations. */
#include "kern/gemm_quant.h"
#include "model/decode.h"
#include "model/decode_struct.h"
#include "model/frozen.h"
#include "model/layout.h"
#include "model/lora.h"
#include "model/model_struct.h"
#include "model/modeltest.h"
#include "text/tokenizer_make.h"

enum { REQUESTS = 3, GROUP_OF = 4, OUT = REQUESTS * GROUP_OF, NEW = 48, PROMPT = 33 };

typedef struct Texts {
  Request request[REQUESTS];
  int32_t prompt[REQUESTS][PROMPT];
  Completion out[OUT];
  int32_t ids[OUT][NEW];
  float logp[OUT][NEW], entropy[OUT][NEW], target[OUT][NEW];
  uint8_t sampled[OUT][NEW];
  SamplingMask mask[OUT];
} Texts;

static void texts_init(Texts *x, int vocab, bool masks) {
  static const int lens[REQUESTS] = {5, PROMPT, 16};
  for (int i = 0; i < OUT; i++) sampling_mask_free(&x->mask[i]);
  memset(x, 0, sizeof *x);
  for (int i = 0; i < REQUESTS; i++) {
    some_ids(x->prompt[i], lens[i], vocab, 7 + (uint64_t)i);
    x->request[i] = (Request){.prompt = x->prompt[i], .prompt_len = lens[i], .n = GROUP_OF};
    x->request[i].key = (RngKey){.seed = 5, .stream = RNG_SAMPLE, .prompt = (uint32_t)i};
    x->request[i].target = x->prompt[i], x->request[i].target_len = lens[i];
  }
  for (int i = 0; i < OUT; i++)
    x->out[i] = (Completion){.ids = x->ids[i],
                             .logp = x->logp[i],
                             .entropy = x->entropy[i],
                             .target_logp = x->target[i],
                             .sampled = x->sampled[i],
                             .sampling_mask = masks ? &x->mask[i] : NULL};
}

static bool same_texts(const Texts *a, const Texts *b) {
  for (int i = 0; i < OUT; i++) {
    const Completion *x = &a->out[i], *y = &b->out[i];
    const size_t n = (size_t)x->len * 4;
    if (x->len != y->len || x->finish != y->finish || memcmp(x->ids, y->ids, n) ||
        memcmp(x->logp, y->logp, n) || memcmp(x->entropy, y->entropy, n) ||
        memcmp(x->sampled, y->sampled, n / 4) ||
        memcmp(x->target_logp, y->target_logp,
               (size_t)min_int(x->len, a->request[x->request].target_len) * 4))
      return false;
    const SamplingMask *p = &a->mask[i], *q = &b->mask[i];
    if (p->len != q->len || (p->len && memcmp(p->words, q->words, p->len * sizeof *p->words)))
      return false;
  }
  return true;
}

typedef struct Way {
  Model *m;
  const Tokenizer *tok;
  Sampling s;
  TurnFn on_turn;
} Way;

/* Decodes with forwards of up to `rows` rows; returns the number of guesses that were met. */
static int decode(const Way *w, int rows, int max_sequences, Texts *x) {
  Decoder *d = NULL;
  OK(decoder_new(&d, w->m, w->tok, &(DecoderLimits){max_sequences, 2, PROMPT, NEW}));
  if (!d) return 0;
  OK(decoder_draft(d, rows));
  decoder_on_turn(d, w->on_turn, NULL);
  texts_init(x, model_config(w->m)->vocab_size, sampling_is_truncated(&w->s));
  OK(decoder_run(d, REQUESTS, x->request, &w->s, x->out, NULL));
  const int met = (int)d->met;
  CHECK(rows > 0 || d->guessed == 0);
  decoder_free(d);
  return met;
}

/* The same bits without guesses and with them, alone and in company; returns the guesses met. */
static int check_way(const Way *w) {
  static Texts plain, guessed;
  int met = 0;
  decode(w, 0, 5, &plain);
  for (int sequences = 1; sequences <= 6; sequences += sequences < 3 ? 1 : 3)
    for (int rows = 5; rows <= 16; rows += 11) {
      met += decode(w, rows, sequences, &guessed);
      CHECK(same_texts(&plain, &guessed));
    }
  return met;
}

static Sampling sampling(double temperature) {
  Sampling s;
  sampling_init(&s);
  s.temperature = temperature;
  s.max_new_tokens = NEW;
  return s;
}

TEST_BOTH(every_family_has_the_bits_of_decoding_without_guesses) {
  for (int i = 0; i < SMALL_SHAPES; i++) {
    Pool *pool;
    REQUIRE(pool_new(&pool, 2));
    Way w = {.m = small_model(*small_shapes[i], pool, 3), .s = sampling(0)};
    w.m->config.num_eos = 0;
    const int met = check_way(&w);
    if (met < 100) test_fail(__FILE__, __LINE__, "shape %d: %d guesses met", i, met);
    w.s = sampling(0.5);
    check_way(&w);
    model_release(w.m);
    pool_free(pool);
  }
}

TEST_BOTH(every_sampler_has_the_bits_of_decoding_without_guesses) {
  Way w = {.m = small_model(tiny_llama, NULL, 3)};
  int met = 0;
  for (int i = 0; i < 5; i++) {
    w.s = sampling(i == 4 ? 0 : 0.2);
    if (i == 1) w.s.top_k = 3;
    if (i == 2) w.s.top_p = 0.7;
    if (i == 3) w.s.min_p = 0.1;
    if (i == 4) w.s.repetition_penalty = 1.05;
    met += check_way(&w);
  }
  CHECK(met > 100);
  model_release(w.m);
}

/* A third of the turns is answered by nothing, the others by the text itself. */
static Status reply_of(void *user, const Completion *c, int first, Reply *r) {
  (void)user, (void)first;
  *r = (Reply){.continues = true, .ids = c->ids, .n = (c->request + c->len) % 3 * 4};
  if (r->n > c->len) r->n = c->len;
  return GRPO_OK;
}

static void check_turns(const char *shape) {
  static Texts plain;
  Way w = {.m = small_model(shape, NULL, 3), .s = sampling(0.1)};
  decode(&w, 0, 4, &plain);
  w.m->config.num_eos = 2; /* which occur among tokens that are guessed */
  w.m->config.eos_token_id[0] = plain.ids[0][NEW - 1];
  w.m->config.eos_token_id[1] = plain.ids[5][NEW - 2];
  check_way(&w);
  w.on_turn = reply_of;
  CHECK(check_way(&w) > 10);
  model_release(w.m);
}

TEST_BOTH(turns_and_ends_come_after_the_same_tokens) {
  check_turns(tiny_llama);
  for (int i = STATELESS_SHAPES; i < SMALL_SHAPES; i++) check_turns(*small_shapes[i]);
}

TEST_BOTH(stop_strings_and_patterns_end_after_the_same_tokens) {
  static Texts plain;
  Tokenizer *tok = NULL;
  OK(tokenizer_bytes(&tok));
  Way w = {.tok = tok, .s = sampling(0)};
  w.m = small_model("{\"model_type\":\"llama\",\"vocab_size\":258,\"hidden_size\":32,"
                    "\"intermediate_size\":48,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                    "\"max_position_embeddings\":128,\"initializer_range\":0.3}",
                    NULL, 8);
  decode(&w, 0, 4, &plain);
  char stop[2][3] = {{0}};
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++) stop[i][k] = (char)plain.ids[4 * i][NEW - 3 + k];
  const char *stops[] = {stop[0], stop[1]};
  w.s.num_stop = *stop[0] && *stop[1] ? 2 : 0;
  w.s.stop = stops;
  check_way(&w);
  w.s.num_stop = 0;
  REQUIRE(regex_compile(&w.s.stop_regex, "[a-m].*[a-m].*[a-m]", 19, REGEX_DOTALL));
  check_way(&w);
  regex_free(w.s.stop_regex);
  tokenizer_free(tok);
  model_release(w.m);
}

TEST_BOTH(an_adapter_has_the_bits_of_decoding_without_guesses) {
  static const char *const targets[] = {"all-linear"};
  const LoraOptions lora = {.rank = 4, .alpha = 8, .ntargets = 1, .targets = targets};
  Way w = {.m = small_model(tiny_qwen2, NULL, 3), .s = sampling(0.1)};
  const int base = model_num_params(w.m);
  OK(lora_add(w.m, &lora, 1));
  for (int i = base; i < model_num_params(w.m); i++) {
    Tensor *t = &model_param(w.m, i)->t;
    const RngKey key = {.seed = 4, .prompt = (uint32_t)i};
    for (size_t k = 0; k < t->n; k++) t->data[k] = (real)(0.1 * rng_normal(&key, k));
  }
  model_updated(w.m);
  CHECK(check_way(&w) > 10);
  model_release(w.m);
}

/* The model with its matrices in this type. */
static Model *quantised(const Model *from, QuantType type) {
  Model *m = NULL;
  Arena arena = {0};
  const Ctx cx = {.arena = &arena};
  OK(model_layout(&m, NULL, model_config(from)));
  for (int i = 0; i < m->nparams; i++)
    if (layout_is_projection(m, i)) OK(frozen_quantise(m, i, type));
  OK(model_allocate(m));
  for (int i = 0; i < m->nparams; i++) {
    Tensor *to = &m->param[i].t;
    const Tensor *w = &from->param[i].t;
    if (to->quant) {
      QuantWeight *quant = (QuantWeight *)(uintptr_t)to->quant;
      OK(quant_put(&cx, quant, 0, quant->n, w->data));
      OK(quant_done(&cx, quant));
    } else
      memcpy(to->data, w->data, w->n * sizeof *w->data);
  }
  arena_free(&arena);
  OK(model_set_compute(m, test_compute));
  model_updated(m);
  return m;
}

TEST_BOTH(quantised_weights_have_the_bits_of_decoding_without_guesses) {
  static const QuantType types[] = {QUANT_BF16, QUANT_INT8, QUANT_NF4};
  Model *from = small_model(tiny_llama, NULL, 3);
  for (int i = 0; i < 3; i++) {
    Way w = {.m = quantised(from, types[i]), .s = sampling(0.1)};
    CHECK(check_way(&w) > 10);
    model_release(w.m);
  }
  model_release(from);
}

/* Eight tokens that are all alike are seldom guessed: after enough misses nothing is guessed. */
TEST(guessing_stops_where_it_does_not_pay) {
  static Texts x;
  Way w = {.s = sampling(1000)};
  w.m = small_model("{\"model_type\":\"llama\",\"vocab_size\":8,\"hidden_size\":16,"
                    "\"intermediate_size\":24,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
                    "\"max_position_embeddings\":128,\"initializer_range\":0.1}",
                    NULL, 8);
  w.m->config.num_eos = 0;
  Decoder *d = NULL;
  REQUIRE(decoder_new(&d, w.m, NULL, &(DecoderLimits){2, 2, PROMPT, NEW}));
  OK(decoder_draft(d, 16));
  texts_init(&x, 8, false);
  REQUIRE(decoder_run(d, REQUESTS, x.request, &w.s, x.out, NULL));
  CHECK(d->guessed >= 64 && d->guessed < 5 * d->met + 64 + 16);
  decoder_free(d);
  model_release(w.m);
}
