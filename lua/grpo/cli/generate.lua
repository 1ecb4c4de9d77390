local core = require "grpo.core"
local display = require "grpo.display"

local command = {
  usage = "generate MODEL PROMPT [--n N] [--max N] [--temperature T] [--top-p P] [--top-k K] [--seed S] [--json]",
  summary = "sample from a model, a run or a checkpoint",
  flags = { n = "value", max = "value", temperature = "value", ["top-p"] = "value", ["top-k"] = "value",
    seed = "value", threads = "value", json = "flag" },
  help = [[
MODEL is a model directory, a run directory (its newest checkpoint) or a checkpoint.
PROMPT '-' reads standard input.  --temperature 0 is greedy.]],
}

local function number(o, name, default)
  local text = o.flags[name]
  if text == nil then return default end
  local n = tonumber(text)
  if not n then error(core.error("EARG", ("--%s: got '%s', want a number"):format(name, text)), 0) end
  return math.tointeger(n) or n
end

function command.run(o)
  local path, prompt = o.words[1], o.words[2]
  if not prompt then
    error(core.error("EARG", "generate: want a model and a prompt; usage: grpo " .. command.usage), 0)
  end
  if prompt == "-" then prompt = io.read("a") end
  local threads = number(o, "threads")
  if threads then core.set_threads(threads) end
  local model = core.model_load(path, {})
  local list = model:generate(prompt, {
    max_new_tokens = number(o, "max", 256), temperature = number(o, "temperature", 1.0),
    top_p = number(o, "top-p", 1.0), top_k = number(o, "top-k", 0), n = number(o, "n", 1), seed = number(o, "seed", 0),
  })
  for i, completion in ipairs(list) do
    if o.flags.json then
      core.out(core.json_encode(completion) .. "\n")
    else
      if #list > 1 then core.out(("--- %d (%s)\n"):format(i, completion.finish)) end
      core.out((core.isatty(1) and display.clean(completion.text) or completion.text) .. "\n")
    end
  end
end

return command
