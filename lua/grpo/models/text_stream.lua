-- Turns the tokens of a growing completion into pieces of text that can be shown at once.  Bytes
-- that do not form a complete character yet are held back, because the next token may change them.

local text_stream = {}

local Stream = {}
Stream.__index = Stream

local REPLACEMENT = "\239\191\189" -- U+FFFD: decoders write it for bytes that are not valid UTF-8

-- options: those of tok:decode
function text_stream.new(tokenizer, options)
  return setmetatable({ tokenizer = tokenizer, options = options or { skip_special = true },
    window = {}, shown = "" }, Stream)
end

-- Tells whether a token is a single byte: adjacent ones must be decoded together.
local function is_byte(tokenizer, id)
  local token = tokenizer:token(id)
  return token and token:find("^<0x%x%x>$") ~= nil
end

-- Tells whether the text ends in the middle of a character or with invalid bytes.
local function unfinished(text)
  if text:sub(-3) == REPLACEMENT then return true end
  local first, rest = text:match("([\xC2-\xF4])([\x80-\xBF]*)$")
  if not first then return false end
  return #rest < (first < "\xE0" and 1 or first < "\xF0" and 2 or 3)
end

-- Returns the text that this token completes, "" while it is held back.
function Stream:put(id)
  local window = self.window
  window[#window + 1] = id
  local alone = self.tokenizer:decode({ id }, self.options)
  if alone == "" then return "" end -- a special token, or a lone space
  local text = self.tokenizer:decode(window, self.options)
  if unfinished(text) or is_byte(self.tokenizer, id) then return "" end
  local piece = text:sub(#self.shown + 1)
  -- Keep this token only: decoded with the next one it shows whether a space comes between.
  self.window, self.shown = { id }, alone
  return piece
end

-- Returns the text that was held back to the end.
function Stream:finish()
  local piece = self.tokenizer:decode(self.window, self.options):sub(#self.shown + 1)
  self.window, self.shown = {}, ""
  return piece
end

return text_stream
