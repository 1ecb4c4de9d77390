-- Finds words in all that has a help: commands, flags, options, metrics, functions, other programs'
-- names, and headings and tables of the pages.

local annotations = require "grpo.base.annotations"
local core = require "grpo.core"
local option_rows = require "grpo.options.option_rows"
local options = require "grpo.options"
local other_programs = require "grpo.base.other_programs"
local sorted_pairs = require "grpo.base.sorted"

local search = {}

-- ---- what is searched ---------------------------------------------------------------------------

-- An entry is { name =, text =, kind =, shown = how a list shows its name }; entries of an earlier
-- kind stand first where they match equally well.

local function add_commands(list, cli)
  for _, name in ipairs(cli.commands) do
    local command = cli.command(name)
    list[#list + 1] = { kind = 1, name = name, shown = "grpo " .. name, text = command.summary }
    for _, flag in ipairs(command.flags) do
      list[#list + 1] = { kind = 3, name = flag.name, text = flag.doc,
        shown = ("grpo %s --%s"):format(name, flag.name) }
    end
  end
end

local function first_line(text) return (text or ""):match("^[^\n]*") end

local function add_lua(list)
  local all = annotations.read()
  for name, f in sorted_pairs(all.functions) do
    list[#list + 1] = { kind = 2, name = name, text = first_line(f.doc),
      shown = ("%s(%s)"):format(name, f.arguments) }
  end
  for name, class in sorted_pairs(all.classes) do
    if class.doc ~= "" then
      list[#list + 1] = { kind = 4, name = name, text = first_line(class.doc) }
    end
  end
end

local page_kinds = { metric = 2, heading = 4, row = 5 }

local function add_pages(list)
  for line in (core.embedded "gen/docs.index" or ""):gmatch("[^\n]+") do
    local kind, page, name, text = line:match("^(%l+)\t([^\t]*)\t([^\t]*)\t(.*)$")
    list[#list + 1] = { kind = page_kinds[kind], name = name, text = text,
      shown = kind == "metric" and "metric " .. name or ("%s: %s"):format(page, name) }
  end
end

local OTHERS = 6

local function add_other_programs(list)
  for _, row in ipairs(other_programs.ask "entries" or {}) do
    list[#list + 1] = { kind = OTHERS, name = row.name,
      shown = ("%s of %s"):format(row.name, row.program),
      text = row.ours and "here " .. row.ours or row.about }
  end
end

-- Every entry.  variables: rows { name, text } of the environment.
local function entries(cli, variables)
  local list = {}
  add_commands(list, cli)
  for _, row in ipairs(option_rows.rows) do
    list[#list + 1] = { kind = 2, name = row.path, text = row.doc }
  end
  add_lua(list)
  for _, row in ipairs(variables) do
    list[#list + 1] = { kind = 4, name = row[1], text = row[2] }
  end
  add_pages(list)
  add_other_programs(list)
  return list
end

-- ---- how well a word matches -------------------------------------------------------------------

-- Does `text` have the word, and does it begin a word of it?  Letters are small in both.
local function within(text, word)
  local at = text:find(word, 1, true)
  if not at then return nil end
  local begins, whole = false, false
  while at do
    local before, behind = text:sub(at - 1, at - 1), text:sub(at + #word, at + #word)
    if at == 1 or not before:find("%w") then
      begins = true
      whole = whole or not behind:find("%w")
    end
    at = text:find(word, at + 1, true)
  end
  return begins, whole
end

-- The rank of a word in an entry, lower is better: the whole name, its last part, its beginning, a
-- word of it, the beginning of a word of it, a piece of it, a word of the text, the beginning
-- of one; nil if it is not there.  A word of three letters is not a piece: DPO is not GDPO.
local function rank(entry, word)
  local name = entry.name:lower()
  if name == word then return 0 end
  if name:match("[^.:/ ]+$") == word then return 1 end
  if name:sub(1, #word) == word then return 2 end
  local begins, whole = within(name, word)
  if begins ~= nil then return whole and 3 or begins and 4 or #word > 3 and 6 or nil end
  begins, whole = within((entry.text or ""):lower(), word)
  return whole and 7 or begins and #word > 2 and 8 or nil
end

-- The rank of all words in an entry; nil if one of them is not there.  Best is an option whose
-- text begins with them: "learning rate" is what train.lr is.
local function rank_of_all(entry, words)
  local said = table.concat(words, " ")
  if words[2] and entry.kind < OTHERS and (entry.text or ""):lower():sub(1, #said) == said then
    return 0
  end
  local total = 0
  for _, word in ipairs(words) do
    local r = rank(entry, word)
    total = r and total and total + r
  end
  return total
end

-- The entries in which every word occurs, best first.
function search.find(words, cli, variables)
  local found, plain = {}, {}
  for i, word in ipairs(words) do plain[i] = word:lower():gsub("^%-%-", "") end
  for place, entry in ipairs(entries(cli, variables)) do
    local total = rank_of_all(entry, plain)
    if total then
      -- a name of another program stands behind ours
      entry.rank, entry.place = total + (entry.kind == OTHERS and 2 or 0), place
      found[#found + 1] = entry
    end
  end
  table.sort(found, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    if a.kind ~= b.kind then return a.kind < b.kind end
    return a.place < b.place
  end)
  return found
end

-- The word that `word` may be a misspelling of, or nil.
function search.nearest(word, cli, variables)
  local names, seen = {}, {}
  for _, entry in ipairs(entries(cli, variables)) do
    for part in entry.name:lower():gmatch("[%w_]+") do
      if #part > 2 and not seen[part] then names[#names + 1], seen[part] = part, true end
    end
  end
  return options.nearest(word:lower(), names)
end

return search
