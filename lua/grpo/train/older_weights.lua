-- The weights of earlier steps, with which later rollouts are sampled (workers.staleness).
--
-- With staleness k the rollout of step s of a stage is sampled with the weights after its step
-- s - 1 - k, or, of the first k steps, with those that the stage began with.  So which weights
-- sample a rollout follows from k and s alone, and not from who samples it, or when.
--
-- A copy is the trained numbers alone: an adapter's, or all.  There are k of them, and one of the
-- weights of now while the model has others.

local core = require "grpo.core"

local weights = core.weights

local older_weights = {}

local Older = {}
Older.__index = Older

-- k: workers.staleness, 1 or more.
function older_weights.new(tr, k)
  return setmetatable({ tr = tr, k = k, copies = {}, versions = {} }, Older)
end

-- The bytes of the most copies that there are.
function Older:bytes()
  return 4 * (self.k + 1) * self.tr.model:count { trainable = true }
end

-- Copies the weights after step `step`, which are those of now, unless that is done.
local function keep(self, step)
  local version = weights.version(self.tr.model)
  if self.copies[step] and self.versions[step] == version then return end
  self.copies[step], self.versions[step] = weights.snapshot(self.tr.model), version
end

-- No further rollout wants what is older than k steps before `step`.
local function forget(self, step)
  for n, copy in pairs(self.copies) do
    if n < step - self.k then
      copy:close()
      self.copies[n], self.versions[n] = nil, nil
    end
  end
end

-- The step after which the weights were those that sample rollout s, after `now` steps.  Of a run
-- that was begun with a smaller k, the oldest that are there.
local function step_of(self, s, now)
  for step = math.max(s - 1 - self.k, 0), now - 1 do
    if self.copies[step] then return step end
  end
  return now
end

-- Calls f while the model has the weights after step `step`; they are those after step `now` again
-- when it returns or raises.
local function with_weights_of(self, step, now, f)
  local model = self.tr.model
  self.copies[step]:restore(model)
  local ok, result = pcall(f)
  self.copies[now]:restore(model)
  if not ok then error(result, 0) end
  return result
end

-- Calls f while the model has the weights that sample the rollout of step s, after `now` steps of
-- the stage.  Returns what f returns, and whether these weights are older than those of now.
function Older:during(s, now, f)
  keep(self, now)
  forget(self, now)
  local step = step_of(self, s, now)
  if step == now then return f(), false end
  return with_weights_of(self, step, now, f), true
end

-- ---- checkpoints -----------------------------------------------------------------------------

-- Writes, after `now` steps of the stage, what later rollouts want: calls write(NAME) while the
-- model has the weights of i steps ago, NAME "older-i".
function Older:save(now, write)
  keep(self, now)
  for i = self.k, 1, -1 do
    if self.copies[now - i] then
      with_weights_of(self, now - i, now, function() write(("older-%d"):format(i)) end)
    end
  end
end

local function read(tr, dir)
  if not tr.about.adapter then
    return core.model_load(dir, { dtype = "f32", compute = tr.model.compute })
  end
  local view = core.model_base(tr.model)
  core.model_load_adapter(view, dir)
  return view
end

-- Takes what save() has written into a checkpoint `dir` after `now` steps.
function Older:load(now, dir)
  local model = self.tr.model
  local current = weights.snapshot(model)
  for i = self.k, 1, -1 do
    local path = ("%s/older-%d"):format(dir, i)
    if core.fs.isdir(path) then
      local copy <close> = weights.snapshot(read(self.tr, path))
      copy:load(model) -- for a version of its own
      keep(self, now - i)
    end
  end
  current:load(model)
  current:close()
end

return older_weights
