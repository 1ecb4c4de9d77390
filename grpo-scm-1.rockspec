rockspec_format = "3.0"
package = "grpo"
version = "scm-1"
source = {
  url = "git+https://URL/grpo.git",
}
description = {
  summary = "Teach a language model with rewards: GRPO in C, driven from Lua",
  detailed = [[
The engine of the grpo program as a module for a stock Lua 5.4: models, tokenizers, rewards, trainers.
Needs a C11 compiler, make, pkg-config, and the development files of Lua 5.4, PCRE2 and cJSON.]],
  license = "MIT",
  labels = { "machine-learning", "language-model" },
}
dependencies = {
  "lua ~> 5.4",
}
build = {
  type = "make",
  build_target = "lua-module",
  install_target = "install-lua",
  build_variables = {
    CFLAGS = "$(CFLAGS)",
  },
  install_variables = {
    LUA_CMOD = "$(LIBDIR)",
  },
}
