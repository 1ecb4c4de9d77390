---@meta _
-- grpo.regex: PCRE2 with the conventions of string.find and its relatives.  Positions are 1-based
-- bytes.

---@class grpo.Regex
local Regex = {}

---Is there a match anywhere?
---@param s string
---@param init? integer where to begin; negative counts from the end
---@return boolean
function Regex:test(s, init) end

---Captures of the first match (false for a group that took no part), or the whole match if the
---pattern has no groups.
---@param s string
---@param init? integer
---@return string|false|nil ... nil when nothing matches
function Regex:match(s, init) end

---Matches the whole string, and returns what match returns.
---@param s string
---@return string|false|nil ...
function Regex:fullmatch(s) end

---@param s string
---@param init? integer
---@return integer|nil start
---@return integer|nil stop
---@return string|false|nil ... captures
function Regex:find(s, init) end

---Everything about a match: m[0] the whole, m[1].. and m.NAME the groups, m.start and m.stop.
---@param s string
---@param init? integer
---@return table|nil
function Regex:exec(s, init) end

---@param s string
---@param init? integer
---@return fun(): string|false|nil, ...
function Regex:gmatch(s, init) end

---@param s string
---@param repl string|number|table|fun(...): string|number|false|nil  as in string.gsub
---@param n? integer the most replacements
---@return string
---@return integer replaced
function Regex:gsub(s, repl, n) end

---How many matches, none overlapping.
---@param s string
---@param init? integer
---@return integer
function Regex:count(s, init) end
