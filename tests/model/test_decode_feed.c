/* The feed: requests that join, leave and differ, against decoder_run, bit for bit. */
#include "model/decode_feed.h"

#include "model/model_struct.h"
#include "model/modeltest.h"
#include "model/top_tokens.h"

enum { REQUESTS = 6, MOST = 3, NEW = 20, TOP = 4 };

typedef struct Asked {
  Request request;
  Sampling sampling;
  int32_t prompt[48];
  Completion out[MOST];
  int32_t ids[MOST][NEW], top_ids[MOST][NEW * TOP];
  float logp[MOST][NEW], top_logp[MOST][NEW * TOP];
} Asked;

/* Requests of different lengths, numbers of completions and ways of sampling. */
static void ask(Asked *a, int i, int vocab) {
  static const int lens[REQUESTS] = {1, 7, 33, 16, 40, 3};
  memset(a, 0, sizeof *a);
  some_ids(a->prompt, lens[i], vocab, 77 + (uint64_t)i);
  a->request = (Request){.prompt = a->prompt,
                         .prompt_len = lens[i],
                         .n = 1 + i % MOST,
                         .key = {.seed = 5 + (uint64_t)i, .stream = RNG_USER}};
  sampling_init(&a->sampling);
  a->sampling.max_new_tokens = NEW - 3 * i;
  a->sampling.temperature = i == 2 ? 0 : 0.9 + 0.1 * i;
  a->sampling.top_p = i == 3 ? 0.8 : 1;
  for (int k = 0; k < MOST; k++)
    a->out[k] = (Completion){.ids = a->ids[k],
                             .logp = a->logp[k],
                             .top_n = TOP,
                             .top_ids = a->top_ids[k],
                             .top_logp = a->top_logp[k]};
}

static bool is_same(const Asked *a, const Asked *b) {
  for (int k = 0; k < a->request.n; k++) {
    const Completion *x = &a->out[k], *y = &b->out[k];
    const size_t n = (size_t)x->len;
    if (!x->over || x->len != y->len || x->finish != y->finish || memcmp(x->ids, y->ids, n * 4) ||
        memcmp(x->logp, y->logp, n * 4) || memcmp(x->top_ids, y->top_ids, n * TOP * 4) ||
        memcmp(x->top_logp, y->top_logp, n * TOP * 4))
      return false;
  }
  return true;
}

static Decoder *decoder(Model *m, int sequences) {
  Decoder *d = NULL;
  OK(decoder_new(&d, m, NULL, &(DecoderLimits){sequences, sequences, 48, NEW}));
  return d;
}

/* Every request alone, by decoder_run. */
static void decode_alone(Model *m, Asked *a) {
  Decoder *d = decoder(m, 4);
  for (int i = 0; i < REQUESTS; i++) {
    ask(&a[i], i, m->config.vocab_size);
    OK(decoder_run(d, 1, &a[i].request, &a[i].sampling, a[i].out, NULL));
  }
  decoder_free(d);
}

/* Request i joins at step i * apart, or later where there is no room. */
static void decode_fed(Decoder *d, Asked *a, int vocab, int apart) {
  bool busy = true, taken;
  int next = 0;
  for (int i = 0; i < REQUESTS; i++) ask(&a[i], i, vocab);
  for (int step = 0; busy || next < REQUESTS; step++) {
    while (next < REQUESTS && step >= next * apart) {
      OK(decoder_feed_add(d, &a[next].request, &a[next].sampling, a[next].out, &taken));
      if (!taken) break;
      next++;
    }
    OK(decoder_feed_step(d, &busy));
  }
}

TEST(requests_that_join_have_the_bits_of_a_run_alone) {
  static Asked alone[REQUESTS], fed[REQUESTS];
  Model *m = small_model(tiny_llama, NULL, 21);
  decode_alone(m, alone);
  for (int sequences = 1; sequences <= 8; sequences += 3) {
    Decoder *d = decoder(m, sequences);
    for (int apart = 0; apart <= 6; apart += 3) {
      decoder_feed_open(d);
      decode_fed(d, fed, m->config.vocab_size, apart);
      for (int i = 0; i < REQUESTS; i++) CHECK(is_same(&fed[i], &alone[i]));
    }
    OK(decoder_run(d, 1, &fed[0].request, &fed[0].sampling, fed[0].out, NULL));
    CHECK(is_same(&fed[0], &alone[0])); /* a run after a feed */
    decoder_free(d);
  }
  model_release(m);
}

TEST(a_request_that_is_dropped_leaves_the_others_alone) {
  static Asked alone[REQUESTS], fed[REQUESTS];
  Model *m = small_model(tiny_llama, NULL, 21);
  Decoder *d = decoder(m, 4);
  bool busy = true, taken;
  decode_alone(m, alone);
  decoder_feed_open(d);
  for (int i = 0; i < REQUESTS; i++) ask(&fed[i], i, m->config.vocab_size);
  for (int i = 0; i < 4; i++)
    OK(decoder_feed_add(d, &fed[i].request, &fed[i].sampling, fed[i].out, &taken));
  CHECK(taken);
  OK(decoder_feed_add(d, &fed[4].request, &fed[4].sampling, fed[4].out, &taken));
  CHECK(!taken);                    /* every place is taken */
  decoder_feed_drop(d, fed[3].out); /* before its prompt was read */
  for (int i = 0; i < 3; i++) OK(decoder_feed_step(d, &busy));
  decoder_feed_drop(d, fed[1].out); /* while it is decoded */
  decoder_feed_drop(d, fed[1].out); /* does nothing */
  OK(decoder_feed_add(d, &fed[4].request, &fed[4].sampling, fed[4].out, &taken));
  CHECK(taken);
  while (busy) OK(decoder_feed_step(d, &busy));
  CHECK(is_same(&fed[0], &alone[0]) && is_same(&fed[2], &alone[2]));
  CHECK(is_same(&fed[4], &alone[4]) && !fed[3].out[0].over);
  decoder_free(d);
  model_release(m);
}

TEST(a_feed_refuses_what_it_has_no_room_for) {
  static Asked a;
  Model *m = small_model(tiny_llama, NULL, 21);
  Decoder *d = decoder(m, 2);
  bool taken;
  decoder_feed_open(d);
  ask(&a, 0, m->config.vocab_size);
  a.sampling.max_new_tokens = NEW + 1;
  CHECK(decoder_feed_add(d, &a.request, &a.sampling, a.out, &taken) == GRPO_EARG && !taken);
  ask(&a, 0, m->config.vocab_size);
  a.request.prompt_len = 49;
  CHECK(decoder_feed_add(d, &a.request, &a.sampling, a.out, &taken) == GRPO_EARG);
  ask(&a, 0, m->config.vocab_size);
  a.prompt[0] = m->config.vocab_size;
  CHECK(decoder_feed_add(d, &a.request, &a.sampling, a.out, &taken) == GRPO_EARG);
  decoder_free(d);
  model_release(m);
}

TEST(top_tokens_are_the_largest_and_the_first_of_equal_ones) {
  const real z[] = {3, 9, -1, 9, 4, 4, 0};
  int32_t ids[7];
  top_tokens(z, 7, 4, ids);
  CHECK(ids[0] == 1 && ids[1] == 3 && ids[2] == 4 && ids[3] == 5);
  top_tokens(z, 7, 7, ids);
  CHECK(ids[4] == 0 && ids[5] == 6 && ids[6] == 2);
  top_tokens(z, 7, 1, ids);
  CHECK(ids[0] == 1);
}
