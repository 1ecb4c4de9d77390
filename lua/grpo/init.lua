-- require "grpo" returns the public interface, which consists of functions in C (grpo.core)
-- and modules in Lua.  The Lua modules are loaded when a script first names them.

local context = require "grpo.options.scripts.context"
local core = require "grpo.core"
local extensions = require "grpo.base.extensions"
local files_read = require "grpo.base.files_read"

local function load_model(path, options)
  return (require("grpo.models.loading").open(path, options))
end

local function new_model(config, options)
  return require("grpo.models.loading").new(config, options)
end

local function load_tokenizer(path)
  local place = require("grpo.data.places").place(path)
  local tokenizer = core.tokenizer_load(place)
  files_read.add_tokenizer(place)
  return tokenizer
end

local grpo = {
  args = context.args, -- the values of --arg on the command line
  none = core.none,

  regex = core.regex,
  json = { decode = core.json_decode, encode = core.json_encode, null = core.json_null,
    object = core.json_object },

  tokenizer = {
    load = load_tokenizer,
    bytes = core.tokenizer_bytes,
    chars = core.tokenizer_chars,
    train = core.tokenizer_train,
  },
  model = { load = load_model, new = new_model, clone = core.model_clone },

  tensor = core.tensor,
  zeros = core.zeros,
  randn = core.randn,
  concat = core.concat,
  stack = core.stack,
  where = core.where_,
  no_grad = core.no_grad,
  scope = core.scope,
  optim = { adamw = core.adamw, adamw_8bit = core.adamw_8bit, lion = core.lion },
  clip_grad_norm = core.clip_grad_norm,

  loss = core.policy_loss,
  loss_from_logits = core.loss_from_logits,
  advantages = core.advantages,
  guard = core.guard,
}

-- These modules are loaded when a script first names them.
local later = {
  data = function() return require "grpo.data" end,
  schedule = function() return require "grpo.schedule" end,
  samplers = function() return require "grpo.samplers" end,
  losses = function() return require "grpo.losses" end,
  calc = function() return require "grpo.base.calc" end,
  sorted_pairs = function() return require "grpo.base.sorted" end,
  reward_model = function() return require("grpo.models.reward_model").load end,
  trainer = function() return require("grpo.loop.trainer").new end,
  template = function() return require("grpo.jinja").compile end,
  experiment = function()
    local experiment = require "grpo.options.experiment"
    return function(fields) return experiment.new(fields, context.current()) end
  end,
}

for _, row in ipairs(extensions.rows "names") do later[row.name] = row.load end

local known = {}
for name in pairs(grpo) do known[#known + 1] = name end
for name in pairs(later) do known[#known + 1] = name end
table.sort(known)

return setmetatable(grpo, {
  __index = function(t, name)
    if not later[name] then
      require("grpo.base.other_programs").refuse("grpo", name, known)
    end
    local value = later[name]()
    rawset(t, name, value)
    return value
  end,
})
