-- luacheck: ignore 111 112 113 (lines at a prompt make globals)
function digits(text) -- as a reward does
  local ok, results = grpo.sandbox.run("return #text", { env = { text = text } })
  return ok and results[1] / 10 or nil
end
print(digits("12"), select(2, grpo.sandbox.run("return 1, { 2 }"))[1])
