-- Views of models, tokenizers, trainers, datasets, metrics.

local display = require "grpo.base.display"
local paint = require "grpo.commands.repl.pretty.paint"

local objects = {}

function objects.model(m, look)
  local head, tree = tostring(m):match("^([^\n]*)(.*)$")
  head = paint.colour(look, "bold", head)
  local ok, c = pcall(function() return m.config end)
  if not ok then return head end
  local all, trained = m:count(), m:count { trainable = true }
  local facts = ("%s parameters, %s trained | context %s | computes in %s | tokenizer %s"):format(
    display.thousands(all), trained == all and "all" or display.thousands(trained),
    tostring(c.max_position_embeddings or c.n_positions or "?"), m.compute,
    m.tokenizer and ("of %d tokens"):format(#m.tokenizer) or "none")
  return head .. "\n  " .. facts .. tree
end

function objects.tokenizer(tok, look)
  local special = {}
  for _, name in ipairs { "bos", "eos", "pad", "unk" } do
    local id = tok[name]
    if id then
      special[#special + 1] = ("%s %d %q"):format(name, id, display.clean(tok:token(id) or ""))
    end
  end
  local template = tok.chat_template and "with a chat template" or "no chat template"
  return ("%s\n  %d tokens%s | %s"):format(paint.colour(look, "bold", tostring(tok)), #tok,
    #special > 0 and " | " .. table.concat(special, ", ") or "", template)
end

function objects.trainer(tr, look)
  local lines = { paint.colour(look, "bold", tostring(tr)) }
  local stage, stages = tr.stage, tr.experiment.stages
  local spec = stages[math.max(1, tr.stage_index)]
  local names = {}
  for i, entry in ipairs(tr.settings.reward_entries or {}) do names[i] = entry.name end
  lines[2] = ("  stage %d of %d (%s)%s | %d tokens seen | rewards: %s"):format(math.max(1,
    tr.stage_index), #stages, spec.kind, stage and (", %d of its %d steps done"):format(
    stage.step, stage.steps) or ", not begun", tr.tokens_seen,
    #names > 0 and display.clean(table.concat(names, ", ")) or "none")
  lines[3] = "  tr:step() advances it; tr.batch, tr.metrics and tr:inspect() show the last step"
  return table.concat(lines, "\n")
end

function objects.dataset(ds, look, format)
  local lines = { paint.colour(look, "bold", tostring(ds)) }
  if #ds > 0 then
    local ok, row = pcall(function() return ds[1] end)
    if ok then lines[2] = "  [1] = " .. format(row, look):gsub("\n", "\n  ") end
  end
  return table.concat(lines, "\n")
end

-- ---- metrics -----------------------------------------------------------------------------------

-- Fields that only the metrics of a step have.
function objects.is_metrics(t)
  local step = type(rawget(t, "step_time")) == "number"
    or type(rawget(t, "learning_rate")) == "number"
  return getmetatable(t) == nil and step and type(rawget(t, "loss")) == "number"
end

function objects.is_report(t)
  return getmetatable(t) == nil and type(rawget(t, "eval/accuracy")) == "number"
end

-- Shows numbers with their names, in as many columns as fit, and then the other values.
function objects.numbers(t, look)
  local names, rest, widest = {}, {}, 0
  for name, v in pairs(t) do
    if type(v) == "number" then
      names[#names + 1] = tostring(name)
      widest = math.max(widest, paint.columns(tostring(name)))
    elseif type(v) ~= "table" then
      rest[#rest + 1] = ("%s %s"):format(tostring(name), display.clean(tostring(v)))
    end
  end
  table.sort(names, function(a, b)
    local deep_a, deep_b = a:find("/", 1, true) ~= nil, b:find("/", 1, true) ~= nil
    if deep_a ~= deep_b then return deep_b end
    return a < b
  end)
  table.sort(rest)
  local cell = widest + 12
  local across = math.max(1, (look.width + 2) // (cell + 2))
  local down = (#names + across - 1) // across
  local lines = {}
  for row = 1, down do
    local parts = {}
    for k = 0, across - 1 do
      local name = names[row + k * down]
      if name then
        parts[#parts + 1] = paint.pad(paint.one_line(name), widest)
          .. paint.pad(paint.number(t[name]), 12, true)
      end
    end
    lines[row] = table.concat(parts, "  ")
  end
  if #rest > 0 then lines[#lines + 1] = table.concat(rest, " | ") end
  return table.concat(lines, "\n")
end

function objects.report(report, look)
  local text = objects.numbers(report, look)
  if type(report.samples) == "table" then
    text = text .. ("\nsamples: %d, see report.samples[i]"):format(#report.samples)
  end
  return text
end

return objects
