-- A judge that is a model of this process.

local core = require "grpo.core"
local loading = require "grpo.models.loading"
local verdicts = require "grpo.judge.verdicts"

local Model = {}
Model.__index = Model

-- o: the options of grpo.judge.
function Model.new(o)
  local model = o.model
  if type(model) == "string" then
    model = loading.open(model, { dtype = o.dtype, quantize = o.quantize, compute = o.compute,
      tokenizer = o.tokenizer })
  end
  if not model.tokenizer then
    error("judge.model: it has no tokenizer, which a question needs; give tokenizer =", 0)
  end
  local self = setmetatable({ model = model, grades = o.verdicts, names = {}, ids = {}, longest = 1,
    sampling = { max_new_tokens = o.max_new_tokens, temperature = 0 } }, Model)
  self.source = type(o.model) == "string" and o.model or "a model"
  for i, name in ipairs(o.verdicts and verdicts.names(o.verdicts) or {}) do
    self.names[i], self.ids[i] = name, model.tokenizer:encode(name)
    self.longest = math.max(self.longest, #self.ids[i])
  end
  return self
end

-- The ids of a prompt: a text, or messages, behind which the model answers.
function Model:encode(prompt)
  local tokenizer = self.model.tokenizer
  if type(prompt) == "string" then return tokenizer:encode(prompt, { special = true }) end
  return tokenizer:encode(tokenizer:chat(prompt, { generation_prompt = true }))
end

-- log P(verdict | prompt) of every verdict for every prompt.
function Model:weigh(prompts)
  local given, asked = {}, {}
  for _, ids in ipairs(prompts) do
    for _, verdict in ipairs(self.ids) do given[#given + 1], asked[#asked + 1] = ids, verdict end
  end
  local scored = self.model:score(given, asked)
  local logp, at, results = scored.logp:totable(), 0, {}
  for i = 1, #prompts do
    results[i] = {}
    for k, name in ipairs(self.names) do
      local sum = 0.0
      for _ = 1, #self.ids[k] do
        at = at + 1
        sum = sum + logp[at]
      end
      results[i][name] = sum
    end
  end
  return results
end

-- { logprobs = } or { answer = text } for each prompt.
function Model:answers(prompts)
  local results = {}
  if self.grades then
    for i, logprobs in ipairs(self:weigh(prompts)) do results[i] = { logprobs = logprobs } end
  else
    for _, c in ipairs(self.model:generate(prompts, self.sampling)) do
      results[c.prompt] = { answer = c.text }
    end
  end
  return results
end

-- Answers questions { prompt = }: also { problem = } where the model cannot read so much.
function Model:ask(questions)
  local prompts, places, results = {}, {}, {}
  local context = loading.context(self.model)
  for i, question in ipairs(questions) do
    local ids = self:encode(question.prompt)
    if #ids + self.longest <= context then
      prompts[#prompts + 1], places[#places + 1] = ids, i
    else
      results[i] = { problem = ("the prompt has %d tokens, too many for the judge's context of %d")
        :format(#ids, context) }
    end
  end
  if #prompts == 0 then return results end
  core.judge_timed(function()
    for k, result in ipairs(self:answers(prompts)) do results[places[k]] = result end
  end)
  return results
end

return Model
