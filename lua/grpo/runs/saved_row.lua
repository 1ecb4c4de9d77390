-- The row of the dataset that a saved completion was sampled and scored for, made again.

local errors = require "grpo.base.errors"
local prompts = require "grpo.scoring.prompts"
local row_checksum = require "grpo.options.row_checksum"

local saved_row = {}

-- The row of a saved completion, a row of completions.jsonl; config: of its stage; run: for
-- messages.  Raises if it is another one than in the run.
function saved_row.of(config, saved, run)
  if saved.row_index == 0 then
    errors.raise_plain("EARG", "%s: the row of step %d, prompt %d was made by data.sampler, and a "
      .. "run does not keep rows; let the sampler name rows of data.train, or use --regenerate",
      run, saved.step, saved.prompt_index)
  end
  local row = prompts.row(config, saved.row, saved.row_index)
  if row_checksum.of(row) ~= saved.row_crc32c then
    errors.raise_plain("EARG", "%s: the row of step %d, prompt %d is not the one that the run "
      .. "scored, because data.train makes another row now, or data.prompt changed it then; make "
      .. "rows depend on nothing but what their functions are given", run, saved.step,
      saved.prompt_index)
  end
  return row
end

return saved_row
