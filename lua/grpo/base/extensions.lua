-- extensions: what the extensions that were built in add to the core, by kind.
--
-- The extension NAME (ext/NAME) is there if it has the module grpo.ext.NAME, which returns a table:
--
--   commands = { { name = "sweep", before = "check", also = { "grid" } }, ... }
--     the module grpo.commands.NAME as a command; it stands before another in `grpo help` (nil:
--     last);
--     also: other words that somebody may try for it: a list; a key has a text that is told in the
--     place of the command's name, as in { dashboard = "report RUN --serve" }
--
--   text_formats = { { name = "yaml", endings = { "yaml" }, decode = function(text, what) }, ... }
--     texts that hold one value, as a file of settings does (base/text_formats.lua)
--   data_formats = { { name = "parquet", endings = { "pq" }, reader = function() -> reader } }
--     files of rows; data/data_files/init.lua says what a reader is
--   model_formats = { { name = "gguf", ending = ".gguf", is = "one file", adapter = "a file",
--                       quantize = { "q8_0" } }, ... }
--     files that grpo export writes for a model or for an adapter alone, with what its help says
--     that these are, and the types of --quantize; C reads and writes them (formats/model_format.h)
--   places = { { load = function() -> module }, ... }
--     finds models, adapters, tokenizers and datasets by names in place of their paths
--     (data/places.lua), as C does (formats/named_place.h).  The module:
--       is_name(text), name_in(text) -> the name in an address, or nil
--       place(path, whole) -> where a model or tokenizer lies, its version if it has a name
--       snapshot(name, { kind = "model" | "dataset", revision = }) -> directory, version
--       repository(name) -> where it would lie, whatever version
--       used = { [name] = version } of those that were found; pin(used) takes these from now on,
--       and check(used) raises where one is not there
--       listed(path) -> a file as a run lists it, wherever the names lie; file(listed) -> its path
--   decompressors = { { decompress = function(data, what) -> data }, ... }
--     takes the contents of a file of data, and gives them back as they are if they are not
--     compressed in its way
--   libraries = { { key = "yaml", label = "YAML", name = function() -> "libyaml", brief = true } }
--     a library, or "none", as `grpo doctor` and a run's env.json name it if it has a key, and
--     `grpo --version` if it is brief
--   names = { { name = "jail", load = function() -> value }, ... }
--     grpo.jail, loaded when it is first named (grpo/init.lua)
--   rewards = { { module = "numeric", name = "verl", load = function() -> function } }
--     rewards.numeric.verl (rewards/numeric.lua), annotated in the extension's lua/grpo/meta
--   log_sinks = { { name = "tensorboard", open = function(run) -> sink } }
--     a log of a run, written if log.NAME is true; open is called when the first numbers come.
--     run has dir, last_kept (the step up to which a resume kept the logs, or nil) and the method
--     check_place(), which open calls before it makes a file.  A sink has the methods scalars(step,
--     values), which leaves out what is not a number, text(step, name, s) and close()
--   runs = { { opened = function(dir, writes) }, ... }
--     a run's directory was made, or is read or resumed; writes: this process trains the run.  On
--     several ranks each opens it; on another machine it may not be there
--   machine = { { "jail for code", function() -> text }, ... }
--     what `grpo doctor` says of the machine
--   ranks = { { functions = function() -> list, start = function(kind) } }
--     connects the processes that a launcher has started: functions in the place of those of
--     base/ranks.lua, and what makes the ranks meet
--   flags = { { command = "test", before = "count", flags = { ... }, about = { ... },
--               notes = { ... }, summary = text }, ... }
--     further flags of a command that calls flags.extend (commands/flags.lua), before the flag of
--     that name (nil: last), further paragraphs of its help, and a summary in place of the core's
--   checks = { { name = "rewards run in a jail", lines = function() -> lines }, ... }
--     what `grpo check` says of the script that it has loaded; start(check) in the place of what
--     the start of a run tries, stage(check, i) after a stage has begun, finish(check) at the end:
--     commands/check.lua
--   rank_costs = { { load = function() -> module }, ... }
--     a module with of(sums, n), which says what a step costs on n ranks, and size_text(bytes), for
--     `grpo bench --ranks`
--   stages = { { name = "dpo" }, ... }
--     a kind of stage, the module grpo.steps.NAME; options/stage_kinds.lua says what it returns
--   options = { { "train.dpo.beta", "number", "what it does", default = 0.1 }, ... }
--     options of an experiment, as options/option_rows.lua has them
--   references = { { name = "bigram", make = function(config, tokenizer, model) -> rows } }
--     reference = "bigram": no model, but an object that gives the logits after a token, whose type
--     core.engine takes (script/reference_type.h); rows:logprobs(id): log P(next | id) of every
--     token. A checkpoint does not hold it: a resume makes it again
--   completers = { { at = function(text, env, classes) -> first, list } }
--     the first of them completes the end of a line at the prompt: each text of the list can
--     replace text:sub(first); env: the prompt's variables; classes: { tr = "grpo.Trainer" } for
--     variables of an attached run, or nil
--   prompt_functions = { { name = "plot", make = function(run, tokenizer) -> function }, ... }
--     a function of every prompt; run: the directory of the prompt's run, or nil; tokenizer():
--     the tokenizer of the prompt, or nil
--   prompt_rows = { { "plot(name, ...)", "draws ...", before = "tr:inspect(i)" }, ... }
--     rows of .help, each before the row of that name
--   completion_texts = { { text = function(c, look) -> text } }
--     the first of them colours the text of a completion at the prompt
--   views = { { name = "grpo.Tensor", show = function(v, look, format) -> text }, ... }
--     how the prompt shows a value with a metatable of this name, or, with is = function(t) in
--     place of the name, a table without one; format shows values within it
--   other_programs = { { row = function(path), ... } }
--     what the names of other programs are called here.  A row has every function below, and each
--     returns nil where it knows nothing (base/other_programs.lua asks them; `one` and `found`:
--     unknown.names of options/unknown.lua; `all`: the table of options in which they stand):
--       row(path) -> { name there, option here or false, ..., whole = a section is one value }
--       nearest(name) -> the name there that it may be a misspelling of, and the option here
--       value_advice(option, value) -> the end of "got VALUE"
--       advice_on_name(name) -> a sentence, and the option here
--       advice(one, all, fits, style) -> the line about an option that is not there
--       block(found, all, how) -> the line about several, and lines to paste in their place
--       called_here(name) -> what a function or a class there is here
--       method_of_datasets(name) -> the methods of a dataset in place of one there
--       explained(problem, text) -> the message about a text that does not compile, and lines
--       arguments(name, text) -> lines in place of the arguments of the class `name` in a text
--       topic(name) -> the text of `grpo help NAME`, which lists names
--       explanation(name) -> what `grpo help NAME` says of a name there, and the option here
--       entries() -> { { program =, name =, ours = or false, about = }, ... }: what help searches
--     and help = a sentence for `grpo help help`, examples = { "grpo help NAME", ... }
--
-- The module that reads a kind says more about its rows.  The core names no extension.

local core = require "grpo.core"

local extensions = {}

local loaded -- { { name = "sweep", adds = table }, ... } in the order of their names

local function all()
  if loaded then return loaded end
  loaded = {}
  for _, path in ipairs(core.embedded_names()) do
    local name = path:match("^lua/grpo/ext/([%w_]+)%.lua$")
    if name then loaded[#loaded + 1] = { name = name, adds = require("grpo.ext." .. name) } end
  end
  table.sort(loaded, function(a, b) return a.name < b.name end)
  return loaded
end

-- The names of the extensions that were built in, sorted.
function extensions.names()
  local names = {}
  for i, extension in ipairs(all()) do names[i] = extension.name end
  return names
end

-- The rows of one kind, those of all extensions in the order of their names.
function extensions.rows(kind)
  local rows = {}
  for _, extension in ipairs(all()) do
    for _, row in ipairs(extension.adds[kind] or {}) do rows[#rows + 1] = row end
  end
  return rows
end

-- Tells extensions that the process works with the run in `dir`; writes: it trains it.
function extensions.run_opened(dir, writes)
  for _, row in ipairs(extensions.rows "runs") do row.opened(dir, writes) end
end

return extensions
