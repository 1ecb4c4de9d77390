-- Flips one bit in bytes of every file of a run, and looks at what each command does with the run.
-- A command either reports the damage, or does the same as with the undamaged run.
--
--   GRPO=grpo STRIDE=100 PART=1/2 grpo repl < flips.lua
--
-- The current directory has whole/tiny-001, a finished run; twin/tiny-001, a copy of it; and
-- crashed/tiny-001, a run with a checkpoint before the end and further rows in its logs.
-- STRIDE=1 tries every byte.  With larger strides, a file is tried for a command only if the
-- command does something else when the file has other contents.  PART=1/2 is the first half of the
-- bytes.
-- The output has a line for each failure, and one with the numbers of trials, reports and failures.

local core = require "grpo.core"
local sorted_pairs = require "grpo.base.sorted"

local fs = core.fs
local stride = tonumber(os.getenv "STRIDE" or 1)
local part, parts = (os.getenv "PART" or "1/1"):match("(%d+)/(%d+)")
part, parts = tonumber(part), tonumber(parts)

-- ---- files ------------------------------------------------------------------------------------

-- { [name within the directory] = contents } of regular files.
local function contents_of(dir)
  local found = {}
  local function walk(folder, prefix)
    for _, name in ipairs(fs.list(folder) or {}) do
      local path = folder .. "/" .. name
      if fs.isdir(path) then
        if not fs.readlink(path) then walk(path, prefix .. name .. "/") end
      else
        found[prefix .. name] = fs.read(path)
      end
    end
  end
  walk(dir, "")
  return found
end

-- Without a sync, because this is done thousands of times.
local function put(path, text)
  local file <close> = assert(io.open(path, "r+b"))
  file:write(text)
end

local function flipped(text, at)
  return text:sub(1, at - 1) .. string.char(text:byte(at) ~ 1 << at % 8) .. text:sub(at + 1)
end

local function execute(command)
  local _, _, status = os.execute(command .. " >out 2>err </dev/null")
  return { status = status, out = fs.read("out"), err = fs.read("err") }
end

-- ---- what a command did -----------------------------------------------------------------------

-- A picture is text that is the same whenever a command does the same.

local function same_output(result)
  return result.status .. "\n" .. result.out
end

