-- Any completion: finding its program stays within a reward's limits and gives text or nil.
local code = require "rewards.code"
local expect = require "expect"

return function(completion)
  for _, language in ipairs { "python", "sh", "lua" } do
    local ok, block = expect.within_limits("code.block", code.block, completion, language)
    if not ok then error(block, 0) end
    expect.truth(block == nil or type(block) == "string", "neither text nor nil")
  end
end
