-- The extension checks: what `grpo check` tries of rows, rewards and steps, and `grpo test --fuzz`.

local function part(name)
  return function(...) return require("grpo.checks")[name](...) end
end

local function fuzz(o)
  local core, counted = require "grpo.core", require "grpo.base.counted"
  local rewards = require "grpo.scoring.reward_checks.fuzz"
  local result = rewards.run(o.flags.fuzz, o.flags.count or 200, o)
  for _, line in ipairs(result.failures) do core.out("FAILED " .. line .. "\n") end
  core.out(("%s, %s, %s\n"):format(counted(result.rewards, "reward"), counted(result.texts, "text"),
    counted(#result.failures, "failure")))
  return #result.failures > 0 and 1 or 0
end

local about = {
  "It reads all rows and shows how long their prompts are, two sampled completions with every "
    .. "reward of every stage, and an estimate of the time of a step. The time comes from a few "
    .. "steps at learning rate 0, or from one group where a step takes long; their results are "
    .. "thrown away.",
}

local notes = {
  "Every row of data.train and data.eval is read. A row that a run stumbles over or cannot learn "
    .. "from is reported as a finding: its prompt or target cannot be made or is empty, its "
    .. "answer (data.target, or the field `answer`) is missing, empty or without a number after "
    .. "\"####\", or a reward fails on that answer. So is a held-out prompt that is in "
    .. "data.train too (a note where data.train is generated), and a row that is another one "
    .. "when it is asked for again. Notes tell of prompts that are longer than "
    .. "data.max_prompt_tokens, of rows that repeat a prompt, and of rewards that give nil for a "
    .. "row's own answer. Steps are tried with the rows that have no fault.",
  "Prompts that may not be what was meant are findings: a plain string for a model with a chat "
    .. "template, two begin tokens, a last message of the assistant behind which the model "
    .. "begins another one, and messages, tools or model.chat_template_kwargs that the template "
    .. "does not show.",
  "Every schedule is evaluated over its whole stage: a value that its option cannot have, and a "
    .. "warm-up that the stage has no time for, are findings.",
  "A reward is reported as a finding if it answers differently when it is called again or in "
    .. "another order; if it fails or is slow on degenerate text (empty, as long as "
    .. "sampling.max_new_tokens allows, invalid UTF-8, nested tags, control "
    .. "characters); if it changes its row; if it gives the same to "
    .. "everything (degenerate text and demonstrations, or without these what rows hold and what "
    .. "the model writes); if it prefers degenerate text to every demonstration (data.target); "
    .. "or if it gives nil instead of 0.",
  "data.sampler is asked twice for the first rows of its stage, which are shown. If the answers "
    .. "differ, that is a finding, because a resume would not continue with the same rows.",
  "If there are demonstrations, a table shows the reward of each beside its own row and beside "
    .. "another row. A reward that asks for the right answer is lower beside another row.",
}

local check_flags = {
  { name = "ranks", type = "integer", min = 1, max = 4096,
    doc = "estimate too what a step costs on 1, 2, 4 ... N processes of mpirun or srun, each on "
      .. "a machine like this one: seconds, bytes that a process sends, its memory" },
  { name = "link", type = "number", value = "GBIT", min = 0.001, max = 100000,
    doc = "assume for --ranks a network of GBIT Gbit/s in each direction (default: 10)" },
}

local test_flags = {
  { name = "fuzz", type = "script",
    doc = "call the rewards of SCRIPT with degenerate and random text; SCRIPT is an experiment "
      .. "or returns rewards. The texts come with the first rows of the dataset in turn. Prints "
      .. "once for each line of code what fails, what answers differently when it is called "
      .. "again, and what changes its row. --count sets the number of random texts "
      .. "(default: 200)", run = fuzz },
}

return {
  checks = { { start = part "start", stage = part "stage", finish = part "finish" } },
  flags = {
    { command = "check", flags = check_flags, about = about, notes = notes,
      summary = "check an experiment, show prompts and scored samples, estimate memory and time" },
    { command = "test", before = "count", flags = test_flags },
  },
  rank_costs = { { load = function() return require "grpo.loop.rank_cost" end } },
}
