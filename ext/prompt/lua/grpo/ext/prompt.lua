-- The extension prompt: completion, curves, and views of completions, models, tensors and metrics
-- at the prompt.

local core = require "grpo.core"

-- Modules are loaded when the prompt first needs them.

local function complete(...) return require("grpo.commands.repl.complete").at(...) end

local function plotter(run) return require("grpo.commands.repl.plot").plotter(run) end

local function tokens(...) return require("grpo.commands.repl.tokens").lister(...) end

local function shown_tokens(...) return require("grpo.commands.repl.tokens").show(...) end

local function completions() return require "grpo.commands.repl.pretty.completions" end

local function inspected() return require "grpo.commands.repl.pretty.inspected" end

local function objects() return require "grpo.commands.repl.pretty.objects" end

local function rollouts() return require "grpo.commands.repl.pretty.rollouts" end

-- Returns the function of this name in a module, which `load` returns.
local function view(load, name)
  return function(...) return load()[name](...) end
end

local function tensor(...) return require "grpo.commands.repl.pretty.tensor"(...) end

return {
  completers = { { at = complete } },
  completion_texts = { { text = view(rollouts, "coloured_text") } },
  libraries = { { key = "editline", label = "line editing", name = core.edit.library,
    brief = true } },
  prompt_functions = { { name = "plot", make = plotter }, { name = "tokens", make = tokens } },
  prompt_rows = {
    { "tokens(x)", "shows ids beside their pieces: of a text, a list of ids, or a completion",
      before = "tr:inspect(i)" },
    { "plot(name, ...)", "draws metrics of the run over its steps: "
      .. "plot(\"reward\", \"eval/accuracy\"); plot() lists them; ?plot has the options",
      before = "tr:inspect(i)" },
    { "TAB", "completes fields, options, and names of runs and files", before = "Ctrl-C" },
    { "plot(name, ...)", "draws metrics over the steps: "
      .. "plot(\"reward\", \"eval/accuracy\"); plot() lists them", before = "weight(\"name\", x)" },
    { "tokens(x)", "shows ids beside their pieces", before = "stop()" },
  },
  views = {
    { name = "grpo.Tokens", show = shown_tokens },
    { name = "grpo.Inspection", show = view(inspected, "step") },
    { name = "grpo.Rescored", show = view(inspected, "rescored") },
    { is = view(completions, "is_one"), show = view(rollouts, "completion") },
    { is = view(completions, "is_list"), show = view(rollouts, "list") },
    { is = view(completions, "is_batch"), show = view(rollouts, "batch") },
    { name = "grpo.Tensor", show = tensor },
    { name = "grpo.Model", show = view(objects, "model") },
    { name = "grpo.Tokenizer", show = view(objects, "tokenizer") },
    { name = "grpo.Trainer", show = view(objects, "trainer") },
    { name = "grpo.Dataset", show = view(objects, "dataset") },
    { is = view(objects, "is_metrics"), show = view(objects, "numbers") },
    { is = view(objects, "is_report"), show = view(objects, "report") },
  },
}
