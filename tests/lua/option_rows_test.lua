-- One row is enough: what a row of the engine promises is held to what reads it.

local core = require "grpo.core"
local grpo = require "grpo"
local option_rows = require "grpo.options.option_rows"
local tiny = require "tests.lua.tiny"

local function of(set)
  local list = {}
  for _, row in ipairs(option_rows.rows) do
    if row.of == set then list[#list + 1] = row end
  end
  return list
end

-- A table in which the option at `path` ("sapo.pos") has this value.
local function table_with(path, value)
  local section, name = path:match("^(.*)%.(.*)$")
  if section then return { [section] = { [name] = value } } end
  return { [path] = value }
end

local wrong = function() end -- no option of the engine is a function

-- Does f refuse a wrong value of each row, naming it?  f gets a table of options below `prefix`.
local function reads_every_row(rows, prefix, where, f)
  for _, row in ipairs(rows) do
    local name = row.path:sub(#prefix + 1)
    local ok, err = pcall(f, table_with(name, wrong))
    assert.is_false(ok, row.path)
    assert.matches((where .. "." .. name):gsub("%p", "%%%0"), tostring(err))
  end
end

local function batch()
  return { logp = grpo.tensor({ -1, -2 }, { requires_grad = true }), advantage = { 1, 1 } }
end

local shape = tiny.llama { vocab_size = 258, hidden_size = 16, intermediate_size = 16,
  max_position_embeddings = 16 }

local function engine(more)
  return core.engine(tiny.with({ model = core.model_new(shape), tokenizer = core.tokenizer_bytes(),
    optimizer = {}, prompts_per_step = 1, group_size = 2, max_prompt_tokens = 4,
    max_new_tokens = 4 }, more))
end

local function rolled_out(e)
  return e:rollout { prompts = { { 1, 2 } }, n = 2, sampling = { max_new_tokens = 4 } }
end

describe("a row of the engine's options", function()
  it("of a loss is read by grpo.loss", function()
    reads_every_row(of "loss", "train.", "loss", function(o) grpo.loss("grpo", batch(), o) end)
  end)

  it("of a loss or an update is taken out of a whole resolved train", function()
    local e = engine()
    local b = rolled_out(e)
    local function update(train)
      e:update(b, { { advantage = 1 }, { advantage = -1 } }, setmetatable({}, { __index = train }))
    end
    reads_every_row(of "loss", "train.", "train", update)
    reads_every_row(of "update", "train.", "train", update)
    update { a_field_of_another_kind = 1 }
    e:close()
  end)

  it("of a loss is taken by a ppo stage where the row says so, and only there", function()
    local e = engine { critic = "shared" }
    local b = rolled_out(e)
    local function ppo(train)
      local own = setmetatable({ kl_coef = 0 }, { __index = train.ppo })
      if train.ppo and train.ppo.kl_coef then own = train.ppo end
      e:ppo(b, { { reward = 1 }, { reward = 0 } },
        setmetatable({ ppo = own, lr = 0 }, { __index = train }))
    end
    for _, row in ipairs(of "loss") do
      local name = row.path:match("^train%.(.*)$")
      local ok, err = pcall(ppo, table_with(name, wrong))
      assert.equal(row.ppo, not ok, row.path)
      if not ok then assert.matches(row.path, tostring(err)) end
    end
    reads_every_row(of "ppo", "train.ppo.", "train.ppo", function(o) ppo { ppo = o } end)
    e:close()
  end)

  it("of sampling, advantages, the optimizer and the engine's sizes is read", function()
    local m = core.model_new(shape)
    reads_every_row(of "sampling", "sampling.", "generate", function(o) m:generate({ 1 }, o) end)
    reads_every_row(of "advantage", "train.advantage.", "advantages", function(o)
      grpo.advantages({ 1, 2 }, o)
    end)
    reads_every_row(of "optimizer", "train.optimizer.", "adamw", function(o)
      grpo.optim.adamw({ grpo.tensor({ 1 }, { requires_grad = true }) }, o)
    end)
    reads_every_row(of "optimizer_kind", "train.optimizer.", "train.optimizer", function(o)
      engine { optimizer = o }
    end)
    for _, row in ipairs(of "engine") do
      local name = row.path:match("[^.]+$")
      local ok, err = pcall(engine, { [name] = wrong })
      assert.is_false(ok, row.path)
      assert.matches("engine%." .. name, tostring(err))
    end
  end)

  it("is in docs/options.md and in the editor's annotations", function()
    local page = assert(core.fs.read("docs/options.md"))
    local annotations = assert(core.fs.read("lua/grpo/meta/options.lua"))
    for _, row in ipairs(option_rows.rows) do
      local field = "@field " .. row.path:match("[^.]+$") .. "?"
      if not row.added then -- else its extension documents it
        assert.truthy(page:find("`" .. row.path .. "`", 1, true), row.path)
        assert.truthy(annotations:find(field, 1, true), row.path)
      end
    end
  end)
end)

describe("a row of a loss", function()
  it("is a choice of train.loss with a readable twin", function()
    local losses = require "grpo.losses"
    assert.is_true(#option_rows.losses >= 13)
    for _, name in ipairs(option_rows.losses) do
      assert.equal("function", type(losses[name]), name)
    end
  end)

  local rows = {}
  for _, row in ipairs(option_rows.rows) do rows[row.path] = row end

  local function takes(named)
    local tree = require "grpo.options.option_tree"
    for name, changed in pairs(named) do
      for path, value in pairs(changed) do
        assert.is_nil(tree.problem(rows[path], value), name .. " " .. path)
      end
    end
  end

  it("changes options that there are, to values that they take", function()
    takes(option_rows.loss_defaults)
  end)

  it("has its like among optimizers", function()
    takes(option_rows.optimizer_defaults)
    local tree = require "grpo.options.option_tree"
    for name in pairs(option_rows.optimizer_defaults) do
      assert.is_nil(tree.problem(rows["train.optimizer.name"], name))
    end
    local function beta2(optimizer)
      return grpo.experiment({ model = { config = shape }, train = { optimizer = optimizer },
        data = { train = grpo.data.list { { prompt = "a" } } },
        rewards = { r = function() return 1 end } }).config.train.optimizer.beta2
    end
    assert.equal(0.999, beta2(nil))
    assert.equal(0.999, beta2 { name = "adamw_8bit" })
    assert.equal(0.99, beta2 { name = "lion" })
    assert.equal(0.95, beta2 { name = "lion", beta2 = 0.95 })
  end)
end)
