-- Completions of several turns: the model and tools or an environment speak alternately.
--
-- One Play is made for each call of engine:rollout.  Its on_turn is called whenever the model has
-- ended a turn, and returns the ids to inject.  An episode records what happened to one completion;
-- prompt.episodes[k] is the one of sample k.  turns.attach gives rewards their view of it: c.parts,
-- c.sampled and so on.
--
-- Every result depends on (seed, step, prompt, sample) only, not on the order of calls.

local chat = require "grpo.models.chat"
local core = require "grpo.core"
local environment = require "grpo.options.environment"
local errors = require "grpo.base.errors"
local origins = require "grpo.options.origins"
local plain_copy = require "grpo.base.plain_copy"
local tools = require "grpo.options.tools"

local turns = {}

function turns.wanted(config)
  return config.tools ~= nil or config.environment ~= nil
end

local function never(path, format, ...)
  errors.raise("EARG", "%s: %s", path, format:format(...))
end

-- ---- the text of a chat template between two turns of the model ---------------------------------

local MARK = "@@turn@@"

-- The list of an experiment's tools.
function turns.tools(config) return tools.list(config.tools, never) end

-- Renders messages like prompts.render.  given: false, as if there were no tools; or the list of
-- tools that the template gets, in place of the experiment's.
local function rendered(config, tokenizer, messages, generation_prompt, given)
  local template = config.model.chat_template
  local opts = { generation_prompt = generation_prompt, vars = config.model.chat_template_kwargs,
    tools = given or nil }
  if config.tools and given == nil then opts.tools = tools.for_template(turns.tools(config)) end
  if template == false then
    errors.raise_at(origins.position(config, "model.chat_template"), "EARG",
      "model.chat_template: is false, but data.prompt gives messages; give a template, or a string")
  end
  if type(template) == "function" then return template(messages, opts) end
  if template then return chat.render(template, tokenizer, messages, opts) end
  return tokenizer:chat(messages, opts)
end
turns.rendered = rendered

local function complain_template(config, problem)
  errors.raise_at(origins.position(config, config.tools and "tools" or "environment"), "EARG",
    "the chat template cannot continue after a turn, because %s; set turns.format = \"json\", or "
    .. "give prompts as strings", problem)
end

local function is_special(tokenizer, id)
  return tokenizer:decode({ id }, { skip_special = true }) == ""
    and tokenizer:decode({ id }, { skip_special = false }) ~= ""
end

