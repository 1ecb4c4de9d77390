-- tiktoken's encodings by name.  Their ranks are in a file that tiktoken downloads: it lies in the
-- directory TIKTOKEN_CACHE_DIR, else DATA_GYM_CACHE_DIR, else data-gym-cache below the directory of
-- temporary files, under the SHA-1 of its address.  Nothing here uses the network.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local encodings = {}

local ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/%s.tiktoken"

-- From each name to the SHA-1 of the address of its ranks.
local files = {
  r50k_base = "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
  p50k_base = "ec7223a39ce59f226a68acc30dc1af2788490e15",
  cl100k_base = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
  o200k_base = "fb374d419588a4632f3f557e76b4b70aebbca790",
}

-- Where the ranks of an encoding lie; nil if `name` is not one.  Raises ENOENT where they are not
-- there.
function encodings.place(name)
  local file = files[name]
  if not file then return nil end
  local directory = os.getenv "TIKTOKEN_CACHE_DIR" or os.getenv "DATA_GYM_CACHE_DIR"
    or (os.getenv "TMPDIR" or "/tmp") .. "/data-gym-cache"
  local path = directory .. "/" .. file
  if core.fs.exists(path) then return path end
  errors.raise("ENOENT", "%s: its ranks are not in tiktoken's cache, %s; download %s as %s, or "
    .. "give the path of that file", name, directory, ADDRESS:format(name), path)
end

return encodings
