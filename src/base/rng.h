/* rng.h - counter-based random numbers (Philox 4x32-10, Salmon et al. 2011).
 *
 * A value is a pure function of its address: (seed, stream, step, prompt, sample, token).  Nothing
 * has to be saved, nothing can drift, and any value can be computed again alone.
 */
#ifndef GRPO_BASE_RNG_H
#define GRPO_BASE_RNG_H

#include <stdint.h>

/* Each consumer of random numbers has a stream, so that no two share numbers. */
typedef enum RngStream {
  RNG_INIT,    /* model weights */
  RNG_SAMPLE,  /* tokens while sampling for training */
  RNG_EVAL,    /* tokens while sampling for evaluation */
  RNG_SHUFFLE, /* order of a dataset */
  RNG_REWARD,  /* c.rng and math.random inside rewards */
  RNG_USER,    /* grpo.randn, m:generate */
  RNG_TASK,    /* generated datasets */
  RNG_DROPOUT,
  RNG_MASK,      /* which tokens are masked in training and evaluation */
  RNG_UNMASK,    /* filling masks in */
  RNG_MINIBATCH, /* which prompts a minibatch takes */
  RNG_TURN,      /* tools and environments while sampling for training */
  RNG_TURN_EVAL, /* and for evaluation */
  RNG_COVARIANCE /* which tokens Clip-Cov chooses */
} RngStream;

typedef struct RngKey {
  uint64_t seed;
  uint32_t stream, step, prompt, sample; /* stream: RngStream; step wraps at 2^24, stream at 2^8 */
} RngKey;

/* The bare block function: 128 random bits from a 128-bit counter and a 64-bit key. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* All 128 bits of a block; rng_u64() is the first half. */
void rng_block(const RngKey *k, uint64_t index, uint32_t out[4]);
/* The counter and the key of that block; index + 1 has counter[0] + 1. */
void rng_address(const RngKey *k, uint64_t index, uint32_t counter[4], uint32_t key[2]);
uint64_t rng_u64(const RngKey *k, uint64_t index);
double rng_uniform(const RngKey *k, uint64_t index); /* [0, 1), 53 bits */
double rng_normal(const RngKey *k, uint64_t index);  /* mean 0, variance 1 */

/* Element i of a seeded permutation of 0..n-1, without storing it (i < n). */
uint64_t rng_permute(uint64_t seed, uint64_t n, uint64_t i);

#endif
