-- grpo.reward_model: a checkpoint with a sequence-classification head, a classifier or a reward
-- model, whose logits are rewards.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local files_read = require "grpo.base.files_read"
local places = require "grpo.data.places"
local model_paths = require "grpo.models.paths"
local options = require "grpo.options"

local methods = {}
local RewardModel = { __index = methods, __name = "grpo.RewardModel" }

local spec = {
  dtype = { type = "string" }, quantize = { type = "string" }, compute = { type = "string" },
  tokenizer = { type = "any" }, label = { type = "string" }, text = { type = "function" },
  output = { type = "string", default = "logit", one_of = { "logit", "probability" } },
}

-- The names of n labels, which config.json may have; Hugging Face's default is LABEL_0, ...
local function label_names(config, n)
  local named, names = type(config.id2label) == "table" and config.id2label or {}, {}
  for i = 1, n do
    local name = named[tostring(i - 1)]
    names[i] = type(name) == "string" and name or "LABEL_" .. (i - 1)
  end
  return names
end

-- The place of the label that counts.
local function place_of(path, label, labels)
  if not label and #labels == 1 then return 1 end
  for i, name in ipairs(labels) do
    if name == label then return i end
  end
  if not label then
    errors.raise("EARG", "reward_model: %s has the labels %s; say whose logit is the reward: "
      .. "label = \"%s\"", path, table.concat(labels, ", "), labels[#labels])
  end
  errors.raise("EARG", "reward_model.label: %s has no label \"%s\", %s", path, label,
    options.advice(label, labels))
end

local function tokenizer_of(path, tokenizer)
  if type(tokenizer) == "string" then
    local place = places.place(tokenizer)
    files_read.add_tokenizer(place)
    return core.tokenizer_load(place)
  end
  if tokenizer ~= nil then return tokenizer end
  if core.fs.exists(path .. "/tokenizer.json") then return core.tokenizer_load(path) end
  return nil -- then texts are lists of ids
end

-- The conversation that a completion ends, or its prompt and text.
local function whole_text(c)
  if not c.messages then return (c.plain_prompt or c.prompt) .. c.text end
  local messages = table.move(c.messages, 1, #c.messages, 1, {})
  messages[#messages + 1] = { role = "assistant", content = c.text }
  return messages
end

function RewardModel.__tostring(judge)
  return ("grpo.RewardModel of %d label%s"):format(#judge.labels, #judge.labels == 1 and "" or "s")
end

-- The ids of a text, of messages, or of ids.
function methods:encode(text)
  if type(text) == "table" and (text[1] == nil or math.type(text[1]) == "integer") then
    return text
  end
  if not self.tokenizer then
    errors.raise("EARG", "reward_model: a text needs a tokenizer, and there is none beside the "
      .. "weights; give tokenizer =")
  end
  if type(text) == "string" then return self.tokenizer:encode(text, { special = true }) end
  return self.tokenizer:encode(self.tokenizer:chat(text))
end

-- A list of logits, one for each label, for each text.
function methods:logits(texts)
  local ids = {}
  for i, text in ipairs(texts) do ids[i] = self:encode(text) end
  return self.classifier:logits(ids)
end

-- The probability of the logit at `place`: softmax over labels that exclude each other, else the
-- logistic function.
local function probability(logits, place, apart)
  if #logits == 1 or apart then return 1 / (1 + math.exp(-logits[place])) end
  local largest, sum = math.max(table.unpack(logits)), 0.0
  for _, x in ipairs(logits) do sum = sum + math.exp(x - largest) end
  return math.exp(logits[place] - largest) / sum
end

-- One number for each text: the logit, or the probability, of the label that counts.
function methods:score(texts)
  local scores = self:logits(texts)
  for i, logits in ipairs(scores) do
    scores[i] = self.output == "logit" and logits[self.place]
      or probability(logits, self.place, self.apart)
  end
  return scores
end

local reward_model = {}

function reward_model.load(path, opts)
  local o = options.check(opts, spec, "reward_model")
  if type(path) ~= "string" then
    error(("reward_model: path: got %s, want the directory of a model"):format(path == nil and "nil"
      or "a " .. type(path)), 2)
  end
  path = places.place(path, true)
  if core.fs.exists(path .. "/run.json") then path = model_paths.find(path).path end
  local classifier = core.classifier_load(path,
    { dtype = o.dtype, quantize = o.quantize, compute = o.compute })
  files_read.add_model(path)
  local config = model_paths.read_json(path .. "/config.json")
  local labels = label_names(config, classifier:labels())
  local judge = { classifier = classifier, labels = labels, output = o.output,
    place = place_of(path, o.label, labels), tokenizer = tokenizer_of(path, o.tokenizer),
    apart = config.problem_type == "multi_label_classification" }
  local text_of = o.text or whole_text
  function judge.group_fn(_, _, cs)
    local texts = {}
    for i, c in ipairs(cs) do texts[i] = text_of(c) end
    return judge:score(texts)
  end
  return setmetatable(judge, RewardModel)
end

return reward_model
