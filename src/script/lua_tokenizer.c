#include <stdio.h>
#include <string.h>

#include "checkpoint/run_checkpoint.h"
#include "formats/named_place.h"
#include "script/binding.h"
#include "script/environment.h"
#include "script/lua_tokenizer.h"
#include "script/script_impl.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_make.h"
#include "text/tokenizer_train.h"

/* The userdata holds a pointer to the tokenizer, NULL once closed.  User value 1 is the chat
 * template that a script has set, Jinja or a function(messages, options) -> string; nil: the
 * tokenizer's own. */
typedef const Tokenizer *TokenizerSlot;

const Tokenizer *test_tokenizer(lua_State *L, int index) {
  TokenizerSlot *t = luaL_testudata(L, index, TOKENIZER_TYPE);
  if (t && !*t) raise_new(L, GRPO_EARG, "the tokenizer was closed");
  return t ? *t : NULL;
}

const Tokenizer *check_tokenizer(lua_State *L, int arg) {
  TokenizerSlot *t = check_object(L, arg, TOKENIZER_TYPE);
  if (!*t) arg_error(L, arg, "the tokenizer was closed");
  return *t;
}

static TokenizerSlot *push_slot(lua_State *L) {
  TokenizerSlot *t = new_object(L, sizeof *t, 1);
  *t = NULL;
  luaL_setmetatable(L, TOKENIZER_TYPE);
  return t;
}

const Tokenizer **push_tokenizer(lua_State *L, const Tokenizer *t) {
  TokenizerSlot *slot = push_slot(L);
  *slot = t;
  return slot;
}

static int l_gc(lua_State *L) {
  TokenizerSlot *t = luaL_testudata(L, 1, TOKENIZER_TYPE);
  if (t) tokenizer_free(*t);
  if (t) *t = NULL;
  return 0;
}

static int l_close(lua_State *L) { return in_use(L) ? 0 : l_gc(L); }

/* ---- making one --------------------------------------------------------------------- */

static int made(lua_State *L, TokenizerSlot *slot, Status s, Tokenizer *const *t) {
  want_ok(L, s);
  *slot = *t;
  return 1;
}

static int l_load(lua_State *L) {
  Tokenizer *t = NULL;
  char version[NAMED_PLACE_VERSION];
  Buf *place = push_buf(L);
  want_ok(L, named_place_find(check_string(L, 1, NULL), false, place, version));
  const char *path = place->data;
  TokenizerSlot *slot = push_slot(L);
  want_ok(L, run_checkpoint_check(path, CHECKPOINT_TOKENIZER));
  return made(L, slot, tokenizer_load(&t, path), &t);
}

static int l_bytes(lua_State *L) {
  Tokenizer *t = NULL;
  TokenizerSlot *slot = push_slot(L);
  return made(L, slot, tokenizer_bytes(&t), &t);
}

/* chars(text, { special = true }) */
static int l_chars(lua_State *L) {
  static const char *const known[] = {"special", NULL};
  size_t n;
  bool special = true;
  Tokenizer *t = NULL;
  lua_settop(L, 2);
  const char *text = check_string(L, 1, &n);
  if (!lua_isnil(L, 2)) {
    check_table(L, 2);
    check_fields(L, 2, "tokenizer.chars", known);
    field_bool(L, 2, "tokenizer.chars", "special", &special);
  }
  TokenizerSlot *slot = push_slot(L);
  const Status s = special ? tokenizer_chars(&t, text, n) : tokenizer_chars_only(&t, text, n);
  return made(L, slot, s, &t);
}

