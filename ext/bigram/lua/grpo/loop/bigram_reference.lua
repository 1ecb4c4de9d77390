-- reference = "bigram": P(next | token before) counted on the training text.
--
-- For a dataset made by grpo.data.text the text itself is counted, whatever its windows; for others
-- the rows: prompt and target of each, in order, the first 100,000 of them.

local core = require "grpo.core"
local prompts = require "grpo.scoring.prompts"

local bigram_reference = { MAX_ROWS = 100000 }

function bigram_reference.of(config, tokenizer, model)
  local vocab, dataset = model.config.vocab_size, config.data.train
  local counted = core.bigram(vocab)
  local stretch = dataset.stretch
  if stretch then
    return counted:count(type(stretch) == "string" and tokenizer:encode(stretch) or stretch)
  end
  for i = 1, math.min(#dataset, bigram_reference.MAX_ROWS) do
    local row = dataset[i]
    local ids = table.move(prompts.render(config, tokenizer, row).ids, 1,
      config.data.max_prompt_tokens, 1, {})
    local target = prompts.target(config, tokenizer, row)
    if target then table.move(target, 1, #target, #ids + 1, ids) end
    counted:count(ids)
  end
  return counted
end

return bigram_reference
