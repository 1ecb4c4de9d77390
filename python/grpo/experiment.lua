-- The script of grpo.Trainer in the Python package.  The host gives TRL's settings, which become
-- options here, and the rows; its rewards are added to the run.

local grpo = require "grpo"
local foreign_settings = require "grpo.options.foreign_settings"

local host = grpo.host.settings()
local options = foreign_settings.options(host.settings)

local function section(name)
  options[name] = options[name] or {}
  return options[name]
end

section("model").path, section("model").tokenizer = host.model, host.tokenizer
section("data").train = grpo.data.list(grpo.host.rows "train")
if host.eval then section("data").eval = grpo.data.list(grpo.host.rows "eval") end
options.name = "run"
-- A judge that is asked over the network takes its time, and Ctrl-C ends a function of Python's.
section("limits").reward = { seconds = 1e9 }
return grpo.experiment(options)
