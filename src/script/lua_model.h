/* lua_model.h - models as Lua values, for the files that add methods to them. */
#ifndef GRPO_SCRIPT_LUA_MODEL_H
#define GRPO_SCRIPT_LUA_MODEL_H

#include "model/decode.h"
#include "model/model.h"
#include "script/binding.h"

#define MODEL_TYPE "grpo.Model"

/* User value 1: tokenizer, or the directory to load it from, or nil; 2: config. */
typedef struct LuaModel {
  Model *m;         /* NULL once closed */
  bool frozen;      /* a reference: no gradients */
  Decoder *decoder; /* kept from the last generate, for the next one that fits */
  bool generating;  /* the decoder is at work: on_token may not start it again */
  DecoderLimits limits;
  const Tokenizer *decoder_tokenizer; /* what its stop strings are made of; held */
} LuaModel;

LuaModel *check_lua_model(lua_State *L, int arg);
/* Pushes the tokenizer of the model at index, loading it when it was not yet; nil when there is
 * none. */
const Tokenizer *push_model_tokenizer(lua_State *L, int index);
/* The decoder kept from the last generate is freed. */
void drop_decoder(LuaModel *lm);
/* Raises while it generates: on_token may not change what generates. */
void want_idle(lua_State *L, const LuaModel *lm, const char *what);
/* Gradients on, for the model at index; raises when it is frozen. */
void want_trainable(lua_State *L, LuaModel *lm);

/* A configuration: a table, a JSON file's path, or an embedded file's name; raises. */
void check_model_config(lua_State *L, int index, Config *c);
/* Pushes a model without weights yet. */
LuaModel *push_lua_model(lua_State *L);
/* A run directory stands for its newest checkpoint.  Pushes the directory to load. */
const char *push_model_dir(lua_State *L, const char *path);

Storage field_storage(lua_State *L, int index, const char *where); /* of dtype and quantize */
Compute field_compute(lua_State *L, int index, const char *where); /* default: auto */
Model *check_model(lua_State *L, int arg);                         /* borrowed */
Model *test_model(lua_State *L, int index);                        /* NULL: no model */

void model_open(lua_State *L); /* the core table is on top */

#endif
