/* lua_rl.h - what the files that open src/rl to Lua share: lua_engine.c,
 * lua_batch.c, lua_bigram.c, lua_rl.c, lua_options.c, lua_turns.c, lua_ppo.c. */
#ifndef GRPO_SCRIPT_LUA_RL_H
#define GRPO_SCRIPT_LUA_RL_H

#include "rl/engine.h"
#include "rl/engine_memory.h"
#include "rl/metrics.h"
#include "rl/rollout.h"
#include "rl/sft.h"
#include "rl/units.h"
#include "rl/update.h"
#include "script/binding.h"

#define ENGINE_TYPE "grpo.Engine"
#define BATCH_TYPE  "grpo.Batch"

Engine *check_engine(lua_State *L, int arg); /* raises when closed */
/* Raises also while it is at work (a callback's call), and when its model has another adapter than
 * when the engine was made. */
Engine *check_idle_engine(lua_State *L, int arg);

/* lua_engine.c */
/* A list of { prompt=ids, target=ids } at index 2; `what` names it in messages.  The ids are in
 * *store, which is pushed. */
Example *push_examples(lua_State *L, const char *what, int *n, IntBuf **store);
void push_metrics(lua_State *L, const StepMetrics *m);
/* The sizes of a step out of the table at index; the model, its optimizer and what a step is given
 * are not looked at. */
void read_engine_options(lua_State *L, int index, const char *where, EngineOptions *o);
/* Options of a step out of the table at index 3: a whole resolved `train`, or what is wanted of it,
 * with seed and step.  only: as in read_options(). */
void read_update_options(lua_State *L, unsigned only, UpdateOptions *o);
void read_sft_options(lua_State *L, const char *where, SftOptions *o);

/* lua_denoise.c: engine:denoise(examples, options) -> metrics; engine:masked_loss(examples, options)
 * -> summed loss, masked tokens, those guessed right.  Options: MaskOptions' names. */
int engine_denoise_step(lua_State *L);
int engine_masked_loss_sum(lua_State *L);

/* lua_turns.c: the field on_turn of a rollout's options. */
typedef struct LuaTurns {
  lua_State *L;
  int function; /* stack index */
  IntBuf ids;   /* of a reply, in scratch memory as long as a completion */
  int error;    /* registry reference of what it raised, or LUA_NOREF */
} LuaTurns;
void turns_begin(lua_State *L, int options, RolloutOptions *o, LuaTurns *t); /* uses the stack */
void turns_end(LuaTurns *t, Status s); /* raises what the rollout ended with, if that is an error */

/* lua_batch.c: what E:rollout returns; stale once its slot is rolled out again. */
void push_batch(lua_State *L, int engine_arg, BatchSlot slot);
Batch *check_batch(lua_State *L, int arg, BatchSlot *slot /* may be NULL */);
void batch_open(lua_State *L);

/* lua_bigram.c */
Bigram *check_bigram(lua_State *L, int arg);
int l_bigram(lua_State *L);
void bigram_open(lua_State *L);

/* lua_ppo.c */
int engine_ppo_step(lua_State *L);

/* lua_options.c: functions of core */
int l_options(lua_State *L);
int l_losses(lua_State *L);
int l_loss_problem(lua_State *L);
int l_sampling_problem(lua_State *L);
int l_engine_problem(lua_State *L);
int l_ppo_problem(lua_State *L);

/* lua_rl.c: functions of core */
int l_advantages(lua_State *L);
int l_dense_advantages(lua_State *L);
int l_checkpoint_begin(lua_State *L);
int l_checkpoint_commit(lua_State *L);
int l_checkpoint_verify(lua_State *L);
void rl_open(lua_State *L); /* the core table on top, core.none in it */

/* A list of numbers; core.none and nil are NaN.  Scratch on the Lua stack. */
double *push_numbers(lua_State *L, int index, const char *what, int *n);

void engine_open(lua_State *L); /* the core table is on top */

#endif
