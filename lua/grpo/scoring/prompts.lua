-- Which rows a step trains on, and what the model sees of them.
--
-- A stage walks through its dataset in a seeded permutation of its own for each
-- epoch.  The only state is a cursor: how many rows were drawn so far.  With data.sampler the
-- script chooses the rows (row_sampler.lua); the cursor then numbers what it has chosen.

local row_random = require "grpo.scoring.row_random"
local core = require "grpo.core"
local environment = require "grpo.options.environment"
local errors = require "grpo.base.errors"
local origins = require "grpo.options.origins"
local row_checksum = require "grpo.options.row_checksum"
local row_sampler = require "grpo.options.row_sampler"
local turns = require "grpo.scoring.turns"

local prompts = {}
local MOST_ID = 2 ^ 31 - 1

local function complain(config, path, format, ...)
  errors.raise_at(origins.position(config, path), "EARG", path .. ": " .. format, ...)
end

local function encode(config, tokenizer, text, special, option)
  local ok, ids = errors.try(tokenizer.encode, tokenizer, text, { special = special })
  if ok then return ids end
  complain(config, option, "%s (prompt: %q)", (tostring(ids):gsub("^%S+:%d+: ", "")),
    text:sub(1, 60))
end

local function is_ids(v)
  return type(v) == "table" and type(v[1]) == "number"
end

-- The ids of a list, as integers.
local function ids_of(config, option, list)
  local ids, whole = {}, true
  for i, v in ipairs(list) do
    ids[i] = math.tointeger(type(v) == "number" and v or nil)
    whole = whole and math.type(v) == "integer"
    if not ids[i] or ids[i] < 0 or ids[i] > MOST_ID then
      complain(config, option, "item %d of the list for a row is %s, want the id of a token: 0, 1 "
        .. "...", i, type(v) == "number" and ("%.17g"):format(v) or "a " .. type(v))
    end
  end
  return whole and list or ids -- the row's own table, where nothing is to be converted
end