/* Pushes an array with the strings of the list at index, which the list keeps alive. */
static const char **check_texts(lua_State *L, int index, const char *what, size_t *count,
                                size_t **lens) {
  if (!lua_istable(L, index))
    raise_new(L, GRPO_EARG, "%s: want a list of strings, got %s", what, luaL_typename(L, index));
  *count = lua_rawlen(L, index);
  const char **texts = push_scratch(L, *count, sizeof *texts);
  if (lens) *lens = push_scratch(L, *count, sizeof **lens);
  for (size_t i = 0; i < *count; i++) {
    size_t n;
    if (lua_rawgeti(L, index, (lua_Integer)i + 1) != LUA_TSTRING)
      raise_new(L, GRPO_EARG, "%s[%d]: want a string, got %s", what, (int)i + 1,
                luaL_typename(L, -1));
    texts[i] = lua_tolstring(L, -1, &n);
    if (lens) (*lens)[i] = n;
    lua_pop(L, 1);
  }
  return texts;
}

static void check_train_options(lua_State *L, int index, TokenizerTrainOptions *o) {
  static const char *const known[] = {"vocab_size", "kind",         "special_tokens", "bos", "eos",
                                      "pad",        "split_digits", "min_frequency",  NULL};
  const char *kind = "bpe", *where = "tokenizer.train";
  int frequency;
  check_fields(L, index, where, known);
  if (field_string(L, index, where, "kind", &kind) && strcmp(kind, "bpe") != 0)
    raise_new(L, GRPO_EARG, "%s.kind: '%.40s' is not known, want 'bpe'", where, kind);
  field_int(L, index, where, "vocab_size", 256, 1 << 24, &o->vocab_size);
  field_bool(L, index, where, "split_digits", &o->split_digits);
  if (field_int(L, index, where, "min_frequency", 1, INT32_MAX, &frequency))
    o->min_frequency = frequency;
  field_string(L, index, where, "bos", &o->bos);
  field_string(L, index, where, "eos", &o->eos);
  field_string(L, index, where, "pad", &o->pad);
  if (lua_istable(L, index) && lua_getfield(L, index, "special_tokens") != LUA_TNIL) {
    size_t n;
    o->special_tokens = check_texts(L, lua_gettop(L), "tokenizer.train.special_tokens", &n, NULL);
    o->nspecial = (int)n;
  }
}

static int l_train(lua_State *L) {
  TokenizerTrainOptions o;
  size_t n, *lens;
  Tokenizer *t = NULL;
  lua_settop(L, 2);
  tokenizer_train_options_init(&o);
  check_train_options(L, 2, &o);
  const char **texts = check_texts(L, 1, "tokenizer.train: texts", &n, &lens);
  TokenizerSlot *slot = push_slot(L);
  return made(L, slot, tokenizer_train(&t, texts, lens, n, &o), &t);
}

/* ---- encoding and decoding ---------------------------------------------------------- */

static int l_encode(lua_State *L) {
  static const char *const known[] = {"special", "parse_special", NULL};
  bool special = false, parse = true;
  size_t n;
  const Tokenizer *t = check_tokenizer(L, 1);
  const char *text = check_string(L, 2, &n);
  check_fields(L, 3, "encode", known);
  field_bool(L, 3, "encode", "special", &special);
  field_bool(L, 3, "encode", "parse_special", &parse);
  charge_work(L, n);
  IntBuf *ids = push_ints(L);
  unsigned flags = (special ? TOK_ADD_SPECIAL : 0u) | (parse ? 0u : TOK_NO_PARSE_SPECIAL);
  want_ok(L, tokenizer_encode(t, text, n, flags, ids));
  push_ids(L, ids->data, ids->len);
  keep_ints(L, ids);
  return 1;
}

static int l_decode(lua_State *L) {
  static const char *const known[] = {"skip_special", NULL};
  bool skip = false;
  const Tokenizer *t = check_tokenizer(L, 1);
  check_fields(L, 3, "decode", known);
  field_bool(L, 3, "decode", "skip_special", &skip);
  IntBuf *ids = push_ints(L);
  check_ids(L, 2, "decode", ids);
  charge_work(L, ids->len);
  Buf *b = push_buf(L);
  want_ok(L, tokenizer_decode(t, ids->data, ids->len, skip, b));
  push_bytes(L, b);
  keep_buf(L, b);
  keep_ints(L, ids);
  return 1;
}

