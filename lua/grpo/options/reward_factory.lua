-- Tells a function that makes a reward from a reward: rewards.length.cosine { ... } is one, and
-- rewards.length.cosine makes one.  The annotation above such a function says so:
--
--   ---@return fun(text: string, row: table, c: table): number

local core = require "grpo.core"

local reward_factory = {}

-- The lines of the file that a function comes from, and the number of its own; nil for a function
-- of C or of a text.
local function source_of(f)
  local info = debug.getinfo(f, "S")
  local path = info.source:match("^@(.*)$")
  local text = path and (core.fs.read(path) or core.embedded((path:gsub("^%./", ""))))
  if not text then return nil end
  local lines = {}
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  return lines, info.linedefined
end

-- The field of an entry that holds a function, by the name of its first parameter.
local kinds = { texts = "group_fn", c = "token_fn" }

-- The names of its parameters, the type of the first, and the kind of the function that it returns,
-- if what stands above says that it returns one; else nil.
local function parameters(lines, at)
  local names, kind, made = {}, nil, nil
  for i = at - 1, 1, -1 do
    local line = lines[i]
    if not line:find("^%s*%-%-%-") then break end
    made = made or line:match("^%s*%-%-%-@return%s+fun%((%l+)")
    local name, rest = line:match("^%s*%-%-%-@param%s+([%w_]+)%??%s+(.*)$")
    if name then
      table.insert(names, 1, name)
      kind = rest
    end
  end
  if made then return names, kind or "", kinds[made] or "fn" end
end

-- The names of the fields of a type: written in braces, or of a class in the same file.
local function fields_of(kind, lines)
  local names = {}
  for name in (kind:match("^{(.*)}") or ""):gmatch("([%l_]+)%??:") do names[#names + 1] = name end
  local inside = false
  for _, line in ipairs(#names == 0 and lines or {}) do
    local class = line:match("^%-%-%-@class ([%w_.]+)")
    inside = class and class == kind:match("^[%w_.]+") or not class and inside
    local field = inside and line:match("^%-%-%-@field ([%w_]+)")
    if field then names[#names + 1] = field end
  end
  return names
end

-- Does this function make a reward?  { name =, call = how it is called, kind = of the entry that
-- takes the reward, options = names }; nil if it is a reward, as far as its annotation says.
function reward_factory.of(f)
  local lines, at = source_of(f)
  if not lines or not lines[at] then return nil end
  local names, type_of_first, kind = parameters(lines, at)
  local name = names and lines[at]:match("%f[%w]function%s+([%w_.]+)%s*%(")
    or names and lines[at]:match("([%w_.]+)%s*=%s*function")
  if not names or not name then return nil end
  local options = names[1] and names[1]:find("^opt") ~= nil
  local call = options and name .. " { ... }"
    or ("%s(%s)"):format(name, table.concat(names, ", "))
  return { name = name, call = call, kind = kind,
    options = options and fields_of(type_of_first, lines) or {} }
end

local function with_options(made)
  return #made.options > 0 and ", with some of " .. table.concat(made.options, ", ") or ""
end

-- The end of a sentence about an option that holds such a function, as a script writes it; nil if
-- it holds another.
function reward_factory.problem(f)
  local made = reward_factory.of(f)
  if not made then return nil end
  local call = made.kind == "fn" and made.call or ("{ %s = %s }"):format(made.kind, made.call)
  return ("%s makes a reward from its options, and is not one itself; write %s%s"):format(made.name,
    call, with_options(made))
end

-- Such an end of a sentence, as a file of settings writes it.  name: of the function there.
function reward_factory.problem_in_settings(f, name)
  local made = reward_factory.of(f)
  return made and ("%s makes a reward from its options, and is not one itself; write %s: { %s: %s, "
    .. "options: { ... } }%s"):format(name, name:match("[^.]+$"), made.kind, name,
    with_options(made)) or nil
end

return reward_factory