-- The first observation stands behind the prompt: in the last message, when that is the user's,
-- else in one of its own.
local function with_observation(prompt, observation)
  if type(prompt) == "string" then return prompt .. observation end
  local list = {}
  for i, message in ipairs(prompt) do list[i] = message end
  local last = list[#list]
  if last and last.role == "user" and type(last.content) == "string" then
    list[#list] = { role = "user", content = last.content .. observation }
  elseif observation ~= "" then
    list[#list + 1] = { role = "user", content = observation }
  end
  return list
end

-- Returns in words what was given in place of a prompt.
local function described(v)
  if v == nil then return "nothing" end
  if v == core.json_null then return "null" end
  if type(v) ~= "table" then return "a " .. type(v) end
  if v[1] ~= nil then return "a list whose first item is a " .. type(v[1]) end
  return next(v) == nil and "an empty list" or "a table without a first item"
end

-- Says what a row without a prompt has: messages, which data.prompt may give, or else its fields:
-- " (it has answer, question)".
local function fields_of(row)
  for _, name in ipairs { "messages", "conversations", "conversation" } do
    if type(row) == "table" and type(row[name]) == "table" then
      return (", which has %s; write data.prompt = function(row) return row.%s end, without the "
        .. "answer, which is for data.target;"):format(name, name)
    end
  end
  local names = {}
  for name in pairs(type(row) == "table" and row or {}) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return #names > 0 and #names <= 12 and (" (it has %s)"):format(table.concat(names, ", ")) or ""
end

local around = setmetatable({}, { __mode = "k" }) -- [tokenizer] = the texts that it puts around one

-- The texts of the tokens that the tokenizer puts before and behind what it encodes.
local function added_texts(tokenizer)
  local known = around[tokenizer]
  if known then return known[1], known[2] end
  local before, behind = "", ""
  local ok, plain, whole = errors.try(function()
    return tokenizer:encode("a"), tokenizer:encode("a", { special = true })
  end)
  local added = ok and #whole - #plain or 0
  for k = 0, added > 0 and added or -1 do
    local same = true
    for i, id in ipairs(plain) do same = same and whole[k + i] == id end
    if same then
      before = tokenizer:decode(table.move(whole, 1, k, 1, {}))
      behind = tokenizer:decode(table.move(whole, k + #plain + 1, #whole, 1, {}))
      break
    end
  end
  around[tokenizer] = { before, behind }
  return before, behind
end

-- Returns the ids of a string, a list of ids or a list of messages, and their text; nil for
-- anything else.  option: the path of the option that gave it.
local function encoded(config, tokenizer, prompt, option)
  if type(prompt) == "string" then
    local before, behind = added_texts(tokenizer)
    return encode(config, tokenizer, prompt, true, option), before .. prompt .. behind
  end
  if is_ids(prompt) then
    local ids = ids_of(config, option, prompt)
    return ids, tokenizer:decode(ids)
  end
  if type(prompt) ~= "table" or type(prompt[1]) ~= "table" then return nil end
  local ok, text = errors.try(turns.rendered, config, tokenizer, prompt, true)
  if not ok then error(errors.naming(option, text, "EARG"), 0) end
  return encode(config, tokenizer, text, false, option), text
end

-- Returns the ids of a prompt, and raises an error for anything else.
function prompts.encoded(config, tokenizer, prompt, option)
  local ids = encoded(config, tokenizer, prompt, option)
  if not ids or #ids == 0 then
    complain(config, option, "returned %s for a completion, want a string, a list of ids or a list "
      .. "of messages, or nil where it has no teacher",
      ids and "an empty text" or described(prompt))
  end
  return ids
end

-- The prompt of a row as the model reads it: { ids=, text=, messages=, observation=, key = that of
-- the environment's first state, given = the text of a plain string }.  number, held_out: where the
-- random numbers of an environment's beginning are.
function prompts.render(config, tokenizer, row, number, held_out)
  local render = config.data.prompt
  local prompt, observation, key
  if render then
    local ok, result = core.protected(render, row)
    if not ok then error(errors.naming("data.prompt", result, "EARG"), 0) end
    prompt = result
  else
    prompt = type(row) == "table" and (config.reads_text and row.text
      or config.prompt_of and config.prompt_of(row) or row.prompt) or nil
  end
  if config.environment and not is_ids(prompt) then
    observation, key = environment.opening(config, row, number, held_out)
    if prompt == nil and not render then prompt = "" end
    if type(prompt) == "string" or type(prompt) == "table" then
      prompt = with_observation(prompt, observation)
    end
  end
  local ids, text = encoded(config, tokenizer, prompt, "data.prompt")
  if not ids then
    local got = described(prompt)
    complain(config, "data.prompt",
      "%s for a row%s, want a string, a list of ids or a list of messages",
      render and "returned " .. got or "row.prompt is " .. got, fields_of(row))
  end
  return { text = text, ids = ids, given = type(prompt) == "string" and prompt or nil,
    messages = type(prompt) == "table" and not is_ids(prompt) and prompt or nil,
    observation = observation, key = key }
end

-- f(config, tokenizer, row, ...), which makes a part ("prompt", "target", "pair") of row i of
-- data.train or data.eval; an error names the row.  number: as for render.
local function of_row(what, f, config, tokenizer, row, i, number, held_out, ...)
  local made = table.pack(core.protected(row_random.during, config, what, number, held_out, f,
    config, tokenizer, row, ...))
  if made[1] then return table.unpack(made, 2, made.n) end
  local err = made[2]
  if type(err) ~= "table" or err.fatal or err.code == "ENOMEM" or not i then error(err, 0) end
  local named = core.error(err.code, ("%s (row %d of data.%s)"):format(tostring(err), i,
    held_out and "eval" or "train"))
  named.traceback = err.traceback
  error(named, 0)
end

-- The prompt of row i of data.train or data.eval.
function prompts.of_row(config, tokenizer, row, i, number, held_out)
  return of_row("prompt", prompts.render, config, tokenizer, row, i, number, held_out, number,
    held_out)
end

-- f(config, tokenizer, row, ...), which makes another part, "pair", of the row of a prompt.
function prompts.of_row_part(what, f, config, tokenizer, prompt, held_out, ...)
  return of_row(what, f, config, tokenizer, prompt.row, prompt.place, prompt.number, held_out, ...)
end

-- True when the prompt may be used; truncates or raises as data.too_long says, counting in
-- count.dropped, .truncated.
function prompts.fit(config, tokenizer, prompt, count)
  local limit, too_long = config.data.max_prompt_tokens, config.data.too_long
  if #prompt.ids == 0 then
    complain(config, "data.prompt",
      "a prompt has no token; give every prompt at least one character")
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
  prompt.text, prompt.given = tokenizer:decode(prompt.ids), nil
  return true
end

-- The ids of a completion that a row gives: a list of ids, or a string, which is encoded and ended
-- with the tokenizer's end token, or a list of strings, which are by turns the model's and
-- injected.  Second result, for a list of strings: which tokens are the model's.
function prompts.completion_ids(config, tokenizer, target, option)
  if is_ids(target) then return ids_of(config, option, target) end
  local parts = type(target) == "string" and { target } or target
  if type(parts) ~= "table" then
    complain(config, option, "returned a %s for a row, want a string or a list of ids",
      type(target))
  end
  if parts.role or type(parts[1]) == "table" and parts[1].role then
    complain(config, option, "returned a message for a row, want its text: the content of "
      .. "the answer")
  end
  local ids, mask = {}, {}
  for i, part in ipairs(parts) do
    if type(part) ~= "string" then
      complain(config, option, "item %d is a %s, want a string", i, type(part))
    end
    for _, id in ipairs(tokenizer:encode(part)) do
      ids[#ids + 1], mask[#mask + 1] = id, i % 2 == 1
    end
  end
  if tokenizer.eos and ids[#ids] ~= tokenizer.eos then
    ids[#ids + 1], mask[#mask + 1] = tokenizer.eos, true
  end
  if #ids == 0 then complain(config, option, "returned an empty string for a row") end
  return ids, #parts > 1 and mask or nil
end

-- The ids that a completion of this row is compared with, or should be, as completion_ids makes
-- them of what data.target gives.  nil: data.target is not set, or gives nothing for the row.
function prompts.target(config, tokenizer, row)
  local target = config.data.target and config.data.target(row)
  if target == nil then return nil end
  return prompts.completion_ids(config, tokenizer, target, "data.target")
end

-- The first n of a list of ids.
function prompts.first(ids, n)
  return #ids > n and table.move(ids, 1, n, 1, {}) or ids
end

-- Returns the part of a target that a source's stage learns; counts the targets that are cut.
function prompts.first_of_target(source, ids)
  local n = source.config.sampling.max_new_tokens
  if #ids > n then source.targets_truncated = source.targets_truncated + 1 end
  return prompts.first(ids, n)
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

-- A source of prompts for one stage.  steps: how many it has.
function prompts.source(config, tokenizer, steps)
  return setmetatable({
    config = config, tokenizer = tokenizer, dataset = config.data.train, cursor = 0, dropped = 0,
    truncated = 0, targets_truncated = 0, sampler = row_sampler.new(config, steps),
    picks = {}, missing = 1, -- chosen rows that are not taken yet; prompts that are wanted
    chosen = {}, -- the rows of a step, { index=, row= }, where there is a sampler
  }, Source)
end

local function row_of(dataset, i)
  return dataset[i]
end

-- Row number `cursor` of a stage's endless walk through data.train, or what data.sampler has chosen
-- as that: the row `index` of data.train.  Second result: its place there.
function prompts.row(config, cursor, index)
  local dataset = config.data.train
  local n = #dataset
  local i = index and index - 1 or cursor % n
  if config.data.shuffle and not index then
    i = core.permute(config.seed + (cursor // n) * 1000003, n, i)
  end
  return row_random.during(config, "row", cursor, false, row_of, dataset, i + 1), i + 1
end

-- The next row: row number `number`, and its place in data.train, 0 for a row that data.sampler has
-- made.
function Source:next_row(number)
  if not self.sampler:is_used() then return prompts.row(self.config, number) end
  if #self.picks == 0 then self.picks = self.sampler:ask(self.missing, number) end
  local pick = table.remove(self.picks, 1)
  if pick.row then return pick.row, 0 end
  return prompts.row(self.config, number, pick.index)
end

-- The next usable prompt: { row=, ids=, text=, messages=, number=, index= }.
function Source:next()
  for _ = 1, #self.dataset do
    local number = self.cursor
    local row, place = self:next_row(number)
    local index = self.sampler:is_used() and place or nil
    self.cursor = number + 1
    local prompt = prompts.of_row(self.config, self.tokenizer, row, place > 0 and place or nil,
      number, false)
    if prompts.fit(self.config, self.tokenizer, prompt, self) then
      prompt.row, prompt.number, prompt.index = row, number, index
      prompt.place = place > 0 and place or nil
      if index then
        self.chosen[#self.chosen + 1] = { index = index > 0 and index or nil, row = row }
      end
      prompt.target, prompt.target_mask = of_row("target", prompts.target, self.config,
        self.tokenizer, row, prompt.place, number, false)
      return prompt
    end
  end
  errors.raise_at(origins.position(self.config, "data.max_prompt_tokens"), "ENOENT",
    "data.train: no usable row, all %d prompts are longer than max_prompt_tokens = %d; raise it",
    #self.dataset, self.config.data.max_prompt_tokens)
end

-- A list of n results of f(self, ...), each of which takes one prompt.  A sampler is asked for all
-- of them at once, and again for those whose prompts could not be used.
function Source:collect(n, f, ...)
  local list = {}
  for i = 1, n do
    self.missing = n - i + 1
    list[i] = f(self, ...)
  end
  self.missing = 1
  return list
end

local function with_checksum(source)
  local prompt = source:next()
  prompt.row_crc32c = row_checksum.of(prompt.row)
  return prompt
end

-- The next n prompts, each with the checksum of its row before any reward has seen it.
function Source:take(n)
  return self:collect(n, with_checksum)
end

-- A step begins, or is tried again; what was chosen for another attempt is forgotten.  p: the
-- argument of schedules.
function Source:begin(p)
  self.picks, self.missing, self.chosen = {}, 1, {}
  self.sampler:begin(p)
end

-- Returns the ids of a prompt's target that are learned, and a mask of them; nil for all.
function Source:learned(prompt)
  if not prompt.target then
    complain(self.config, "data.target", "returned a nil for a row, want a string")
  end
  local target = prompts.first_of_target(self, prompt.target)
  return target, prompt.target_mask and prompts.first(prompt.target_mask, #target)
end

-- The next row as a demonstration: { prompt=ids, target=ids, mask= } for kind = "sft"; mask: what
-- is learned, nil: all.
function Source:demonstration()
  local prompt = self:next()
  local target, mask = self:learned(prompt)
  return { prompt = prompt.ids, target = target, mask = mask }
end

return prompts
