-- busted --helper: loads the modules of grpo.so, so that reward tests run under busted too.
require "grpo"
