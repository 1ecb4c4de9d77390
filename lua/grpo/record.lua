-- What the JSON files of a run hold, checked as they are read: of a damaged file the place and the field are named.
--
-- A shape is the name of a kind ("integer?": it may be missing) or made by object, map or list; fields that an object's
-- shape does not name are not looked at.

local core = require "grpo.core"
local errors = require "grpo.errors"
local steps = require "grpo.steps"

local fs = core.fs
local record = {}

local function of_type(name)
  return function(v) return type(v) == name end
end

local LAST_TIME = 1e11 -- seconds since 1970: what a date can be made of

-- { what is wanted, in words; the test }
local kinds = {
  text = { "a string", of_type "string" },
  number = { "a number", of_type "number" },
  measured = { "a number or null", function(v) return type(v) == "number" or v == core.json_null end }, -- not finite
  integer = { "a whole number", function(v) return math.type(v) == "integer" end },
  count = { "a whole number from 0", function(v) return math.type(v) == "integer" and v >= 0 end },
  boolean = { "true or false", of_type "boolean" },
  time = { "seconds since 1970", function(v) return type(v) == "number" and v >= 0 and v < LAST_TIME end },
  stage = { "a kind of stage", function(v) return steps[v] ~= nil end },
  any = { "a value", function(v) return v ~= nil end },
}

-- ---- shapes ------------------------------------------------------------------------------------

local function is_object(v)
  return type(v) == "table" and (next(v) == nil or type(next(v)) == "string")
end

local function is_list(v)
  return type(v) == "table" and (next(v) == nil or #v > 0)
end

local function object(fields, optional)
  return { "an object", is_object, optional = optional, fields = fields }
end

local function map(each, optional)
  return { "an object", is_object, optional = optional, each = each }
end

local function list(each, optional)
  return { "a list", is_list, optional = optional, each = each }
end

local options = map(object { origin = "text?" }, true)

-- One whose `format` says which version's it is.
local function versioned(format, fields)
  local shape = object(fields)
  shape.format = format
  return shape
end

-- By the file's name without its ending.
record.shapes = {
  run = versioned(1, { name = "text?", state = "text", script = "text", args = map("text", true),
    overrides = list("text", true), compute = "text?", started = "time?", heartbeat = "time?", finished = "time?",
    pid = "integer?", host = "text?", step = "integer?", steps = "integer?", summary = map("measured", true) }),
  config = object { options = options, stages = list(object { kind = "stage", options = options }, true) },
  env = map "any",
  inputs = list(object { path = "text", crc32c = "integer?" }),
  metrics = object { step = "integer", stage = "integer", stage_step = "integer", num_tokens = "integer?",
    trained_tokens = "integer?", reward = "measured?", ["memory/peak_bytes"] = "number?" },
  completions = object { step = "integer", prompt_index = "integer", index = "integer", row = "integer?",
    prompt = "text", text = "text", rewards = map("any", true), reward = "measured?", advantage = "measured?",
    finish = "text", length = "integer", parts = list(object { role = "text", text = "text" }, true),
    environment = object({ reward = "measured?", turns = "integer" }, true) },
  eval = object { step = "integer", n = "integer?", label = "text?" },
  trainer = versioned(1, { step = "count", stage = "count", stage_step = "count", stage_tokens = "count",
    tokens_seen = "count", cursor = "count", stage_done = "boolean", dropped = "count", truncated = "count",
    best = "measured?", best_step = "count?", last_metrics = map("any", true) }),
  events = object { kind = "text", step = "integer", stage = "integer" },
}

-- What the events of each kind have beside that.
record.events = {
  set = object { path = "text", value = "any" },
  weight = object { name = "text", value = "number" },
  state = object { data = "text" },
  evaluate = object {},
  reload = object { source = "text", files = list("text", true) },
}

-- ---- checking ------------------------------------------------------------------------------------

local function shown(v)
  local text = core.json_encode(v)
  return #text <= 40 and text or text:sub(1, 37) .. "..."
end

local function damaged(place, name, v, wanted)
  errors.raise_plain("EFORMAT", "%s: %s%s, want %s; the file is damaged", place, name and name .. ": " or "",
    v == nil and "is missing" or "is " .. shown(v), wanted)
end

local function below(name, key)
  return (name and name .. "." or "") .. tostring(key)
end

local function check(shape, v, place, name)
  local optional = false
  if type(shape) == "string" then
    local kind, mark = shape:match("^(%a+)(%??)$")
    shape, optional = kinds[kind], mark ~= ""
  end
  if v == nil and (optional or shape.optional) then return end
  if not shape[2](v) then damaged(place, name, v, shape[1]) end
  if shape.format and v.format ~= shape.format then
    errors.raise_plain("EFORMAT", "%s: written by another version (format %s); this one reads format %d", place,
      tostring(v.format), shape.format)
  end
  for key, field in pairs(shape.fields or {}) do check(field, v[key], place, below(name, key)) end
  if shape.each then
    for key, each in pairs(v) do check(shape.each, each, place, below(name, key)) end
  end
end

--- The value, which has the shape; raises EFORMAT with `place` and the field where it has not.
function record.check(shape, value, place)
  check(shape, value, place)
  return value
end

--- A JSON file; what is not there is nil, a message and a code, what cannot be read or has another shape is an error.
function record.read(path, shape)
  if not fs.exists(path) then return nil, path .. ": no such file", "ENOENT" end
  local text, message, code = fs.read(path)
  if not text then errors.raise_plain(code or "EIO", "%s", message) end
  return record.check(shape, core.json_decode(text, path), path)
end

return record
