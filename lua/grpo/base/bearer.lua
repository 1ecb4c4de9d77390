-- The key of a server, which a variable of the environment holds.

local errors = require "grpo.base.errors"

-- Returns "Bearer KEY".  option: what names the variable, for the message.
return function(option, variable)
  local key = os.getenv(variable)
  if not key or key == "" then
    errors.raise("EARG", "%s: the variable %s is not set; put the key there", option, variable)
  end
  return "Bearer " .. key
end
