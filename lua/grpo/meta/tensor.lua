---@meta _
-- Tensors (float32) and autograd.  Axes are 1-based, negative ones count from the end; binary
-- operations broadcast by numpy's rules, and a number stands for a tensor of one element.

---@alias grpo.Ids integer[]|grpo.Tensor whole numbers as a list or a tensor

---@class grpo.Tensor
---@field shape integer[]
---@field grad grpo.Tensor|nil a copy of the gradient; nil when there is none
---@field requires_grad boolean
---@field [integer] grpo.Tensor the i-th part along the first axis
---@operator add(grpo.Tensor|number): grpo.Tensor
---@operator sub(grpo.Tensor|number): grpo.Tensor
---@operator mul(grpo.Tensor|number): grpo.Tensor
---@operator div(grpo.Tensor|number): grpo.Tensor
---@operator pow(grpo.Tensor|number): grpo.Tensor
---@operator unm: grpo.Tensor
---@operator len: integer
local Tensor = {}

---The number in a tensor of one element.
---@return number
function Tensor:item() end

---Nested lists of the shape; a number for a tensor without axes.
---@return table|number
function Tensor:totable() end

---Gradients of a single number into every tensor that wants one.  Frees the graph.
function Tensor:backward() end

---A copy outside any graph and any step.
---@return grpo.Tensor
function Tensor:detach() end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:add(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:sub(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:mul(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:div(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:pow(u) end

---@return grpo.Tensor
function Tensor:neg() end

---@return grpo.Tensor
function Tensor:exp() end

---@return grpo.Tensor
function Tensor:log() end

---@return grpo.Tensor
function Tensor:sqrt() end

---@return grpo.Tensor
function Tensor:abs() end

----1, 0 or 1.
---@return grpo.Tensor
function Tensor:sign() end

---@return grpo.Tensor
function Tensor:relu() end

---The tanh approximation.
---@return grpo.Tensor
function Tensor:gelu() end

---@return grpo.Tensor
function Tensor:silu() end

---@return grpo.Tensor
function Tensor:sigmoid() end

---@return grpo.Tensor
function Tensor:tanh() end

---Either bound may be nil.
---@param lo? number
---@param hi? number
---@return grpo.Tensor
function Tensor:clamp(lo, hi) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:minimum(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:maximum(u) end

---1 where it holds, else 0; no gradient flows.
---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:gt(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:ge(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:lt(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:le(u) end

---@param u grpo.Tensor|number
---@return grpo.Tensor
function Tensor:eq(u) end

---Over one axis, which disappears, or over everything.
---@param axis? integer
---@return grpo.Tensor
function Tensor:sum(axis) end

---@param axis? integer
---@return grpo.Tensor
function Tensor:mean(axis) end

---@param axis? integer
---@return grpo.Tensor
function Tensor:max(axis) end

---The quantile of all elements, linearly interpolated.
---@param q number 0 to 1
---@return grpo.Tensor
function Tensor:quantile(q) end

---@param u grpo.Tensor
---@return grpo.Tensor
function Tensor:matmul(u) end

---@param a integer
---@param b integer
---@return grpo.Tensor
function Tensor:transpose(a, b) end

---One size may be -1.
---@param shape integer[]
---@return grpo.Tensor
function Tensor:reshape(shape) end

---n positions along an axis, from `first` (1-based).
---@param axis integer
---@param first integer
---@param n integer
---@return grpo.Tensor
function Tensor:narrow(axis, first, n) end

---One element per line along an axis, which disappears; of a vector, any elements.
---@param axis integer
---@param ids grpo.Ids 0-based, as vocabulary ids are
---@return grpo.Tensor
function Tensor:gather(axis, ids) end

---@param axis integer
---@return grpo.Tensor
function Tensor:softmax(axis) end

---@param axis integer
---@return grpo.Tensor
function Tensor:log_softmax(axis) end

---[N] -> [n]: the sum over each sequence.
---@param seq grpo.Ids 1-based sequence of each element
---@param n integer sequences
---@return grpo.Tensor
function Tensor:segment_sum(seq, n) end

---[N] -> [n]; the mean of an empty sequence is 0.
---@param seq grpo.Ids
---@param n integer
---@return grpo.Tensor
function Tensor:segment_mean(seq, n) end

---[n] -> [N]: each element gets its sequence's value.
---@param seq grpo.Ids
---@return grpo.Tensor
function Tensor:spread(seq) end

---@class grpo.Optimizer
local Optimizer = {}

---One step; tensors without a gradient are left alone.
---@param lr number
function Optimizer:step(lr) end

function Optimizer:zero_grad() end

---@class grpo.AdamWOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field eps? number default 1e-8
---@field weight_decay? number default 0
---@field no_decay? ("bias"|"norm")[] a model's parameters without decay; default both
