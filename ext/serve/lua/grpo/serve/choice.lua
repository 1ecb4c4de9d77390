-- One completion of a request as its client sees it: pieces of text, without the string that ended
-- it, and the tokens with their log-probabilities.

local core = require "grpo.core"
local text_stream = require "grpo.models.text_stream"

local Choice = {}
Choice.__index = Choice

-- job: of core.feed; k: its number there; stop: the strings that end it
function Choice.new(tokenizer, job, k, stop)
  return setmetatable({ tokenizer = tokenizer, job = job, k = k, stop = stop or {}, ids = {},
    logprobs = {}, stream = text_stream.new(tokenizer), held = "", texts = {} }, Choice)
end

-- Where the first of the strings begins in a text, or nil.
local function first_stop(text, stop)
  local first
  for _, s in ipairs(stop) do
    local at = text:find(s, 1, true)
    if at and (not first or at < first) then first = at end
  end
  return first
end

-- How many bytes at the end of a text may begin one of the strings.
local function maybe_stop(text, stop)
  local most = 0
  for _, s in ipairs(stop) do
    for n = math.min(#s - 1, #text), most + 1, -1 do
      if text:sub(-n) == s:sub(1, n) then
        most = n
        break
      end
    end
  end
  return most
end

-- Adds decoded text; returns what can be shown.
function Choice:show(piece, last)
  if self.cut then return "" end
  local text = self.held .. piece
  local at = first_stop(text, self.stop)
  local keep = not at and not last and maybe_stop(text, self.stop) or 0
  self.cut = at ~= nil
  self.held = text:sub(#text - keep + 1)
  local shown = text:sub(1, at and at - 1 or #text - keep)
  if shown ~= "" then self.texts[#self.texts + 1] = shown end
  return shown
end

-- Takes the tokens that were decoded since the last call; returns the text that they add, and
-- whether the completion is over.
function Choice:advance()
  local pieces, from = {}, #self.ids + 1
  for i = from, self.job:length(self.k) do
    self.ids[i], self.logprobs[i] = self.job:token(self.k, i)
    pieces[#pieces + 1] = self:show(self.stream:put(self.ids[i]))
  end
  local finish = self.job:finish(self.k)
  if finish and not self.finish then
    self.finish = finish
    pieces[#pieces + 1] = self:show(self.stream:finish(), true)
  end
  return table.concat(pieces), finish ~= nil
end

function Choice:text() return table.concat(self.texts) end

-- The text of all tokens, special ones included.
function Choice:whole_text() return self.tokenizer:decode(self.ids, { skip_special = false }) end

-- The word of OpenAI's protocol for the end of the completion.
function Choice:reason()
  return self.finish == "length" and "length" or "stop"
end

-- ---- log-probabilities ------------------------------------------------------------------------

function Choice:token_text(id) return self.tokenizer:decode({ id }, { skip_special = false }) end

local function entry(self, id, logprob)
  local text = self:token_text(id)
  return { token = text, logprob = logprob, bytes = { text:byte(1, -1) } }
end

-- The entries of tokens from..to, as chat completions have them.
function Choice:chat_logprobs(from, to)
  local content = {}
  for i = from, to do
    local one = entry(self, self.ids[i], self.logprobs[i])
    one.top_logprobs = {}
    local ids, logprobs = self.job:top(self.k, i)
    for j, id in ipairs(ids or {}) do one.top_logprobs[j] = entry(self, id, logprobs[j]) end
    content[#content + 1] = one
  end
  return { content = content, refusal = core.json_null }
end

-- The lists of tokens from..to, as text completions have them; `offset`: of the first one's text.
function Choice:text_logprobs(from, to, offset)
  local lists = { tokens = {}, token_logprobs = {}, top_logprobs = {}, text_offset = {} }
  for i = from, to do
    local at, top = #lists.tokens + 1, {}
    local text = self:token_text(self.ids[i])
    local ids, logprobs = self.job:top(self.k, i)
    for j, id in ipairs(ids or {}) do
      local name = self:token_text(id)
      top[name] = top[name] or logprobs[j]
    end
    top[text] = top[text] or self.logprobs[i]
    lists.tokens[at], lists.token_logprobs[at], lists.top_logprobs[at] = text, self.logprobs[i], top
    lists.text_offset[at] = offset
    offset = offset + #text
  end
  return lists, offset
end

return Choice