local function with_files(result, path)
  local list = { same_output(result) }
  for name, text in sorted_pairs(fs.isdir(path) and contents_of(path) or { fs.read(path) or "" }) do
    list[#list + 1] = ("%s %d %08x"):format(name, #text, fs.crc32c(text))
  end
  fs.remove_tree(path)
  return table.concat(list, "\n")
end

-- The picture of a resume: the checkpoints, and how the run ended.
local function of_resume(result, dir)
  if result.status ~= 0 then return same_output(result) end
  local list = {}
  for name, text in sorted_pairs(contents_of(dir .. "/checkpoints")) do
    list[#list + 1] = ("%s %08x"):format(name, fs.crc32c(text))
  end
  local info = core.json_decode(fs.read(dir .. "/run.json"))
  list[#list + 1] = core.json_encode { info.state, info.step, info.summary or {} }
  return table.concat(list, "\n")
end

-- A resume may lose no line of a log: each line is still in a file of the log, or in FILE.damaged,
-- or the resume makes it again.
local function lost_line(dir, name, text)
  if not name:find("%.jsonl$") then return nil end
  local now = ""
  for _, file in ipairs(fs.list(dir)) do
    if file:find("%.jsonl") then now = now .. fs.read(dir .. "/" .. file) end
  end
  for line in text:gmatch("[^\n]+") do
    local ok, row = pcall(core.json_decode, line)
    local made_again = ok and row.step == 2
    if not made_again and not now:find(line, 1, true) then return "lost: " .. line:sub(1, 60) end
  end
end

local grpo = os.getenv "GRPO"
local commands = {
  { name = "generate", on = "whole", line = "%s generate %s 1+1= --max-new-tokens 3",
    picture = same_output },
  { name = "chat", on = "whole", line = "echo 1+1= | %s chat %s --max-new-tokens 3", piped = true,
    picture = same_output },
  { name = "repl", on = "whole", line = "echo 'print(#m:generate(\"1\", { max_new_tokens = 3 })"
    .. "[1].ids, tr.step_count)' | %s repl %s", piped = true, picture = same_output },
  { name = "export", on = "whole", line = "%s export %s exported",
    picture = function(result) return with_files(result, "exported") end },
  { name = "eval", on = "whole", line = "%s eval %s", picture = same_output },
  { name = "report", on = "whole", line = "%s report %s --out page.html",
    picture = function(result) return with_files(result, "page.html") end },
  { name = "diff", on = "whole", line = "%s diff %s twin/tiny-001 --json", picture = same_output },
  { name = "replay", on = "whole", line = "%s replay %s", picture = same_output },
  { name = "runs", on = "whole", line = "%s runs --dir whole", picture = same_output },
  { name = "resume", on = "crashed", line = "%s run --quiet --resume=%s", picture = of_resume,
    writes = true },
}

-- Returns the picture of what a command does with the run, and its result.
local function try(command, dir)
  local line = command.line:format(grpo, dir)
  local result = execute(command.piped and ("sh -c '%s'"):format(line:gsub("'", "'\\''")) or line)
  return command.picture(result, dir), result
end

-- The prompt opens what can be opened, and says what cannot.
local function says_damage(result, command)
  local lines = select(2, result.err:gsub("\n", ""))
  if result.status == 3 and lines == 1 then return true end
  if command.name == "repl" and result.err:find("missing", 1, true) then return true end
  return result.out:find("damaged", 1, true) or result.err:find("damaged", 1, true)
end

-- Runs that a command writes to are copied for each trial.
local function with_run(command, name, text, original, f)
  local dir = command.on .. "/tiny-001"
  if command.writes then
    os.execute(("rm -rf copy; mkdir copy; cp -a %s copy/"):format(dir))
    dir = "copy/tiny-001"
  end
  put(dir .. "/" .. name, text)
  local result = f(dir)
  if not command.writes then put(dir .. "/" .. name, original) end
  return result
end

-- ---- trials -----------------------------------------------------------------------------------

local trials, reports, failures = 0, 0, 0

local function verdict(command, want, dir, name, text)
  local picture, result = try(command, dir)
  local said = says_damage(result, command)
  reports = reports + (said and 1 or 0)
  if said and (result.status ~= 0 or command.name == "runs") then return nil end
  if picture ~= want then
    return ("does something else: status %d: %s"):format(result.status, result.err)
  end
  return command.writes and lost_line(dir, name, text)
end

local function trial(command, want, name, original, at)
  local text = flipped(original, at)
  trials = trials + 1
  local problem = with_run(command, name, text, original, function(dir)
    return verdict(command, want, dir, name, text)
  end)
  if not problem then return end
  failures = failures + 1
  print(("%s with byte %d of %s flipped (%q): %s"):format(command.name, at, name,
    original:sub(math.max(1, at - 10), at + 10), problem))
end

-- Does a command do something else with other contents of the file?
local function depends(command, want, name, original)
  local other = original:gsub("[%w%s]", "?")
  if other == original then other = ("?"):rep(#original) end
  return with_run(command, name, other, original, function(dir)
    local picture, result = try(command, dir)
    return picture ~= want or result.err ~= ""
  end)
end

-- The first byte differs from file to file, so that files shorter than the stride are tried too.
local function trials_of(command, want, name, original)
  local first = fs.crc32c(name .. command.name) % stride + 1
  if first > #original then first = first % #original + 1 end
  for at = first, #original, stride do
    if (at // stride) % parts == part - 1 then trial(command, want, name, original, at) end
  end
end

for _, command in ipairs(commands) do
  local want = with_run(command, "run.json", "", "", function(dir) return (try(command, dir)) end)
  for name, original in sorted_pairs(contents_of(command.on .. "/tiny-001")) do
    if #original > 0 and (stride == 1 or depends(command, want, name, original)) then
      trials_of(command, want, name, original)
    end
  end
end
print(("%d trials, %d reported, %d failures"):format(trials, reports, failures))
