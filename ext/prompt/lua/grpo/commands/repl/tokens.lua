-- The function `tokens` of the prompts: ids beside their pieces.

local columns_text = require "grpo.commands.repl.pretty.columns"
local completions = require "grpo.commands.repl.pretty.completions"
local paint = require "grpo.commands.repl.pretty.paint"
local rollouts = require "grpo.commands.repl.pretty.rollouts"

local tokens = {}

local MOST_TOKENS = 60

local Tokens = { __name = "grpo.Tokens" }

-- Returns the function tokens(x[, tokenizer]); session_tokenizer() is the tokenizer by default.
function tokens.lister(_, session_tokenizer)
  return function(x, tokenizer)
    tokenizer = tokenizer or session_tokenizer()
    if not tokenizer then
      error("tokens: the prompt has no tokenizer; pass one, as in tokens(x, tokenizer)", 2)
    end
    local found = { tokenizer = tokenizer }
    if type(x) == "string" then
      found.ids = tokenizer:encode(x)
    elseif completions.is_one(x) then
      found.ids, found.logprobs = x.ids, x.logprobs
    elseif type(x) == "table" then
      found.ids = x
    else
      error(("tokens: got %s, want a text, a list of ids or a completion"):format(type(x)), 2)
    end
    return setmetatable(found, Tokens)
  end
end

-- Shows the result of the prompt's `tokens(x)`: { ids =, tokenizer =, logprobs = or nil }.
function tokens.show(found, look)
  local ids, tokenizer = found.ids, found.tokenizer
  local numbers, pieces, probabilities = { head = "id", right = true }, { head = "piece" },
    { head = "p", right = true }
  for i = 1, math.min(#ids, MOST_TOKENS) do
    numbers[i] = tostring(ids[i])
    local text = tokenizer:decode { ids[i] }
    if text == "" or text:find("\239\191\189", 1, true) then
      text = tokenizer:token(ids[i]) or "?"
    end
    pieces[i] = paint.quoted(text)
    if found.logprobs then probabilities[i] = ("%.3f"):format(math.exp(found.logprobs[i])) end
  end
  probabilities.colour = function(i) return rollouts.colour_of(math.exp(found.logprobs[i])) end
  local text = ("%d tokens\n"):format(#ids)
    .. columns_text(look,
      found.logprobs and { numbers, probabilities, pieces } or { numbers, pieces }, "  ")
  if #ids > MOST_TOKENS then text = text .. ("\n  ... %d more"):format(#ids - MOST_TOKENS) end
  return text
end

return tokens
