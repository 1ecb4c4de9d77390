-- Reads every row as a stage reads it, for `grpo check`, and says what is wrong with the rows.
--
-- A finding is a row that a run stumbles over or cannot learn from.  A note is about the rows as a
-- whole, and may be what was meant.

local core = require "grpo.core"
local display = require "grpo.base.display"
local gold = require "grpo.data_checks.gold"
local options = require "grpo.options"
local scan = require "grpo.data_checks.scan"
local reward_entries = require "grpo.options.reward_entries"
local sorted_pairs = require "grpo.base.sorted"
local statistics = require "grpo.statistics"
local steps = require "grpo.options.stage_kinds"

local data_checks = {}

-- ---- sentences -------------------------------------------------------------------------------

local function rows(count)
  return ("%s row%s"):format(display.thousands(count), count == 1 and "" or "s")
end

local fault_texts = {
  prompt = "data.prompt fails on %s",
  empty_prompt = "the prompt of %s has no token, which a run refuses",
  target = "data.target fails on %s",
  no_target = "data.target gives nothing for %s, which kind = \"sft\" refuses",
  pair = "data.pair fails on %s",
  blank_target = "data.target gives an empty text for %s",
  no_answer = "the field `answer` is missing in %s, and is there in others",
  blank_answer = "the field `answer` is empty in %s",
  no_number = "the field `answer` has nothing after \"####\" in %s, and has in others",
}

local fates = { drop = "dropped", truncate_left = "cut on the left", error = "an error" }

