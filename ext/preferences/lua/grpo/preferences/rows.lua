-- Rows of preferences as the engine reads them.
--
-- A pair is { prompt = ids, chosen = ids, rejected = ids, margin = number or nil }, a labelled text
-- { prompt = ids, text = ids, label = boolean }.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local origins = require "grpo.options.origins"
local prompts = require "grpo.scoring.prompts"
local sorted_pairs = require "grpo.base.sorted"
local turns = require "grpo.scoring.turns"

local preference_rows = {}

local function complain(config, format, ...)
  errors.raise_at(origins.position(config, "data.pair"), "EARG", "data.pair: " .. format, ...)
end

local function is_messages(v)
  return type(v) == "table" and type(v[1]) == "table" and v[1].role ~= nil
end

-- The messages before the last one of a conversation; nil for another kind of text.
local function beginning(text)
  if not is_messages(text) or #text < 2 then return nil end
  return table.move(text, 1, #text - 1, 1, {})
end

-- The prompt of a row without data.prompt: the beginning of its conversations, or row.prompt.
function preference_rows.prompt(row)
  return beginning(row.chosen) or beginning(row.completion) or row.prompt
end

-- Returns the fields of a pair: the row's own, or the result of data.pair.
local function given(config, row)
  local pair = config.data.pair
  if not pair then return row end
  local result = pair(row)
  if type(result) ~= "table" then
    complain(config, "returned a %s for a row, want { chosen =, rejected = } or { completion =, "
      .. "label = }", type(result))
  end
  return result
end

local function names_of(fields)
  local names = {}
  for name in sorted_pairs(fields) do names[#names + 1] = tostring(name) end
  return #names <= 12 and (" (it has %s)"):format(table.concat(names, ", ")) or ""
end

-- The last message of a conversation must be the model's.
local function content_of(config, field, messages)
  local last = messages[#messages]
  if last.role ~= "assistant" or type(last.content) ~= "string" then
    complain(config, "%s does not end with a message of the assistant, which is the text to learn",
      field)
  end
  return last.content
end

-- The ids of the text in a field.
local function ids_of(config, tokenizer, fields, field)
  local text = fields[field]
  if text == nil or text == core.json_null then
    complain(config, "a row has no %s text%s", field, names_of(fields))
  end
  if text == "" then complain(config, "the %s text of a row is empty; leave the row out", field) end
  if is_messages(text) then text = content_of(config, field, text) end
  local ids, mask = prompts.completion_ids(config, tokenizer, text, "data.pair." .. field)
  if mask then
    complain(config, "%s is a list of strings, the turns of a conversation; want one text", field)
  end
  return ids
end

-- Are these the same ids?
function preference_rows.same(a, b)
  if #a ~= #b then return false end
  for i, id in ipairs(a) do
    if b[i] ~= id then return false end
  end
  return true
end

-- The ids of a text as grpo.reward_model reads it behind its prompt.
local function whole_ids(config, tokenizer, prompt, text)
  if type(text) ~= "string" then
    return table.move(text, 1, #text, #prompt.ids + 1,
      table.move(prompt.ids, 1, #prompt.ids, 1, {}))
  elseif prompt.messages then
    local messages = table.move(prompt.messages, 1, #prompt.messages, 1, {})
    messages[#messages + 1] = { role = "assistant", content = text }
    return tokenizer:encode(turns.rendered(config, tokenizer, messages, false))
  end
  return tokenizer:encode((prompt.given or prompt.text) .. text, { special = prompt.given ~= nil })
end

-- A pair of whole texts: its prompt is what both have in common, up to `most` tokens.
local function whole_pair(config, tokenizer, prompt, fields)
  local texts = {}
  for k, field in ipairs { "chosen", "rejected" } do
    local ids = ids_of(config, tokenizer, fields, field) -- which refuses what is not a text
    local text = fields[field]
    if is_messages(text) then text = content_of(config, field, text) end
    texts[k] = whole_ids(config, tokenizer, prompt, type(text) == "string" and text or ids)
  end
  local a, b, shared = texts[1], texts[2], 0
  local most = math.min(#a - 1, #b - 1, config.data.max_prompt_tokens)
  while shared < most and a[shared + 1] == b[shared + 1] do shared = shared + 1 end
  if shared == 0 then
    complain(config, "chosen and rejected have no token in common; give a prompt")
  end
  return { prompt = table.move(a, 1, shared, 1, {}),
    chosen = table.move(a, shared + 1, #a, 1, {}), rejected = table.move(b, shared + 1, #b, 1, {}) }
end

-- Conversations of a pair must differ in the last message alone.
local function check_beginnings(config, fields)
  local a, b = beginning(fields.chosen), beginning(fields.rejected)
  if a and b and core.json_encode(a) ~= core.json_encode(b) then
    complain(config, "chosen and rejected differ before their last message; a pair has one prompt")
  end
end

-- form: "whole" for a reward model, which reads texts without an end token behind them.
local function pair_of(config, tokenizer, row, prompt, form)
  local fields = given(config, row)
  local pair = form == "whole" and whole_pair(config, tokenizer, prompt, fields)
    or { prompt = prompt.ids, chosen = ids_of(config, tokenizer, fields, "chosen"),
    rejected = ids_of(config, tokenizer, fields, "rejected") }
  pair.margin = fields.margin
  check_beginnings(config, fields)
  if preference_rows.same(pair.chosen, pair.rejected) then
    complain(config, "chosen and rejected are the same text, which says nothing; leave the row out")
  end
  if pair.margin ~= nil and (type(pair.margin) ~= "number" or pair.margin - pair.margin ~= 0) then
    complain(config, "margin is a %s, want a number", type(pair.margin))
  end
  return pair
end

local function labelled_of(config, tokenizer, row, prompt)
  local fields = given(config, row)
  if type(fields.label) ~= "boolean" then
    complain(config, "label is a %s, want true for a desirable text, or false%s",
      fields.label == core.json_null and "null" or type(fields.label), names_of(fields))
  end
  return { prompt = prompt.ids, text = ids_of(config, tokenizer, fields, "completion"),
    label = fields.label }
end

local fields = { "chosen", "rejected", "text" }

-- Does the item fit into sampling.max_new_tokens?  If not, data.too_long says what happens.
local function fit(config, item, count)
  local limit = config.sampling.max_new_tokens
  for _, field in ipairs(fields) do
    local ids = item[field]
    if ids and #ids > limit then
      if config.data.too_long == "error" then
        errors.raise_at(origins.position(config, "sampling.max_new_tokens"), "EARG",
          "sampling.max_new_tokens: the %s text of a row has %d tokens, the limit is %d; raise it, "
          .. "or set data.too_long to \"drop\" or \"truncate_left\"", field, #ids, limit)
      elseif config.data.too_long == "drop" then
        count.dropped = count.dropped + 1
        return false
      end
      count.targets_truncated = (count.targets_truncated or 0) + 1
      item[field] = prompts.first(ids, limit)
    end
  end
  return not item.chosen or not preference_rows.same(item.chosen, item.rejected) -- after the cut
end

local function item_of(config, tokenizer, row, prompt, form, count)
  local make = form == "label" and labelled_of or pair_of
  local item = make(config, tokenizer, row, prompt, form)
  return fit(config, item, count) and item or nil
end

-- The item of a rendered prompt, or nil if it does not fit.  form: "pair", "label" or "whole", for
-- a reward model; count: see prompts.fit.
function preference_rows.of(config, tokenizer, prompt, form, count, held_out)
  return prompts.of_row_part("pair", item_of, config, tokenizer, prompt, held_out, prompt, form,
    count)
end

-- Returns a text that says what is wrong with the row of a rendered prompt, or nil.
function preference_rows.problem(config, tokenizer, prompt, form, held_out)
  local ok, err = errors.try(preference_rows.of, config, tokenizer, prompt, form, { dropped = 0 },
    held_out)
  return not ok and tostring(err):gsub("^.-data%.pair: ", "") or nil
end

-- The next usable item of a source.
local function next_item(source, form)
  for _ = 1, #source.dataset do
    local item = preference_rows.of(source.config, source.tokenizer, source:next(), form, source,
      false)
    if item then return item end
  end
  errors.raise_at(origins.position(source.config, "sampling.max_new_tokens"), "ENOENT",
    "data.train: no usable row, a text of each of the %d is longer than sampling.max_new_tokens = "
    .. "%d; raise it", #source.dataset, source.config.sampling.max_new_tokens)
end

function preference_rows.take(source, n, form)
  return source:collect(n, next_item, form)
end

-- Lists of prompts and of texts, as engine:given takes them: two texts of each pair, one of each
-- labelled text.
function preference_rows.flat(items)
  local all, texts = {}, {}
  for i, item in ipairs(items) do
    all[i] = item.prompt
    if item.text then
      texts[i] = item.text
    else
      texts[2 * i - 1], texts[2 * i] = item.chosen, item.rejected
    end
  end
  return all, texts
end

-- The items as a kept batch shows them.
function preference_rows.examples(items)
  local list = {}
  for _, item in ipairs(items) do
    for _, field in ipairs(fields) do
      if item[field] then list[#list + 1] = { prompt = item.prompt, target = item[field] } end
    end
  end
  return list
end

-- Refuses options of samples in a stage that completes nothing.
function preference_rows.check(kind, config, complain_of)
  if #config.reward_entries > 0 then
    complain_of("rewards", "have no say in a %s stage, which learns from pairs; give them to the "
      .. "stages that use them", kind)
  end
  if config.eval.metric or config.eval.group_size > 0 then
    complain_of(config.eval.metric and "eval.metric" or "eval.group_size",
      "is not used by a %s stage, which is measured on held-out pairs", kind)
  end
  if config.data.target then
    complain_of("data.target", "a %s stage learns from pairs, which data.pair gives; leave it out",
      kind)
  end
end

return preference_rows
