-- Splits Lua text into tokens, as far as a prompt needs it: to complete the word being typed, and
-- to find the local variables of a line.

local lua_tokens = {}

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
return then true until while]]):gmatch("%a+") do keywords[word] = true end
lua_tokens.keywords = keywords

local long_operators = { "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>" }

-- Returns the last position of a string in quotes, and true when it is unfinished.
local function quoted_end(text, at)
  local quote, i = text:sub(at, at), at + 1
  while i <= #text do
    local ch = text:sub(i, i)
    if ch == quote then return i end
    if ch == "\n" then return i - 1, true end
    i = i + (ch == "\\" and 2 or 1)
  end
  return #text, true
end

-- Returns the same for a string in long brackets, whose opening bracket is at `at`.
local function long_end(text, at, level)
  local _, last = text:find("]" .. level .. "]", at, true)
  return last or #text, last == nil
end

-- Returns the kind and last byte of the token at `at`, and true when it is an unfinished string or
-- comment.
local function token_at(text, at)
  if text:find("^%-%-", at) then
    local level = text:match("^%-%-%[(=*)%[", at)
    if level then return "comment", long_end(text, at, level) end
    local line_end = text:find("\n", at, true)
    return "comment", (line_end or #text + 1) - 1, line_end == nil
  end
  local level = text:match("^%[(=*)%[", at)
  if level then return "string", long_end(text, at, level) end
  if text:find("^[\"']", at) then return "string", quoted_end(text, at) end
  local name = text:match("^[%a_][%w_]*", at)
  if name then return keywords[name] and "keyword" or "name", at + #name - 1 end
  local number = text:match("^0[xX][%x.]+", at) or text:match("^%d[%d.]*[eE][+-]?%d*", at)
    or text:match("^%d[%w.]*", at)
  if number then return "number", at + #number - 1 end
  for _, op in ipairs(long_operators) do
    if text:sub(at, at + #op - 1) == op then return "op", at + #op - 1 end
  end
  return "op", at
end

-- Returns a list of { kind = "name"|"keyword"|"number"|"string"|"comment"|"op", text =, first =,
-- last =, open = whether it is unfinished }.
function lua_tokens.tokens(text)
  local list, at = {}, text:find("%S")
  while at do
    local kind, last, open = token_at(text, at)
    list[#list + 1] = { kind = kind, text = text:sub(at, last), first = at, last = last,
      open = open or nil }
    at = text:find("%S", last + 1)
  end
  return list
end

-- ---- locals of a prompt -----------------------------------------------------------------------

local opens = { ["do"] = 1, ["then"] = 1, ["function"] = 1, ["repeat"] = 1, ["end"] = -1,
  ["until"] = -1, ["elseif"] = -1 }

-- Reads the names of `local a, b <const>` after token i. Returns the list's last token, and whether
-- a name has the attribute <close>.
local function name_list(tokens, i)
  local to_close = false
  local k = i + 1
  while tokens[k] and tokens[k].kind == "name" do
    if tokens[k + 1] and tokens[k + 1].text == "<" then
      to_close = to_close or (tokens[k + 2] and tokens[k + 2].text == "close")
      k = k + 3
    end
    if not (tokens[k + 1] and tokens[k + 1].text == ",") then break end
    k = k + 2
  end
  return k, to_close
end

local function blank(pieces, token)
  pieces[#pieces + 1] = { token.first, token.last, "" }
end

-- Appends the edits { first, last, text } that remove the `local` at tokens[i].
local function edit_local(tokens, i, pieces)
  if tokens[i + 1] and tokens[i + 1].text == "function" then return blank(pieces, tokens[i]) end
  local last, to_close = name_list(tokens, i)
  if to_close or not tokens[last] or last == i then return end
  blank(pieces, tokens[i])
  for k = i + 1, last do
    if tokens[k].text == "<" then
      for at = k, k + 2 do blank(pieces, tokens[at]) end
    end
  end
  if not (tokens[last + 1] and tokens[last + 1].text == "=") then
    pieces[#pieces + 1] = { tokens[last].last + 1, tokens[last].last, " = nil" }
  end
end

-- Returns the text without the `local`s outside blocks, so that their variables belong to the
-- prompt.
function lua_tokens.without_locals(text)
  local tokens, all, pieces, depth = {}, lua_tokens.tokens(text), {}, 0
  for _, t in ipairs(all) do
    if t.kind ~= "comment" then tokens[#tokens + 1] = t end
  end
  for i, t in ipairs(tokens) do
    if t.kind == "keyword" then
      depth = depth + (opens[t.text] or 0)
      if t.text == "local" and depth == 0 then edit_local(tokens, i, pieces) end
    end
  end
  local out, at = {}, 1
  for _, p in ipairs(pieces) do
    out[#out + 1] = text:sub(at, p[1] - 1) .. p[3]
    at = p[2] + 1
  end
  return table.concat(out) .. text:sub(at)
end

return lua_tokens
