-- Rewards and their rows: does a reward change its row, does any reward look at it?

local row_checks = {}

local DEEPEST = 20 -- tables in tables that are looked at

-- Copies a row with the tables in it; values with a metatable are shared.
function row_checks.copy(v, depth)
  depth = depth or 0
  if type(v) ~= "table" or getmetatable(v) or depth > DEEPEST then return v end
  local copy = {}
  for key, field in pairs(v) do copy[key] = row_checks.copy(field, depth + 1) end
  return copy
end

-- Returns where two values differ: a path that begins with `path`, and both values there; nil if
-- they are equal.
local function difference(a, b, path, depth)
  if a == b or (a ~= a and b ~= b) or depth > DEEPEST then return nil end
  if type(a) ~= "table" or type(b) ~= "table" then return path, a, b end
  for key, field in pairs(a) do
    local where, x, y = difference(field, b[key], ("%s.%s"):format(path, tostring(key)), depth + 1)
    if where then return where, x, y end
  end
  for key, field in pairs(b) do
    if a[key] == nil then return ("%s.%s"):format(path, tostring(key)), nil, field end
  end
end

local function shown(v)
  return type(v) == "string" and ("%q")
    :format(#v > 40 and v:sub(1, 37) .. "..." or v) or tostring(v)
end

-- After `entries` have been called with `row`, a copy of `original`, returns the entry that changed
-- it and a sentence about that; nil when it is unchanged.  call(entry, row) calls one alone.
function row_checks.changed(entries, original, row, call)
  if not difference(original, row, "row", 0) then return nil end
  for _, entry in ipairs(entries) do
    local mine = row_checks.copy(original)
    call(entry, mine)
    local where, before, after = difference(original, mine, "row", 0)
    if where then
      return entry, ("%s changes the row that it is given (%s was %s, is %s): every completion of "
        .. "the group gets the "
        .. "same row, and later steps too; work on a copy")
          :format(entry.name, where, shown(before), shown(after))
    end
  end
end

-- Returns each demonstration beside the row of one with another text: { name=, text=, row=, of =
-- the demonstration's number }.
function row_checks.exchanged(demonstrations)
  local list, n = {}, #demonstrations
  for i, own in ipairs(demonstrations) do
    for shift = 0, n - 1 do
      local other = demonstrations[(i + n // 2 + shift - 1) % n + 1]
      if other.text ~= own.text then
        list[#list + 1] = { name = own.name .. " beside another row", text = own.text,
          row = other.row, of = i }
        break
      end
    end
  end
  return list
end

-- Returns the means of an entry's rewards for demonstrations beside their own rows and beside
-- others, and whether any two differed. own, others: results with rewards[entry name], of
-- demonstrations and of rowwise.exchanged, `of` in the latter.
function row_checks.compare(entry, own, others)
  local mine, theirs, count, differs = 0.0, 0.0, 0, false
  for _, other in ipairs(others) do
    local a, b = own[other.of].rewards[entry.name], other.rewards[entry.name]
    if a ~= b then differs = true end
    if type(a) == "number" and type(b) == "number" then
      mine, theirs, count = mine + a, theirs + b, count + 1
    end
  end
  if count == 0 then return nil, nil, differs end
  return mine / count, theirs / count, differs
end

return row_checks
