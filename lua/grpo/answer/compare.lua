-- compare.lua - whether two answers, as trees, are the same.
--
-- Formulas are compared by their values at POINTS fixed points, equations and inequalities up to a
-- factor of what stands on both sides, and the rest item by item.  Units count if both are known.

local evaluate = require "grpo.answer.evaluate"
local rational = require "grpo.answer.rational"
local symbols = require "grpo.answer.symbols"

local compare = {}

local POINTS = 6

-- ---- what is known of a tree ------------------------------------------------------------

local known = setmetatable({}, { __mode = "k" }) -- [node] = { [key] = { result, work } }

-- f(node, ...), computed once for a node and a key.  It counts as the same work each time, so that
-- no result depends on what was compared before.
local function once(node, key, f, ...)
  local of_node = known[node] or {}
  local found = of_node[key]
  known[node] = of_node
  if found then
    rational.spend(found[2])
    return found[1]
  end
  local before = rational.budget
  local result = f(node, ...)
  of_node[key] = { result, before - rational.budget }
  return result
end

-- ---- points ---------------------------------------------------------------------------

local leaves = { num = true, pi = true, e = true, i = true, inf = true, word = true, choice = true }

local counting = { fact = true, fact2 = true, binom = true }

-- Sets names.NAME for each variable, and names[1] where a variable must be a whole number.
local function collect(node, names)
  rational.spend(1)
  if counting[node[1]] then names[1] = true end
  if node[1] == "var" then names[node[2]] = true end
  if leaves[node[1]] or node[1] == "var" then return end
  for k = 2, #node do
    if type(node[k]) == "table" and not node[k].n then
      if type(node[k][1]) == "string" then collect(node[k], names)
      else
        for _, item in ipairs(node[k]) do
          if type(item) == "table" then collect(item, names) end
        end
      end
    end
  end
end

local function collected(node)
  local names = {}
  collect(node, names)
  return names
end

-- The names of the variables of several nodes, in order; `whole` if they are to be whole numbers.
local function variables(...)
  local names, list = {}, {}
  for _, node in ipairs { ... } do
    for name in pairs(once(node, "names", collected)) do names[name] = true end
  end
  list.whole, names[1] = names[1], nil
  for name in pairs(names) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Values that no usual formula has as a root; in the last two points they are below 1.
local function coordinate(i, k, whole)
  if whole then return rational.integer(3 * i + 5 * k - 4) end
  local upper, lower = 6 * i + 7 * k + 4, 11 + 2 * k
  if k > POINTS - 2 then upper, lower = 3 * i + k, 101 + 13 * i + k end
  local negative = k == 2 or (k == 3 and i % 2 == 1) or (k == 4 and i % 2 == 0)
  local value = rational.new(tostring(upper), tostring(lower))
  return negative and rational.negate(value) or value
end

local function point(names, k)
  local p = { variables = {}, key = ("%d %s %s"):format(k, names.whole, table.concat(names, " ")) }
  for i, name in ipairs(names) do p.variables[name] = coordinate(i, k, names.whole) end
  return p
end

-- ---- formulas -------------------------------------------------------------------------

-- A formula with the signs that \pm takes: { "signed", node, signs }.
local function value_at(node, p)
  if node[1] == "signed" then
    p.signs = node[3]
    return evaluate.value(node[2], p)
  end
  return once(node, p.key, evaluate.value, p)
end

