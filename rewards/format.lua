-- rewards/format.lua - does the text have the form that was asked for?
--
--   format.tags { "think", "answer" }        the blocks, in order, and nothing else
--   format.pattern { "think", "answer" }     that as a PCRE2 expression, to be read and changed
--   format.partial { tags = { ... } }        a share for every tag that occurs exactly once
--   format.xml_count {}                      the incremental reward known as count_xml
--   format.incremental {}                    a share for every tag that is there
--   format.regex "^%d"                       a PCRE2 expression
--   format.steps {}                          visible steps in the reasoning
--   format.code { language = "python" }      an answer that is fenced code
--
-- The time of each is linear in the text.  A tag with which a chat template ends the prompt counts
-- as the completion's first: see format.whole.

local core = require "grpo.core"
local options = require "grpo.options"

---@class rewards.format
local format = {}

-- Tells whether `what` occurs in text exactly once.
local function once(text, what)
  local first = text:find(what, 1, true)
  return first ~= nil and not text:find(what, first + #what, true)
end

local function characters(text)
  return utf8.len(text, 1, -1, true) or #text
end

local LONGEST = 256 -- bytes of a prompt's end that are looked at

--- The text that a completion is judged as.  A chat template may open the reasoning itself, as
--- those of Qwen3 and DeepSeek do: the prompt ends in `<think>`, or in an empty block
--- `<think></think>`, which then stands before the completion here.
---@param text string
---@param c? table its field `prompt` is read
---@param names? string[] the tags that may be meant; nil: any
---@return string
function format.whole(text, c, names)
  local prompt = c and c.prompt
  if type(prompt) ~= "string" then return text end
  local tail = prompt:sub(-LONGEST)
  local begun, name = tail:match("(<([^<>%s/]+)>%s*)$")
  if not begun then begun, name = tail:match("(<([^<>%s/]+)>%s*</%2>%s*)$") end
  for _, known in ipairs(begun and names or {}) do
    if known == name then return begun .. text end
  end
  return begun and not names and begun .. text or text
end

-- The rest of a text after the last of what a search from the left finds, and how often it finds
-- `what`; the whole text if it never does.  Occurrences do not overlap.
local function after_last(text, what)
  local count, from = 0, 1
  local first, last = text:find(what, from, true)
  while first do
    count, from = count + 1, last + 1
    first, last = text:find(what, from, true)
  end
  return text:sub(from), count
end

-- White space beyond ASCII, as Unicode counts it; the second table has the bytes in reverse.
local wide_spaces, reversed_spaces = {}, {}
for _, code in ipairs { 0x85, 0xA0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
  0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000 } do
  local bytes = utf8.char(code)
  wide_spaces[bytes], reversed_spaces[bytes:reverse()] = true, true
end

-- text from its first character on that is not white space.
local function without_leading(text, wide)
  local at = 1
  while true do
    at = text:find("[^%s\x1C-\x1F]", at) or #text + 1
    local bytes = wide[text:sub(at, at + 1)] and 2 or wide[text:sub(at, at + 2)] and 3
    if not bytes then return text:sub(at) end
    at = at + bytes
  end
end

-- text without white space at both ends.
local function strip(text)
  return without_leading(without_leading(text, wide_spaces):reverse(), reversed_spaces):reverse()
end

local function positional_names(o, where)
  local names = {}
  for i, name in ipairs(o) do
    if name == "" or name:find("[<>%s/]") then
      error(("%s: %q is not the name of a tag"):format(where, name), 3)
    end
    for k = 1, i - 1 do
      if names[k] == name then error(("%s: %q is named twice"):format(where, name), 3) end
    end
    names[i] = name
  end
  if #names == 0 then error(where .. ": name at least one tag", 3) end
  return names
end

-- White space of ASCII; \s would take that of Unicode too.
local SPACE = "[\\t-\\r ]*+"

-- Name as a pattern.
local function quoted(name) return (name:gsub("[^%w_\x80-\xff]", "\\%0")) end

--- The PCRE2 expression of format.tags, for `format.regex` or to be changed.  A block's text is
--- [^<]* and each < that begins none of the tags, so that a match takes time linear in the text.
---@param names string[]
---@param opts? { newlines: boolean?, rest: boolean? } as in format.tags
---@return string
function format.pattern(names, opts)
  local parts, o = {}, opts or {}
  for i, name in ipairs(names) do parts[i] = quoted(name) end
  local text = ("[^<]*+(?:<(?!/?(?:%s)>)[^<]*+)*+"):format(table.concat(parts, "|"))
  for i, name in ipairs(parts) do
    -- its own line: a newline behind the opening tag, and another one before the closing tag
    local close = "</" .. name .. ">"
    local inner = o.newlines and "\\n(?!" .. close .. ")" .. text .. "(?<=\\n)" or text
    parts[i] = "<" .. name .. ">" .. inner .. close
  end
  local between = o.newlines and "\\n" or SPACE
  local head, tail = o.newlines and "" or SPACE, o.rest and text or o.newlines and "" or SPACE
  return "\\A" .. head .. table.concat(parts, between) .. tail .. "\\z"
end

--- Tells whether an expression matches.  In a text that is not UTF-8, every byte beyond ASCII is
--- read as "?".
---@param re grpo.Regex
---@param text string
---@return boolean
function format.matches(re, text)
  return re:test(utf8.len(text) and text or (text:gsub("[\x80-\xff]", "?")))
end

--- 1 when the text consists of these blocks, `<a>...</a><b>...</b>`, in this order and each tag
--- exactly once, else 0: a match of format.pattern.
---@param opts { [integer]: string, newlines: boolean?, rest: boolean? }
---   newlines: every tag on a line of its own and no other white space, as in
---   "<a>\n...\n</a>\n<b>\n...\n</b>"; otherwise white space around blocks is free.
---   rest: anything may follow the last block.
---@return fun(text: string, row: table, c: table): number
function format.tags(opts)
  local o = options.check(opts, {
    { type = "string" },
    newlines = { type = "boolean", default = false },
    rest = { type = "boolean", default = false },
  }, "format.tags")
  local names = positional_names(o, "format.tags")
  local re = core.regex(format.pattern(names, o))
  return function(text, _, c) return format.matches(re, format.whole(text, c, names)) and 1 or 0 end
end

--- Partial credit for a layout: every opening and closing tag that occurs exactly once
--- scores an equal share of 1, and each character after the last closing tag costs extra_cost.
--- The reward is never below 0.
---@param opts { tags: string[], extra_cost: number? }
---@return fun(text: string, row: table, c: table): number
function format.partial(opts)
  local o = options.check(opts, {
    tags = { type = "table", required = true },
    extra_cost = { type = "number", default = 0.001, min = 0 },
  }, "format.partial")
  local names = positional_names(
    options.check(o.tags, { { type = "string" } }, "format.partial.tags"), "format.partial")
  local last = "</" .. names[#names] .. ">"
  return function(text, _, c)
    local found = 0
    text = format.whole(text, c, names)
    for _, name in ipairs(names) do
      if once(text, "<" .. name .. ">") then found = found + 1 end
      if once(text, "</" .. name .. ">") then found = found + 1 end
    end
    local score = found / (2 * #names)
    local back = o.extra_cost > 0 and text:reverse():find(last:reverse(), 1, true)
    if back then
      local extra = text:sub(#text - back + 2)
      score = score - o.extra_cost * characters(extra)
    end
    return math.max(score, 0)
  end
end

-- The two names of `opts.tags`: of the reasoning and of the answer.
local function two_names(o, where)
  local names = positional_names(options.check(o.tags, { { type = "string" } }, where .. ".tags"),
    where)
  if #names ~= 2 then error(where .. ".tags: wants two names", 3) end
  return names[1], names[2]
end

local two_tags = { type = "table", default = { "reasoning", "answer" } }
local per_character = { type = "number", default = 0.001, min = 0 }

--- The incremental reward that is widely published as count_xml: 0.125 for each of
--- `<reasoning>\n`, `\n</reasoning>\n`, `\n<answer>\n` and `\n</answer>` that occurs once.  Each
--- of the last two costs extra_cost for every character that follows the closing tag, beside one
--- newline.  The reward has no lower bound: a text of 1,000 characters with `\n<answer>\n` and no
--- end of the answer gets less than -0.8.
---@param opts? { tags: string[]?, extra_cost: number? }
---@return fun(text: string, row: table, c: table): number
function format.xml_count(opts)
  local where = "format.xml_count"
  local o = options.check(opts, { tags = two_tags, extra_cost = per_character }, where)
  local thought, given = two_names(o, where)
  local heads = { "<" .. thought .. ">\n", "\n</" .. thought .. ">\n" }
  local open, close = "\n<" .. given .. ">\n", "\n</" .. given .. ">"
  return function(text, _, c)
    local score = 0.0
    text = format.whole(text, c, { thought, given })
    for _, head in ipairs(heads) do
      if once(text, head) then score = score + 0.125 end
    end
    if once(text, open) then
      score = score + 0.125 - characters((after_last(text, close .. "\n"))) * o.extra_cost
    end
    local rest, times = after_last(text, close)
    if times == 1 then score = score + 0.125 - (characters(rest) - 1) * o.extra_cost end
    return score
  end
end

--- Partial credit for tags that are there, however often: `share` for each of `<reasoning>`,
--- `</reasoning>`, `<answer>` and `</answer>`.  If `</answer>` occurs once, each character after
--- it costs extra_cost, apart from white space at the ends.  The reward has no lower bound.
---@param opts? { tags: string[]?, share: number?, extra_cost: number?, repeated: boolean? }
---   share: 0.25 by default.  repeated: what follows the last of several `</answer>` costs too.
---@return fun(text: string, row: table, c: table): number
function format.incremental(opts)
  local where = "format.incremental"
  local o = options.check(opts, {
    tags = two_tags, extra_cost = per_character,
    share = { type = "number", default = 0.25 },
    repeated = { type = "boolean", default = false },
  }, where)
  local thought, given = two_names(o, where)
  local close = "</" .. given .. ">"
  local tags = { "<" .. thought .. ">", "</" .. thought .. ">", "<" .. given .. ">", close }
  return function(text, _, c)
    local score = 0.0
    text = format.whole(text, c, { thought, given })
    for _, tag in ipairs(tags) do
      if text:find(tag, 1, true) then score = score + o.share end
    end
    local rest, times = after_last(text, close)
    if times == 1 or times > 1 and o.repeated then
      score = score - characters(strip(rest)) * o.extra_cost
    end
    return score
  end
end

--- 1 when a PCRE2 expression matches somewhere in the text, with or without a tag that the prompt
--- ends in, else 0.
---@param pattern string anchor it (\A, \z) to ask about the whole text
---@param flags? string "i" "s" "m" "x"
---@return fun(text: string, row: table, c: table): number
function format.regex(pattern, flags)
  if type(pattern) ~= "string" then
    error("format.regex: wants a pattern, got a " .. type(pattern), 2)
  end
  local re = core.regex(pattern, flags)
  return function(text, _, c)
    if re:test(text) then return 1 end
    local whole = format.whole(text, c)
    return whole ~= text and re:test(whole) and 1 or 0
  end
end

-- Steps are "Step 1:", a numbered or dashed line, or a word that starts one.
local function count_steps(text, enough)
  local count = text:find("^%d+%.") and 1 or 0
  for _, mark in ipairs { "\n-", "\n*", "First,", "Second,", "Next,", "Finally," } do
    local at = text:find(mark, 1, true)
    while at and count < enough do
      count, at = count + 1, text:find(mark, at + #mark, true)
    end
  end
  local at = text:find("Step ", 1, true)
  while at and count < enough do
    if text:find("^%d+:", at + 5) then count = count + 1 end
    at = text:find("Step ", at + 5, true)
  end
  return count
end

--- Rewards reasoning in visible steps: their number over `full`, at most 1.
---@param opts? { full: integer? }
---@return fun(text: string): number
function format.steps(opts)
  local o = options.check(opts, {
    full = { type = "integer", default = 3, min = 1 },
  }, "format.steps")
  return function(text) return math.min(count_steps(text, o.full) / o.full, 1) end
end

--- 1 when the text is in the layout of `tags` with newlines, and its last block holds a fenced
--- block of code in `language`, else 0.
---@param opts? { language: string?, tags: string[]? }
---@return fun(text: string, row: table, c: table): number
function format.code(opts)
  local o = options.check(opts, {
    language = { type = "string", default = "" },
    tags = { type = "table", default = { "think", "answer" } },
  }, "format.code")
  local names = positional_names(
    options.check(o.tags, { { type = "string" } }, "format.code.tags"), "format.code")
  local layout = core.regex(format.pattern(names, { newlines = true }))
  local fence = core.regex(("<%s>\\n.*?```%s\\n(?:.*?\\n)??```"):format(quoted(names[#names]),
    quoted(o.language)), "s")
  return function(text, _, c)
    text = format.whole(text, c, names)
    return format.matches(layout, text) and format.matches(fence, text) and 1 or 0
  end
end

return format
