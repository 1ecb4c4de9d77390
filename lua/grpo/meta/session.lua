---@meta _
-- The functions of the prompts of `grpo repl` and `grpo attach`, in addition to grpo, tr, m, tok
-- and exp.

---Prints values as the prompt does.
---@param ... any
function show(...) end

---grpo attach: the completions of the last step with the lowest reward.
---@param n? integer how many, 1 or more (default 1)
---@return grpo.Completion[]
function worst(n) end

---grpo attach: the completions of the last step with the highest reward.
---@param n? integer how many, 1 or more (default 1)
---@return grpo.Completion[]
function best(n) end

---grpo attach: the weight of a reward from the next step on; recorded, and repeated by a resume.
---@param name string of the reward entry
---@param value number
function weight(name, value) end

---grpo attach: the run waits between two steps.
function pause() end

---grpo attach: the run continues.
function resume() end

---grpo attach: ends the run after a checkpoint.
---@param reason? string
function stop(reason) end

---grpo attach: a checkpoint now.
---@return string path
function save() end

---grpo attach: an evaluation of the held-out rows now; recorded, and repeated by a resume.
---@return table report
function evaluate() end
