-- tools/facts.lua - what the commands' own tables and `--help` say, for the generators of completions and pages.
--
-- returns { { name=, summary=, usage=, words = { KIND, ... }, overrides=, flags = { FLAG, ... } }, ... }
-- FLAG: { name=, short=, takes = "flag"|"value"|"optional", arg = "N", kind=, choices = { ... }, doc= }
-- KIND: script, run, model, dir, file, command

local cli = require "grpo.cli"

-- What the words of usage lines stand for.
local kinds = { SCRIPT = "script", RUN = "run", CHECKPOINT = "dir", MODEL = "model", DIR = "dir", RUNS = "dir",
  FILE = "file", OUT = "file", COMMAND = "command" }

local function split(text, separator)
  local list = {}
  for word in text:gmatch("[^" .. separator .. "]+") do list[#list + 1] = word end
  return list
end

-- "--format hf|adapter|gguf" in a usage line gives the choices; "--dir RUNS" the kind.
local function argument(usage, flag)
  local text = usage:match("%-%-" .. flag.name:gsub("%-", "%%-") .. "%[?[ =]([^%] ]+)%]?")
  if flag.short and not text then text = usage:match("%-" .. flag.short .. " ([^%] ]+)%]") end
  flag.arg = text
  if not text then return end
  flag.kind = kinds[text]
  local choices = split(text, "|,")
  if #choices > 1 then flag.choices = choices end
end

-- "  -n, --lines N   the last N lines only" in the help text.
local function description(help, name)
  local pattern = "%-%-" .. name:gsub("%-", "%%-") .. "%f[^%w-]"
  for line in (help or ""):gmatch("[^\n]+") do
    local at = line:find(pattern)
    if at and line:find("^%s+%-") then
      local text = line:sub(at):match("^%S+ ?%u?%S*%s%s+(.*)$") or line:sub(at):match("^%S+ %S+ (%l.*)$")
      if text then
        for _, tail in ipairs { "%s*%(default[^)]*%)", "%s%s+%-%-.*$", "%s+$", "[;:] .*$", "%.  .*$" } do
          text = text:gsub(tail, "")
        end
        if #text > 60 then text = text:gsub(",[^,]*$", ""):gsub(" %b()$", "") end
        return text
      end
    end
  end
end

local function facts(name)
  local command = cli.command(name)
  local c = { name = name, summary = command.summary, usage = command.usage, overrides = command.overrides, flags = {},
    words = {} }
  local short = {}
  for letter, long in pairs(command.short or {}) do short[long] = letter end
  for flag, takes in require "grpo.base.sorted" (command.flags or {}) do
    if takes == "text" then takes = "value" end
    local f = { name = flag, takes = takes, short = short[flag], doc = description(command.help, flag) }
    if takes ~= "flag" then argument(command.usage, f) end
    c.flags[#c.flags + 1] = f
  end
  if command.usage:find("--arg", 1, true) then
    c.flags[#c.flags + 1] = { name = "arg", takes = "value", arg = "k=v", doc = "an argument of the script's own" }
  end
  c.flags[#c.flags + 1] = { name = "help", short = "h", takes = "flag", doc = "how the command is used" }
  local seen = {}
  for word in command.usage:gsub("%[%-[^%]]*%]+", ""):gsub("%-%-[%w-]+ %u+", ""):gmatch("%u[%u|]+") do
    for part in word:gmatch("%u+") do
      local kind = kinds[part]
      if kind and not seen[kind] then
        seen[kind] = true
        c.words[#c.words + 1] = kind
      end
    end
  end
  return c
end

-- What one command says of a flag holds for the others that have it.
local list, docs = {}, {}
for _, name in ipairs(cli.commands) do
  local c = facts(name)
  list[#list + 1] = c
  for _, f in ipairs(c.flags) do docs[f.name] = docs[f.name] or f.doc end
end
for _, c in ipairs(list) do
  for _, f in ipairs(c.flags) do f.doc = f.doc or docs[f.name] end
end
return list