-- Returns the length that at least the share q of the prompts do not exceed.
local function percentile(sorted, q)
  return sorted[math.max(1, math.ceil(q * #sorted))]
end

local function length_line(lengths)
  local sorted = table.move(lengths, 1, #lengths, 1, {})
  table.sort(sorted)
  local form = "prompt tokens (%s): mean %.1f, shortest %d, median %d, p95 %d, p99 %d, longest %d"
  return form:format(rows(#sorted), statistics.mean(sorted), sorted[1], percentile(sorted, 0.5),
    percentile(sorted, 0.95), percentile(sorted, 0.99), sorted[#sorted])
end

-- "3 rows, with other white space 1 more; the first is row 5, which has that of row 2"
local function same_prompts(one, first, of)
  local text = rows(one.exact)
  if one.loose > 0 then
    text = ("%s literally, and %s apart from white space"):format(text, rows(one.loose))
  end
  return text, ("%s %d, which has that of %s %d"):format(first, one.first, of, one.of)
end

-- ---- one dataset -----------------------------------------------------------------------------

local function progress_of(view, name)
  local shown = core.clock() + 0.2 -- a short scan shows nothing
  return function(i, n)
    local now = core.clock()
    if now < shown then return end
    shown = now + 0.1
    local done = 20 * i // n
    view:transient(("reading %s [%s%s] %s of %s"):format(name, ("#"):rep(done),
      ("."):rep(20 - done), display.thousands(i), rows(n)))
  end
end

local function report_faults(result, name, needs_target, findings)
  for kind, fault in sorted_pairs(result.faults) do
    if kind ~= "no_target" or needs_target then
      findings[#findings + 1] = ("%s: %s; the first is row %d%s"):format(name,
        fault_texts[kind]:format(rows(fault.count)), fault.first,
        fault.message and ": " .. display.clean(fault.message) or "")
    end
  end
end

-- Says what prompts show that may not have been meant.
local function report_prompts(result, name, out, findings)
  for _, said in sorted_pairs(result.prompts_said) do
    local others = said.count > 1 and (" (and %s more)"):format(rows(said.count - 1)) or ""
    local text = ("%s: the prompt of row %d%s %s"):format(name, said.first, others,
      display.clean(said.message))
    if said.convert then
      out("note: %s", text)
    else
      findings[#findings + 1] = text
    end
  end
end

-- Says which rewards cannot judge a row's own answer.
local function report_gold(watch, name, out, findings)
  for entry, fault in sorted_pairs(watch.failures) do
    findings[#findings + 1] = ("%s: reward %s fails on the own answer of %s; the first is row %d: "
      .. "%s"):format(name, entry, rows(fault.count), fault.first, display.clean(fault.message))
  end
  for entry, fault in sorted_pairs(watch.nothing) do
    local where = fault.count == watch.tried and "which is all"
      or ("the first is row %d"):format(fault.first)
    out("note: %s: reward %s gives nothing (nil) for the own answer of %s; %s; nil leaves a "
      .. "completion out, so such rows teach nothing of this reward", name, entry,
      rows(fault.count), where)
  end
  if watch.slow then
    out("note: %s: rewards were tried on the answers of the first %s only, because they are slow",
      name, rows(watch.tried))
  end
end

-- Scans a dataset and prints what there is to say of it; returns the scan.
local function one_dataset(job, field, out, findings)
  local config, held_out = job.config, field == "eval"
  local dataset, name = config.data[field], job.name:format(field)
  local n = held_out and math.min(config.eval.samples or #dataset, #dataset) or #dataset
  local watch = gold.watch(config, job.tokenizer)
  local result = scan.rows(config, job.tokenizer, dataset, n, { held_out = held_out,
    progress = progress_of(job.view, name), visit = watch.visit,
    problem = steps[job.kind].row_problem,
    ends = steps[job.kind].leaves_out_end and job.tokenizer.eos and 1 or 0 })
  job.view:close()
  out("\n%s: %s", name, tostring(dataset))
  if #result.lengths > 0 then out("%s", length_line(result.lengths)) end
  local long = result.too_long
  if long.count > 0 then
    out("note: %s: %s longer than data.max_prompt_tokens = %d and will be %s; the first is row %d",
      name, rows(long.count) .. (long.count == 1 and " is" or " are"),
      config.data.max_prompt_tokens, fates[config.data.too_long], long.first)
  end
  local cut = result.cut
  if cut.count > 0 then
    out("note: %s: the targets of %s are longer than sampling.max_new_tokens = %d and will be cut, "
      .. "so that the model does not learn their ends; the first is row %d", name, rows(cut.count),
      config.sampling.max_new_tokens, cut.first)
  end
  if result.repeated.first then
    local count, first = same_prompts(result.repeated, "the first is row", "row")
    out("note: %s: %s with the prompt of an earlier row; %s", name, count, first)
  end
  report_faults(result, name, job.needs_target, findings)
  report_prompts(result, name, out, findings)
  report_gold(watch, name, out, findings)
  return result
end

local function both_datasets(job, out, findings)
  local config = job.config
  local train = one_dataset(job, "train", out, findings)
  for _, text in ipairs(train.of_all or {}) do
    if not options.among(text, findings) then findings[#findings + 1] = text end
  end
  job.unusable = { train = train.unusable }
  if not config.data.eval then return end
  local eval = one_dataset(job, "eval", out, findings)
  job.unusable.eval = eval.unusable
  local shared = scan.overlap(train, eval)
  if not shared.first then return end
  local count, first = same_prompts(shared, "the first is held-out row", "row")
  local text = ("%s: %s with a prompt that is in data.train too, so that the evaluation measures "
    .. "what was trained on; %s"):format(job.name:format("eval"), count, first)
  -- A small space of problems, or the rows of training themselves, may be meant; and one row of a
  -- hundred moves an accuracy less than chance does.
  local few = shared.exact + shared.loose <= eval.rows // 100
  local meant = config.data.eval == config.data.train
    or rawget(config.data.train, "name") == "generated"
  if few or meant then
    out("note: %s", text)
  else
    findings[#findings + 1] = text
  end
end

-- ---- stages ----------------------------------------------------------------------------------

-- Do two stages read and judge their rows in the same way?
local function same(a, b)
  local x, y = a.config, b.config
  for _, name in ipairs { "train", "eval", "prompt", "target", "pair", "max_prompt_tokens",
    "too_long" } do
    if x.data[name] ~= y.data[name] then return false end
  end
  if steps[a.kind].row_problem ~= steps[b.kind].row_problem then return false end
  local x_variables = core.json_encode(x.model.chat_template_kwargs or {})
  if x_variables ~= core.json_encode(y.model.chat_template_kwargs or {}) then return false end
  return x.model.chat_template == y.model.chat_template and x.environment == y.environment
    and x.sampling.max_new_tokens == y.sampling.max_new_tokens
    and x.eval.samples == y.eval.samples and x.tools == y.tools
    and reward_entries.same(x.reward_entries, y.reward_entries)
end

-- The stages of an experiment as a list of { stages = their numbers, config=, kind= }: those that
-- `alike(a, b)` takes for the same are one item, with the settings of the last of them.
function data_checks.groups(e, alike)
  local list = {}
  for i, spec in ipairs(e.stages) do
    local group
    for _, other in ipairs(list) do group = group or alike(other, spec) and other or nil end
    if not group then
      group = { stages = {} }
      list[#list + 1] = group
    end
    group.stages[#group.stages + 1] = i
    group.config, group.kind = spec.config, spec.kind
    group.needs_target = group.needs_target or steps[spec.kind].learns_targets
  end
  return list
end

-- "stage 2" or "stages 1 and 2"
function data_checks.named(stages)
  return #stages == 1 and "stage " .. stages[1]
    or "stages " .. table.concat(stages, ", "):gsub(", (%d+)$", " and %1")
end

-- Reads all rows of all stages.  out(format, ...) prints a line.  Appends sentences to `findings`.
-- Returns groups of stages, { stages = their numbers, unusable = { train =, eval = } }, with the
-- rows at which a step stops: { [row] = true }.
function data_checks.run(e, tokenizer, out, findings)
  local view, groups = display.new {}, data_checks.groups(e, same)
  for _, group in ipairs(groups) do
    group.tokenizer, group.view = tokenizer, view
    group.name = "data.%s"
      .. (#groups > 1 and (" (%s)"):format(data_checks.named(group.stages)) or "")
    both_datasets(group, out, findings)
  end
  return groups
end

return data_checks
