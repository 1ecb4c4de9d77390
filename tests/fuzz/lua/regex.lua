-- A pattern, a subject and a replacement, separated by NULs.  They are refused with one line, or
-- all functions agree on what is found.
local core = require "grpo.core"
local expect = require "expect"

local flags = { "", "i", "s", "m", "x", "ism" }

local function found(re, method, ...)
  local ok, value, more = pcall(re[method], re, ...)
  if not ok then
    expect.truth(value.code == "ELIMIT" or value.code == "EARG", tostring(value))
    expect.refused(value)
    return nil
  end
  return value == nil and false or value, more
end

local function count_matches(re, subject)
  local n = 0
  local ok, err = pcall(function()
    for _ in re:gmatch(subject) do n = n + 1 end
  end)
  if not ok then expect.refused(err) end
  return ok and n
end

return function(input)
  local pattern, subject, by = expect.parts(input, 3)
  local ok, re = pcall(core.regex, pattern, flags[1 + #input % #flags])
  if not ok then return expect.refused(re) end
  local first, last = found(re, "find", subject)
  if first == nil then return end
  expect.equal(first and true or false, found(re, "test", subject), "test")
  local m = found(re, "exec", subject)
  if m then
    expect.equal(m.start, first, "exec")
    expect.equal(m.stop, last, "exec")
  end
  found(re, "fullmatch", subject)
  found(re, "match", subject, -1)
  local n = found(re, "count", subject)
  if n == nil then return end
  expect.equal(count_matches(re, subject), n, "gmatch")
  local text, replaced = found(re, "gsub", subject, function() return "" end)
  expect.equal(replaced, n, "gsub")
  expect.truth(#text <= #subject, "gsub with nothing")
  found(re, "gsub", subject, by)
end
