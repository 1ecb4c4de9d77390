-- Reads the files of a run: facts, metrics, evaluations, completions.  It writes nothing, so a live
-- run may be read; an incomplete last line is left out.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local lines = require "grpo.runs.lines"
local options = require "grpo.options"
local schema = require "grpo.loop.schema"
local row_log = require "grpo.runs.row_log"
local sums = require "grpo.loop.sums"
local rundir = require "grpo.runs.directory"
local stage_options = require "grpo.runs.stage_options"

local fs, must = core.fs, errors.must
local history = {}

-- Returns the directory of the run that a word on the command line names: a path, or a name below
-- `root` (default: runs).
function history.find(word, root)
  if fs.exists(word .. "/run.json") then return (word:gsub("(.)/+$", "%1")) end
  root = root or "runs"
  local dir = root .. "/" .. word
  if not word:find("/", 1, true) and fs.exists(dir .. "/run.json") then return dir end
  if fs.isdir(word) then
    errors.raise_plain("ENOENT", "%s: not a run directory: it has no run.json", word)
  end
  local names = {}
  for _, one in ipairs(rundir.list(root)) do names[#names + 1] = one.name end
  local near = options.nearest(word, names)
  errors.raise_plain("ENOENT", "%s: no such run%s", word, near and (", did you mean '%s'?")
    :format(near)
    or ("; 'grpo runs%s' lists them"):format(root ~= "runs" and " --dir " .. root or ""))
end

-- Opens a file of a run for reading.
function history.reader(path)
  must(fs.check_input(path))
  return must(io.open(path, "rb"))
end

-- Returns the row in a line, and the number that it has in its log, or nil; nil and what is wrong
-- with it.
local function row_of(line)
  local state = sums.state(line)
  if state == "damaged" then return nil, "its bytes are not those of its checksum" end
  local ok, row = errors.try(core.json_decode, line)
  if ok and type(row) == "table" then
    local number = state == "intact" and math.tointeger(row.log_line) or nil
    row.crc32c, row.log_line = nil, nil
    return row, number
  end
  return nil, "not a JSON object"
end

-- A last line without its end is being written, or was cut short by a crash.  A whole row with
-- another byte behind it has lost its end in another way.
local function is_incomplete(line)
  return line:sub(-1) ~= "\n" and sums.state(line:sub(1, -2)) ~= "intact"
end

-- Returns the row in a line of a log's file, and the number of the row that has to follow; nil if
-- this is the beginning of a row that is being written, and for an empty line, which stands for
-- rows that were lost.  wanted: the number that the row has to have; nil: any.
function history.checked_row(name, line, path, number, wanted)
  if line == "\n" then return nil end
  local row, of_log = row_of(line)
  if row and of_log and wanted and of_log ~= wanted then
    errors.raise_plain("EFORMAT", "%s:%d: row %d of the log stands here, where row %d has to be; "
      .. "the file is damaged: restore it from a copy, or %s", path, number, of_log, wanted,
      of_log < wanted and "take this line away if the row stands above it, too"
      or "put an empty line in the place of the rows that are lost")
  end
  if row then return schema.check(schema.shapes[name], row, path, number), of_log and of_log + 1 end
  if is_incomplete(line) then return nil end
  return errors.raise_plain("EFORMAT", "%s:%d: %s; the file is damaged: restore the line from a "
    .. "copy, or leave it empty", path, number, of_log)
end

-- Raises if a log has ended too early.  before: what run.json said before the log was read, because
-- a run that trains, or is resumed, changes both.
local function check_end(dir, name, before, last)
  local problem = row_log.cut_short(dir, name, before, last)
  if not problem then return end
  local now = rundir.read(dir, "run") or {}
  if now.finished ~= before.finished or not now.log_lines then return end
  errors.raise_plain("EFORMAT", "%s; the file is damaged: restore it from a copy, or put an empty "
    .. "line in the place of the rows that are lost", problem)
end

-- Iterates over the rows of NAME.jsonl, or of FOLDER/NAME.jsonl: number of the line, row.  A
-- missing file has no rows.
function history.rows(dir, name)
  local kind, path = name:match "^[^/]+", row_log.path(dir, name)
  local info = row_log.is_log(name) and rundir.read(dir, "run")
  local file, number, wanted = row_log.reader(path), 0, nil
  local next_line = file and lines.reader(file, path, 0)
  local last = 0 -- the number of the row that was read last, nil: it is not known
  return function()
    local line, row
    repeat
      line = file and next_line()
      number = number + 1
      if line then
        row, wanted = history.checked_row(kind, line, path, number, wanted)
        if row or line == "\n" then last = wanted and wanted - 1 end
      end
    until line ~= "\n"
    if row then return number, row end
    if file then file:close() end
    file = nil
    check_end(dir, name, info, last)
  end
end

-- Returns all rows of a log as a list; keep(row), optional, chooses.
function history.list(dir, name, keep)
  local list = {}
  for _, row in history.rows(dir, name) do
    if not keep or keep(row) then list[#list + 1] = row end
  end
  return list
end

-- The text of run.log, which may have grown since a run was at its end.
local function notes_of(dir, info)
  local path, last = dir .. "/run.log", info.run_log
  local text = fs.read(path) or ""
  if last and text ~= "" and ("%08x"):format(fs.crc32c(text:sub(1, last.size))) ~= last.crc32c then
    errors.raise_plain("EFORMAT", "%s: it is damaged, because its checksum is not the one in "
      .. "run.json; restore it from a copy, or remove it", path)
  end
  return text
end

-- { dir=, name=, state=, step=, ..., info = run.json, stages = see stage_options.lua, env=,
-- notes = lines }
function history.open(word, root)
  local dir = history.find(word, root)
  local info, run = rundir.verified(dir), rundir.describe(dir)
  run.info, run.env = info, rundir.read(dir, "env") or {}
  run.stages = stage_options.stages(rundir.read(dir, "config"))
  run.notes = {}
  for line in notes_of(dir, info):gmatch("[^\n]+") do run.notes[#run.notes + 1] = line end
  return run
end

return history
