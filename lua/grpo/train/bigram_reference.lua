-- reference = "bigram": P(next | token before) counted on the training text.
--
-- For a dataset made by grpo.data.text the text itself is counted, whatever its windows; for others
-- the rows: prompt and target of each, in order, the first 100,000 of them.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local origins = require "grpo.experiment.origins"
local prompts = require "grpo.train.prompts"

local bigram_reference = { MAX_ROWS = 100000 }

-- A vocabulary too large for a table of pairs, before anything is counted.
function bigram_reference.check(config, vocab)
  if vocab <= core.BIGRAM_TOKENS then return end
  errors.raise_at(origins.position(config, "reference"), "EARG",
    "reference: \"bigram\" keeps a table of all pairs of tokens: %d tokens would take %d MiB, it "
    .. "is for up to %d; train a smaller tokenizer, or use \"initial\" or \"random\"", vocab,
    (vocab * vocab * 8) >> 20, core.BIGRAM_TOKENS)
end

function bigram_reference.of(config, tokenizer, model)
  local vocab, dataset = model.config.vocab_size, config.data.train
  bigram_reference.check(config, vocab)
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
