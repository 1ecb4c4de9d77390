-- The inside of a sandbox: it runs in a Lua state of its own, which holds nothing but this file
-- and the code it is given.
--
-- Only the names listed below exist there: no files, processes, modules or debug library.  Every
-- listed function is a bounded one (src/script/guard.c, match.c), so that a budget of instructions
-- ends code that loops.  A single call that works on megabytes may take longer; isolate =
-- "process" limits that too, because the process is ended.

local OUTPUT = 2 ^ 20 -- bytes of output that are kept

local allowed = { "_G", "_VERSION", "assert", "collectgarbage", "coroutine", "error",
  "getmetatable", "ipairs", "load", "math", "next", "pairs", "pcall", "rawequal", "rawget",
  "rawlen", "rawset", "select", "setmetatable", "string", "table", "tonumber", "tostring", "type",
  "utf8", "xpcall" }

local pairs, rawset, select, tostring, type = pairs, rawset, select, tostring, type
local concat, load, pack = table.concat, load, table.pack
local gsub, rawget = string.gsub, rawget

local function strip()
  local keep, methods = {}, debug.getmetatable("")
  methods.__metatable, methods.__index = nil, _G.string -- as in a stock Lua
  for _, name in ipairs(allowed) do keep[name] = true end
  for name in pairs(_G) do
    if not keep[name] then rawset(_G, name, nil) end
  end
  _G.string.dump = nil
  math.randomseed(0) -- running the same code twice gives the same numbers
end

-- Makes print and io.write append to a list of texts.  Output past the limit is dropped, and a
-- last line says so.
local function capture()
  local texts, size = {}, 0
  local function put(text)
    if size > OUTPUT then return end
    size = size + #text
    texts[#texts + 1] = size > OUTPUT and "\n[the output continues]" or text
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

-- Copies a value into plain data that can leave the sandbox: a function, thread or userdata becomes
-- the name of its type, and so does a table that is nested too deeply.  Metatables are ignored.
local function plain(v, depth)
  local kind = type(v)
  if kind == "table" and depth < 100 then
    local copy = {}
    for k, x in next, v do
      local key = type(k)
      if key == "string" or key == "number" or key == "boolean" then
        copy[k] = plain(x, depth + 1)
      end
    end
    return copy
  end
  if kind == "table" then return "table" end
  if kind == "nil" or kind == "boolean" or kind == "number" or kind == "string" then return v end
  return kind
end

-- code: the source; env: the encoded table of globals.  Returns ok, the encoded results or a
-- message, and the output.
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
  -- The code may have replaced functions of string and methods of strings, so from here on only
  -- the copies made before are called.
  if not ok then
    local message = type(result) == "table" and rawget(result, "message") or result
    result = gsub(type(message) == "string" and message or "failed without a message",
      "^lua/grpo/sandbox/inside%.lua:%d+: ", "")
  end
  return ok, result, output()
end
