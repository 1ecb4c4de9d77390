-- Any words of a command line, one a line: refused with one line, or an experiment whose options
-- have the types that their rows say.
local commands = require "grpo.commands".commands
local cli = require "grpo.commands"
local core = require "grpo.core"
local expect = require "expect"
local experiment = require "grpo.options.experiment"
local grpo = require "grpo"
local option_rows = require "grpo.options.option_rows"
local option_tree = require "grpo.options.option_tree"
local parse = require "grpo.commands.parse"
local parse_override = require "grpo.options.layers".parse_override

local rows = grpo.data.list { { prompt = "1+1=", answer = "2" } }

local function fields()
  return { model = { config = { model_type = "llama" }, tokenizer = "chars" },
    data = { train = rows, eval = rows },
    rewards = { r = function() return 1 end }, stages = { { kind = "sft" }, { kind = "grpo" } } }
end

local function check_experiment(words)
  local list = {}
  for _, word in ipairs(words) do
    local ok, override = pcall(parse_override, word)
    if not ok then
      expect.refused(override, "command line: ", "EARG")
    elseif override and override.path ~= "extends" then -- a file that we do not have
      list[#list + 1] = override
    end
  end
  local ok, e = pcall(experiment.new, fields(), { overrides = list, path = "script",
    rewards = {} })
  if not ok then return expect.refused(e, nil, "EARG") end
  for _, stage in ipairs(e.stages) do
    for _, row in ipairs(option_rows.rows) do
      local value = option_tree.get(stage.config, row.path)
      if value ~= nil then
        expect.equal(option_tree.problem(row, value), nil, row.path)
      end
    end
  end
end

return function(input)
  local words = {}
  for word in input:gmatch("[^\n]+") do words[#words + 1] = word end
  check_experiment(words)
  local command = cli.command(commands[1 + #input % #commands])
  local ok, o = pcall(parse, command, words)
  if not ok then return expect.refused(o, command.name .. ": ", "EARG") end
  core.json_encode(o.args)
end
