-- The reward entries of a script: what the option `rewards` means.
--
-- An entry is { name=, weight=, fn= | group_fn= | token_fn=, prepare= }.

local errors = require "grpo.base.errors"
local name_problem = require "grpo.base.name_problem"
local options = require "grpo.options"
local reward_factory = require "grpo.options.reward_factory"
local schedule = require "grpo.schedule"

local reward_entries = {}

-- The kinds of entries, each named by the field of an entry that holds its function.
local kind_names = { "fn", "group_fn", "token_fn" }
local entry_fields = table.move(kind_names, 1, #kind_names, 4, { "name", "weight", "prepare" })

local function complain(where, ...)
  errors.raise_at(where, "EARG", ...)
end

-- The weight is a number or a schedule, which may be written as text.
local function check_weight(entry, where)
  local weight = entry.weight
  if type(weight) == "string" then
    local made, message = schedule.parse(weight)
    if made == nil then complain(where, "rewards.%s.weight: %s", entry.name, message) end
    entry.weight = made
  elseif weight ~= nil and type(weight) ~= "function"
    and (type(weight) ~= "number" or weight - weight ~= 0) then
    complain(where, "rewards.%s.weight: got %s, want a finite number or a schedule", entry.name,
      tostring(weight))
  end
end

local function check_entry(entry, where)
  for key in pairs(entry) do
    if not options.among(key, entry_fields) then
      complain(where, "rewards.%s.%s: unknown option%s", entry.name, tostring(key),
        options.hint(key, entry_fields))
    end
  end
  local kinds = 0
  for _, kind in ipairs(kind_names) do
    local f = entry[kind]
    if f ~= nil then kinds = kinds + 1 end
    if f ~= nil and type(f) ~= "function" then
      complain(where, "rewards.%s.%s: got %s, want a function", entry.name, kind, type(f))
    end
  end
  for _, kind in ipairs(kind_names) do
    local problem = entry[kind] and reward_factory.problem(entry[kind])
    if problem then complain(where, "rewards.%s: %s", entry.name, problem) end
  end
  if kinds ~= 1 then
    complain(where, "rewards.%s: want exactly one of %s", entry.name,
      table.concat(kind_names, ", "))
  end
  if entry.prepare ~= nil and type(entry.prepare) ~= "function" then
    complain(where, "rewards.%s.prepare: got %s, want a function", entry.name, type(entry.prepare))
  end
  check_weight(entry, where)
end

-- The kind of an entry and its function.
function reward_entries.kind_of(entry)
  for _, kind in ipairs(kind_names) do
    if entry[kind] then return kind, entry[kind] end
  end
end

-- The entry that an item of `rewards` stands for: a function, an entry, or an object that has a
-- group_fn, as grpo.reward_model returns it.  where_in: "rewards[1]" or "rewards.NAME".
local function entry_of(item, where, where_in)
  if type(item) == "function" then return { fn = item } end
  if type(item) ~= "table" then
    complain(where, "%s: got %s, want a function or an entry", where_in, type(item))
  end
  if not getmetatable(item) or not item.group_fn then return item end
  return { group_fn = item.group_fn, prepare = item.prepare }
end

-- The rewards option as a list of entries: list items in order ("reward1", ...), then named ones by
-- name.
function reward_entries.list(rewards, where)
  local list, names = {}, {}
  for i, v in ipairs(rewards or {}) do
    local entry = entry_of(v, where, ("rewards[%d]"):format(i))
    list[#list + 1] = { name = entry.name or "reward" .. i, source = entry }
  end
  for name in pairs(rewards or {}) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local entry = entry_of(rewards[name], where, "rewards." .. name)
    list[#list + 1] = { name = entry.name or name, source = entry }
  end
  local seen = {}
  for i, item in ipairs(list) do
    if type(item.name) ~= "string" or item.name == "" then
      complain(where, "rewards: the name of entry %d is %s, want a string", i,
        item.name == "" and "empty" or type(item.name))
    end
    local entry = { name = item.name }
    for k, v in pairs(item.source) do entry[k] = v end
    check_entry(entry, where)
    entry.label = "rewards." .. entry.name -- in messages
    local problem = name_problem(entry.name)
    if problem then complain(where, "rewards: the name of entry %d, %s", i, problem) end
    if seen[entry.name] then complain(where, "rewards: two entries are named '%s'", entry.name) end
    seen[entry.name] = true
    list[i] = entry
  end
  return list
end

-- The sum of the rewards that the environment gave; nil if there is no environment.
function reward_entries.of_environment(_, _, c)
  return c.environment and c.environment.reward
end

-- Do two lists of entries call the same functions?
function reward_entries.same(a, b)
  for i, entry in ipairs(a) do
    local other = b[i] or {}
    local kind, f = reward_entries.kind_of(entry)
    local other_kind, g = reward_entries.kind_of(other)
    if entry.name ~= other.name or kind ~= other_kind or f ~= g then return false end
  end
  return #a == #b
end

-- A host's entries beside those of the script: in place of one of the same name, else after them.
function reward_entries.with_host(list, entries)
  for _, entry in ipairs(entries) do
    local at = #list + 1
    for i, own in ipairs(list) do
      if own.name == entry.name then at = i end
    end
    list[at] = entry
  end
  return list
end

return reward_entries
