-- A step that met a value which is not finite: its batch is kept in the run's directory, and
-- train.on_nonfinite says whether the run goes to the next batch or ends.
--
-- The engine has not taken the optimizer step that met it, and says in its error which operation,
-- parameter and sample came first (src/rl/nonfinite.h), and how many optimizer steps from the same
-- rollout were taken before.  Those stay: to restore what was before them would take memory for a
-- copy of weights and moments in every step.

local core = require "grpo.core"
local recorder = require "grpo.loop.recorder"

local fs = core.fs
local nonfinite = {}

-- Batches that may be skipped one after the other.  Weights that are not finite would skip all.
local MOST_IN_A_ROW = 10

-- ---- what is kept ------------------------------------------------------------------

-- The completions, prompts or examples that the step was at work on, as rows; nil if it had taken
-- nothing yet.
local function rows_of(tr, step, work)
  local rows, batch = {}, work and work.batch
  if batch and batch.completions then
    for i, c in ipairs(batch.completions) do
      rows[i] = recorder.completion_row(step, batch, i, c)
    end
  elseif batch then
    for i, prompt in ipairs(batch.prompts) do
      rows[i] = { step = step, prompt_index = i, row = prompt.number,
        row_index = prompt.index,
        prompt = prompt.text or tr.tokenizer:decode(prompt.ids) }
    end
  elseif work then
    for i, x in ipairs(work.examples) do
      rows[i] = { step = step, prompt_index = i, prompt = tr.tokenizer:decode(x.prompt),
        target = tr.tokenizer:decode(x.target) }
    end
  end
  return rows[1] and rows
end

-- Writes the rows to RUN/nonfinite/step-N.jsonl, the second of a step to step-N-02.jsonl; returns
-- the path, or nil if there is no directory or no batch.
local function keep(stage, p, message, number)
  local tr, step = stage.tr, stage.tr.step_count + 1
  local rows = tr.directory and rows_of(tr, step, stage.work)
  if not rows then return nil end
  local dir, lines = tr.directory.dir .. "/nonfinite", {}
  local path = ("%s/step-%09d%s.jsonl"):format(dir, step,
    number > 1 and ("-%02d"):format(number) or "")
  local argument = { stage = stage.index, step = p.step, steps = p.steps, fraction = p.fraction,
    tokens = p.tokens, update = stage.update, updates = p.updates,
    update_tokens = stage.update_tokens }
  for i, row in ipairs(rows) do
    row.p, row.problem = argument, message
    lines[i] = core.json_encode(row) .. "\n"
  end
  tr.directory:check_place()
  local ok, problem = fs.mkdirs(dir)
  if ok then ok, problem = fs.write(path, table.concat(lines)) end
  if not ok then tr.recorder:advise { ("the batch could not be kept: %s"):format(problem) } end
  return ok and path
end

-- Adds to an error of the engine what the steps before it did.
function nonfinite.tell_course(tr, err)
  if type(err) ~= "table" or err.code ~= "EDIVERGED" or err.nonfinite then return end
  err.nonfinite = true -- once
  err.message = err.message .. tr.recorder.course:told()
end

-- ---- what follows ------------------------------------------------------------------

-- A step of the stage has failed with `err`, its attempt `number`.  Keeps the batch, and returns
-- true if the stage is to take the next one; else the error, which names the batch now, is the
-- caller's to raise.
function nonfinite.skips(stage, p, err, number)
  if type(err) ~= "table" or not (err.code == "EDIVERGED" or err.nonfinite) then return false end
  local path = keep(stage, p, err.message, number)
  local tr = stage.tr
  nonfinite.tell_course(tr, err)
  local look = path and ("; 'grpo replay %s %d --nonfinite' shows the batch"):format(
    tr.directory.dir, tr.step_count + 1) or ""
  if stage.config.train.on_nonfinite == "skip" and number <= MOST_IN_A_ROW then
    tr.recorder:advise { ("skipped a batch (train.on_nonfinite): %s%s"):format(err.message, look) }
    return true
  end
  if number > 1 then look = ("; %d batches before it were skipped"):format(number - 1) .. look end
  err.message = err.message .. look
  return false
end

return nonfinite
