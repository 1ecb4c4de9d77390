/* open.c - require "grpo.core": the tables of all files, in one. */
#include "script/script.h"

int open_core(lua_State *L) {
  static const luaL_Reg *const tables[] = {
      errors_functions, limits_functions, host_functions,     base_functions,  json_functions,
      state_functions,  tensor_functions, autograd_functions, loss_functions,  text_functions,
      model_functions,  engine_functions, bench_functions,    guest_functions, sandbox_functions};
  static void (*const open[])(lua_State *) = {
      json_open, state_open, regex_open, fs_open,     base_open,    tensor_open, autograd_open,
      text_open, model_open, edit_open,  engine_open, channel_open, process_open};
  lua_createtable(L, 0, 128);
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) luaL_setfuncs(L, tables[i], 0);
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) open[i](L);
  return 1;
}
