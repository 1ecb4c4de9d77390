-- Where models, tokenizers, adapters and datasets lie that are named instead of given by their
-- paths.  An extension finds them (the kind `places` of base/extensions.lua); without one every
-- text is a path, except for the names of tiktoken's encodings.

local core = require "grpo.core"
local encodings = require "grpo.data.encodings"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"

local fs = core.fs

-- The functions that base/extensions.lua describes, where nothing is found by its name.
local none = { used = {} }

function none.is_name() return false end
function none.name_in() return nil end
function none.place(path) return path end
function none.pin() end
function none.listed(path) return path end
function none.file(listed) return listed end
function none.repository(name) return name end

function none.snapshot(name)
  errors.raise("ENOENT", "%s: no such file or directory", name)
end

function none.check(versions)
  local name = next(versions or {})
  if name then
    errors.raise_plain("ENOENT", "the run has taken %s by its name, which this grpo finds only "
      .. "with an extension; build it with that", name)
  end
end

local found -- the module of the extension, or `none`; loaded when it is first asked

local function source()
  local row = extensions.rows("places")[1]
  found = found or row and row.load() or none
  return found
end

local places = setmetatable({}, { __index = function(_, name) return source()[name] end })

-- Returns where a model, a tokenizer or an adapter lies, and its version if a name was given: a
-- path on the disk is returned as it is, and the name of an encoding of tiktoken as the file of its
-- ranks.  whole: what lies there must be a complete model or adapter.  Something else than a text
-- is returned too.
function places.place(path, whole)
  if type(path) ~= "string" or fs.exists(path) then return path end
  local ranks = encodings.place(path)
  if ranks then return ranks end
  return source().place(path, whole)
end

return places