/* Calls grpo.models.chat.render(source, tokenizer, messages, opts); the source is on top. */
static int chat_by_jinja(lua_State *L) {
  push_module(L, "grpo.models.chat");
  lua_getfield(L, -1, "render");
  lua_replace(L, -2);
  lua_insert(L, -2);
  for (int i = 1; i <= 3; i++) lua_pushvalue(L, i);
  lua_call(L, 4, 1);
  return 1;
}

/* Replaces the text on top by the template that it is or names. */
static void find_template(lua_State *L, const Tokenizer *t) {
  push_module(L, "grpo.models.chat");
  lua_getfield(L, -1, "set");
  lua_replace(L, -2);
  lua_insert(L, -2);
  lua_newtable(L);
  for (int i = 0; tokenizer_template_name(t, i); i++) {
    lua_pushstring(L, tokenizer_template(t, tokenizer_template_name(t, i)));
    lua_setfield(L, -2, tokenizer_template_name(t, i));
  }
  lua_call(L, 2, 1);
}

/* Pushes the template of opts.chat_template; returns false if there is none. */
static bool push_given_template(lua_State *L, const Tokenizer *t) {
  if (!lua_istable(L, 3) || lua_getfield(L, 3, "chat_template") == LUA_TNIL) {
    lua_settop(L, 3);
    return false;
  }
  if (lua_type(L, -1) != LUA_TSTRING)
    raise_new(L, GRPO_EARG, "chat: chat_template is not a string; give a name or Jinja");
  find_template(L, t);
  return true;
}

/* The tokenizer's own template: the one for tools, if opts has tools and there is one. */
static const char *own_template(lua_State *L, const Tokenizer *t) {
  const char *for_tools = tokenizer_tool_template(t);
  bool tools = for_tools && lua_istable(L, 3) && lua_getfield(L, 3, "tools") == LUA_TTABLE;
  lua_settop(L, 3);
  return tools ? for_tools : tokenizer_chat_template(t);
}

/* tok:chat(messages[, opts]) -> text, rendered with the template of opts, the one that was set, or
 * the tokenizer's own */
static int l_chat(lua_State *L) {
  const Tokenizer *t = check_tokenizer(L, 1);
  check_table(L, 2);
  lua_settop(L, 3);
  if (!lua_isnil(L, 3)) check_table(L, 3);
  if (!push_given_template(L, t) && lua_getiuservalue(L, 1, 1) == LUA_TNIL)
    lua_pushstring(L, own_template(L, t));
  if (lua_isnil(L, -1))
    return raise_new(L, GRPO_EARG,
                     "chat: the tokenizer has no %schat template; set tok.chat_template to a name, "
                     "a Jinja string or a function(messages, opts) -> string (in a run, "
                     "model.chat_template; in C, the option chat_template)",
                     tokenizer_template_name(t, 0) ? "default " : "");
  if (lua_type(L, -1) == LUA_TSTRING) return chat_by_jinja(L);
  lua_pushvalue(L, 2);
  if (lua_isnil(L, 3))
    lua_newtable(L);
  else
    lua_pushvalue(L, 3);
  lua_call(L, 2, 1);
  if (lua_type(L, -1) != LUA_TSTRING)
    return raise_new(L, GRPO_EARG, "chat: the template returned a %s, want a string",
                     luaL_typename(L, -1));
  return 1;
}

/* ---- looking up --------------------------------------------------------------------- */

static void push_token_id(lua_State *L, int32_t id) {
  if (id < 0)
    lua_pushnil(L);
  else
    lua_pushinteger(L, id);
}

static int l_id(lua_State *L) {
  const Tokenizer *t = check_tokenizer(L, 1);
  size_t n;
  const char *token = check_string(L, 2, &n);
  push_token_id(L, strlen(token) == n ? tokenizer_id(t, token) : -1);
  return 1;
}

static int l_token(lua_State *L) {
  const Tokenizer *t = check_tokenizer(L, 1);
  lua_Integer id = check_integer(L, 2, LUA_MININTEGER, LUA_MAXINTEGER);
  return give_string(L, id >= 0 && id < tokenizer_size(t) ? tokenizer_token(t, (int32_t)id) : NULL);
}