local function same_formula(a, b)
  local names = variables(a, b)
  local agreed = 0
  for k = 1, #names == 0 and 1 or POINTS do
    local p = point(names, k)
    local x, y = value_at(a, p), value_at(b, p)
    if (x == nil) ~= (y == nil) then return false end
    if x then
      if not evaluate.same(x, y) then return false end
      agreed = agreed + 1
    end
  end
  return agreed >= (#names == 0 and 1 or 2)
end

-- Whether a = factor * b at all points, where factor is a constant, and a positive one if asked.
local function proportional(a, b, positive)
  local names, agreed, x0, y0 = variables(a, b), 0, nil, nil
  for k = 1, POINTS do
    local p = point(names, k)
    local x, y = value_at(a, p), value_at(b, p)
    if (x == nil) ~= (y == nil) then return false end
    if x then
      if x.inf or y.inf or evaluate.is_zero(x) ~= evaluate.is_zero(y) then return false end
      if not evaluate.is_zero(x) then
        x0, y0 = x0 or x, y0 or y
        local left, right = evaluate.multiply(x, y0), evaluate.multiply(y, x0)
        if not left or not right or not evaluate.same(left, right) then return false end
        agreed = agreed + 1
      end
    end
  end
  if agreed < 2 and #names > 0 or agreed < 1 then return false end
  return not positive or evaluate.sign(x0) * evaluate.sign(y0) > 0
end

-- ---- lists, with or without order -----------------------------------------------------

local same

local function in_order(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if not same(a[i], b[i]) then return false end
  end
  return true
end

local function without_order(a, b)
  if #a ~= #b then return false end
  local taken = {}
  for i = 1, #a do
    local found
    for j = 1, #b do
      if not taken[j] and same(a[i], b[j]) then found = j break end
    end
    if not found then return false end
    taken[found] = true
  end
  return true
end

-- ---- plus-minus -----------------------------------------------------------------------

local function find_signs(node, list)
  if node[1] == "pm" then list[#list + 1] = node end
  for k = 2, #node do
    local child = node[k]
    if type(child) == "table" and type(child[1]) == "string" then find_signs(child, list) end
  end
  return list
end

-- The formulas that \pm stands for, or nil where there is none.  With \mp in it all signs go
-- together.
local function alternatives(node)
  if node[1] == "signed" then return nil end
  local found = find_signs(node, {})
  if #found == 0 then return nil end
  local together = false
  for _, sign in ipairs(found) do together = together or sign[3] == "mp" end
  local list = {}
  for bits = 0, (together and 2 or 1 << #found) - 1 do
    local signs = {}
    for k, sign in ipairs(found) do
      signs[sign[4]] = (together and bits or bits >> (k - 1)) & 1 == 0 and 1 or -1
    end
    list[#list + 1] = { "signed", node, signs }
  end
  return list
end

-- ---- relations ------------------------------------------------------------------------

local flipped = { ["<"] = ">", ["<="] = ">=", [">"] = "<", [">="] = "<=" }

local function minus(a, b) return { "+", a, { "neg", b } } end

local formulas = { num = true, ["var"] = true, pi = true, e = true, i = true, inf = true,
  ["+"] = true, ["*"] = true, ["/"] = true, ["^"] = true, neg = true, fn = true, root = true,
  log = true, fact = true, fact2 = true, binom = true, pct = true, deg = true, signed = true,
  unit = true, pm = true }

local function is_formula(node) return formulas[node[1]] == true end

-- The value that an equation gives: of a name, or the one that all its constants have.
local function value_given(rel)
  local ops, items = rel[2], rel[3]
  for _, op in ipairs(ops) do
    if op ~= "=" and op ~= "in" and op ~= "~" then return nil end
  end
  local last = #items
  while last > (rel.named and 2 or 1) and ops[last - 1] == "~" do -- x = 1/3 ~ 0.33
    last = last - 1
  end
  if rel.named then return items[last] end
  for k = 2, last do
    if #variables(items[k - 1], items[k]) > 0 or not is_formula(items[k]) then return nil end
    if not same(items[k - 1], items[k]) then return nil end
  end
  return items[last]
end

local function bound_of(op, value, below)
  local closed = op == "<=" or op == ">="
  if below then return closed and "[" or "(", value end
  return closed and "]" or ")", value
end

-- The side on which a bound stands, the relation as x has it, and the bound; else nil.
local function half_line(op, left, right)
  if not flipped[op] then return nil end
  if left[1] == "var" then return op:sub(1, 1) == ">", op, right end
  if right[1] == "var" then return op:sub(1, 1) == "<", op, left end
end

-- An inequality of one variable as an interval, or nil.
local function interval_of(rel)
  local ops, items = rel[2], rel[3]
  local open, close, from, to = "(", ")", { "neg", { "inf" } }, { "inf" }
  if #items == 2 then
    local below, op, value = half_line(ops[1], items[1], items[2])
    if below == nil then return nil end
    if below then open, from = bound_of(op, value, true)
    else close, to = bound_of(op, value, false) end
  elseif #items == 3 and items[2][1] == "var" and flipped[ops[1]]
    and ops[1]:sub(1, 1) == ops[2]:sub(1, 1) then
    local rising = ops[1]:sub(1, 1) == "<"
    open, from = bound_of(ops[rising and 1 or 2], items[rising and 1 or 3], true)
    close, to = bound_of(ops[rising and 2 or 1], items[rising and 3 or 1], false)
  else
    return nil
  end
  if not is_formula(from) or not is_formula(to) or #variables(from, to) > 0 then return nil end
  return { "group", open, close, { from, to } }
end

-- A relation of two sides with < and <= only: 3 > x is x < 3.
local function oriented(rel)
  local op, a, b = rel[2][1], rel[3][1], rel[3][2]
  if op == ">" or op == ">=" then return flipped[op], b, a end
  return op, a, b
end

local function same_sides(a, b)
  local op, left, right = oriented(a)
  local other, first, second = oriented(b)
  if op ~= other or op == "in" or op == "~" then return false end
  for _, side in ipairs { left, right, first, second } do
    if not is_formula(side) then return false end
  end
  return proportional(minus(left, right), minus(first, second), op == "<" or op == "<=")
end

local function same_chain(a, b)
  if #a[3] ~= #b[3] then return false end
  local order, items = {}, b[3]
  for k, op in ipairs(b[2]) do order[k] = op end
  if order[1] ~= a[2][1] then -- 3 > x > 1 is 1 < x < 3
    local reversed = {}
    for k = #items, 1, -1 do reversed[#reversed + 1] = items[k] end
    for k, op in ipairs(b[2]) do order[#b[2] - k + 1] = flipped[op] end
    items = reversed
  end
  for k, op in ipairs(a[2]) do
    if op ~= order[k] then return false end
  end
  return in_order(a[3], items)
end

local function same_relations(a, b)
  if a.named and a.named == b.named and a[2][1] == "=" and b[2][1] == "=" then
    local x, y = value_given(a), value_given(b)
    if x and y then return same(x, y) end
  end
  if #a[3] == 2 and #b[3] == 2 then
    if same_sides(a, b) then return true end
    return a[2][1] == b[2][1] and a.named ~= nil and a.named == b.named and same(a[3][2], b[3][2])
  end
  return same_chain(a, b)
end

local function relation_beside(rel, other)
  local value = value_given(rel)
  if value then return same(value, other) end
  local interval = interval_of(rel)
  return interval ~= nil and other[1] == "group" and same(interval, other)
end

-- ---- items of lists -------------------------------------------------------------------

local function is_among(list, item)
  for _, other in ipairs(list) do
    if same(other, item) then return true end
  end
  return false
end

-- The items of a list, with \pm as its two values and "x = 2, 3" as x = 2, x = 3; those of a set
-- once.
local function items_of(node)
  local list = {}
  for _, item in ipairs(node[2]) do
    local several = is_formula(item) and alternatives(item)
    for _, value in ipairs(several or { item }) do
      if node[1] ~= "set" or not is_among(list, value) then list[#list + 1] = value end
    end
  end
  return list
end

-- The name that all relations of a list give values to, and the values; else nil.
local function values_of(items)
  local name, values = nil, {}
  for k, item in ipairs(items) do
    if item[1] == "rel" then
      if not item.named or (name and name ~= item.named) or #item[3] ~= 2 then return nil end
      name, values[k] = item.named, value_given(item)
      if not values[k] then return nil end
    elseif not name then return nil
    else values[k] = item end
  end
  return name, values
end

local function values_in_order(items)
  local values = {}
  for k, item in ipairs(items) do
    values[k] = item[1] == "rel" and value_given(item) or nil
    if not values[k] then return nil end
  end
  return values
end

local function same_lists(a, b)
  local x, y = items_of(a), items_of(b)
  local name, values = values_of(x)
  local other, others = values_of(y)
  if name and other and name ~= other then return false end
  if name or other then return without_order(values or x, others or y) end
  if without_order(x, y) then return true end
  local left, right = values_in_order(x), values_in_order(y)
  if (left == nil) == (right == nil) then return false end
  return in_order(left or x, right or y) -- x = 1, y = 2 beside 1, 2
end

local function list_beside_tuple(list, tuple)
  if tuple[2] ~= "(" or tuple[3] ~= ")" then return false end
  local items = items_of(list)
  return in_order(values_in_order(items) or items, tuple[4])
end

-- ---- everything -----------------------------------------------------------------------

local function same_matrices(a, b)
  if a[2] ~= b[2] or #a[3] ~= #b[3] then return false end
  for r, row in ipairs(a[3]) do
    if not in_order(row, b[3][r]) then return false end
  end
  return true
end

-- 5:3 as 5/3, or nil.
local function quotient(ratio)
  local items = ratio[2]
  if #items ~= 2 or not is_formula(items[1]) or not is_formula(items[2]) then return nil end
  return { "/", items[1], items[2] }
end

local function bracket(sign) return sign == "<" and "(" or sign == ">" and ")" or sign end

local pairs_of_kinds = {
  ["list list"] = same_lists, ["set set"] = same_lists, ["list set"] = same_lists,
  ["rel rel"] = same_relations, ["matrix matrix"] = same_matrices,
  ["list group"] = list_beside_tuple,
  ["group group"] = function(a, b)
    return bracket(a[2]) == bracket(b[2]) and bracket(a[3]) == bracket(b[3])
      and in_order(a[4], b[4])
  end,
  ["ratio ratio"] = function(a, b)
    local x, y = quotient(a), quotient(b)
    if x and y then return same_formula(x, y) end
    return in_order(a[2], b[2])
  end,
  ["cup cup"] = function(a, b) return without_order(a[2], b[2]) end,
  ["cap cap"] = function(a, b) return without_order(a[2], b[2]) end,
  ["setminus setminus"] = function(a, b) return in_order(a[2], b[2]) end,
  ["word word"] = function(a, b) return a[2] == b[2] end,
}

-- The currency in a unit: that of $5 per hour, which is often left at $5.
local function currency_of(unit)
  for part in unit:gmatch("[^*]+") do
    if symbols.currency_units[part] then return part end
  end
end

-- Two units that are known and not the same.
local function units_differ(a, b)
  if not a or not b or a == b then return false end
  if not symbols.is_known_unit(a) or not symbols.is_known_unit(b) then return false end
  local money = currency_of(a)
  return not (money and money == currency_of(b))
end

-- An amount without its unit, and the unit; degrees are one.
local function amount(node)
  if node[1] == "unit" then
    local inner = amount(node[2])
    return inner, node[3]
  end
  if node[1] == "deg" then return node[2], "degree" end
  return node, nil
end

local function is_whole(v) return v ~= nil and v.n ~= nil and rational.is_whole(v) end

-- 5% is 0.05 and, beside a whole number without a sign, 5.
local function same_percent(a, b, unit)
  if a[1] == "pct" and b[1] == "pct" then return same_formula(a[2], b[2]) end
  if unit and symbols.is_known_unit(unit) then return false end -- 25% is no $25
  local percent, other = a, b
  if b[1] == "pct" then percent, other = b, a end
  if same_formula(percent, other) then return true end
  return #variables(other) == 0 and is_whole(evaluate.value(other, point({}, 1)))
    and same_formula(percent[2], other)
end

local function same_formulas(a, b)
  local unit, other
  a, unit = amount(a)
  b, other = amount(b)
  if units_differ(unit, other) then return false end
  local x, y = alternatives(a), alternatives(b)
  if x and y then return without_order(x, y) end
  if x or y then return false end
  if a[1] == "pct" or b[1] == "pct" then return same_percent(a, b, unit or other) end
  return same_formula(a, b)
end

local function same_choices(a, b)
  if a[1] == "choice" and b[1] == "choice" then
    if a[3] and b[3] and not same(a[3], b[3]) then return false end
    return a[2]:lower() == b[2]:lower()
  end
  local choice, other = a, b
  if b[1] == "choice" then choice, other = b, a end
  return same(choice[3] or choice.letter or { "var", choice[2] }, other)
end

local function beside_list(a, b)
  local list, other = a, b
  if b[1] == "list" or b[1] == "set" then list, other = b, a end
  local several = is_formula(other) and alternatives(other)
  if several then return same_lists(list, { "list", several }) end
  return list[1] == "set" and #list[2] == 1 and same(list[2][1], other)
end

local function is_list(node) return node[1] == "list" or node[1] == "set" end

function same(a, b)
  rational.spend(20)
  if a[1] == "choice" or b[1] == "choice" then return same_choices(a, b) end
  if is_formula(a) and is_formula(b) then return same_formulas(a, b) end
  local rule = pairs_of_kinds[a[1] .. " " .. b[1]]
  if rule then return rule(a, b) end
  rule = pairs_of_kinds[b[1] .. " " .. a[1]]
  if rule then return rule(b, a) end
  if a[1] == "ratio" or b[1] == "ratio" then
    local x, y = a[1] == "ratio" and quotient(a) or a, b[1] == "ratio" and quotient(b) or b
    if is_formula(x) and is_formula(y) then return same_formula(x, y) end
  end
  if a[1] == "rel" then return relation_beside(a, b) end
  if b[1] == "rel" then return relation_beside(b, a) end
  return (is_list(a) or is_list(b)) and beside_list(a, b)
end

-- Whether two trees are one: what has no value, as 1/0, or takes too much work equals itself.
local function identical(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  rational.spend(1)
  if a.n then return b.n ~= nil and rational.equal(a, b) end
  if #a ~= #b then return false end
  for k = 1, #a do
    if not identical(a[k], b[k]) then return false end
  end
  return true
end

--- Whether two trees are the same answer.
function compare.same(a, b) return identical(a, b) or same(a, b) end

return compare
