-- The fenced blocks of a text in Markdown, as CommonMark reads them.
--
-- A fence may stand in quotes and items of lists, and may be indented by up to three columns
-- there; as much is taken off the lines of its block.  Tabs end at multiples of four columns.

local DEEPEST = 32 -- quotes and items around a fence: bounds the work for a line

-- A line is read through a cursor: `at` is the next byte, `col` its column, and `split` says that
-- a part of the tab there has been taken.
local function cursor(text)
  return { text = text, at = 1, col = 0, split = false }
end

local function saved(line) return line.at, line.col, line.split end
local function restore(line, at, col, split) line.at, line.col, line.split = at, col, split end

-- Takes up to `most` columns of white space.  Returns the number of columns.
local function skip(line, most)
  local taken = 0
  while taken < most do
    local c = line.text:byte(line.at)
    local width = c == 32 and 1 or c == 9 and 4 - line.col % 4
    if not width then break end
    local step = math.min(width, most - taken)
    line.col, taken, line.split = line.col + step, taken + step, step < width
    if step == width then line.at = line.at + 1 end
  end
  return taken
end

local function rest_of(line)
  if not line.split then return line.text:sub(line.at) end
  return (" "):rep(4 - line.col % 4) .. line.text:sub(line.at + 1)
end

local function is_blank(line) return not line.text:find("%S", line.at) end

local function advance(line, n) line.at, line.col = line.at + n, line.col + n end

-- Takes the mark of a quote, with the column of white space behind it.
local function take_quote(line)
  local at, col, split = saved(line)
  if skip(line, 4) < 4 and line.text:byte(line.at) == 62 then
    advance(line, 1)
    skip(line, 1)
    return true
  end
  restore(line, at, col, split)
  return false
end

-- Takes the mark of an item.  Returns the number of columns by which its lines are indented.
local function take_item(line)
  local at, col, split = saved(line)
  local indent = skip(line, 4)
  local mark = line.text:match("^[-*+]", line.at) or line.text:match("^%d+[.)]", line.at)
  if indent < 4 and mark and #mark <= 10 then
    advance(line, #mark)
    if is_blank(line) then return indent + #mark + 1 end
    local behind, after, split_after = saved(line)
    local gap = skip(line, 5)
    if gap == 5 then -- the item begins with indented code
      restore(line, behind, after, split_after)
      gap = skip(line, 1)
    end
    if gap > 0 then return indent + #mark + gap end
  end
  restore(line, at, col, split)
end

-- Takes what a line repeats of the quotes and items around it.  Returns their number.
local function take_containers(line, around)
  for i, indent in ipairs(around) do
    local at, col, split = saved(line)
    if indent == "quote" then
      if not take_quote(line) then return i - 1 end
    elseif skip(line, indent) < indent and not is_blank(line) then
      restore(line, at, col, split)
      return i - 1
    end
  end
  return #around
end

-- Is this line text that continues a paragraph, also without the marks of what is around that?
local function is_text(line)
  local text = rest_of(line)
  return not (text:find("^%s*$") or text:find("^ ? ? ?```") or text:find("^ ? ? ?~~~")
    or text:find("^ ? ? ?#+%s"))
end

local function cut(list, n)
  for i = #list, n + 1, -1 do list[i] = nil end
end

-- Opens the quotes and items that begin in a line.  Returns whether there were any.
local function open_containers(line, around)
  local before = #around
  while #around < DEEPEST do
    local found = take_quote(line) and "quote" or take_item(line)
    if not found then break end
    around[#around + 1] = found
  end
  return #around > before
end

-- The fence that a line begins with: its characters, what follows, its indentation; else nil.
local function fence_of(line)
  local indent = skip(line, 4)
  if indent == 4 then return nil end
  local mark, info = line.text:match("^(```+)(.*)$", line.at)
  if not mark then mark, info = line.text:match("^(~~~+)(.*)$", line.at) end
  if mark and mark:byte() == 96 and info:find("`", 1, true) then return nil end
  return mark, info, indent
end

local function closes(line, open)
  local at, col, split = saved(line)
  local mark, info = fence_of(line)
  if mark and mark:byte() == open.mark:byte() and #mark >= #open.mark and not info:find("%S") then
    return true
  end
  restore(line, at, col, split)
  return false
end

-- Takes up to `most` columns off all lines, and no more than each has that is not blank.
local function dedented(body, most)
  local all = most
  for _, text in ipairs(body) do
    local line = cursor(text)
    local columns = skip(line, all)
    if not is_blank(line) then all = columns end
  end
  for i, text in ipairs(body) do
    local line = cursor(text)
    skip(line, all)
    body[i] = rest_of(line)
  end
  return body
end

local function open_fence(line, around)
  local mark, info, indent = fence_of(line)
  if not mark then return nil end
  local open = { mark = mark, info = info, indent = indent, column = line.col, body = {} }
  for _, one in ipairs(around) do open.quoted = open.quoted or one == "quote" end
  return open
end

local function block_of(open, loose)
  local body = loose and not open.quoted and dedented(open.body, open.column) or open.body
  return { info = open.info, body = table.concat(body, "\n") }
end

local function add_line(open, line, loose)
  skip(line, open.indent)
  open.body[#open.body + 1] = loose and not open.quoted and line.text or rest_of(line)
end

local function lines(text)
  return (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("([^\n]*)\n")
end

-- Returns the closed blocks of a text, in order: { info = what follows the fence, body = }.
-- A less indented line ends an item and the open fences in it; with `loose` it does not, outside
-- of quotes.
return function(text, loose)
  local blocks, around, open, paragraph = {}, {}, nil, false
  for one in lines(text) do
    local line = cursor(one)
    local matched = take_containers(line, around)
    if open and matched < #around and (open.quoted or not loose) then open = nil end
    if open and closes(line, open) then
      blocks[#blocks + 1] = block_of(open, loose)
      open = nil
    elseif open then
      add_line(open, line, loose)
    else
      local kept = table.move(around, 1, #around, 1, {})
      cut(around, matched)
      local began = open_containers(line, around)
      local lazy = not began and paragraph and is_text(line)
      if lazy then around = kept end
      paragraph = is_text(line)
      open = open_fence(line, around)
    end
  end
  return blocks
end