static int l_is_special(lua_State *L) {
  const Tokenizer *t = check_tokenizer(L, 1);
  lua_Integer id = check_integer(L, 2, LUA_MININTEGER, LUA_MAXINTEGER);
  return give_boolean(L, id >= 0 && id < tokenizer_size(t) && tokenizer_is_special(t, (int32_t)id));
}

static int l_save(lua_State *L) {
  want_ok(L, tokenizer_save(check_tokenizer(L, 1), check_string(L, 2, NULL)));
  return 0;
}

static int l_len(lua_State *L) { return give_integer(L, tokenizer_size(check_tokenizer(L, 1))); }

/* Upvalue 1: the methods. */
static int l_index(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_type(L, 2) != LUA_TSTRING)
    return raise_new(L, GRPO_EARG, "a tokenizer's field is a name, got a %s", luaL_typename(L, 2));
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const Tokenizer *t = check_tokenizer(L, 1);
  const char *name = lua_tostring(L, 2);
  for (int role = 0; role < TOK_NROLES; role++) {
    if (strcmp(name, token_role_name[role]) != 0) continue;
    push_token_id(L, tokenizer_role(t, (TokenRole)role));
    return 1;
  }
  if (strcmp(name, "kind") == 0)
    lua_pushstring(L, tokenizer_kind(t));
  else if (strcmp(name, "chat_template") == 0) {
    if (lua_getiuservalue(L, 1, 1) == LUA_TNIL) lua_pushstring(L, tokenizer_chat_template(t));
  } else {
    return raise_new(L, GRPO_EARG, "a tokenizer has no field '%s'", name);
  }
  return 1;
}

static int l_newindex(lua_State *L) {
  check_tokenizer(L, 1);
  if (lua_type(L, 2) != LUA_TSTRING || strcmp(lua_tostring(L, 2), "chat_template") != 0)
    return raise_new(L, GRPO_EARG, "a tokenizer's field '%s' cannot be set",
                     luaL_tolstring(L, 2, NULL));
  if (!lua_isnil(L, 3) && !lua_isfunction(L, 3) && lua_type(L, 3) != LUA_TSTRING)
    return raise_new(L, GRPO_EARG,
                     "chat_template: want a Jinja string or a function(messages, opts) -> string, "
                     "got %s",
                     luaL_typename(L, 3));
  lua_settop(L, 3);
  if (lua_type(L, 3) == LUA_TSTRING) find_template(L, check_tokenizer(L, 1));
  const char *text = lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  want_ok(L, tokenizer_set_template(check_tokenizer(L, 1), text));
  lua_setiuservalue(L, 1, 1);
  return 0;
}

static int l_tostring(lua_State *L) {
  TokenizerSlot *t = check_object(L, 1, TOKENIZER_TYPE);
  if (*t)
    lua_pushfstring(L, "grpo.Tokenizer: %s, %d tokens", tokenizer_kind(*t), tokenizer_size(*t));
  else
    lua_pushliteral(L, "grpo.Tokenizer (closed)");
  return 1;
}

/* ---- registration ------------------------------------------------------------------- */

CORE_PART(tokenizer) {
  static const luaL_Reg functions[] = {{"tokenizer_load", l_load},
                                       {"tokenizer_bytes", l_bytes},
                                       {"tokenizer_chars", l_chars},
                                       {"tokenizer_train", l_train},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {FN(chat),       FN(decode), FN(encode), FN(id),
                                     FN(is_special), FN(save),   FN(token),  {NULL, NULL}};
  static const luaL_Reg meta[] = {META(gc),       META(close),    META(len),
                                  META(newindex), META(tostring), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, TOKENIZER_TYPE);
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, methods);
  keep_methods(L, TOKENIZER_TYPE);
  lua_pushcclosure(L, l_index, 1);
  lua_setfield(L, -2, "__index");
  seal_type(L);
  lua_pop(L, 1);
}
