/* lua_yaml.c - core.yaml_decode and core.yaml_library. */
#include "script/binding.h"
#include "script/lua_json.h"
#include "yaml/yaml.h"

/* core.yaml_decode(text, what) -> value, the same as JSON text */
static int l_yaml_decode(lua_State *L) {
  size_t n;
  const char *s = check_string(L, 1, &n), *what = check_string(L, 2, NULL);
  charge_work(L, n / 8);
  Buf *json = push_buf(L);
  want_ok(L, yaml_to_json(s, n, what, json));
  push_json_rows(L, json->data, json->len, what);
  buf_free(json); /* at once */
  return 1;
}

/* core.yaml_library() -> "libyaml", or "none" */
static int l_yaml_library(lua_State *L) {
  lua_pushstring(L, yaml_available() ? "libyaml" : "none");
  return 1;
}

EXTENSION_PART(yaml) {
  static const luaL_Reg functions[] = {FN(yaml_decode), FN(yaml_library), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
