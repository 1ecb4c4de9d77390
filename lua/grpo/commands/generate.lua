local core = require "grpo.core"
local display = require "grpo.base.display"
local flags = require "grpo.commands.flags"
local generation_options = require "grpo.models.generation_options"
local loading = require "grpo.models.loading"
local model_run = require "grpo.runs.model_run"

local command = {
  name = "generate",
  summary = "sample from a model, a run, a checkpoint or an adapter",
  arguments = {
    flags.model,
    { name = "PROMPT", type = "text", doc = "the text to complete; - reads standard input" },
  },
  flags = {
    flags.with(flags.completions, { min = 1, default = 1, doc = "sample N completions" }),
    flags.with(flags.max_new_tokens, { default = 256 }),
    flags.with(flags.temperature, { default = 1.0 }),
    flags.with(flags.top_p, { default = 1.0 }),
    flags.with(flags.top_k, { default = 0 }),
    flags.seed, flags.quantize, flags.compute, flags.base, flags.memory, flags.threads, flags.json,
  },
  about = {
    "Completes PROMPT as it is, without a chat template; grpo chat uses the template.",
  },
}

function command.run(o)
  local path, prompt = o.words[1], o.words[2]
  if prompt == "-" then prompt = io.read("a") end
  local model, place = loading.open(path, { quantize = o.flags.quantize, compute = o.flags.compute,
    base = o.flags.base, grow = true })
  if model.config.mask_token_id then
    core.err("note: this model was trained to fill in masks (kind = \"denoise\"), not to continue "
      .. "a text; m:unmask samples from it\n")
  end
  local alone = model_run.alone(path)
  if alone then core.err("note: " .. alone .. "\n") end
  local sampling = {
    max_new_tokens = o.flags["max-new-tokens"], temperature = o.flags.temperature,
    top_p = o.flags["top-p"], top_k = o.flags["top-k"], n = o.flags.completions,
    seed = o.flags.seed,
  }
  local defaults = { temperature = 1.0, top_p = 1.0, top_k = 0 }
  local note = generation_options.note(place.path, sampling, function(name)
    return sampling[name] ~= defaults[name]
  end, "grpo generate --help")
  if note then core.err("note: " .. note .. "\n") end
  local list = model:generate(prompt, sampling)
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
