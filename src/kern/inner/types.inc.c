/* types.inc.c - the vector types of width LANES, before the primitives of an instruction set. */
#ifdef GRPO_DOUBLE
typedef int64_t lane_int;
#else
typedef int32_t lane_int;
#endif
enum { VEC_BYTES = LANES * sizeof(real) };
typedef real vec __attribute__((vector_size(VEC_BYTES)));
typedef lane_int ivec __attribute__((vector_size(VEC_BYTES)));
#ifndef GRPO_DOUBLE
typedef uint32_t uivec __attribute__((vector_size(VEC_BYTES))); /* wraps around */
#endif
/* anywhere in memory */
typedef real uvec __attribute__((vector_size(VEC_BYTES), aligned(sizeof(real)), may_alias));

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif
