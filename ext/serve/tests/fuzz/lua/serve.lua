-- Any body of a request: read, bound to a grammar, rendered into ids that fit, or refused with one
-- line of JSON; and any text of a completion has calls that can be written, or none.
local bound = require "grpo.serve.bound"
local calls = require "grpo.serve.calls"
local core = require "grpo.core"
local expect = require "expect"
local fields = require "grpo.serve.fields"
local grpo = require "grpo"
local prompt = require "grpo.serve.prompt"
local refusal = require "grpo.serve.refusal"

local tok = grpo.tokenizer.bytes()
tok.chat_template = "chatml"
local server = { tokenizer = tok, template = tok.chat_template, variables = {}, vocab_size = 258,
  limits = { max_new_tokens = 64, max_prompt_tokens = 1000 } }

local function prompts_of(kind, body)
  local request = fields.read(kind, body, server.limits)
  bound.grammar(server, request, request.tools and #request.tools > 0)
  local list = kind == "chat" and { prompt.chat(server, request) } or prompt.text(server, request)
  for _, ids in ipairs(list) do
    prompt.check(server, ids)
    for _, id in ipairs(ids) do
      expect.truth(id >= 0 and id < 258, "an id beyond the vocabulary")
    end
  end
end

return function(input)
  for _, kind in ipairs { "chat", "text" } do
    local ok, err = pcall(prompts_of, kind, input)
    if not ok then
      local status, body = refusal.answer(err)
      expect.truth(status == 400, "a request that failed: " .. body)
      expect.truth(type(core.json_decode(body).error.message) == "string", "no message")
    end
  end
  local made = calls.read(input, input, "x")
  if made then core.json_decode(core.json_encode(made)) end
end
