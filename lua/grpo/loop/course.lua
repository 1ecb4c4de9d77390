-- The gradients and learning rates of the last steps, for the message of one that diverges.

local course = {}

local MOST = 20 -- steps that are remembered

local Course = {}
Course.__index = Course

function course.new()
  return setmetatable({ steps = {} }, Course)
end

-- layer: the parameter with the largest gradient, or nil if that is not known.
function Course:add(step, metrics, layer)
  if not metrics.grad_norm then return end
  table.insert(self.steps, { number = step, norm = metrics.grad_norm, lr = metrics.learning_rate,
    layer = layer })
  if #self.steps > MOST then table.remove(self.steps, 1) end
end

local function described(norm, s)
  local lr = s.lr and (", learning rate %.3g"):format(s.lr) or ""
  local layer = s.layer and ", largest in " .. s.layer or ""
  return ("%s %.3g (step %d%s%s)"):format(norm, s.norm, s.number, lr, layer)
end

-- Returns "; before it, the largest of 6 gradient norms was 12.3 (step 5, learning rate 0.01,
-- largest in PARAMETER), and the last ...", or "" before the first step.
function Course:told()
  local last, largest = self.steps[#self.steps], self.steps[1]
  for _, s in ipairs(self.steps) do
    if s.norm > largest.norm then largest = s end
  end
  if not last then return "" end
  if #self.steps == 1 then return described("; before it, the gradient norm was", last) end
  local text = described(("; before it, the largest of %d gradient norms was"):format(#self.steps),
    largest)
  return last == largest and text or text .. described(", and the last", last)
end

return course