-- Returns the ids that follow the model's text when `messages` come next; the first id is the
-- end-of-turn token.  given: as for rendered.
local function after_turn(config, tokenizer, messages, given)
  local list = { { role = "user", content = "?" }, { role = "assistant", content = MARK } }
  for _, message in ipairs(messages) do list[#list + 1] = message end
  local ok, text = pcall(rendered, config, tokenizer, list, true, given)
  if not ok then complain_template(config, (tostring(text):gsub("^%S+:%d+: ", ""))) end
  local behind = text:reverse():find(MARK:reverse(), 1, true)
  if not behind then complain_template(config, "it does not show what the model said") end
  local ids = tokenizer:encode(text:sub(#text - behind + 2))
  for i, id in ipairs(ids) do
    if is_special(tokenizer, id) then return table.move(ids, i, #ids, 1, {}) end
  end
  complain_template(config, "it has no token that ends one")
end

-- Returns the ids that follow the turn `ids` of the model when messages come next; an end-of-turn
-- token that the model sampled itself is not repeated.
function turns.following(config, tokenizer, ids, messages, given)
  local reply = after_turn(config, tokenizer, messages, given)
  if ids[#ids] == reply[1] then table.remove(reply, 1) end
  return reply
end

-- ---- episodes ----------------------------------------------------------------------------------

local Play = {}
Play.__index = Play

-- context: { seed =, step =, state =, tokenizer =, held_out = }; list: the rendered prompts of the
-- rollout; n: samples of each.
local function begin(config, list, n, context)
  local t = setmetatable({ config = config, tokenizer = context.tokenizer, list = list,
    context = context, tools = tools.list(config.tools, never),
    environment = config.environment and environment.open(config) }, Play)
  local keyed = config.train.advantage.turn_weight > 0
  for _, prompt in ipairs(list) do
    prompt.episodes = {}
    for k = 1, n do
      prompt.episodes[k] = { parts = {}, turns = 0, calls = 0, failures = 0, reward = 0.0,
        done = false, played = t.environment, key = keyed and (prompt.key or "") or nil }
    end
  end
  return t
end

-- Returns the sampling options with the strings that end a turn added.
function Play:sampling(sampling)
  local copy, stop = {}, {}
  for name, value in pairs(sampling) do copy[name] = value end
  for i, s in ipairs(type(copy.stop) == "table" and copy.stop or { copy.stop }) do stop[i] = s end
  local seen = {}
  for _, prompt in ipairs(self.list) do
    local by_template = prompt.messages ~= nil
    if not seen[by_template] then
      seen[by_template] = true
      for _, s in ipairs(self:ends(prompt)) do stop[#stop + 1] = s end
    end
  end
  copy.stop = stop
  return copy
end

-- Returns the strings that end a turn in addition to the end token: those of the form of calls and
-- the template's end-of-turn token.
function Play:ends(prompt)
  local list = {}
  local form = #self.tools > 0 and tools.form(self.config.turns.format, prompt.messages)
  for i, s in ipairs(form and form.stop or {}) do list[i] = s end
  if prompt.messages and (self.environment or form and not form.write) then
    local id = after_turn(self.config, self.tokenizer, { { role = "user", content = "?" } })[1]
    if id ~= self.tokenizer.eos then list[#list + 1] = self.tokenizer:token(id) end
  end
  return list
end

-- Returns the argument c of a tool's fn and an environment's step.  They may change it; it is not
-- read again.
function Play:companion(prompt, episode, k)
  local context, parts = self.context, {}
  episode.rng = episode.rng or core.rng(context.seed, context.held_out and "turn_eval" or "turn",
    context.step, prompt.number, k)
  for i, part in ipairs(episode.parts) do
    parts[i] = {}
    for name, value in pairs(part) do parts[i][name] = value end
  end
  return { row = prompt.row, prompt = prompt.text, messages = prompt.messages, index = k,
    step = context.step, state = context.state, parts = parts, rng = episode.rng,
    turn = episode.turns }
end

-- Returns the ids of a text that a tool or an environment wrote; nil when it holds special tokens,
-- which only the model may write.
local function plain_ids(tokenizer, text)
  local ids, seen = tokenizer:encode(text, { parse_special = false }), tokenizer:encode(text)
  if #ids ~= #seen then return nil end
  for i, id in ipairs(ids) do
    if id ~= seen[i] then return nil end
  end
  return ids
end

-- Returns a tool's text without the characters that the tokenizer cannot encode.
local function encodable(tokenizer, text)
  if pcall(tokenizer.encode, tokenizer, text) then return text end
  text = text:gsub("^[\x80-\xbf]+", "")
  return (text:gsub("[^\x80-\xbf][\x80-\xbf]*", function(character)
    return pcall(tokenizer.encode, tokenizer, character) and character or ""
  end))
end

local function complain_form(name, format, ...)
  errors.raise_plain("ESCRIPT", "turns.format.%s: " .. format, name, ...)
end

-- Calls a form's function; a script's own function is called under limits.
local function call_form(config, form, name, ...)
  if type(config.turns.format) ~= "table" then return form[name](...) end
  local ok, value = core.limited(config.limits.tool, "turns.format." .. name, form[name], ...)
  if not ok then error(errors.naming("turns.format." .. name, value), 0) end
  return value
end

local function reader(config, form, text)
  local calls = plain_copy(call_form(config, form, "read", text))
  if calls == nil or calls == false then return nil end
  if type(calls) ~= "table" then
    complain_form("read", "returned a %s, want nil or a list of calls", type(calls))
  end
  for i, call in ipairs(calls) do
    if type(call) ~= "table" then
      complain_form("read", "item %d is a %s, want { name =, arguments = { ... } }", i, type(call))
    elseif call.arguments ~= nil and type(call.arguments) ~= "table" then
      complain_form("read", "the arguments of call %d are a %s, want a table by name", i,
        type(call.arguments))
    end
  end
  return calls
end

local function writer(config, form, result)
  local text = call_form(config, form, "write", result)
  if type(text) ~= "string" then
    complain_form("write", "returned %s, want a string",
      text == nil and "nil" or "a " .. type(text))
  end
  return text
end

local function answers(self, prompt, episode, k, calls)
  local results = {}
  for i, call in ipairs(calls) do
    local result, failed = tools.call(self.tools, call, self.config.limits.tool,
      self:companion(prompt, episode, k))
    result = encodable(self.tokenizer, result)
    if not plain_ids(self.tokenizer, result) then
      result, failed = encodable(self.tokenizer, "error: the result holds a special token"), true
    end
    results[i], call.result, call.failed = result, result, failed
    if episode.key then episode.key = episode.key .. "\n" .. result end
    episode.calls, episode.failures = episode.calls + 1, episode.failures + (failed and 1 or 0)
  end
  return results
end

function Play:inject(episode, part, ids)
  part.text = self.tokenizer:decode(ids, { skip_special = true })
  part.first = episode.parts[#episode.parts].last + 1
  part.last = part.first + #ids - 1
  episode.parts[#episode.parts + 1] = part
  return ids
end

-- Calls the tools that the model asked for and returns the ids of their answers.
function Play:answer_calls(prompt, episode, k, ids, form, calls)
  local results = answers(self, prompt, episode, k, calls)
  local reply
  if form.write then
    local text = {}
    for i, result in ipairs(results) do text[i] = writer(self.config, form, result) end
    reply = self.tokenizer:encode(table.concat(text))
  else
    local messages = {}
    for i, result in ipairs(results) do
      messages[i] = { role = "tool", name = calls[i].name, content = result }
    end
    reply = turns.following(self.config, self.tokenizer, ids, messages)
  end
  return self:inject(episode, { role = "tool", calls = calls }, reply)
end

-- Passes the model's action to the environment and returns the ids of the observation; nil when
-- the episode is over.
function Play:act(prompt, episode, k, ids, text)
  local part = episode.parts[#episode.parts]
  local observation, reward, key = self.environment:step(prompt, episode, text,
    self:companion(prompt, episode, k), self.context)
  part.reward, episode.key = reward, episode.key and key
  if observation == nil or episode.turns >= self.config.turns.max then return nil end
  local ok, plain = pcall(plain_ids, self.tokenizer, observation)
  if not ok or not plain then
    errors.raise_plain("ESCRIPT", "environment: an observation %s: %q",
      ok and "holds a special token" or "cannot be written with this tokenizer",
      observation:sub(1, 60))
  end
  local reply = plain
  if prompt.messages then
    reply = turns.following(self.config, self.tokenizer, ids,
      { { role = "user", content = observation } })
  end
  return self:inject(episode, { role = "environment" }, reply)
end

-- Handles the end of a model's turn: returns the ids to inject, or nil to end the completion.
function Play:on_turn(p, k, ids, finish, first)
  local prompt = self.list[p]
  local episode, form = prompt.episodes[k],
    #self.tools > 0 and tools.form(self.config.turns.format, prompt.messages)
  episode.turns = episode.turns + 1
  local part = { role = "assistant", text = self.tokenizer:decode(ids, { skip_special = true }),
    first = first, last = first + #ids - 1, finish = finish, state = episode.key }
  episode.parts[#episode.parts + 1] = part
  local calls = form
    and reader(self.config, form, self.tokenizer:decode(ids, { skip_special = false }))
  if calls then
    part.calls = calls
    if episode.turns >= self.config.turns.max then return nil end -- nobody would read the answer
    return self:answer_calls(prompt, episode, k, ids, form, calls)
  end
  if self.environment then return self:act(prompt, episode, k, ids, part.text) end
end

-- Fills in the options of engine:rollout or engine:replace; context: see begin.
function turns.options(config, list, n, context, o)
  local play = begin(config, list, n, context)
  o.sampling = play:sampling(o.sampling)
  o.on_turn = function(...) return play:on_turn(...) end
end

-- ---- the view of rewards ------------------------------------------------------------------------

-- Returns the parts of a completion that was not sampled: one turn.
function turns.single(text)
  return { { role = "assistant", text = text } }
end

-- Sets c.parts, c.sampled, c.environment of completion i of the batch, sample k of the prompt.
function turns.attach(c, batch, i, prompt, k, tokenizer)
  local episode = prompt.episodes[k]
  local parts = episode.parts
  c.sampled = batch:sampled(i)
  -- The last part is dropped if the completion had no room for its tokens.
  if parts[#parts] and parts[#parts].first > c.length then parts[#parts] = nil end
  local last = parts[#parts]
  local from = last and last.last + 1 or 1
  if from <= c.length then -- a turn that was cut short
    parts[#parts + 1] = { role = "assistant", first = from, last = c.length, finish = c.finish,
      state = episode.key,
      text = tokenizer:decode(table.move(c.ids, from, c.length, 1, {}), { skip_special = true }) }
    episode.turns = episode.turns + 1
  end
  c.parts, c.turns = parts, episode.turns
  c.tool_calls, c.tool_failures = episode.calls, episode.failures
  if episode.played then
    episode.played:leave(episode)
    c.environment = { reward = episode.reward, done = episode.done, turns = episode.turns }
  end
  if episode.error then c.errors = { environment = episode.error } end
end

-- Returns how many tokens of a completion the model sampled.
function turns.sampled_length(c)
  if not c.sampled then return c.length end
  local n = 0
  for _, sampled in ipairs(c.sampled) do n = n + (sampled and 1 or 0) end
  return n
end

-- Adds the metrics of tools and turns with TRL's names, each after `prefix`.
function turns.measure(config, completions, metrics, prefix)
  if not turns.wanted(config) then return end
  prefix = prefix or ""
  local calls, failures, all = 0, 0, 0
  for _, c in ipairs(completions) do
    calls, failures, all = calls + c.tool_calls, failures + c.tool_failures, all + c.turns
  end
  metrics[prefix .. "completions/mean_turns"] = all / #completions
  if not config.tools then return end
  metrics[prefix .. "tools/call_frequency"] = calls / #completions
  metrics[prefix .. "tools/failure_frequency"] = calls > 0 and failures / calls or 0.0
end

-- Tries everything that a rollout of this prompt will need, and raises what does not work.
function turns.try(config, tokenizer, prompt)
  local t = begin(config, { prompt }, 1,
    { seed = config.seed, step = 0, state = {}, tokenizer = tokenizer })
  t:ends(prompt)
  local form = config.tools and tools.form(config.turns.format, prompt.messages)
  local written, problem = pcall(function()
    return not form or not form.write or tokenizer:encode(form.write(""))
  end)
  if not written then
    errors.raise_at(origins.position(config, "turns.format") or origins.position(config, "tools"),
      "EARG", "turns.format: this tokenizer cannot write a tool's answer: %s",
      (tostring(problem):gsub("^%S+:%d+: ", "")))
  end
  if not prompt.messages then return end
  if t.environment then after_turn(config, tokenizer, { { role = "user", content = "?" } }) end
  if form and not form.write then
    after_turn(config, tokenizer, { { role = "tool", name = t.tools[1].name, content = "?" } })
  end
end

return turns
