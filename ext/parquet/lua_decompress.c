/* lua_decompress.c - core.decompress: the contents of a gzip or zstd file; core.codec_library. */
#include <string.h>

#include "parquet/decompress.h"
#include "script/binding.h"

/* core.decompress(data, what) -> what a gzip or zstd file holds, "gzip" or "zstd"; other data come
 * back as they are.  Raises. */
static int l_decompress(lua_State *L) {
  size_t n;
  const char *data = check_string(L, 1, &n), *what = check_string(L, 2, NULL);
  const Codec codec = codec_of_file(data, n);
  if (codec == CODEC_NONE) {
    lua_settop(L, 1);
    return 1;
  }
  charge_work(L, n);
  Buf *b = push_buf(L);
  want_ok(L, decompress_file(codec, data, n, what, b));
  push_bytes(L, b);
  buf_free(b); /* at once: it may be large */
  lua_pushstring(L, codec == CODEC_GZIP ? "gzip" : "zstd");
  return 2;
}

/* core.codec_library("gzip" or "zstd") -> the library that decompresses it, or "none" */
static int l_codec_library(lua_State *L) {
  const bool gzip = strcmp(check_string(L, 1, NULL), "gzip") == 0;
  const char *library = codec_library(gzip ? CODEC_GZIP : CODEC_ZSTD);
  lua_pushstring(L, library ? library : "none");
  return 1;
}

EXTENSION_PART(decompress) {
  static const luaL_Reg functions[] = {FN(decompress), FN(codec_library), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
