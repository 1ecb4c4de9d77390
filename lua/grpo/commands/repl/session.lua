-- The part that `grpo repl` and `grpo attach` share: a line is compiled as an expression or as
-- statements, run protected, and its results are shown.

local advice = require "grpo.options.scripts.advice"
local core = require "grpo.core"
local display = require "grpo.base.display"
local explain = require "grpo.commands.repl.explain"
local extensions = require "grpo.base.extensions"
local lua_tokens = require "grpo.base.lua_tokens"
local other_programs = require "grpo.base.other_programs"
local paint = require "grpo.commands.repl.pretty.paint"
local pretty = require "grpo.commands.repl.pretty"
local wrap = require "grpo.base.wrap"

local Session = {}
Session.__index = Session

local session = {}

-- Puts the rows of extensions, each before the row that it names, into a list for .help.
function session.with_extensions(rows)
  for _, added in ipairs(extensions.rows "prompt_rows") do
    for i, row in ipairs(rows) do
      if row[1] == added.before then
        table.insert(rows, i, added)
        break
      end
    end
  end
  return rows
end

-- Returns the function at(text, env, classes) that completes the end of a line, or nil: without an
-- extension that can, TAB does nothing.
function session.completer()
  local row = extensions.rows("completers")[1]
  return row and row.at
end

session.rows = session.with_extensions {
  { "EXPR", "prints the value; with ; at the end of the line nothing is printed" },
  { "_", "is the last value" },
  { "local x = ...", "keeps x for the lines that follow" },
  { "?NAME", "explains NAME" },
  { ".time EXPR", "shows how long EXPR takes" },
  { "show(x)", "prints a value as the prompt does" },
  { "tr:inspect(i)", "shows the tokens of completion i of the last step with all their numbers" },
  { "tr:rescore(r)", "scores the completions of the last step with other rewards, and shows which "
    .. "advantages change their sign" },
  { "Ctrl-C", "returns to the prompt" },
  { "Ctrl-D or .quit", "leaves" },
}

-- ---- functions of every prompt ------------------------------------------------------------------

-- Makes _G and load refer to the globals of the session.
local function globals_of(env)
  env._G = env
  function env.load(chunk, name, mode, ...)
    if select("#", ...) > 0 then return load(chunk, name, mode, ...) end
    return load(chunk, name, mode, env)
  end
end

-- Returns a session. Fields of options:
--   env                   the globals of the session
--   out(text), err(text)  write results and errors
--   call(chunk)           optional: runs it and returns true and results, or false and an error
--   view(f, ...)          optional: the same for what shows and explains values, whose metamethods
--                         are the script's
--   look()                optional: see pretty/paint.lua
--   rows                  optional: the rows of .help, default session.rows
--   run                   optional: the directory of the run, for functions of extensions
function session.new(options)
  local self = setmetatable({ env = options.env, out = options.out, err = options.err,
    call = options.call or core.protected, view = options.view or core.protected,
    look = options.look or paint.look,
    rows = options.rows or session.rows }, Session)
  globals_of(self.env)
  for _, row in ipairs(extensions.rows "prompt_functions") do
    self.env[row.name] = row.make(options.run, function() return self:tokenizer() end)
  end
  self.env.show = function(...) self:show(...) end
  return self
end

-- Returns the session's tokenizer, or nil.
function Session:tokenizer()
  local env = self.env
  local tok = rawget(env, "tok")
  if tok then return tok end
  local m = rawget(env, "m")
  local ok, own = pcall(function() return m and m.tokenizer end)
  return ok and own or nil
end

function Session:show(...)
  local look = self.look()
  look.tokenizer = self:tokenizer()
  for i = 1, select("#", ...) do self.out(pretty.format((select(i, ...)), look) .. "\n") end
end

-- ---- one text -----------------------------------------------------------------------------------

-- Compiles a line as an expression, then as statements.  Returns chunk, or nil, message,
-- incomplete.
local function compile(line, env)
  local chunk = load("return " .. line:gsub("^%s*=%s*", ""), "=stdin", "t", env)
  if chunk then return chunk end
  local statement, message = load(lua_tokens.without_locals(line), "=stdin", "t", env)
  if statement then return statement end
  return nil, message, message:find("<eof>", 1, true) ~= nil
end

local function seconds_text(s)
  if s < 1e-3 then return ("%.1f us"):format(s * 1e6) end
  if s < 1 then return ("%.2f ms"):format(s * 1e3) end
  return ("%.2f s"):format(s)
end

local function quiet(text)
  local tokens = lua_tokens.tokens(text)
  for i = #tokens, 1, -1 do
    if tokens[i].kind ~= "comment" then return tokens[i].text == ";" end
  end
end

function Session:fail(err)
  self.failed = true
  self.err(display.clean(advice.on(tostring(err))) .. "\n")
end

-- Calls f, which shows something.
function Session:viewed(f, ...)
  local ok, err = self.view(f, ...)
  if not ok then self:fail(err) end
end

-- Compiles and runs a text. Returns true when it is incomplete.
function Session:evaluate(text, timed)
  local chunk, message, incomplete = compile(text, self.env)
  if not chunk then
    if not incomplete or timed then self:fail((other_programs.explained(message, text))) end
    return incomplete and not timed
  end
  local started = core.clock()
  local results = table.pack(self.call(chunk))
  local seconds = core.clock() - started
  if not results[1] then
    self:fail(results[2])
    return false
  end
  if results.n > 1 then rawset(self.env, "_", results[2]) end
  if not quiet(text) then self:viewed(self.show, self, table.unpack(results, 2, results.n)) end
  if timed or seconds > 1 then self.err(("(%s)\n"):format(seconds_text(seconds))) end
  return false
end

-- Returns the command of other prompts that the text is, or nil.
local function elsewhere(text, env)
  local word = text:match("^%s*(%a+)%s*%(?%s*%)?%s*$")
  if word ~= "quit" and word ~= "exit" and word ~= "help" then return nil end
  return rawget(env, word) == nil and word
end

local commands = {}

local function help(self, rest)
  local width = math.min(self.look().width, 100)
  self.out((rest == "" and wrap.list(self.rows, width) or explain.about(rest, self.env)) .. "\n")
end

function commands.help(self, rest)
  self:viewed(help, self, rest)
end

function commands.time(self, rest)
  self:evaluate(rest, true)
end

function commands.quit(self)
  self.done = true
end

-- Runs a text. Returns true when it is incomplete, so that the next line belongs to it.
function Session:run(text)
  self.failed = false
  local asked = text:match("^%s*%?%s*(.-)%s*$")
  if asked then return commands.help(self, asked) end
  local name, rest = text:match("^%s*%.(%a+)%s*(.-)%s*$")
  if name and commands[name] then return commands[name](self, rest) end
  if name then
    self:fail(("there is no command .%s; .help lists them"):format(name))
    return false
  end
  local word = elsewhere(text, self.env)
  if word then
    self:fail(("%s: Ctrl-D or .quit leaves; .help lists what there is, ?NAME explains")
      :format(word))
    return false
  end
  return self:evaluate(text)
end

return session
