-- Every seed of the fuzz targets that are written in Lua, and some mutations of each.

local core = require "grpo.core"
local extensions = require "grpo.base.extensions"

local fs = core.fs
package.preload.expect = function() return dofile("tests/fuzz/expect.lua") end

-- A few bytes of a text are others, or gone, or there twice.
local function mutated(text, rng)
  for _ = 1, 1 + math.floor(rng() * 3) do
    local at, n = math.floor(rng() * #text), math.floor(rng() * 4)
    local kind = math.floor(rng() * 3)
    local byte = string.char(math.floor(rng() * 256))
    local piece = kind == 0 and byte or kind == 1 and "" or text:sub(at + 1, at + 2 * n)
    text = text:sub(1, at) .. piece .. text:sub(at + 1 + n)
  end
  return text
end

describe("the fuzz target", function()
  -- A script that is run makes globals strict, which is not to reach other tests.
  local globals = package.loaded._G -- _G here is the test's own
  local of_globals = getmetatable(globals)
  after_each(function() setmetatable(globals, of_globals) end)

  local folders = { "tests/fuzz" }
  for _, name in ipairs(extensions.names()) do
    folders[#folders + 1] = ("ext/%s/tests/fuzz"):format(name)
  end
  for _, folder in ipairs(folders) do
    for _, file in ipairs(fs.list(folder .. "/lua") or {}) do
      local name = file:match("^(.*)%.lua$")
      it(name .. " finds nothing in its seeds", function()
        local target = dofile(("%s/lua/%s"):format(folder, file))
        local seeds = assert(fs.list(("%s/seeds/%s"):format(folder, name)))
        for i, seed in ipairs(seeds) do
          local text = assert(fs.read(("%s/seeds/%s/%s"):format(folder, name, seed)))
          target(text)
          for k = 1, 10 do target(mutated(text, core.rng(1, "task", i, k, 0))) end
        end
      end)
    end
  end
end)
