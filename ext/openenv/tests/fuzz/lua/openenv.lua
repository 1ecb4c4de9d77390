-- Anything that a server of environments may send: an observation, or one short problem; and any
-- address: a place that can be asked, or nil.
local expect = require "expect"
local messages = require "grpo.openenv.messages"

return function(input)
  local answer, problem = messages.read(input)
  if answer then
    local reward = answer.reward
    expect.truth(type(answer.observation) == "table", "an observation that is not a table")
    expect.truth(reward == nil or type(reward) == "boolean" or reward - reward == 0,
      "a reward that can be none")
  else
    expect.truth(#problem <= 240 and not problem:find "\n", "a long problem")
  end
  local place = messages.place(input)
  if place then
    expect.truth(place.port >= 1 and place.port <= 65535, "a port out of range")
    expect.truth(not (place.address .. place.path):find "[%c%s]", "a place with blanks")
  end
end
