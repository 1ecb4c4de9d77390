/* lua_turns.c - the field on_turn of a rollout: a Lua function is called at the end of each turn.
 *
 *   on_turn(prompt, sample, ids, finish, first) -> nil | list of ids
 *
 * prompt and sample are numbers in this call, from 1; ids are the turn's; finish is "eos" or
 * "stop"; first is the position of ids[1] in the completion.  nil ends the completion; a list is
 * injected into it.  An error ends the rollout, and we raise it again after the engine has
 * returned.
 */
#include "script/lua_turns.h"

#include "script/binding.h"

typedef struct TurnCall {
  const Completion *c;
  int first;
  IntBuf *ids;
  Reply *reply;
} TurnCall;

/* (function, call) */
static int protected_turn(lua_State *L) {
  const TurnCall *t = lua_touserdata(L, 2);
  const Completion *c = t->c;
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, c->request + 1);
  lua_pushinteger(L, c->sample + 1);
  push_ids(L, c->ids + t->first, (size_t)(c->len - t->first));
  lua_pushstring(L, finish_name(c->finish));
  lua_pushinteger(L, t->first + 1);
  lua_call(L, 5, 1);
  if (lua_isnil(L, -1)) return 0;
  intbuf_clear(t->ids);
  /* The decoder injects no list that is too long, so we do not read it. */
  const bool fits = !lua_istable(L, -1) || lua_rawlen(L, -1) <= t->ids->cap;
  if (fits) check_ids(L, -1, "rollout.on_turn", t->ids);
  *t->reply = (Reply){
      .continues = true, .ids = t->ids->data, .n = fits ? (int)t->ids->len : (int)t->ids->cap};
  return 0;
}

static Status on_turn(void *user, const Completion *c, int first, Reply *reply) {
  LuaTurns *t = user;
  lua_State *L = t->L;
  TurnCall call = {c, first, &t->ids, reply};
  luaL_checkstack(L, 8, "on_turn");
  lua_pushcfunction(L, protected_turn);
  lua_pushvalue(L, t->function);
  lua_pushlightuserdata(L, &call);
  if (call_protected(L, 2, 0)) return GRPO_OK;
  t->error = luaL_ref(L, LUA_REGISTRYINDEX);
  return fail(GRPO_ESCRIPT, "rollout.on_turn raised an error");
}

void turns_begin(lua_State *L, int options, RolloutOptions *o, LuaTurns *t) {
  *t = (LuaTurns){.L = L, .error = LUA_NOREF};
  if (lua_getfield(L, options, "on_turn") == LUA_TNIL) return;
  if (!lua_isfunction(L, -1))
    raise_new(L, GRPO_EARG, "rollout.on_turn: a function expected, got %s", luaL_typename(L, -1));
  t->function = lua_gettop(L);
  t->ids.cap = (size_t)o->sampling.max_new_tokens;
  t->ids.data = push_scratch(L, t->ids.cap, sizeof *t->ids.data);
  o->on_turn = on_turn;
  o->on_turn_user = t;
}

void turns_end(LuaTurns *t, Status s) {
  lua_State *L = t->L;
  if (t->error != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, t->error);
    luaL_unref(L, LUA_REGISTRYINDEX, t->error);
    lua_error(L);
  }
  if (s) raise_status(L, s);
}
