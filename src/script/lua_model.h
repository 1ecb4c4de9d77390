/* lua_model.h - the userdata behind a model, for lua_model.c and lua_generate.c. */
#ifndef GRPO_SCRIPT_LUA_MODEL_H
#define GRPO_SCRIPT_LUA_MODEL_H

#include "model/decode.h"
#include "model/model.h"
#include "script/script.h"

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

/* lua_adapter.c */
extern const luaL_Reg adapter_methods[];
int l_model_base(lua_State *L);
int l_model_load_adapter(lua_State *L);

/* lua_estimate.c */
Storage field_storage(lua_State *L, int index, const char *where); /* of dtype and quantize */
Compute field_compute(lua_State *L, int index, const char *where); /* default: auto */
int l_compute(lua_State *L);
int l_model_estimate(lua_State *L);

/* lua_generate.c */
int model_generate(lua_State *L);
int model_score(lua_State *L);
int model_logits_(lua_State *L);
int model_logprobs(lua_State *L);

/* lua_unmask.c */
int model_unmask(lua_State *L);

#endif
