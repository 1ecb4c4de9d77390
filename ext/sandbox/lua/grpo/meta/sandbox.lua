---@meta _

---@alias grpo.Isolation "process"|false

grpo.sandbox = {}

---Runs Lua code that a model wrote, in a Lua state of its own: no files, processes, modules or
---debug library.  time: seconds, 0.001 to 3600 (default 1), which also allow 5e7 instructions each
---unless `instructions` is given; memory: bytes (default 64 MiB); env: values that the code finds
---as globals; isolate = "process": in a process of its own too.
---@param code string
---@param opts? { time?: number, memory?: number, instructions?: number, env?: table, isolate?: grpo.Isolation }
---@return boolean ok
---@return table|string results the list of its results with n, or a message
---@return string output what it printed, at most a megabyte
function grpo.sandbox.run(code, opts) end
