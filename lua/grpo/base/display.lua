-- The screen of a run: a live line on a terminal, one plain line per step elsewhere.
--
-- Everything here goes to stderr.  A view has: step, stage, evaluation, line, note, status,
-- summary, close.

local counted = require "grpo.base.counted"
local core = require "grpo.core"
local live_line = require "grpo.base.live_line"
local sorted_pairs = require "grpo.base.sorted"
local sparkline = require "grpo.base.sparkline"
local terminal = require "grpo.base.terminal"
local text_width = require "grpo.base.text_width"
local verdict = require "grpo.base.verdict"

local display = {}

-- Makes escape sequences, control characters (also of C1) and marks that change the direction
-- visible in a text from elsewhere.
display.clean = core.visible

-- Returns a name as a part of a line.
function display.name(text)
  return (display.clean(text):gsub("[\n\t]", { ["\n"] = "\\x0a", ["\t"] = "\\x09" }))
end

-- Returns a completion's text; one of several turns with the speakers.  row: c, or its row of
-- completions.jsonl.
function display.turns_text(row)
  if not row.parts or (#row.parts < 2 and not row.environment) then
    return display.clean(row.text)
  end
  local lines = {}
  for i, part in ipairs(row.parts) do
    lines[i] = ("%s> %s"):format(part.role, (display.clean(part.text):gsub("\n", "\n  ")))
  end
  if row.environment then
    lines[#lines + 1] = ("environment> reward %s, %s after %d turns")
      :format(type(row.environment.reward) == "number"
      and ("%.4g"):format(row.environment.reward) or "none", row.environment.done and "done"
        or "not done",
      row.environment.turns)
  end
  return table.concat(lines, "\n")
end

-- Cleans a text in which colours are allowed.
function display.clean_but_colours(text)
  local parts, at = {}, 1
  while true do
    local first, last = text:find("\27%[[%d;]*m", at)
    parts[#parts + 1] = display.clean(text:sub(at, (first or 0) - 1))
    if not first then return table.concat(parts) end
    parts[#parts + 1] = text:sub(first, last)
    at = last + 1
  end
end

-- Returns a whole number as 1,234,567.
function display.thousands(n)
  local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^,", ""))
end

local function seconds_text(s)
  if s < 60 then return ("%ds"):format(s) end
  if s < 3600 then return ("%dm%02ds"):format(s // 60, s % 60) end
  return ("%dh%02dm"):format(s // 3600, s % 3600 // 60)
end
display.seconds_text = seconds_text

local Silent = {}
Silent.__index = Silent
for _, name in ipairs { "step", "stage", "evaluation", "line", "info", "note", "status", "summary",
  "close", "share_terminal" } do
  Silent[name] = function() end
end

function display.silent()
  return setmetatable({}, Silent)
end

local View = {}
View.__index = View

-- options: { quiet = nothing but errors, results and what scripts print, background = no screen at
-- all }
function display.new(options)
  local live = terminal.takes_escapes(2) and not options.quiet and not options.background
  return setmetatable({
    live = live, colour = live and terminal.has_colour(2), utf8 = terminal.is_utf8(),
    quiet = options.quiet or options.background, background = options.background, times = {},
    spark = sparkline.new(),
    shown = 0, -- columns of the live line; `resting`: the one that lines are printed above
    reports = {}, reported = 0, report_every = 1, -- evaluations for the summary
  }, View)
end

-- Every line is kept in the run's output.log too, --quiet or not.
function View:keep_in(directory)
  self.directory = directory
end

function View:keep(text)
  if self.directory then self.directory:shown(text) end
end

-- Returns what removes the live line.  A terminal that has become narrower meanwhile may show it in
-- several rows.
local function removal(self)
  if self.unfinished then return "\n" end
  if self.shown == 0 then return "" end
  local rows = terminal.wraps_again() and (self.shown - 1) // core.term_width() or 0
  return (rows > 0 and ("\27[%dA"):format(rows) or "") .. "\r\27[J"
end

-- The last row of the screen is `text`, or empty.
local function show_as_open(self, text)
  self.shown, self.unfinished = text and text_width.columns(text) or 0, nil
  core.screen_line(text ~= nil)
end

function View:erase()
  local text = removal(self)
  if text == "" then return end
  core.draw(2, text)
  show_as_open(self, nil)
end

-- Output of the script goes above the live line, too, if both are on one terminal.
function View:share_terminal()
  if not (self.live and core.isatty(1)) then return end
  local print_text, write = rawget(_G, "print"), _G.io.write
  local function above()
    if not self.unfinished then self:erase() end
  end
  function _G.print(...)
    above()
    self.unfinished = nil
    return print_text(...)
  end
  function _G.io.write(...)
    above()
    local file, message, code = write(...)
    io.flush()
    local last = select("#", ...) > 0 and tostring((select(-1, ...))) or "\n"
    if last ~= "" then self.unfinished = last:sub(-1) ~= "\n" or nil end
    return file, message, code
  end
end

-- Prints a line that stays, above the live line; `code`: its colour.
function View:line(text, code)
  self:keep(text)
  if self.background then return end
  local coloured = self.colour and code and ("\27[%sm%s\27[0m"):format(code, text) or text
  core.draw(2, removal(self) .. display.clean_but_colours(coloured) .. "\n"
    .. (self.resting or ""))
  show_as_open(self, self.resting)
end

-- Prints a line that --quiet leaves out.
function View:info(text, code)
  if self.quiet then self:keep(text) else self:line(text, code) end
end

-- Prints advice, which also goes to run.log.
function View:note(text)
  self:info("note: " .. text)
end

-- Returns the columns that a live line may take: two are left for the ^C that the terminal shows.
local function room()
  return math.max(1, core.term_width() - 2)
end

-- Prints a line that the next one replaces; nothing without a terminal.
function View:transient(text)
  if not self.live then return end
  local most = room()
  text = display.clean_but_colours(text)
  if text_width.columns(text) > most then text = text_width.cut(text, most) end
  core.draw(2, removal(self) .. text)
  show_as_open(self, text)
end

function View:status(text)
  self:transient(text .. " ...")
end

function View:stage(tr, stage)
  self.times, self.spark, self.resting = {}, sparkline.new(), nil
  self:info(("stage %d of %d: %s, %s"):format(stage.index, #tr.experiment.stages,
    stage.method.about, counted(stage.steps, "step")), "1")
  self:status "first step"
end

-- Returns the remaining time of the stage, or of the run in its last one: the steps that are left
-- times the mean of the last ones that this process took.
local function remaining(self, tr)
  local stage, times = tr.stage, self.times
  times[#times + 1] = tr.step_seconds
  if #times > 20 then table.remove(times, 1) end
  local sum = 0
  for _, t in ipairs(times) do sum = sum + t end
  local left, is_last = stage.steps - stage.step, stage.index == #tr.experiment.stages
  if tr.step_limit and tr.step_limit - tr.step_count <= left then
    left, is_last = math.max(0, tr.step_limit - tr.step_count), true
  end
  return ("%sETA %s"):format(is_last and "" or "stage ",
    seconds_text(math.floor(sum / #times * left)))
end

-- Shows a step: in the live line, or on a line of its own.
local function show_step(self, tr, m, due)
  local stage, total = tr.stage, tr:total_steps()
  local head = ("%s %d/%d"):format(stage.kind, tr.step_count, total)
  local line, eta = stage.method.line(tr, m), remaining(self, tr)
  local text = ("%s | %s | %s"):format(head, line, eta)
  if not self.live then
    if due then self:info(text) end
    return
  end
  local parts = {}
  for part in (line .. " | "):gmatch("(.-) | ") do parts[#parts + 1] = part:gsub(" +", " ") end
  self.spark:add(stage.method.samples and m.reward or m.loss)
  self.resting = live_line.text { head = head, fraction = tr.step_count / total, parts = parts,
    spark = self.spark, eta = eta, width = room(), utf8 = self.utf8, colour = self.colour }
  self:transient(self.resting)
  if due then self:keep(text) end
end

-- Is a text of the model shown after this step of a stage?  After the first, then at intervals that
-- grow, and at last after each eighth of the stage, but never after every step.
function display.shows_sample(step, steps)
  local often = math.max(5, steps // 8)
  if step % often == 0 or step == 1 then return true end
  local early = 5
  while early < step do early = 2 * early end
  return step == early and 2 * early <= often
end

function View:step(tr, m)
  local stage, shown = tr.stage, tr.settings.log.completions
  show_step(self, tr, m, tr.step_count % tr.settings.log.every == 0)
  if shown == 0 or not display.shows_sample(stage.step, stage.steps) then return end
  if stage.method.samples then
    self:completions(tr, shown)
  elseif stage.method.sample then
    self:samples(tr, shown)
  end
end

-- Prints text of the model, which also goes to the run's log.
function View:samples(tr, n)
  for i, made in ipairs(tr.stage.method.sample(tr, n)) do
    local text = display.clean(made.text)
    self:info(("  sample %d: %s"):format(i, #text > 300 and text:sub(1, 297) .. "..." or text), "2")
    tr:log_text(("sample %d"):format(i), text)
  end
end

-- Returns a completion's rewards in the order of the experiment: "correct 1, layout 0.5".
function display.reward_text(tr, c)
  local parts = {}
  for _, entry in ipairs(tr.settings.reward_entries) do
    local r = c.rewards[entry.name]
    parts[#parts + 1] = ("%s %s"):format(entry.name, r == core.none and "-" or ("%.4g"):format(r))
  end
  return table.concat(parts, ", ")
end

-- Returns the first group whose rewards differ, best completion first; else the first group.
function display.telling_group(cs)
  local first = cs[1].group
  for _, c in ipairs(cs) do
    if c.index == 1 then
      local sorted = {}
      for i, member in ipairs(c.group) do sorted[i] = member end
      table.sort(sorted, function(x, y)
        local rx, ry = x.reward or -math.huge, y.reward or -math.huge
        if rx ~= ry then return rx > ry end
        return x.index < y.index
      end)
      if not core.rewards_tied(sorted) then return sorted end
    end
  end
  return first
end

local MOST_PROMPT = 300 -- bytes of a prompt that are shown

-- The end of a long text, which is where a prompt asks.
local function end_of(text)
  if #text <= MOST_PROMPT then return text end
  return "..." .. text:sub(utf8.offset(text, 0, #text - MOST_PROMPT + 4))
end

-- Shows n completions of one prompt with their rewards, for a mixed group the best ones and the
-- worst.
function View:completions(tr, n)
  local group = display.telling_group(tr.batch.completions)
  n = math.min(n, #group)
  self:info(("  step %d, prompt: "):format(tr.step_count)
    .. end_of(display.clean(group[1].prompt):gsub("\n", " ")), "2")
  for i = 1, n do
    local c = (i == n and n > 1) and group[#group] or group[i]
    local text = display.clean(c.text):gsub("\n", " / ")
    if #text > 300 then text = text:sub(1, 297) .. "..." end
    local rewards = #tr.settings.reward_entries > 0 and ("[%s | total %s] "):format(
      display.reward_text(tr, c), c.reward and ("%.4g"):format(c.reward) or "-") or ""
    self:info("  " .. rewards .. text)
    local line = verdict.line(c)
    if line then self:info("    " .. display.clean(line)) end
  end
end

-- Does the held-out measure have more values than passed and not passed?
local function graded(report)
  return report["eval/metric"] and math.abs(report["eval/metric"] - report["eval/accuracy"]) > 1e-12
end

local MOST_REPORTS = 50 -- lines of the summary, about

-- Does the summary have a column for this number of the report?
local function is_summed_up(name, report)
  return name == "eval/accuracy" or name:find("^eval/[%w_]*loss$")
    or name:find("^eval/pass@%d+$") or (name:find("metric$") and graded(report))
end

-- Returns what the summary shows of a report: a run may have many evaluations.
local function summed_up(report)
  local kept = { label = report.label, step = report.step, numbers = {} }
  for name, v in pairs(report) do
    if is_summed_up(name, report) then kept.numbers[name] = v end
  end
  return kept
end

-- Keeps evenly spaced evaluations, the first included, for the summary at the end; and the last.
function View:remember(report)
  self.reported, self.last_report = self.reported + 1, summed_up(report)
  if (self.reported - 1) % self.report_every ~= 0 then return end
  if #self.reports == MOST_REPORTS then
    for i = 1, MOST_REPORTS do self.reports[i] = self.reports[2 * i - 1] end
    self.report_every = 2 * self.report_every
  end
  if (self.reported - 1) % self.report_every == 0 then
    self.reports[#self.reports + 1] = self.last_report
  end
end

local function rows_text(report)
  local text = ("%d held-out rows"):format(report.n)
  if (report.unjudged or 0) == 0 then return text end
  local why = report.failure and (", because a reward failed: %s"):format(report.failure) or ""
  return ("%s, and %d that cannot be judged%s"):format(text, report.unjudged, why)
end

function View:evaluation(tr, report)
  local method = tr and tr.stage.method or {}
  self:remember(report)
  self.completes = not method.evaluate
  local parts, usual = {}, not method.eval_line
  if usual and report["eval/accuracy"] then
    parts[1] = ("accuracy %.1f %% (greedy, 95 %% interval %.1f to %.1f)")
      :format(report["eval/accuracy"] * 100,
      report["eval/accuracy/low"] * 100, report["eval/accuracy/high"] * 100)
  end
  if not usual then parts[1] = method.eval_line(report) end
  if graded(report) then
    local sampled = report["eval/sampled/metric"]
    parts[#parts + 1] = ("metric %.4f greedy%s"):format(report["eval/metric"],
      sampled and (", %.4f sampled"):format(sampled) or "")
  end
  if report["eval/reward"] then
    local sampled = report["eval/sampled/reward"]
    parts[#parts + 1] = ("reward %.4f%s"):format(report["eval/reward"],
      sampled and (" greedy, %.4f sampled"):format(sampled) or "")
  end
  if report["eval/kl"] then
    parts[#parts + 1] = ("kl %.4f nats a token"):format(report["eval/kl"])
  end
  if usual and report["eval/loss"] then
    local bits = report["eval/bits_per_character"]
    parts[#parts + 1] = ("loss %.4f nats a token%s"):format(report["eval/loss"],
      bits and (", %.3f bits a character"):format(bits) or "")
  end
  local names = {}
  for name in pairs(report) do
    local k = name:match("^eval/pass@(%d+)$")
    if k then names[#names + 1] = tonumber(k) end
  end
  table.sort(names)
  for _, k in ipairs(names) do
    local name = "eval/pass@" .. k
    parts[#parts + 1] = ("pass@%d %.3f (%.3f to %.3f)")
      :format(k, report[name], report[name .. "/low"], report[name .. "/high"])
  end
  local label = report.label or ""
  if label == "step" and report.step then label = ("at step %d"):format(report.step) end
  if #parts == 0 then parts[1] = "nothing to measure" end
  self:info(("evaluation %s: %s: %s"):format(label, rows_text(report),
    table.concat(parts, ", ")), "1;32")
end

local titles = { ["eval/accuracy"] = "greedy", ["eval/sampled/metric"] = "sampled" }

-- Prints evaluations of the run side by side, and where its files are.
function View:summary(directory)
  local reports = self.reports
  if reports[#reports] ~= self.last_report then reports[#reports + 1] = self.last_report end
  if #reports < 2 then return end
  local names, seen = {}, {}
  for _, report in ipairs(reports) do
    for name in sorted_pairs(report.numbers) do
      if not seen[name] then seen[name], names[#names + 1] = true, name end
    end
  end
  local head = ("%-14s"):format("")
  for _, name in ipairs(names) do
    head = head .. ("%12s"):format(titles[name] or name:sub(6))
  end
  self:info("\n" .. head, "1")
  for _, report in ipairs(reports) do
    local row = ("%-14s")
      :format(report.label == "step" and report.step and ("step %d"):format(report.step)
      or report.label or "")
    for _, name in ipairs(names) do
      local v = report.numbers[name]
      row = row .. ("%12s"):format(v and ("%.3f"):format(v) or "-")
    end
    self:info(row)
  end
  if #reports < self.reported then
    self:info(("%d of %d evaluations; eval.jsonl has all of them")
      :format(#reports, self.reported))
  end
  if directory then
    local program = rawget(_G, "arg") and tostring(arg[0]):find("grpo$") and arg[0] or "grpo"
    self:info(self.completes and ("\ntry it: %s generate %s \"...\"   %s eval %s")
      :format(program, directory, program, directory)
      or ("\ntry it: %s eval %s"):format(program, directory))
  end
end

function View:close()
  self.resting = nil
  self:erase()
end

return display
