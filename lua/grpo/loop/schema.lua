-- The shapes of a run's JSON files, which are checked as they are read: errors name the place and
-- the field.
--
-- A shape is the name of a kind ("integer?": it may be missing) or made by object, map or list;
-- fields that an object's shape does not name are ignored.  A log may have a million rows, so a
-- correct row costs only a few calls.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local sorted_pairs = require "grpo.base.sorted"
local sums = require "grpo.loop.sums"
local steps = require "grpo.options.stage_kinds"

local fs, null = core.fs, core.json_null
local next, type, whole = next, type, math.type
local schema = {}

local function of_type(name)
  return function(v) return type(v) == name end
end

local LAST_TIME = 253402300800 -- when the year 10000 begins; times that grpo writes are earlier

-- { the wanted value, in words; the test }
local kinds = {
  text = { "a string", of_type "string" },
  number = { "a number", of_type "number" },
  -- not finite
  measured = { "a number or null", function(v) return type(v) == "number" or v == null end },
  integer = { "a whole number", function(v) return whole(v) == "integer" end },
  count = { "a whole number from 0", function(v) return whole(v) == "integer" and v >= 0 end },
  boolean = { "true or false", of_type "boolean" },
  time = { "seconds since 1970", function(v)
    return type(v) == "number" and v > -LAST_TIME and v < LAST_TIME
  end },
  stage = { "a kind of stage", steps.is_kind },
  any = { "a value", function(v) return v ~= nil end },
}

-- ---- shapes ------------------------------------------------------------------------------------

-- A shape is { wanted =, test =, optional = }.  The shape of an object or a list also has `names`,
-- and `fields` (a shape by name) or `each` (one shape for all).
local function shape_of(kind)
  if type(kind) == "table" then return kind end
  local name, mark = kind:match("^(%a+)(%??)$")
  return { wanted = kinds[name][1], test = kinds[name][2], optional = mark ~= "" }
end

local function is_object(v)
  return type(v) == "table" and (next(v) == nil or type(next(v)) == "string")
end

