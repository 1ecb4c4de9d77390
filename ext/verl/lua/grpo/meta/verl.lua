---@meta _

---@class rewards.numeric
local numeric = {}

--- verl's scorers.  "strict": the number after ####, as text; "flexible": the last number, as
--- text; "math": the last \boxed, normalised text; these give 1 or 0.  "dapo": the last
--- "Answer:" line, normalised text, else the last \boxed as it is, 1 or -1.
---@param opts { method: "strict"|"flexible"|"math"|"dapo", field: string? }
---@return fun(text: string, row: table): number, { extracted: string }
function numeric.verl(opts) end
