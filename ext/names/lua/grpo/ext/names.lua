-- The extension names: what names of TRL, transformers, PEFT, verl and Python are here.  Its tables
-- are loaded when something has failed, or when help is asked for.

local other_programs = {
  help = "from-trl and from-verl list the options of TRL, transformers, PEFT and verl with their "
    .. "names here.",
  examples = { "grpo help from-trl", "grpo help from-verl" },
}

local function foreign() return require "grpo.options.foreign" end
local function functions() return require "grpo.base.foreign_functions" end

-- ---- options ------------------------------------------------------------------------------------

function other_programs.row(path) return foreign().row(path) end
function other_programs.nearest(name) return foreign().nearest(name) end
function other_programs.value_advice(option, value) return foreign().value_advice(option, value) end
function other_programs.advice_on_name(name) return foreign().advice_on_name(name) end

function other_programs.advice(one, all, fits, style)
  local beside = all and require("grpo.options.foreign_block").beside(all, { one })
  return foreign().advice(one.path, one.value, beside or function() end, { fits = fits }, style)
end

function other_programs.block(found, all, how)
  return require("grpo.options.foreign_block").text(found, all, how)
end

-- ---- functions, and Python's syntax -------------------------------------------------------------

function other_programs.called_here(name) return functions().called_here(name) end
function other_programs.method_of_datasets(name) return functions().method_of_datasets(name) end

function other_programs.explained(problem, text)
  return require("grpo.options.scripts.foreign_syntax").explained(problem, text)
end

function other_programs.arguments(name, text)
  local foreign_arguments = require "grpo.options.scripts.foreign_arguments"
  return foreign_arguments.is_class(name) and foreign_arguments.block(text) or nil
end

-- ---- help ---------------------------------------------------------------------------------------

function other_programs.topic(name) return require("grpo.commands.foreign_topics").text(name) end
function other_programs.explanation(name)
  return require("grpo.commands.foreign_topics").explanation(name)
end
function other_programs.entries() return foreign().rows("TRL", "transformers", "PEFT", "verl") end

return { other_programs = { other_programs } }
