-- busted --helper: the modules of grpo.so, so that reward tests run under busted as under `grpo test`.
require "grpo"
