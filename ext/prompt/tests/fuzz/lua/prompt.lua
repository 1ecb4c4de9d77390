-- Any text at the prompt: completion, explanation and the reader of Lua's tokens take it.
local complete = require "grpo.commands.repl.complete"
local display = require "grpo.base.display"
local expect = require "expect"
local explain = require "grpo.commands.repl.explain"
local grpo = require "grpo"
local lua_tokens = require "grpo.base.lua_tokens"

local env = { grpo = grpo, schedule = require "grpo.schedule", string = string, x = { y = 1 } }
local classes = { tr = "grpo.Trainer", m = "grpo.Model" }

local function check_clean(text)
  local clean = display.clean(text)
  expect.truth(not clean:find("[\0-\8\11-\31\127]"), "a control character is left")
  expect.truth(not clean:find("\194[\128-\159]"), "a control character of C1 is left")
  expect.truth(not clean:find("\226\128[\142\143\170-\174]"), "a mark of direction is left")
  expect.equal(display.clean(clean), clean, "cleaned twice")
  local coloured = display.clean_but_colours(text):gsub("\27%[[%d;]*m", "")
  expect.truth(not coloured:find("[\0-\8\11-\31\127]"), "a control character is left")
end

return function(input)
  check_clean(input)
  local first, list = complete.at(input, env, classes)
  expect.truth(first >= 1 and first <= #input + 1, "completes from outside the text")
  for _, word in ipairs(list) do expect.truth(type(word) == "string", "no word") end
  local at = 0
  for _, token in ipairs(lua_tokens.tokens(input)) do
    expect.truth(token.first > at and token.last >= token.first, "tokens overlap")
    at = token.last
  end
  load(lua_tokens.without_locals(input), "=text", "t")
  local name = input:sub(1, 40) -- it is compared with every name there is
  expect.truth(type(explain.about(name, env)) == "string", "no explanation")
end
