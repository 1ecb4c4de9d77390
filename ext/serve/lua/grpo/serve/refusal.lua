-- Requests that are refused: an error with a status of HTTP, in the form that clients of OpenAI's
-- protocol read.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local refusal = {}

local kinds = { [500] = "server_error", [503] = "server_error" }

-- Makes one.  param: the field that is wrong, or nil; code: a word for programs, or nil.
function refusal.new(status, param, code, message)
  local err = core.error("EARG", message)
  err.status, err.param, err.word = status, param, code
  return err
end

function refusal.raise(status, param, code, format, ...)
  error(refusal.new(status, param, code, format:format(...)), 0)
end

-- Raises one about a field of a request.
function refusal.field(name, format, ...)
  refusal.raise(400, name, "invalid_value", name .. ": " .. format, ...)
end

-- The errors of a request whose client is gone, and of one that is open when the server ends.
refusal.gone = refusal.new(500, nil, "gone", "the client is gone")
refusal.ending = refusal.new(503, nil, "ending", "the server ends")

-- The status and the body that tell a client of an error, which may be any.
function refusal.answer(err)
  local known = type(err) == "table"
  local status = known and (err.status or err.code == "EARG" and 400) or 500
  return status, core.json_encode { error = { message = errors.line(err),
    type = kinds[status] or "invalid_request_error",
    param = known and err.param or core.json_null, code = known and err.word or core.json_null } }
end

return refusal
