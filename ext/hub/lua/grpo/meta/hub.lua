---@meta _
-- What the extension hub adds.

grpo.hub = {}

---The directory of what lies in the Hugging Face cache under a name such as "openai/gsm8k", perhaps
---followed by "@" and a revision, and its commit; nothing is downloaded (grpo pull does that).
---@param name string
---@param opts? { kind?: "model"|"dataset", revision?: string } default "model", "main"
---@return string directory
---@return string commit
function grpo.hub.snapshot(name, opts) end
