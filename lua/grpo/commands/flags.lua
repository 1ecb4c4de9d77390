-- How flags and arguments are declared, and those that several commands share.
--
-- A command declares each flag once.  The usage line, the parser, the help, the completions of the
-- shells and the manual pages are made from the declaration:
--   name       without the dashes
--   short      a letter, if there is one: -f
--   type       of the value; a switch has none.  text, word (a text that is not empty), number,
--              integer, size (bytes, written as 500M), choice, list (choices joined by commas),
--              file, dir, run, script, model, pair (KEY=VALUE; may be repeated, and becomes a field
--              of o.args)
--   value      what the usage line calls the value, if not by the name of its type
--   min, max   the bounds of a number or an integer; a max has a min beside it
--   choices    of a choice or a list
--   optional   true: --NAME alone is allowed, and its value is true; a value is joined by "="
--   repeated   true: it may be given several times, and its value is a list
--   default    the value when the flag is not given
--   instead_of names of other programs, which are refused with this one
--   run        a function of an extension's flag: what the command does with it, run(o) -> status
--   doc        what the flag does, beginning with a verb; completions show the words before the
--              first of ";", ":", "(" and "."
-- A command's field `elsewhere` says of further names of other programs what to do instead.
-- An argument is a word without dashes.  It has name, type (or a list of types), doc, and
--   optional   true: it may be left out; unless = NAME: it may be left out with the flag NAME
--   repeated   true: there may be several

local extensions = require "grpo.base.extensions"

local flags = {}

-- Adds what extensions say of a command (the kind `flags`), and returns it.
function flags.extend(command)
  for _, row in ipairs(extensions.rows "flags") do
    if row.command == command.name then
      command.summary = row.summary or command.summary
      local at = #command.flags + 1
      for i, flag in ipairs(command.flags) do at = flag.name == row.before and i or at end
      table.move(command.flags, at, #command.flags, at + #row.flags)
      table.move(row.flags, 1, #row.flags, at, command.flags)
      for _, part in ipairs { "about", "notes" } do
        local texts = row[part] or {}
        table.move(texts, 1, #texts, #command[part] + 1, command[part])
      end
    end
  end
  return command
end

-- A shared declaration with some fields changed.
function flags.with(flag, changes)
  local copy = {}
  for k, v in pairs(flag) do copy[k] = v end
  for k, v in pairs(changes) do copy[k] = v end
  return copy
end

-- Every command has these.
flags.common = {
  { name = "help", short = "h", doc = "show how the command is used" },
  { name = "trace", doc = "show the stack of Lua calls with an error" },
}

flags.arg = { name = "arg", type = "pair",
  doc = "set an argument of the script's own: grpo.args.KEY" }

flags.base = { name = "base", type = "dir",
  doc = "use the model in DIR, or of that name on the Hub, as the base of an adapter, instead of "
    .. "the one that it names" }

-- How many completions a command samples or shows; doc is the command's own.
flags.completions = { name = "completions", type = "integer",
  instead_of = { "n", "samples", "num-generations", "num-return-sequences", "num-completions" } }

flags.compute = { name = "compute", type = "choice", choices = { "f32", "bf16" },
  doc = "compute the products with weights in f32 or in bf16" }

flags.dir = { name = "dir", type = "dir", value = "RUNS", default = "runs",
  doc = "use RUNS as the directory of runs" }

flags.json = { name = "json", doc = "print the result as JSON, one object on each line" }

flags.max_new_tokens = { name = "max-new-tokens", type = "integer", min = 1,
  instead_of = { "max", "max-tokens", "max-length", "max-completion-length", "length" },
  doc = "stop a completion after N tokens" }

flags.memory = { name = "memory", type = "size", value = "SIZE",
  doc = "end with one line and status 5 instead of holding more than SIZE, such as 500M or 8G: all "
    .. "that the engine and Lua allocate" }

flags.min_p = { name = "min-p", type = "number", value = "P",
  doc = "leave out tokens that are less than P times as likely as the most likely one" }

flags.quantize = { name = "quantize", type = "choice", choices = { "nf4", "int8" },
  doc = "quantise the weights of the model, so that it takes less memory" }

flags.seed = { name = "seed", type = "integer", value = "S", min = 0, default = 0,
  doc = "seed the random numbers; the same seed gives the same text" }

flags.temperature = { name = "temperature", type = "number", value = "T",
  instead_of = { "do-sample", "temp" },
  doc = "divide the logits by T; 0 always takes the most likely token" }

flags.threads = { name = "threads", type = "integer", min = 1, max = 1024,
  doc = "use N threads; their number never changes a result" }

flags.top_k = { name = "top-k", type = "integer", value = "K", min = 0,
  doc = "sample from the K most likely tokens; 0 sets no limit" }

flags.top_p = { name = "top-p", type = "number", value = "P",
  doc = "sample from the most likely tokens that together have the probability P" }

-- Arguments that several commands share.
flags.model = { name = "MODEL", type = "model",
  doc = "a model directory, a run (its newest checkpoint), a checkpoint, an adapter, a .gguf file "
    .. "or a name of the Hugging Face Hub that grpo pull brought" }

flags.override = { name = "key=value", type = "option", optional = true, repeated = true,
  doc = "an option of the experiment, such as train.lr=1e-5; it wins over the script" }

flags.run = { name = "RUN", type = "run", doc = "the directory of a run, or its name in runs/" }

flags.script = { name = "SCRIPT", type = "script",
  doc = "a Lua file that ends with: return grpo.experiment { ... }, or a file of settings "
    .. "(docs/settings.md)" }

return flags
