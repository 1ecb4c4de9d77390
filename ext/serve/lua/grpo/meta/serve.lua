---@meta _
-- The options of kind = "agents", which the extension serve adds.

---@class grpo.Options
---@field agents? grpo.Options.agents

---@class grpo.Options.agents
---@field host? string address of the server for agents; another than this machine's own wants a token in the environment variable GRPO_SERVE_TOKEN (default "127.0.0.1")
---@field port? integer its port; 0: one that is free, which the log of the run names (default 8090)
---@field sequences? integer completions that are decoded side by side (default 8)
---@field seconds? number a session of which nothing was heard for so long is given to another program (default 600)
