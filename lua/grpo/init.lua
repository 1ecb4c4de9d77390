-- require "grpo": the public interface, put together from the C side (grpo.core) and
-- the Lua half.  Modules of the Lua half are loaded when a script first names them.

local core = require "grpo.core"

local function load_model(path, options)
  return (require("grpo.models.loading").open(path, options))
end

local function new_model(config, options)
  return require("grpo.models.loading").new(config, options)
end

local grpo = {
  args = {}, -- what the command line's --arg gave
  none = core.none,

  regex = core.regex,
  json = { decode = core.json_decode, encode = core.json_encode, null = core.json_null, object = core.json_object },

  tokenizer = {
    load = core.tokenizer_load,
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
  optim = { adamw = core.adamw },
  clip_grad_norm = core.clip_grad_norm,

  loss = core.policy_loss,
  loss_from_logits = core.loss_from_logits,
  advantages = core.advantages,
  guard = core.guard,
}

-- name = { module, field }: without a field the module itself is the value
local later = {
  data = { "grpo.data" },
  schedule = { "grpo.schedule" },
  losses = { "grpo.losses" },
  calc = { "grpo.calc" },
  sandbox = { "grpo.sandbox" },
  sorted_pairs = { "grpo.base.sorted" },
  experiment = { "grpo.experiment", "new" },
  trainer = { "grpo.train.trainer", "new" },
  template = { "grpo.jinja", "compile" },
}

local known = {}
for name in pairs(grpo) do known[#known + 1] = name end
for name in pairs(later) do known[#known + 1] = name end
table.sort(known)

return setmetatable(grpo, {
  __index = function(t, name)
    local entry = later[name]
    if not entry then
      local options, errors = require "grpo.options", require "grpo.base.errors"
      errors.raise("EARG", "grpo.%s: there is no such function, %s", tostring(name),
        options.advice(name, known))
    end
    local value = require(entry[1])
    if entry[2] then value = value[entry[2]] end
    rawset(t, name, value)
    return value
  end,
})
