-- The declarations of commands and flags, and what is made from them.

local cli = require "grpo.commands"
local flags = require "grpo.commands.flags"
local parse = require "grpo.commands.parse"
local usage = require "grpo.commands.usage"

-- A command with one flag of each type.
local trial = {
  name = "trial",
  arguments = {
    { name = "RUN", type = "run", unless = "all" }, flags.override,
    { name = "STEP", type = "integer", optional = true },
  },
  flags = {
    { name = "all", doc = "take all runs" },
    { name = "count", short = "c", type = "integer", min = 1, max = 9, default = 2, doc = "count" },
    { name = "rate", type = "number", doc = "set the rate" },
    { name = "kind", type = "choice", choices = { "a", "b", "c" }, doc = "choose a kind" },
    { name = "kinds", type = "list", choices = { "a", "b" }, doc = "choose kinds" },
    { name = "since", type = "run", optional = true, doc = "begin at RUN; else at the first" },
    { name = "say", type = "text", doc = "say TEXT" },
    flags.arg, flags.dir,
  },
  about = { "Tries." },
}

local function refused(message, ...)
  local ok, err = pcall(parse, trial, { ... })
  assert.is_false(ok)
  assert.equal("trial: " .. message .. "; see 'grpo help trial'", err.message)
end

describe("a command line", function()
  it("is read as the command declares it", function()
    local o = parse(trial, { "--rate=1e-3", "r", "train.lr=1", "-c", "5", "7", "--kinds", "b,a",
      "--since", "--say", "", "--arg", "x=1", "--arg=y=" })
    assert.same({ "r", 7 }, o.words)
    assert.same({ "train.lr=1" }, o.overrides)
    assert.same({ x = "1", y = "" }, o.args)
    assert.same({ rate = 1e-3, count = 5, kinds = { "b", "a" }, since = true, say = "",
      dir = "runs" }, o.flags)
  end)

  it("gets the defaults of flags that are not given", function()
    assert.same({ count = 2, dir = "runs" }, parse(trial, { "r" }).flags)
    assert.same({ count = 2, dir = "runs", all = true }, parse(trial, { "--all" }).flags)
  end)

  it("is refused with the flag, the value and what the flag takes", function()
    refused("--count: 'x' is not a whole number from 1 to 9", "r", "--count", "x")
    refused("--count: '10' is not a whole number from 1 to 9", "r", "--count=10")
    refused("--rate: 'fast' is not a number", "r", "--rate", "fast")
    refused("--kind: 'd' is not a, b or c", "r", "--kind", "d")
    refused("--kinds: 'a,,b' is not a list of a, b", "r", "--kinds", "a,,b")
    refused("--arg: 'x' is not KEY=VALUE", "r", "--arg", "x")
    refused("--dir: its value is empty", "r", "--dir=")
    refused("--all takes no value", "r", "--all=yes")
    refused("--rate needs a value", "r", "--rate")
    refused("unknown flag --rat, did you mean '--rate'?", "r", "--rat", "1")
    refused("unknown flag --lr; options are written train.lr=VALUE", "r", "--lr", "1")
    refused("unknown flag -x", "r", "-x")
    refused("RUN is missing")
    refused("STEP: 'last' is not a whole number", "r", "last")
    refused("'more' is one word too many", "r", "1", "more")
    local ok, err = pcall(parse, cli.command "test", { "a", "" })
    assert.is_false(ok)
    assert.matches("^test: FILE|DIR: its value is empty", err.message)
  end)

  it("has usage lines and help from the same declaration", function()
    local forms, rest = usage.forms(trial), "[-c N] [--rate X] [--kind a|b|c] [--kinds a,b] "
      .. "[--since[=RUN]] [--say TEXT] [--arg KEY=VALUE] [--dir RUNS]"
    assert.equal("grpo trial RUN [key=value ...] [STEP] [--all] " .. rest,
      table.concat(forms[1], " "))
    assert.equal("grpo trial --all [key=value ...] [STEP] " .. rest, table.concat(forms[2], " "))
    assert.equal(2, #forms)
    local help = usage.help(trial)
    assert.matches("^usage: grpo trial RUN .*\n       grpo trial %-%-all .*\n\nTries", help)
    for _, line in ipairs { "\nTries%.\n", "\n  %-c, %-%-count N +count %(default: 2%)\n",
      "\n  %-%-since%[=RUN%] +begin at RUN; else at the first\n" } do
      assert.matches(line, help)
    end
  end)
end)

describe("the commands", function()
  local types = { text = true, word = true, number = true, integer = true, size = true,
    choice = true, list = true, pair = true, file = true, dir = true, run = true, script = true,
    model = true }

  it("declare their names, and every flag with a known type and a sentence", function()
    for _, name in ipairs(cli.commands) do
      local command, seen = cli.command(name), {}
      assert.equal(name, command.name)
      for _, flag in ipairs(command.flags) do
        local what = ("%s --%s"):format(name, flag.name)
        assert.is_true(flag.type == nil or types[flag.type] == true, what)
        assert.matches("^%l%l+ .*%w", flag.doc, what)
        assert.is_nil(seen[flag.name], what)
        assert.is_true(flag.type ~= "choice" and flag.type ~= "list" or #flag.choices > 0, what)
        seen[flag.name] = true
      end
    end
  end)

  it("have one name for one thing: no letter alone, and a refused name is not a flag", function()
    local short = {}
    for _, name in ipairs(cli.commands) do
      local here = {}
      for _, flag in ipairs(cli.command(name).flags) do here[flag.name] = true end
      for _, flag in ipairs(cli.command(name).flags) do
        assert.is_true(#flag.name > 1, name)
        if flag.short then
          assert.equal(short[flag.short] or flag.name, flag.name)
          short[flag.short] = flag.name
        end
        for _, old in ipairs(flag.instead_of or {}) do
          assert.is_nil(here[old], name)
          local _, err = pcall(parse, cli.command(name), { "--" .. old })
          assert.matches("unknown flag %-%-" .. old:gsub("%-", "%%-") .. ", write %-%-"
            .. flag.name:gsub("%-", "%%-") .. ";", err.message)
        end
      end
    end
  end)

  it("share the declarations of flags that mean the same", function()
    local shared = {}
    for _, flag in pairs(flags) do
      if type(flag) == "table" and flag.name then shared[flag.name] = flag.doc end
    end
    for _, name in ipairs { "arg", "dir", "json", "max-new-tokens", "seed", "threads", "top-p" } do
      for _, command in ipairs(cli.commands) do
        for _, flag in ipairs(cli.command(command).flags) do
          if flag.name == name then assert.equal(shared[name], flag.doc) end
        end
      end
    end
  end)
end)
