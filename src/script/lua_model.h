/* lua_model.h - models as Lua values, for the files that add methods to them. */
#ifndef GRPO_SCRIPT_LUA_MODEL_H
#define GRPO_SCRIPT_LUA_MODEL_H

#include "model/decode.h"
#include "model/model.h"
#include "script/binding.h"

#define MODEL_TYPE "grpo.Model"

/* User value 1 is the tokenizer, the directory to load it from, or nil; user value 2 is
 * m.config. */
typedef struct LuaModel {
  Model *m;             /* NULL once closed */
  bool frozen;          /* a reference, which has no gradients */
  Decoder *decoder;     /* of the last generate; the next one uses it again if it fits */
  DecoderLimits limits; /* what the decoder was made for */
  const Tokenizer *decoder_tokenizer; /* the tokenizer of its stop strings; held */
  bool generating;                    /* the decoder is running, and calls on_token */
} LuaModel;

LuaModel *check_lua_model(lua_State *L, int arg);
Model *check_model(lua_State *L, int arg);  /* borrowed */
Model *test_model(lua_State *L, int index); /* NULL: another value */
LuaModel *push_lua_model(lua_State *L);     /* pushes a model whose m is still NULL */
/* Pushes the tokenizer of the model at index, which may be loaded only now; nil: there is none. */
const Tokenizer *push_model_tokenizer(lua_State *L, int index);
/* Frees the decoder of the last generate. */
void drop_model_decoder(LuaModel *lm);
/* Raises while the model generates, because on_token may not change it; `what` begins the
 * message. */
void want_idle_model(lua_State *L, const LuaModel *lm, const char *what);
/* Turns gradients on; raises if the model is frozen. */
void want_trainable_model(lua_State *L, LuaModel *lm);

/* Pushes the directory to load for a path, as one value; a run directory stands for its newest
 * checkpoint, a name of the Hub for its snapshot. */
const char *push_model_dir(lua_State *L, const char *path);
/* From dtype and quantize. */
Storage field_model_storage(lua_State *L, int index, const char *where);
Compute field_model_compute(lua_State *L, int index, const char *where); /* the default is f32 */

#endif
