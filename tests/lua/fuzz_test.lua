-- Every registered function with arguments of every wrong kind: an error or a result, never a
-- crash.
local grpo = require "grpo"
local core = require "grpo.core"

-- Functions that would leave, block or write outside, or measure for as long as they are told.
local left_out = { signals_install = true, set_threads = true, set_memory = true,
  checkpoint_begin = true, checkpoint_remove = true,
  edit = true, out = true, err = true, remove_tree = true,
  rename = true, link = true, write = true, mkdirs = true, append = true, lock = true,
  truncate = true, save = true, strict = true,
  limited = true, protected = true, list = true }

local function tiny()
  return grpo.model.new({ model_type = "llama", vocab_size = 258, hidden_size = 8,
    intermediate_size = 8, num_hidden_layers = 1, num_attention_heads = 2, num_key_value_heads = 1,
    max_position_embeddings = 16 },
    { tokenizer = grpo.tokenizer.bytes() })
end

local function values()
  local t = grpo.tensor({ { 1, 2 }, { 3, 4 } }, { requires_grad = true })
  local cycle = {}
  cycle[1] = cycle
  cycle.lengths = cycle
  return {
    { nil }, { true }, { false }, { 0 }, { 1 }, { 2 }, { -1 }, { 1.5 }, { 0 / 0 }, { 1 / 0 },
    { -1 / 0 },
      { math.maxinteger },
    { math.mininteger }, { 1 << 31 }, { -(1 << 31) }, { "" }, { "a" }, { "1" }, { "ab\0c" },
    { "\xff\xfe" },
      { ("x"):rep(300) }, { "[" },
    { "grpo" }, { "no/such/file" }, { {} }, { { 1, 2, 3 } }, { { 1, 1, 2 } }, { { { 1 }, { 2 } } },
    { { { 1, 2 },
      { 3, 4 } } }, { { "a", "b" } },
    { { x = 1 } }, { { seed = 1 / 0 } }, { { 1 / 0 } }, { { -5 } }, { { n = 1e18 } },
    { { [1.5] = 2 } }, { cycle },
    { { logp = t, advantage = t, lengths = { 2, 2 } } },
    { { lengths = { 1e9 }, logp = grpo.tensor { 1, 2 } } },
    { string.len }, { function() error("boom") end }, { coroutine.create(string.len) },
    { io.stdout }, { core.none },
    { grpo.json.null }, { t }, { t:detach() }, { grpo.tensor(1.5) }, { grpo.zeros { 0, 3 } },
    { grpo.zeros { 2, 1, 2, 1 } },
    { grpo.tensor { 1, 2 } }, { grpo.regex("(a)|b") }, { grpo.tokenizer.bytes() }, { tiny() },
      { grpo.optim.adamw { t } },
    { setmetatable({}, { __index = function() error("index") end, __len = function() return -1 end,
      __tostring = function() return "odd" end }) },
  }
end

local function functions()
  local list = {}
  local function add(name, t)
    for key, f in pairs(t) do
      if type(f) == "function" and not left_out[key] then
        list[#list + 1] = { name .. tostring(key), f }
      end
    end
  end
  add("core.", core)
  add("fs.", core.fs)
  local registry = debug.getregistry()
  for _, type_name in ipairs { "grpo.Regex", "grpo.Tensor", "grpo.Tokenizer", "grpo.Model",
    "grpo.Optimizer", "grpo.Writer",
    "grpo.Lock", "grpo.Error", "grpo.Engine", "grpo.Batch" } do
    local mt = registry[type_name]
    if mt then
      add(type_name .. ".", mt)
      local index = mt.__index
      if type(index) == "function" then
        local _, methods = debug.getupvalue(index, 1)
        index = methods
      end
      if type(index) == "table" then add(type_name .. ":", index) end
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

describe("every function", function()
  local rounds = tonumber(os.getenv("GRPO_FUZZ_ROUNDS")) or 60
  after_each(function() core.reseed_math(nil) end)
  for number, entry in ipairs(functions()) do
    it("survives any arguments: " .. entry[1], function()
      local rng = core.rng(tonumber(os.getenv("GRPO_FUZZ_SEED")) or 1, "user", 0, number, 0)
      local pool = values()
      local function pick() return pool[1 + math.floor(rng() * #pool)][1] end
      local ready = entry[1]:match(":") and ({ ["grpo.Regex"] = grpo.regex("a(b)?"),
        ["grpo.Tensor"] = grpo.tensor { { 1, 2 }, { 3, 4 } },
        ["grpo.Tokenizer"] = grpo.tokenizer.bytes(),
        ["grpo.Model"] = tiny() })[entry[1]:match("^(.-):")]
      local function try(...)
        local ok, err = core.limited({ instructions = 2e7, memory = 256 * 2 ^ 20, seconds = 20 },
          entry[1], entry[2], ...)
        if not ok then
          assert.equal("string", type(tostring(err)))
          assert.is_nil(err.fatal)
        end
        core.reseed_math(nil)
      end
      try()
      for _, v in ipairs(pool) do try(v[1]) end
      for _ = 1, rounds do
        local self = rng() < 0.8 and ready or pick()
        try(self, pick())
        try(self, pick(), pick())
        try(self, pick(), pick(), pick())
        try(pick(), pick(), pick(), pick(), pick())
      end
      -- what was drawn ends here: TAP begins a line
      if entry[1] == "core.draw" then io.stdout:write("\n") end
    end)
  end
end)
