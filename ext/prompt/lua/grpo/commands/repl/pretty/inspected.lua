-- Shows what tr:inspect() and tr:rescore() return (loop/inspect.lua).

local columns_text = require "grpo.commands.repl.pretty.columns"
local inspect = require "grpo.loop.inspect"
local paint = require "grpo.commands.repl.pretty.paint"
local rollouts = require "grpo.commands.repl.pretty.rollouts"
local statistics = require "grpo.statistics"

local inspected = {}

local MOST_ROWS = 200

local function column(head, n, text)
  local list = { head = head, right = true }
  for i = 1, n do list[i] = text(i) end
  return list
end

local function numbers(head, tensor, format, rows)
  local values = tensor:totable()
  return column(head, math.min(#values, rows), function(i) return format:format(values[i]) end)
end

local function token_table(t, look)
  local n = math.min(#t.ids, MOST_ROWS)
  local pieces = column("token", n, function(i)
    local text = t.tokenizer:decode { t.ids[i] }
    return paint.quoted(text ~= "" and text or t.tokenizer:token(t.ids[i]) or "?")
  end)
  pieces.right = false
  local list = { column("", n, tostring),
    column("id", n, function(i) return tostring(t.ids[i]) end),
    numbers("p", t.old_logp:exp(), "%.3f", n), numbers("logp", t.old_logp, "%.3f", n),
    numbers("entropy", t.entropy, "%.3f", n) }
  if t.ref_logp then list[#list + 1] = numbers("ref", t.ref_logp, "%.3f", n) end
  list[#list + 1] = numbers("now", t.logp, "%.3f", n)
  list[#list + 1] = numbers("ratio", t.ratio, "%.4f", n)
  list[#list + 1] = numbers("advantage", t.advantage, "%+.3f", n)
  if t.gradient then list[#list + 1] = numbers("d loss/d logp", t.gradient, "%+.2e", n) end
  list[#list + 1] = pieces
  local text = columns_text(look, list, "  ")
  if #t.ids > n then text = text .. ("\n  ... %d more"):format(#t.ids - n) end
  return text
end

-- Shows one line for each completion: how far the update has moved its log-probabilities.
local function completion_table(t, look)
  local seq, n = t.sequence, #t.lengths
  local ratio, old = t.ratio:segment_mean(seq, n):totable(),
    t.old_logp:segment_mean(seq, n):totable()
  local moved = (t.logp - t.old_logp):segment_mean(seq, n):totable()
  local cs = t.completions
  local function of(values, format) return function(i) return format:format(values[i]) end end
  local further = { column("mean logp", n, of(old, "%.3f")),
    column("moved by", n, of(moved, "%+.2e")), column("mean ratio", n, of(ratio, "%.5f")) }
  if t.ref_logp then
    further[#further + 1] = column("to ref", n,
      of((t.old_logp - t.ref_logp):segment_mean(seq, n):totable(), "%+.3f"))
  end
  local numbered = {}
  for i, c in ipairs(cs) do numbered[i] = setmetatable({ index = i }, { __index = c }) end
  return rollouts.table(numbered, look, further, "  ")
end

local key = "p, logp: as sampled | ref: the reference | now: the policy as it is now | "
  .. "ratio: exp(now - logp)"

function inspected.step(t, look)
  local what = t.number and ("completion %d of step %d"):format(t.number, t.step)
    or ("%d completions of step %d; tr:inspect(i) shows the tokens of one"):format(#t.completions,
      t.step)
  local loss = t.loss and (" | loss of the step now %.4g"):format(t.loss) or ""
  local lines = { paint.colour(look, "bold", what .. loss) }
  if t.problem then
    lines[#lines + 1] = "the loss cannot be shown: " .. paint.one_line(t.problem)
  end
  lines[#lines + 1] = t.number and token_table(t, look) or completion_table(t, look)
  if t.number then lines[#lines + 1] = paint.colour(look, "dim", key) end
  return table.concat(lines, "\n")
end

local function was_columns(group)
  local totals, advantages = { head = "was", right = true }, { head = "was", right = true }
  local flips = { head = "sign" }
  for i, c in ipairs(group) do
    totals[i] = paint.number(c.was.reward)
    local a = c.was.advantage
    if type(a) == "table" then a = statistics.mean(a) end
    advantages[i] = type(a) == "number" and ("%+.3f"):format(a) or "-"
    local marks = { [-1] = "-", [0] = "0", [1] = "+" }
    local before, after = marks[inspect.sign(a)], marks[inspect.sign(c.advantage)]
    flips[i] = c.flipped and ("%s to %s"):format(before, after) or ""
  end
  flips.colour = function(i) return group[i].flipped and "yellow" or nil end
  totals.head, advantages.head = "total was", "adv. was"
  return { totals, advantages, flips }
end

function inspected.rescored(r, look)
  local lines = { paint.colour(look, "bold",
    ("%d completions of step %d scored again: %d have another reward, "
    .. "%d advantages change their sign"):format(#r.completions, r.step, r.changed, r.flipped)) }
  if r.failed > 0 then
    lines[#lines + 1] = ("%d of them met an error in a reward"):format(r.failed)
  end
  local shown = 0
  for g, group in ipairs(rollouts.groups(r.completions)) do
    local differs = false
    for _, c in ipairs(group) do differs = differs or c.flipped or c.reward ~= c.was.reward end
    if differs and shown < 4 then
      shown = shown + 1
      lines[#lines + 1] = rollouts.prompt_line(group[1], look, ("prompt %d: "):format(g))
      lines[#lines + 1] = rollouts.table(group, look, was_columns(group), "  ")
    elseif differs then
      lines[#lines + 1] = ("prompt %d changes too"):format(g)
    end
  end
  return table.concat(lines, "\n")
end

return inspected
