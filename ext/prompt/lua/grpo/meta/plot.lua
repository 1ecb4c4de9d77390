---@meta _
-- The functions that the extension prompt adds to the prompts.

---Curves of metrics of the run over its steps, in one picture; plot() lists the metrics.
---`o` may be the last argument: run = another run than the prompt's, from and to = steps,
---smooth = weight of what came before in an average (0 to below 1), log = a logarithmic axis,
---height = rows (default 12).
---@param ... string|{ run?: string, from?: number, to?: number, smooth?: number, log?: boolean, height?: integer }
---@return table curves which the prompt draws
function plot(...) end

---Ids with their pieces of text; for a completion also the probability of each.
---@param x string|integer[]|grpo.Completion a text is encoded without begin and end tokens
---@param tokenizer? grpo.Tokenizer default: the session's
---@return table tokens with .ids, shown as a table
function tokens(x, tokenizer) end
