-- The output of one request in an attached session: pieces, which are joined once, up to a limit of
-- their bytes.

local Output = {}
Output.__index = Output

local output = {}

-- most: bytes of both kinds together; what comes after them is left out.
function output.new(most)
  return setmetatable({ left = most, out = {}, err = {} }, Output)
end

-- The first n bytes of a text, or a few less, so that no character of UTF-8 is cut.
local function first(text, n)
  while n > 0 and (text:byte(n + 1) or 0) & 0xC0 == 0x80 do n = n - 1 end
  return text:sub(1, n)
end

-- Adds a text; kind: "out" or "err".
function Output:put(kind, text)
  if #text > self.left then
    text, self.left, self.cut = first(text, self.left), 0, true
  end
  self.left = math.max(self.left - #text, 0)
  if text ~= "" then table.insert(self[kind], text) end
end

-- Returns all of a kind as one text, nil if there is none.
function Output:text(kind)
  return self[kind][1] and table.concat(self[kind])
end

return output
