-- Brings a repository of the Hub into the Hugging Face cache, in the layout of huggingface_hub.
--
-- A file is downloaded as blobs/SUM.incomplete, compared with its sum and renamed.  The snapshot's
-- links are made when all its files are there, and the reference after that; so an interrupted pull
-- leaves nothing that looks whole, and a later one continues.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local listing = require "grpo.data.hub.listing"
local remote = require "grpo.data.hub.remote"

local fs = core.fs
local must = errors.must
local pull = {}

local MAX_PAGES, SMALL_ANSWER = 1000, 16 << 20

local cachedir_tag = "Signature: 8a477f597d28d172789f06886806bc55\n"
  .. "# This file marks a cache directory, see https://bford.info/cachedir/\n"

-- ---- what there is -----------------------------------------------------------------------------

local function is_commit(revision)
  return #revision == 40 and not revision:find("%X")
end

-- Returns the commit that a revision stands for and its files.
local function describe(hub, job)
  local api = ("%s/api/%ss/%s"):format(hub.endpoint, job.kind, remote.escaped(job.repo, "/"))
  local text = hub:text(api .. "/revision/" .. remote.escaped(job.revision), job.name, job,
    SMALL_ANSWER)
  local commit, files = listing.commit(text, job.name), {}
  if is_commit(job.revision) and job.revision:lower() ~= commit then
    errors.raise_plain("EFORMAT", "%s: the server answers with another commit, %s; ask the Hub "
      .. "that has this one (HF_ENDPOINT), or name a branch or a tag", job.name, commit)
  end
  local url = ("%s/tree/%s?recursive=true"):format(api, commit)
  for page = 1, MAX_PAGES do
    local body, headers = hub:text(url, job.name, job, listing.MAX_PAGE)
    listing.add_page(files, body, job.name)
    url = listing.next_page(headers.link)
    if not url then break end
    if not hub:is_own(url) or page == MAX_PAGES then
      errors.raise_plain("EFORMAT", "%s: the list of files has too many pages, or leads to another "
        .. "host", job.name)
    end
  end
  listing.check(files, job.name)
  return commit, files
end

-- ---- one file ----------------------------------------------------------------------------------

local function sum_of(path, file)
  if file.kind == "sha256" then return core.file_digest(path, "sha256") end
  return core.file_digest(path, "sha1", ("blob %d\0"):format(file.size))
end

