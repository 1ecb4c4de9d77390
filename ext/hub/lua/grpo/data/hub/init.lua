-- grpo.hub: models and datasets by their names on the Hugging Face Hub, as they lie in its cache
-- (hub_cache.h).  `grpo pull` brings them; nothing here uses the network.
--
-- A branch such as main may later stand for another commit.  So a run writes down which commit each
-- name stood for, and whoever continues it pins the names to these.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"

local fs = core.fs

-- used: from each name that was found (a dataset's begins with "dataset ") to its commit.
local hub = { used = {}, is_name = core.hub_is_name, repository = core.hub_repo }
local pins = {}

local function key_of(name, kind)
  return kind == "dataset" and "dataset " .. name or name
end

-- Pins names to the commits of a run: a table as hub.used, or nil.
function hub.pin(commits)
  pins = {}
  for key, commit in pairs(commits or {}) do pins[key] = commit end
end

-- "; or is ORG/NAME meant, which is there?" for a name that the cache does not have.
local function similar(name, kind)
  local names, prefix = {}, kind .. "s--"
  for _, entry in ipairs(fs.list(core.hub_cache()) or {}) do
    if entry:sub(1, #prefix) == prefix then
      names[#names + 1] = entry:sub(#prefix + 1):gsub("%-%-", "/", 1)
    end
  end
  table.sort(names)
  local wanted = name:match "^[^@]*"
  local near = options.nearest(wanted, names)
  return near and near ~= wanted and ("; or is %s meant, which is there?"):format(near) or ""
end

-- Calls find(name), with the commit that the name is pinned to, and notes the commit that it
-- returns second.
local function pinned(name, kind, find)
  local key = key_of(name, kind)
  local pin = pins[key]
  local wanted = pin and name:match("^[^@]*") .. "@" .. pin or name
  local ok, place, commit = pcall(find, wanted)
  if not ok then
    if type(place) ~= "table" then error(place, 0) end
    if not pin then
      if place.code == "ENOENT" then place.message = place.message .. similar(name, kind) end
      error(place, 0)
    end
    errors.raise_plain(place.code, "the run began with commit %s of %s: %s", pin, name,
      place.message)
  end
  if commit then hub.used[key] = commit end
  return place, commit
end

-- The name in an address of the Hub, such as https://huggingface.co/org/name/tree/main; nil if the
-- text is none.
function hub.name_in(text)
  local rest = text:match "^https?://[^/]+/(.+)" or text:match "^hf://(.+)"
    or text:match "^huggingface%.co/(.+)"
  local name = rest and rest:gsub("^datasets/", ""):match "^[^/?#]+/[^/?#]+"
  return name and core.hub_is_name(name) and name or nil
end

-- Returns where a model, a tokenizer or an adapter lies, and its commit if that is a snapshot.
-- whole: the snapshot must be a complete model or adapter.
function hub.place(path, whole)
  local inner = hub.name_in(path)
  if inner then
    errors.raise("ENOENT", "%s: an address is not opened; write %s", path, inner)
  end
  return pinned(path, "model", function(name) return core.hub_place(name, whole) end)
end

local spec = {
  kind = { type = "string", default = "model", one_of = { "model", "dataset" } },
  revision = { type = "string" },
}

-- grpo.hub.snapshot(name, { kind = "model" | "dataset", revision = })
-- Returns the directory of a snapshot and its commit.
function hub.snapshot(name, opts)
  local o = options.check(opts, spec, "hub.snapshot")
  if type(name) ~= "string" then
    errors.raise("EARG", "hub.snapshot: got %s, want a name such as \"openai/gsm8k\"", type(name))
  end
  if o.revision then
    if name:find("@", 1, true) then
      errors.raise("EARG", "hub.snapshot: %s names a revision already; leave out one", name)
    end
    name = name .. "@" .. o.revision
  end
  return pinned(name, o.kind, function(wanted) return core.hub_find(wanted, o.kind) end)
end

-- Raises if a commit that a run began with is not in the cache.
function hub.check(commits)
  for key, commit in sorted_pairs(commits or {}) do
    local dataset = key:match("^dataset (.*)")
    local ok, err = pcall(core.hub_find, (dataset or key):match("^[^@]*") .. "@" .. commit,
      dataset and "dataset" or "model")
    if not ok then
      errors.raise_plain("ENOENT", "the run began with commit %s of %s, which it needs: %s", commit,
        key, tostring(err))
    end
  end
end

-- ---- files of the cache as a run lists them ----------------------------------------------------

-- Returns "hub:" and the path within the cache of a file that lies there, so that a run may
-- continue where the cache has another place; other paths as they are.
function hub.listed(path)
  local cache = core.hub_cache() .. "/"
  return path:sub(1, #cache) == cache and "hub:" .. path:sub(#cache + 1) or path
end

-- Returns the path of a file that hub.listed() named.
function hub.file(listed)
  local rest = listed:match("^hub:(.*)")
  return rest and core.hub_cache() .. "/" .. rest or listed
end

return hub
