-- The inside of a sandbox: runs in a Lua state of its own, which holds nothing but this file and the code it is given.
--
-- What is not on the list below does not exist there: no files, processes, modules, debug library.  Every function on
-- it is one of the bounded ones (src/script/guard.c, match.c), so that a budget of instructions ends code that loops.
-- What a single call can be made to do over megabytes ends with the process that isolate = "process" gives it.

local OUTPUT = 2 ^ 20 -- bytes of output that are kept

local allowed = { "_G", "_VERSION", "assert", "collectgarbage", "coroutine", "error", "getmetatable", "ipairs",
  "load", "math", "next", "pairs", "pcall", "rawequal", "rawget", "rawlen", "rawset", "select", "setmetatable",
  "string", "table", "tonumber", "tostring", "type", "utf8", "xpcall" }

local pairs, rawset, select, tostring, type = pairs, rawset, select, tostring, type
local concat, load, pack = table.concat, load, table.pack
local gsub, rawget = string.gsub, rawget

local function strip()
  local keep = {}
  for _, name in ipairs(allowed) do keep[name] = true end
  for name in pairs(_G) do
    if not keep[name] then rawset(_G, name, nil) end
  end
  rawset(string, "dump", nil)
  math.randomseed(0) -- the same code gives the same numbers
end

-- print and io.write into a list of texts; what is too much is dropped, and said to be.
local function capture()
  local texts, size = {}, 0
  local function put(text)
    if size > OUTPUT then return end
    size = size + #text
    texts[#texts + 1] = size > OUTPUT and "\n[the output goes on]" or text
  end
  function _G.print(...)
    local parts = pack(...)
    for i = 1, parts.n do parts[i] = tostring(parts[i]) end
    put(concat(parts, "\t", 1, parts.n) .. "\n")
  end
  _G.io = { write = function(...)
    for i = 1, select("#", ...) do put(tostring((select(i, ...)))) end
  end }
  return function() return concat(texts) end
end

-- Values that can leave: a function, thread or userdata goes as its text; so does what has a metatable.
local function plain(v, depth)
  local kind = type(v)
  if kind == "table" and depth < 100 then
    local copy = {}
    for k, x in next, v do
      local key = type(k)
      if key == "string" or key == "number" or key == "boolean" then copy[k] = plain(x, depth + 1) end
    end
    return copy
  end
  if kind == "table" then return "table" end
  if kind == "nil" or kind == "boolean" or kind == "number" or kind == "string" then return v end
  return kind
end

-- code: source; env: bytes of a table of globals.  Returns ok, bytes of the results or a message, the output.
return function(core, code, env, limits)
  local globals = core.state_decode(env)
  strip()
  local output = capture()
  for name, v in pairs(globals) do rawset(_G, name, v) end
  local ok, result = core.limited(limits, "sandbox", function()
    local chunk, message = load(code, "=sandbox", "t")
    if not chunk then error(message, 0) end
    local results = pack(chunk())
    return core.state_encode(plain(results, 0))
  end)
  -- the code may have changed string, and what strings do: from here on only what was kept from before is called
  if not ok then
    local message = type(result) == "table" and rawget(result, "message") or result
    result = gsub(type(message) == "string" and message or "failed without a message",
      "^lua/grpo/inside%.lua:%d+: ", "")
  end
  return ok, result, output()
end
