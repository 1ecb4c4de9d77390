local core = require "grpo.core"
local display = require "grpo.runs.display"
local flags = require "grpo.cli.flags"
local loading = require "grpo.models.loading"
local model_paths = require "grpo.models.paths"

local command = {
  usage = "generate MODEL PROMPT [--n N] [--max N] [--temperature T] [--top-p P] [--top-k K] [--seed S] "
    .. "[--quantize nf4|int8] [--compute f32|bf16] [--base DIR] [--threads N] [--json]",
  words = 2,
  summary = "sample from a model, a run, a checkpoint or an adapter",
  flags = { n = "value", max = "value", temperature = "value", ["top-p"] = "value", ["top-k"] = "value",
    seed = "value", quantize = "value", compute = "value", base = "value", threads = "value", json = "flag" },
  help = [[
MODEL is a model directory, a run directory (its newest checkpoint), a checkpoint, an adapter or a .gguf file.
PROMPT '-' reads standard input.  The text is completed as it is, without a chat template (see grpo chat).

  --n N             completions (default 1)          --max N      longest one in tokens (default 256)
  --temperature T   0 is greedy (default 1)          --top-p P, --top-k K: as in sampling
  --seed S          the same seed, the same text     --quantize Q nf4 or int8
  --compute C       f32 or bf16: the products of the weights (default: auto)
  --base DIR        the model that an adapter belongs to, in place of the one it names
  --json            JSON Lines: one object a completion, each on a line of its own]],
}

function command.run(o)
  local path, prompt = o.words[1], o.words[2]
  if not prompt then
    error(core.error("EARG", "generate: want a model and a prompt; usage: grpo " .. command.usage), 0)
  end
  if prompt == "-" then prompt = io.read("a") end
  flags.threads(o)
  local model = loading.open(path, { quantize = flags.choice(o, "quantize", "nf4", "int8"),
    compute = flags.choice(o, "compute", "f32", "bf16", "auto"), base = o.flags.base, grow = true })
  if model.config.mask_token_id then
    core.err("note: this model was trained to fill in masks (kind = \"denoise\"), not to read on: m:unmask samples "
      .. "from it\n")
  end
  local alone = model_paths.alone(path)
  if alone then core.err("note: " .. alone .. "\n") end
  local list = model:generate(prompt, {
    max_new_tokens = flags.integer(o, "max", 1, 256), temperature = flags.number(o, "temperature", 1.0),
    top_p = flags.number(o, "top-p", 1.0), top_k = flags.integer(o, "top-k", 0, 0),
    n = flags.integer(o, "n", 1, 1), seed = flags.integer(o, "seed", 0, 0),
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