-- Raises if the answer describes another file than the listed one.
local function check_answer(first, file, job, commit)
  local headers = first.headers
  local tag = headers["x-linked-etag"] or headers.etag
  tag = tag and tag:gsub("^W/", ""):gsub('"', "")
  local says = headers["x-repo-commit"]
  if says and says ~= commit then
    errors.raise_plain("EFORMAT", "%s: %s comes from commit %s, but %s was asked for", job.name,
      file.name, says:sub(1, 40), commit)
  end
  local is_sum = tag and (#tag == 40 or #tag == 64) and not tag:find("[^0-9a-f]")
  if is_sum and #tag == #file.sum and tag ~= file.sum then
    errors.raise_plain("EFORMAT", "%s: %s has the sum %s, but %s was listed", job.name, file.name,
      tag, file.sum)
  end
end

-- Downloads what is missing of a file; returns a sentence if its bytes are wrong.
local function fetch(hub, job, commit, file, path)
  local what = job.repo .. "/" .. file.name
  local url = ("%s/%s/resolve/%s/%s"):format(hub.endpoint, remote.escaped(job.path, "/"), commit,
    remote.escaped(file.name, "/"))
  local had = fs.size(path) or 0
  if had > file.size then
    must(fs.remove_tree(path))
    had = 0
  end
  if had < file.size or file.size == 0 then
    local response, first = hub:get(url, what, { path = path, max = file.size,
      on_bytes = function(n) job.show.bytes(file, n) end })
    if response.status ~= 200 and response.status ~= 206 or response.problem then
      hub:refuse(response, what, job)
    end
    check_answer(first, file, job, commit)
  end
  local size = fs.size(path) or 0
  if size ~= file.size then
    return ("has %d bytes, but %d were listed"):format(size, file.size)
  end
  local sum = must(sum_of(path, file))
  if sum ~= file.sum then
    return ("has the %s %s, but %s was listed"):format(file.kind == "sha1" and "git SHA-1"
      or "SHA-256", sum, file.sum)
  end
end

-- Brings a file as a blob.  One that is wrong is thrown away and asked for once more.
local function bring(hub, job, commit, file)
  local blob = job.dir .. "/blobs/" .. file.sum
  if fs.size(blob) == file.size then return false end
  local path, problem = blob .. ".incomplete", nil
  for _ = 1, 2 do
    problem = fetch(hub, job, commit, file, path)
    if not problem then
      must(fs.rename(path, blob))
      return true
    end
    must(fs.remove_tree(path))
  end
  errors.raise_plain("EFORMAT", "%s: %s %s; it was downloaded twice, and nothing of it was kept",
    job.name, file.name, problem)
end

-- ---- the snapshot ------------------------------------------------------------------------------

local function link(snapshot, file)
  local path, up = snapshot .. "/" .. file.name, "../../"
  for _ in file.name:gmatch("/") do up = up .. "../" end
  local target = up .. "blobs/" .. file.sum
  if fs.readlink(path) == target then return end
  must(fs.mkdirs(path:match("^(.*)/")))
  local ok, message, code = fs.link(target, path)
  if ok then return end
  errors.raise_plain(code, code == "EARG" and "%s; set HF_HUB_CACHE to a directory that has them"
    or "%s", message)
end

-- Makes the snapshot of the selected files.  One that was there gets what it lacks, file by file.
local function make_snapshot(job, commit, files)
  local snapshot = job.dir .. "/snapshots/" .. commit
  must(fs.mkdirs(job.dir .. "/snapshots"))
  if fs.isdir(snapshot) then
    for _, file in ipairs(files) do link(snapshot, file) end
    return snapshot
  end
  local building = job.dir .. "/.grpo-pull"
  must(fs.remove_tree(building))
  must(fs.mkdirs(building .. "/new"))
  for _, file in ipairs(files) do link(building .. "/new", file) end
  must(fs.rename(building .. "/new", snapshot))
  must(fs.remove_tree(building))
  return snapshot
end

local function set_reference(job, commit)
  if job.revision == commit then return end
  local path = job.dir .. "/refs/" .. job.revision
  must(fs.mkdirs(path:match("^(.*)/")))
  if fs.read(path) ~= commit then must(fs.write(path, commit)) end
end

-- ---- the whole ---------------------------------------------------------------------------------

-- Takes the lock of the repository, so that two pulls do not write one file.
local function lock(job)
  local dir = ("%s/.locks/%s"):format(job.cache, job.dir:match("[^/]+$"))
  must(fs.mkdirs(dir))
  local path = dir .. "/grpo-pull.lock"
  local held, message, code = fs.lock(path)
  if held then return held end
  if held == nil then errors.raise_plain(code, "%s", message) end
  job.show.note(("waiting for another pull of %s"):format(job.repo))
  return must(fs.lock(path, true))
end

local function total_of(job, files)
  local total, missing, counted = 0, 0, {}
  for _, file in ipairs(files) do
    total = total + file.size
    local blob = job.dir .. "/blobs/" .. file.sum
    if fs.size(blob) ~= file.size and not counted[file.sum] then
      counted[file.sum] = true
      missing = missing + math.max(0, file.size - (fs.size(blob .. ".incomplete") or 0))
    end
  end
  return total, missing
end

local function check_space(job, missing)
  local free = fs.free(job.dir)
  if free and missing > free then
    errors.raise_plain("EIO", "%s: %.1f MB are to come, but the disk of %s has only %.1f MB free; "
      .. "make room, or set HF_HOME", job.name, missing / 1e6, job.cache, free / 1e6)
  end
end

local function is_offline()
  local value = (os.getenv("HF_HUB_OFFLINE") or os.getenv("TRANSFORMERS_OFFLINE") or ""):upper()
  return value == "1" or value == "ON" or value == "YES" or value == "TRUE"
end

-- o: { name = "ORG/REPO" or "ORG/REPO@REVISION", kind = "model" | "dataset", include = patterns,
-- show = { note = function(text), files = function(count, bytes, missing),
-- bytes = function(file, n), file = function(file, was_brought) } }
-- Returns the directory of the snapshot and its commit.
function pull.run(o)
  local repo, revision = o.name:match("^([^@]*)@?(.*)$")
  local job = { name = o.name, repo = repo, revision = revision ~= "" and revision or "main",
    kind = o.kind, show = o.show, dir = core.hub_repo(o.name, o.kind), cache = core.hub_cache(),
    path = (o.kind == "dataset" and "datasets/" or "") .. repo }
  if is_offline() then
    errors.raise_plain("EARG", "%s: HF_HUB_OFFLINE is set, so nothing is downloaded; unset it",
      o.name)
  end
  local hub = remote.new(o.show)
  local commit, files = describe(hub, job)
  local selected = listing.select(files, o.kind, o.include, o.name)
  must(fs.mkdirs(job.dir .. "/blobs"))
  if not fs.exists(job.cache .. "/CACHEDIR.TAG") then
    must(fs.write(job.cache .. "/CACHEDIR.TAG", cachedir_tag))
  end
  local _ <close> = lock(job)
  local total, missing = total_of(job, selected)
  check_space(job, missing)
  job.show.files(#selected, total, missing)
  for _, file in ipairs(selected) do job.show.file(file, bring(hub, job, commit, file)) end
  local snapshot = make_snapshot(job, commit, selected)
  set_reference(job, commit)
  return snapshot, commit
end

return pull
