-- The extension sandbox: grpo.sandbox.

return { names = { { name = "sandbox", load = function() return require "grpo.sandbox" end } } }
