-- A completion's text while it is being made: pieces that can be shown already.  What may still change with the next
-- token is held back: bytes that do not make up a character yet.

local text_stream = {}

local Stream = {}
Stream.__index = Stream

local REPLACEMENT = "\239\191\189" -- what decoders put for bytes that are no character

-- options: those of tok:decode
function text_stream.new(tokenizer, options)
  return setmetatable({ tokenizer = tokenizer, options = options or { skip_special = true }, window = {},
    shown = "" }, Stream)
end

-- A token that is a byte of its own: a run of them is decoded as a whole.
local function is_byte(tokenizer, id)
  local token = tokenizer:token(id)
  return token and token:find("^<0x%x%x>$") ~= nil
end

-- Does the text end in the middle of a character, or with bytes that are none?
local function unfinished(text)
  if text:sub(-3) == REPLACEMENT then return true end
  local first, rest = text:match("([\xC2-\xF4])([\x80-\xBF]*)$")
  if not first then return false end
  return #rest < (first < "\xE0" and 1 or first < "\xF0" and 2 or 3)
end

-- The text that this token completes: "" while it is held back.
function Stream:put(id)
  local window = self.window
  window[#window + 1] = id
  local alone = self.tokenizer:decode({ id }, self.options)
  if alone == "" then return "" end -- a special token, or a lone space
  local text = self.tokenizer:decode(window, self.options)
  if unfinished(text) or is_byte(self.tokenizer, id) then return "" end
  local piece = text:sub(#self.shown + 1)
  -- from here on only this token is decoded with the next one, to see whether a space comes between
  self.window, self.shown = { id }, alone
  return piece
end

-- What was held back to the end.
function Stream:finish()
  local piece = self.tokenizer:decode(self.window, self.options):sub(#self.shown + 1)
  self.window, self.shown = {}, ""
  return piece
end

return text_stream
