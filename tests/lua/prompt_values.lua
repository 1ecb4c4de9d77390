-- The values that tests of the prompt show: a tiny model, its tokenizer, a trainer, a completion.

local grpo = require "grpo"
local tiny = require "tests.lua.tiny"

local values = {}

values.plain = { width = 80, colour = false } -- how values are shown
local tok = grpo.tokenizer.chars("0123456789+= ab\n")
local shape = tiny.llama { hidden_size = 16, intermediate_size = 32 }
local model = grpo.model.new(tiny.with(shape, { num_hidden_layers = 2 }), { tokenizer = tok })

local experiment = tiny.experiments(function()
  return {
    name = "tiny", seed = 1, model = { config = shape, tokenizer = tok },
    data = { train = grpo.data.list { { prompt = "1+1=" }, { prompt = "2+3=" } },
      max_prompt_tokens = 8 },
    sampling = { group_size = 4, max_new_tokens = 6 },
    rewards = { { name = "digits", fn = function(text)
      return select(2, text:gsub("%d", ""))
    end } },
    train = { steps = 3, prompts_per_step = 2, lr = 1e-3, kl = 0.01 },
  }
end)

function values.trainer(change) return grpo.trainer(experiment(change)) end

-- A completion whose tokens have these probabilities.
function values.completion(text, probabilities, more)
  local c = { text = text, finish = "eos", logprobs = {}, prompt = "1+1=" }
  c.ids = text:find("[^0-9+=]") and {} or tok:encode(text)
  for i, p in ipairs(probabilities) do c.logprobs[i] = math.log(p) end
  c.length = #c.ids
  return tiny.with(c, more)
end

values.tok, values.model = tok, model

return values
