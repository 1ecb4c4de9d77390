-- tasks/toolcalls.lua - requests in English that become one tool call in JSON.
--
-- Training and held-out rows share the three tools and nothing else: held-out requests have other
-- wordings, other names, cities and things, so that they measure the skill and not memory.

local options = require "grpo.options"

local toolcalls = {}

-- A wording has its arguments in braces.  Values are lists, or a pair of bounds for whole numbers.
local tools = {
  { name = "weather", arguments = { "city", "unit" } },
  { name = "timer", arguments = { "minutes", "label" } },
  { name = "message", arguments = { "to", "text" } },
}

local splits = {
  train = {
    stream = 0,
    wordings = {
      weather = {
        "How warm is it in {city}, in {unit}?", "Give me the temperature in {city} in {unit}.",
        "I am flying to {city}. What is the weather there, in {unit}?",
        "Weather for {city}, {unit} please.",
      },
      timer = {
        "Wake me in {minutes} minutes for the {label}.",
        "Start a {minutes} minute timer for the {label}.",
        "The {label} needs {minutes} minutes. Remind me.", "Timer, {label}, {minutes} minutes.",
      },
      message = {
        "Please let {to} know: {text}.", "Write to {to}: {text}.", "Send {to} this: {text}.",
        "{to} should read this: {text}.",
      },
    },
    values = {
      city = { "Paris", "Berlin", "Lima", "Oslo", "Cairo", "Tokyo", "Rome", "Madrid", "Delhi",
        "Quito", "Boston", "Prague" },
      unit = { "celsius", "fahrenheit" },
      minutes = { 2, 59 },
      label = { "tea", "pasta", "laundry", "bread", "soup", "cake", "oven", "meeting" },
      to = { "Anna", "Ben", "Carla", "David", "Eve", "Frank", "Grace", "Henry" },
      text = { "I am late", "dinner is ready", "see you tomorrow", "call me back",
        "the train is full", "thank you for the book", "we are at the station",
        "the key is under the mat" },
    },
  },
  eval = {
    stream = 1,
    wordings = {
      weather = {
        "Tell me how hot {city} is today, in {unit}.", "What is it like in {city} now? Use {unit}.",
        "Is it cold in {city}? Say it in {unit}.",
      },
      timer = {
        "Count down {minutes} minutes, it is for the {label}.",
        "In {minutes} minutes I must see to the {label}.",
        "My {label} will be done {minutes} minutes from now.",
      },
      message = {
        "Tell {to} that {text}.", "I have news for {to}: {text}.",
        "{to} does not know it yet: {text}.",
      },
    },
    values = {
      city = { "Vienna", "Dublin", "Seoul", "Athens", "Nairobi", "Warsaw", "Toronto", "Lisbon",
        "Havana", "Zurich", "Moscow", "Geneva", "Naples", "Dakar", "Denver", "Sydney" },
      unit = { "celsius", "fahrenheit" },
      minutes = { 2, 59 },
      label = { "rice", "eggs", "garden", "washing", "pizza", "call", "lesson" },
      to = { "Igor", "Julia", "Karl", "Lena", "Martin", "Nora", "Oscar", "Paula", "Ruth" },
      text = { "the shop is closed", "my phone is broken", "we won the game", "lunch is at noon",
        "the door is open", "it is raining here", "I found your hat" },
    },
  },
}

--- Says what is wanted and shows each tool once, with values that no row has.
---@param row { request: string }
---@return { role: string, content: string }[]
function toolcalls.messages(row)
  return {
    { role = "system", content = "Turn the request into JSON." },
    { role = "user", content = "Set a timer of 5 minutes for porridge." },
    { role = "assistant", content = '{"tool": "timer", "minutes": 5, "label": "porridge"}' },
    { role = "user", content = "Tell Mia: I am home." },
    { role = "assistant", content = '{"tool": "message", "to": "Mia", "text": "I am home"}' },
    { role = "user", content = "What is the weather in Bonn in celsius?" },
    { role = "assistant", content = '{"tool": "weather", "city": "Bonn", "unit": "celsius"}' },
    { role = "user", content = row.request },
  }
end

--- The call as the examples in the prompt write it: the tool, then its arguments in their order.
---@param call table
---@return string
function toolcalls.text(call)
  local json, fields = require("grpo").json, {}
  for _, tool in ipairs(tools) do
    local names = tool.name == call.tool and { "tool", table.unpack(tool.arguments) } or {}
    for _, name in ipairs(names) do
      fields[#fields + 1] = ('"%s": %s'):format(name, json.encode(call[name]))
    end
  end
  return "{" .. table.concat(fields, ", ") .. "}"
end

--- The prompt of a teacher that knows the answer: the same messages, with the request and its call
--- as the last example.
---@param row { request: string, call: table }
---@return { role: string, content: string }[]
function toolcalls.with_answer(row)
  local messages = toolcalls.messages(row)
  table.insert(messages, #messages, { role = "user", content = row.request })
  table.insert(messages, #messages, { role = "assistant", content = toolcalls.text(row.call) })
  return messages
end

local function one_of(rng, list) return list[1 + math.floor(rng() * #list)] end

--- One row: a request, and the call that it asks for.
---@param rng fun(): number
---@param split "train"|"eval"
---@return { request: string, call: table }
function toolcalls.request(rng, split)
  local from, tool = splits[split], one_of(rng, tools)
  local wording, call = one_of(rng, from.wordings[tool.name]), { tool = tool.name }
  for _, name in ipairs(tool.arguments) do
    local values = from.values[name]
    if name == "minutes" then
      call[name] = values[1] + math.floor(rng() * (values[2] - values[1] + 1))
    else
      call[name] = one_of(rng, values)
    end
  end
  return { request = (wording:gsub("{(%a+)}", call)), call = call }
end

---@param opts { seed?: integer, n?: integer, split?: "train"|"eval" }
function toolcalls.dataset(opts)
  local o = options.check(opts, {
    seed = { type = "integer", default = 0 },
    n = { type = "integer", default = 2000, min = 1 },
    split = { type = "string", default = "train", one_of = { "train", "eval" } },
  }, "toolcalls.dataset")
  return require("grpo").data.generate(function(rng) return toolcalls.request(rng, o.split) end,
    { seed = o.seed * 2 + splits[o.split].stream, n = o.n })
end

local function decoded(text)
  local good, call = pcall(require("grpo").json.decode, text)
  return good and type(call) == "table" and call or nil
end

--- 1 if the whole text is a JSON object or list, else 0.
function toolcalls.json(text) return decoded(text) and 1 or 0 end

--- 1 if the call names the right tool, else 0.
function toolcalls.tool(text, row)
  local call = decoded(text)
  return call and call.tool == row.call.tool and 1 or 0
end

--- The share of the fields that are right, among those that are there or should be.
function toolcalls.fields(text, row)
  local call, right, all = decoded(text), 0, 0
  if not call then return 0 end
  for name, value in pairs(row.call) do
    all = all + 1
    if call[name] == value then right = right + 1 end
  end
  for name in pairs(call) do
    if row.call[name] == nil then all = all + 1 end
  end
  return right / all
end

--- The measure: exactly the call that was asked for, no more and no less.
function toolcalls.exact(text, row) return toolcalls.fields(text, row) == 1 end

return toolcalls
