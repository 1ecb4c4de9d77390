-- The extension prompt: completion, curves, and views of models, tensors and metrics at the prompt.

-- Modules are loaded when the prompt first needs them.

local function complete(...) return require("grpo.commands.repl.complete").at(...) end

local function plotter(run) return require("grpo.commands.repl.plot").plotter(run) end

local function tensor(...) return require "grpo.commands.repl.pretty.tensor"(...) end

local function object(name)
  return function(...) return require("grpo.commands.repl.pretty.objects")[name](...) end
end

return {
  completers = { { at = complete } },
  prompt_functions = { { name = "plot", make = plotter } },
  prompt_rows = {
    { "plot(name, ...)", "draws metrics of the run over its steps: "
      .. "plot(\"reward\", \"eval/accuracy\"); plot() lists them; ?plot has the options",
      before = "tr:inspect(i)" },
    { "TAB", "completes fields, options, and names of runs and files", before = "Ctrl-C" },
    { "plot(name, ...)", "draws metrics over the steps: "
      .. "plot(\"reward\", \"eval/accuracy\"); plot() lists them", before = "weight(\"name\", x)" },
  },
  views = {
    { name = "grpo.Tensor", show = tensor },
    { name = "grpo.Model", show = object "model" },
    { name = "grpo.Tokenizer", show = object "tokenizer" },
    { name = "grpo.Trainer", show = object "trainer" },
    { name = "grpo.Dataset", show = object "dataset" },
    { is = object "is_metrics", show = object "numbers" },
    { is = object "is_report", show = object "report" },
  },
}
