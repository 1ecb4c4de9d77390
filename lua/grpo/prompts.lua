-- Which rows a step trains on, and what the model sees of them.
--
-- A stage walks through its dataset in a seeded permutation of its own for each
-- epoch.  The only state is a cursor: how many rows were drawn so far.

local core = require "grpo.core"
local errors = require "grpo.errors"
local experiment = require "grpo.experiment"

local prompts = {}

local function complain(config, path, format, ...)
  errors.raise_at(experiment.position(config, path), "EARG", path .. ": " .. format, ...)
end

local function encode(config, tokenizer, text, special)
  local ok, ids = pcall(tokenizer.encode, tokenizer, text, { special = special })
  if ok then return ids end
  complain(config, "data.prompt", "%s (prompt: %q)", (tostring(ids):gsub("^%S+:%d+: ", "")), text:sub(1, 60))
end

local function is_ids(v)
  return type(v) == "table" and math.type(v[1]) == "integer"
end

-- What the model reads: { ids=, text=, messages= } for a row.
function prompts.render(config, tokenizer, row)
  local render = config.data.prompt
  local prompt
  if render then
    local ok, result = core.protected(render, row)
    if not ok then error(errors.naming("data.prompt", result, "EARG"), 0) end
    prompt = result
  else
    prompt = type(row) == "table" and (config.reads_text and row.text or row.prompt) or nil
  end
  if type(prompt) == "string" then
    return { text = prompt, ids = encode(config, tokenizer, prompt, true) }
  end
  if is_ids(prompt) then return { text = tokenizer:decode(prompt), ids = prompt } end
  if type(prompt) ~= "table" then
    local got = prompt == nil and "nothing" or "a " .. type(prompt)
    complain(config, "data.prompt", "%s for a row, want a string, a list of ids or a list of messages",
      render and "returned " .. got or "row.prompt is " .. type(prompt))
  end
  local template = config.model.chat_template
  local text
  if type(template) == "function" then
    text = template(prompt, { generation_prompt = true })
  elseif template then
    text = require "grpo.jinja".chat(template, tokenizer, prompt, { generation_prompt = true })
  else
    text = tokenizer:chat(prompt, { generation_prompt = true })
  end
  return { text = text, messages = prompt, ids = encode(config, tokenizer, text, false) }
end

-- True when the prompt may be used; truncates or raises as data.too_long says, counting in count.dropped, .truncated.
function prompts.fit(config, tokenizer, prompt, count)
  local limit, too_long = config.data.max_prompt_tokens, config.data.too_long
  if #prompt.ids == 0 then
    complain(config, "data.prompt", "a prompt has no token; give every prompt at least one character")
  end
  if #prompt.ids <= limit then return true end
  if too_long == "error" then
    complain(config, "data.max_prompt_tokens", "a prompt has %d tokens, the limit is %d; raise it, "
      .. "or set too_long to \"drop\" or \"truncate_left\"", #prompt.ids, limit)
  end
  if too_long == "drop" then
    count.dropped = count.dropped + 1
    return false
  end
  count.truncated = count.truncated + 1
  prompt.ids = table.move(prompt.ids, #prompt.ids - limit + 1, #prompt.ids, 1, {})
  prompt.text = tokenizer:decode(prompt.ids)
  return true
end

-- What a completion of this row is compared with, or should be: a list of ids as it is, a string encoded and ended with
-- the tokenizer's end token.  nil: data.target is not set, or gives nothing for the row.
function prompts.target(config, tokenizer, row)
  local target = config.data.target and config.data.target(row)
  if target == nil or is_ids(target) then return target end
  if type(target) ~= "string" then
    complain(config, "data.target", "returned a %s for a row, want a string or a list of ids", type(target))
  end
  local ids = tokenizer:encode(target)
  if tokenizer.eos and ids[#ids] ~= tokenizer.eos then ids[#ids + 1] = tokenizer.eos end
  if #ids == 0 then complain(config, "data.target", "returned an empty string for a row") end
  return ids
end

-- The first n of a list of ids.
function prompts.first(ids, n)
  return #ids > n and table.move(ids, 1, n, 1, {}) or ids
end

-- The targets of prompts as core.engine's rollout takes them; nil when no prompt has one.
function prompts.targets(list, max_new_tokens)
  local targets, any = {}, false
  for i, prompt in ipairs(list) do
    targets[i] = prompt.target and prompts.first(prompt.target, max_new_tokens) or false
    any = any or prompt.target ~= nil
  end
  return any and targets or nil
end

local Source = {}
Source.__index = Source

-- A source of prompts for one stage.
function prompts.source(config, tokenizer)
  return setmetatable({
    config = config, tokenizer = tokenizer, dataset = config.data.train, cursor = 0, dropped = 0, truncated = 0,
  }, Source)
end

-- Row number `cursor` of a stage's endless walk through data.train.
function prompts.row(config, cursor)
  local dataset = config.data.train
  local n = #dataset
  local i = cursor % n
  if config.data.shuffle then i = core.permute(config.seed + (cursor // n) * 1000003, n, i) end
  return dataset[i + 1]
end

-- The next usable prompt: { row=, ids=, text=, messages=, number= }.
function Source:next()
  for _ = 1, #self.dataset do
    local number = self.cursor
    local row = prompts.row(self.config, number)
    self.cursor = number + 1
    local prompt = prompts.render(self.config, self.tokenizer, row)
    if prompts.fit(self.config, self.tokenizer, prompt, self) then
      prompt.row, prompt.number, prompt.target = row, number, prompts.target(self.config, self.tokenizer, row)
      return prompt
    end
  end
  errors.raise_at(experiment.position(self.config, "data.max_prompt_tokens"), "ENOENT",
    "data.train: no usable row, all %d prompts are longer than max_prompt_tokens = %d; raise it",
    #self.dataset, self.config.data.max_prompt_tokens)
end

function Source:draw(n)
  local list = {}
  for i = 1, n do list[i] = self:next() end
  return list
end

-- The next row as a demonstration: { prompt=ids, target=ids } for kind = "sft".
function Source:demonstration(max_new_tokens)
  local prompt = self:next()
  if not prompt.target then complain(self.config, "data.target", "returned a nil for a row, want a string") end
  return { prompt = prompt.ids, target = prompts.first(prompt.target, max_new_tokens) }
end

return prompts
