local counted = require "grpo.base.counted"
local core = require "grpo.core"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"
local hub = require "grpo.data.hub"
local terminal = require "grpo.base.terminal"
local text_width = require "grpo.base.text_width"

local command = {
  name = "pull",
  summary = "bring a model or a dataset from the Hugging Face Hub",
  arguments = {
    { name = "NAME", type = "word",
      doc = "a name of the Hub, such as HuggingFaceTB/SmolLM2-135M-Instruct; NAME@REVISION is a "
        .. "branch, a tag or a commit of it" },
  },
  flags = {
    { name = "dataset", instead_of = { "repo-type" },
      doc = "bring a dataset; without this flag NAME is a model or an adapter" },
    { name = "include", type = "word", value = "GLOB", repeated = true,
      doc = "bring only the files whose names match GLOB; * stands for any characters. The flag "
        .. "may be repeated. Without it, all files come but weights in other forms than "
        .. "safetensors, if a model has that" },
    flags.json,
  },
  elsewhere = { revision = "write NAME@REVISION", token = "set HF_TOKEN, or run 'hf auth login'",
    ["local-dir"] = "set HF_HUB_CACHE to have it elsewhere", ["cache-dir"] = "set HF_HUB_CACHE",
    ["force-download"] = "a pull compares every file with its sum, and brings one again that "
      .. "differs",
    exclude = "name what is wanted by --include" },
  about = {
    "Downloads NAME into the Hugging Face cache, where Python tools find it too, and prints its "
      .. "directory. Then NAME can stand wherever a path to a model, a tokenizer or an adapter "
      .. "can: grpo chat NAME, model.path = \"NAME\".",
    "Each file is compared with the sum that the Hub lists for it. A pull that was interrupted "
      .. "leaves nothing that looks whole; the next one continues it.",
  },
  notes = {
    "These variables of the environment are obeyed:",
    {
      { "HF_HUB_CACHE, HF_HOME", "where the cache is (default: ~/.cache/huggingface/hub)" },
      { "HF_TOKEN", "the token for models that are private or have terms; else the file that "
        .. "'hf auth login' writes. It is sent to the Hub alone" },
      { "HF_ENDPOINT", "another address than https://huggingface.co" },
      { "HF_HUB_OFFLINE", "1: nothing is downloaded" },
      { "GRPO_RETRY_SECONDS", "the wait before the first repetition of a request that failed "
        .. "(default: 0.5); each further wait is twice as long, and the sixth failure in a row "
        .. "ends the pull" },
      { "https_proxy", "a proxy, as curl reads it; a token without encryption goes past it" },
    },
    "Exit status: 0 it is there, 2 the Hub refuses it or NAME is wrong, 3 the Hub does not have it "
      .. "or sent wrong bytes, 5 the network or the disk failed.",
  },
}

local REDRAW_SECONDS = 0.2

-- ---- what one sees -----------------------------------------------------------------------------

local function size_text(bytes)
  for _, unit in ipairs { { 1e9, "GB" }, { 1e6, "MB" }, { 1e3, "kB" } } do
    if bytes >= unit[1] then return ("%.3g %s"):format(bytes / unit[1], unit[2]) end
  end
  return ("%d bytes"):format(bytes)
end

local Progress = {}
Progress.__index = Progress

local function new_progress(name)
  return setmetatable({ name = name, live = terminal.takes_escapes(2), total = 0, done = 0,
    began = core.clock(), drawn = 0, brought = 0 }, Progress)
end

function Progress:line(text)
  core.draw(2, (self.live and "\r\27[K" or "") .. display.clean(text) .. "\n")
end

-- The functions that pull.run calls to show its course.
function Progress:view()
  return {
    note = function(text) self:line(text) end,
    files = function(count, bytes, missing)
      self.total = missing
      self:line(("%s: %s, %s%s"):format(self.name, counted(count, "file"), size_text(bytes),
        missing == 0 and ", all of which are here" or missing < bytes
        and ", of which " .. size_text(missing) .. " are to come" or ""))
    end,
    bytes = function(file, n)
      if file ~= self.file then self.file, self.first = file, n end
      self:draw(n)
    end,
    file = function(file, was_brought)
      if not was_brought then return end
      self.done = self.done + file.size - (self.file == file and self.first or 0)
      self.brought = self.brought + 1
      if not self.live then self:line(("%s  %s"):format(file.name, size_text(file.size))) end
    end,
  }
end

function Progress:draw(n)
  local now = core.clock()
  if not self.live or now - self.drawn < REDRAW_SECONDS then return end
  self.drawn = now
  local done = self.done + n - self.first
  local speed = done / math.max(now - self.began, 0.1)
  local left = speed > 0 and (self.total - done) / speed or 0
  local text = ("%3d%%  %s of %s  %s/s  %s left  %s"):format(
    math.min(100, 100 * done // math.max(self.total, 1)), size_text(done), size_text(self.total),
    size_text(speed), display.seconds_text(math.max(0, left) // 1 | 0),
    display.clean(self.file.name))
  core.draw(2, "\r\27[K" .. text_width.cut(text, (core.term_width() or 80) - 1))
end

function Progress:close()
  if self.live then core.draw(2, "\r\27[K") end
end

function command.run(o)
  local name = o.words[1]
  if not core.hub_is_name(name) then
    local inner = hub.name_in(name)
    errors.raise_plain("EARG", "pull: %s is not a name of the Hub; %s", name, inner
      and "write " .. inner or "want ORGANISATION/REPOSITORY, perhaps with @REVISION")
  end
  local progress = new_progress(name)
  local ok, dir, commit = core.protected(require("grpo.data.hub.pull").run, { name = name,
    kind = o.flags.dataset and "dataset" or "model", include = o.flags.include or {},
    show = progress:view() })
  progress:close()
  if not ok then error(dir, 0) end
  core.out(o.flags.json and core.json_encode { path = dir, commit = commit,
    files_downloaded = progress.brought } .. "\n" or dir .. "\n")
end

return command
