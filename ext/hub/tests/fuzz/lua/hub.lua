-- Any answers of the Hub: refused with one line, or files whose names stay below a directory and
-- whose sums are names of blobs.  The parts of the input are the answer about a revision, two pages
-- of the list, a header Link, and a pattern of --include.
local core = require "grpo.core"
local expect = require "expect"
local glob = require "grpo.base.glob"
local listing = require "grpo.data.hub.listing"

local dir = expect.directory()
local root = assert(core.fs.realpath(dir))

local function check_file(file)
  expect.truth(#file.sum == (file.kind == "sha256" and 64 or 40), "a sum of another length")
  expect.truth(not file.sum:find("[^0-9a-f]"), "a sum that is not hexadecimal")
  expect.truth(file.size >= 0 and math.type(file.size) == "integer", "a size")
  local folder = (dir .. "/" .. file.name):match("^(.*)/")
  if core.fs.mkdirs(folder) then
    local real = assert(core.fs.realpath(folder))
    expect.truth(real == root or real:sub(1, #root + 1) == root .. "/", "a name that leads out")
  end
end

return function(input)
  local revision, first, second, link, pattern = expect.parts(input, 5)
  local ok, commit = pcall(listing.commit, revision, "a/b")
  if ok then
    expect.truth(commit:find("^" .. ("[0-9a-f]"):rep(40) .. "$"), "a commit")
  else
    expect.refused(commit, "a/b:", "EFORMAT")
  end
  local address = listing.next_page(link)
  expect.truth(not address or not address:find("[<>]"), "an address")
  glob.matcher(pattern, "!")("a/b.safetensors")
  local files = {}
  for _, page in ipairs { first, second } do
    local good, err = pcall(listing.add_page, files, page, "a/b")
    if not good then return expect.refused(err, "a/b:", "EFORMAT") end
  end
  local good, err = pcall(listing.check, files, "a/b")
  if not good then return expect.refused(err, "a/b:", "EFORMAT") end
  for _, file in ipairs(files) do check_file(file) end
  for _, kind in ipairs { "model", "dataset" } do
    local include = pattern ~= "" and { pattern } or {}
    local chosen, list = pcall(listing.select, files, kind, include, "a/b")
    if not chosen then expect.refused(list, "a/b:", "EARG") end
  end
  core.fs.remove_tree(dir)
  assert(core.fs.mkdirs(dir))
end
