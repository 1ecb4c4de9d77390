---@meta _
-- The function that the extension prompt adds to the prompts.

---Curves of metrics of the run over its steps, in one picture; plot() lists the metrics.
---`o` may be the last argument: run = another run than the prompt's, from and to = steps,
---smooth = weight of what came before in an average (0 to below 1), log = a logarithmic axis,
---height = rows (default 12).
---@param ... string|{ run?: string, from?: number, to?: number, smooth?: number, log?: boolean, height?: integer }
---@return table curves which the prompt draws
function plot(...) end