local function is_list(v)
  return type(v) == "table" and (next(v) == nil or #v > 0)
end

local function object(fields, optional)
  local shape = { wanted = "an object", test = is_object, optional = optional, names = {},
    fields = {} }
  for name, kind in sorted_pairs(fields) do
    shape.names[#shape.names + 1], shape.fields[#shape.fields + 1] = name, shape_of(kind)
  end
  return shape
end

local function map(each, optional)
  return { wanted = "an object", test = is_object, optional = optional, names = {},
    each = shape_of(each) }
end

local function list(each, optional)
  return { wanted = "a list", test = is_list, optional = optional, names = {},
    each = shape_of(each) }
end

local options = map(object { origin = "text?" }, true)

-- An object with a field `format`, which tells versions of the file apart.
local function versioned(format, fields)
  local shape = object(fields)
  shape.format = format
  return shape
end

-- By the file's name without its ending.
schema.shapes = {
  run = versioned(1, { name = "text?", state = "text", script = "text", args = map("text", true),
    overrides = list("text", true), compute = "text?", numbers = "text?", started = "time?",
    heartbeat = "time?", finished = "time?",
    pid = "integer?", host = "text?", directory = "text?", step = "integer?", steps = "integer?",
    summary = map("measured", true), sums = map("text", true),
    hub = map("text", true), host_rewards = list("text", true),
    run_log = object({ size = "count", crc32c = "text" }, true),
    rows = map("text", true), log_lines = map("count", true) }),
  config = object { options = options,
    stages = list(object { kind = "stage", options = options }, true) },
  env = object {},
  inputs = list(object { path = "text", crc32c = "integer?" }),
  log_sizes = object { begun = map("count"), checkpoints = map(map("count")),
    sums = map(map("text"), true) },
  metrics = object { step = "integer", stage = "integer", stage_step = "integer",
    num_tokens = "integer?", update = "integer?", update_tokens = "integer?",
    trained_tokens = "integer?", reward = "measured?", ["memory/peak_bytes"] = "number?" },
  completions = object { step = "integer", prompt_index = "integer", index = "integer",
    row = "integer?", row_index = "count?", row_crc32c = "integer?",
    prompt = "text", text = "text", rewards = object({}, true), reward = "measured?",
    advantage = "measured?",
    finish = "text", length = "integer",
    parts = list(object { role = "text", text = "text" }, true),
    environment = object({ reward = "measured?", turns = "integer" }, true) },
  nonfinite = object { step = "integer", prompt_index = "integer", prompt = "text",
    problem = "text", p = object { stage = "integer", step = "integer", steps = "integer",
    tokens = "integer", fraction = "number", update = "integer?", updates = "integer?",
    update_tokens = "integer?" }, text = "text?", target = "text?",
    index = "integer?", row = "integer?", row_index = "count?", row_crc32c = "integer?",
    rewards = object({}, true), reward = "measured?", advantage = "measured?", finish = "text?",
    length = "integer?" },
  eval = object { step = "integer", n = "integer?", unjudged = "count?", label = "text?" },
  trainer = versioned(1,
    { step = "count", stage = "count", stage_step = "count", stage_tokens = "count",
    tokens_seen = "count", cursor = "count", stage_done = "boolean", dropped = "count",
    truncated = "count", targets_truncated = "count?",
    update = "count", update_tokens = "count", stage_update = "count",
    stage_update_tokens = "count", evaluations = "count?", events = "count?",
    best = "measured?", best_step = "count?", last_metrics = object({}, true) }),
  events = object { kind = "text", step = "integer", stage = "integer" },
  sweep = versioned(1, { script = "text", args = map("text", true),
    files = list(object { path = "text", crc32c = "text" }),
    runs = list(object { name = "text", reason = "text?",
      options = list(object { path = "text", text = "text" }) }) }),
}

-- option=value
local word = { wanted = "option=value", test = function(v)
  return type(v) == "string" and v:find("^[%w_.]+=") ~= nil
end }

-- The further fields of events of each kind.
schema.events = {
  set = object { path = "text", value = "any?" }, -- without one: the option is set to nil
  weight = object { name = "text", value = "number" },
  state = object { data = "text" },
  evaluate = object {},
  reload = object { source = "text", files = list("text", true) },
  options = object { words = list(word) },
  inputs = object { changed = list "text" },
  environment = object { changed = list "text", facts = map "text" },
}

-- ---- checking -----------------------------------------------------------------------------------

local function shown(v)
  local text = core.json_encode(v)
  return #text <= 40 and text or text:sub(1, 37) .. "..."
end

local function damaged(place, path, v, wanted)
  errors.raise_plain("EFORMAT", "%s: %s%s, want %s; the file is damaged", place,
    path ~= "" and path:sub(2) .. ": " or "", v == nil and "is missing" or "is " .. shown(v),
    wanted)
end

-- Returns the first place inside a value that does not match the shape: its path, its value and the
-- wanted one; nil if everything matches.
local function within(shape, v)
  local names, fields, each = shape.names, shape.fields, shape.each
  for i = 1, #names do
    local field, value = fields[i], v[names[i]]
    if value ~= nil or not field.optional then
      if not field.test(value) then return "." .. names[i], value, field.wanted end
      if field.names then
        local path, found, wanted = within(field, value)
        if path then return "." .. names[i] .. path, found, wanted end
      end
    end
  end
  if not each then return end
  for key, value in pairs(v) do
    if not each.test(value) then return "." .. tostring(key), value, each.wanted end
    if each.names then
      local path, found, wanted = within(each, value)
      if path then return "." .. tostring(key) .. path, found, wanted end
    end
  end
end

-- Checks the value itself, then its contents.
local function fault(shape, v)
  if not shape.test(v) then return "", v, shape.wanted end
  return within(shape, v)
end

--- Returns the value if it has the shape; raises EFORMAT with the place, a file and a line (nil:
--- none), and the field otherwise.
function schema.check(shape, value, file, line)
  local path, found, wanted = fault(shape, value)
  if not path and not shape.format then return value end
  local place = line and ("%s:%d"):format(file, line) or file
  if shape.format and is_object(value) and value.format ~= shape.format then
    errors.raise_plain("EFORMAT",
      "%s: written by another version (format %s); this one reads format %d", place,
      tostring(value.format), shape.format)
  end
  if path then damaged(place, path, found, wanted) end
  return value
end

--- Reads a JSON file.  For a missing file it returns nil, a message and a code; an unreadable file
--- or another shape is an error, and so is one whose sum is wrong, if not `forced`.
function schema.read(path, shape, forced)
  if not fs.exists(path) then return nil, path .. ": no such file", "ENOENT" end
  local text, message, code = fs.read(path)
  if not text then errors.raise_plain(code or "EIO", "%s", message) end
  if not forced and sums.state(text) == "damaged" then
    errors.raise_plain("EFORMAT", "%s: it is damaged, because its bytes are not those of the "
      .. "checksum at its end; restore it from a copy", path)
  end
  return schema.check(shape, core.json_decode(text, path), path)
end

return schema
