-- A run whose files are damaged: every command that reads it ends with a status, and if that is not
-- 0, with one line that says what is wrong and has no line of ours.
--
-- The run is made when the target starts, so its files are those of this version.  An input is a
-- list of damages: the byte of a command, one of flags, and for each damage four bytes, which are
-- the file, the kind of damage, and a place in 1/65536 of the file; some kinds take a fifth byte.
-- With flag 1 the sums of the changed files are made right again, with flag 2 all options are the
-- run's own.

local cli = require "grpo.commands"
local core = require "grpo.core"
local expect = require "expect"

local fs = core.fs
local root = expect.directory()

-- ---- the run ------------------------------------------------------------------------------------

local script = [[
local grpo = require "grpo"
local rows = {}
for i = 1, 4 do rows[i] = { prompt = i .. "+" .. i .. "=", answer = tostring(2 * i) } end
return grpo.experiment {
  name = "run",
  model = { config = { model_type = "llama", hidden_size = 8, intermediate_size = 8,
    num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 16 },
    tokenizer = grpo.tokenizer.chars("0123456789+=") },
  data = { train = grpo.data.list(rows), eval = grpo.data.list { rows[1] }, max_prompt_tokens = 5,
    target = function(row) return row.answer end },
  sampling = { group_size = 2, max_new_tokens = 3 },
  rewards = { digits = function(text) return select(2, text:gsub("%d", "")) / 3 end },
  stages = { { kind = "sft", train = { steps = 1 } },
    { kind = "grpo", train = { steps = 3, kl = 0.05 } } },
  train = { prompts_per_step = 1, lr = 1e-2 },
  eval = { every = 1 },
  checkpoint = { every = 1, keep = 2 },
  hooks = { on_step = function(m, tr)
    tr.state.count = (tr.state.count or 0) + 1
    tr.state.list = { 1, "two", { true } }
    tr:append("notes", m.step .. "\n")
  end },
}
]]

local report, isatty = cli.report, core.isatty
local out, err = core.out, core.err

-- Returns the status of a command, what it writes, and the error that it reports.
local function command(words)
  local shown, reported = {}, nil
  core.out = function(text) shown[#shown + 1] = text end
  core.err, core.isatty = core.out, function() return false end
  function cli.report(e)
    reported = e
    return report(e)
  end
  local ok, status = pcall(cli.main, words)
  core.out, core.err, core.isatty, cli.report = out, err, isatty, report
  if not ok then error(status, 0) end
  return status, table.concat(shown), reported
end

expect.put(root .. "/script.lua", script)
local done, output_of_run = command { "run", root .. "/script.lua", "--dir=" .. root .. "/runs",
  "--steps=3", "--quiet" }
assert(done == 0, output_of_run)
local dir, pristine = root .. "/runs/run-001", root .. "/runs/run-002"
expect.put(dir .. "/events.jsonl", [[
{"kind": "weight", "name": "digits", "value": 0.5, "step": 2, "stage": 2}
{"kind": "set", "path": "train.lr", "value": 0.001, "step": 2, "stage": 2}
{"kind": "evaluate", "step": 2, "stage": 2}
]])

-- Its files, { path below the run, text }, and its links, { path, target }.
local files, links = {}, {}
local function collect(below)
  for _, name in ipairs(fs.list(dir .. below)) do
    local path = below .. "/" .. name
    if fs.readlink(dir .. path) then
      links[#links + 1] = { path, fs.readlink(dir .. path) }
    elseif fs.isdir(dir .. path) then
      collect(path)
    else
      files[#files + 1] = { path, fs.read(dir .. path) }
    end
  end
end
collect("")
local function restore(to)
  fs.remove_tree(to)
  for _, file in ipairs(files) do
    assert(fs.mkdirs((to .. file[1]):match("^(.*)/")))
    expect.put(to .. file[1], file[2])
  end
  for _, link in ipairs(links) do assert(fs.link(link[2], to .. link[1])) end
end
restore(pristine)

-- ---- damages ------------------------------------------------------------------------------------

local words = { "0", "1", "-1", "2", "3", "4", "1e308", "0.5", "9007199254740993", "1000000",
  "4294967296", "9223372036854775807", "null", "true", "false", '""', '"x"', "[]", "{}", "[[1]]",
  '{"a": 1}', '"../../../etc/passwd"', '"\\u001b[31m"', '"grpo"', '"nan"', "[null]" }

-- The places of the JSON values in a text: { first, last }.
local function values(text)
  local list, at = {}, 1
  while #list < 4000 do
    local first = text:find('["%-%d%[{tfn]', at)
    if not first then break end
    local c, last = text:sub(first, first), first
    if c == '"' then
      repeat
        last = text:find('"', last + 1, true)
      until not last or text:sub(last - 1, last - 1) ~= "\\"
    elseif c == "[" or c == "{" then
      last = select(2, text:find(c == "[" and "^%b[]" or "^%b{}", first))
    else
      last = select(2, text:find("^[%w%.%+%-]+", first))
    end
    if last then list[#list + 1] = { first, last } end
    at = ((c == "[" or c == "{") and first or last or first) + 1
  end
  return list
end

-- Replaces a value of JSON, in a safetensors file one of its header, whose length is made to fit.
local function replace_value(s, place, by)
  local header = s:sub(9, 9) == "{" and s:byte(8) == 0 and string.unpack("<I8", s)
  if header then
    local new = replace_value(s:sub(9, 8 + header), place, by)
    return string.pack("<I8", #new) .. new .. s:sub(9 + header)
  end
  local list = values(s)
  if #list == 0 then return s end
  local one = list[1 + place * #list // 65536]
  return s:sub(1, one[1] - 1) .. by .. s:sub(one[2] + 1)
end

local function replace_line(s, place, by)
  local lines = {}
  for line in s:gmatch("[^\n]*\n?") do
    if line ~= "" then lines[#lines + 1] = line end
  end
  if #lines == 0 then return s end
  local i = 1 + place * #lines // 65536
  lines[i] = by(lines[i], lines[#lines - i + 1])
  return table.concat(lines)
end

-- Each returns the new text; nil: the file is gone.
local damages = {
  function(s, at) return s:sub(1, at) end,
  function(s, at, _, next_byte)
    return s:sub(1, at) .. string.char(next_byte()) .. s:sub(at + 2)
  end,
  function(s, at, _, next_byte)
    local bit = 1 << next_byte() % 8
    return s:sub(1, at) .. s:sub(at + 1, at + 1):gsub(".", function(c)
      return string.char(c:byte() ~ bit)
    end) .. s:sub(at + 2)
  end,
  function(s, at, _, next_byte) return s:sub(1, at) .. s:sub(at + 1 + next_byte()) end,
  function(s, at, _, next_byte)
    return s:sub(1, at) .. ("\0"):rep(next_byte()) .. s:sub(at + 1)
  end,
  function() return nil end,
  function() return "" end,
  function(s, _, place, next_byte)
    return replace_value(s, place, words[1 + next_byte() % #words])
  end,
  function(s, _, place, next_byte)
    return replace_value(s, place, words[1 + next_byte() % #words])
  end,
  function(s, _, place) return replace_line(s, place, function(a) return a .. a end) end,
  function(s, _, place) return replace_line(s, place, function() return "" end) end,
  function(s, _, place) return replace_line(s, place, function(_, b) return b end) end,
  function(_, _, place) return files[1 + place % #files][2] end,
  function(s, _, _, next_byte) return s .. s:sub(-next_byte() - 1) end,
}

local function entry_of(text)
  local path = root .. "/sum"
  expect.put(path, text)
  local crc, size = fs.checksum(path)
  return { size = size, crc32c = ("%08x"):format(crc) }
end

-- The text of an object that ends in the sum of its bytes before, with the right sum.
local function with_own_sum(text)
  local at, digits = text:match('(),%s*"crc32c": "()%x%x%x%x%x%x%x%x"%s*}%s*$')
  if not at then return text end
  return text:sub(1, digits - 1) .. entry_of(text:sub(1, at - 1)).crc32c .. text:sub(digits + 8)
end

local function own_sums_again(path, text)
  if path:find("%.json$") then return with_own_sum(text) end
  return path:find("%.jsonl$") and text:gsub("[^\n]+", with_own_sum) or text
end

-- In the manifest of the checkpoint that has the file.
local function list_again(path, text)
  local at, name = path:match("^(/checkpoints/[^/]+)/(.*)$")
  local manifest = at and name ~= "manifest.json" and dir .. at .. "/manifest.json"
  local ok, value = pcall(core.json_decode, manifest and fs.read(manifest) or "")
  if ok and type(value) == "table" and type(value.files) == "table" then
    value.files[name] = entry_of(text)
    expect.put(manifest, core.json_encode(value))
  end
end

-- Makes the sums of changed files right: their own, those in run.json, those of checkpoints.
local function sum_again(changed)
  local facts = fs.read(dir .. "/run.json") or ""
  for path, text in pairs(changed) do
    if text then
      text = own_sums_again(path, text)
      expect.put(dir .. path, text)
      local listed = path:sub(2):gsub("%p", "%%%0")
      facts = facts:gsub('("' .. listed .. '": ")%x%x%x%x%x%x%x%x"', function(head)
        return head .. entry_of(text).crc32c .. '"'
      end)
      list_again(path, text)
    end
  end
  if fs.exists(dir .. "/run.json") then expect.put(dir .. "/run.json", with_own_sum(facts)) end
end

-- Applies the damages that next_byte() describes, until there are no more.
local function damage(next_byte, more)
  local changed = {}
  while more() do
    local file = files[1 + next_byte() % #files]
    local kind = 1 + next_byte() % #damages
    local place = next_byte() << 8 | next_byte()
    local old = changed[file[1]]
    if old == nil then old = file[2] end
    if not file[1]:find("^/source/") or kind == 1 or kind == 6 or kind == 7 then
      local new = old and damages[kind](old, place * #old // 65536, place, next_byte)
      changed[file[1]] = new or false
    end
  end
  for path, new in pairs(changed) do
    if new then expect.put(dir .. path, new) else os.remove(dir .. path) end
  end
  return changed
end

-- ---- commands -----------------------------------------------------------------------------------

local commands = {
  { "run", "--resume=" .. dir, "--quiet", "--dir=" .. root .. "/runs" },
  { "run", "--resume=" .. dir, "--quiet", "--force", "--dir=" .. root .. "/runs" },
  { "run", "--resume=" .. dir, "--quiet", "--steps=3", "--dir=" .. root .. "/runs" },
  { "diff", dir, pristine },
  { "diff", pristine, dir },
  { "replay", dir },
  { "eval", dir, "--completions=1" },
  { "generate", dir, "1+1=" },
  { "export", dir, root .. "/exported" },
  { "runs", "--dir", root .. "/runs" },
  { "logs", dir },
}

local function check(what, state, output, reported)
  local all = table.concat(what, " ") .. ": " .. output
  if os.getenv("FUZZ_SHOW") then io.stderr:write(all, "\n") end
  expect.truth(math.type(state) == "integer" and state >= 0 and state <= 5,
    ("status %s: %s"):format(tostring(state), all))
  expect.truth(not output:find(expect.own_line), all)
  expect.truth(not output:find("[\0-\8\11-\31\127]"), "a control character: " .. all)
  if state ~= 0 then
    expect.truth(reported, "no error, but a status: " .. all)
    expect.refused(reported)
    local names_file = tostring(reported):find(root, 1, true)
    expect.truth(reported.code ~= "EFORMAT" or names_file, "names no file: " .. all)
  end
end

return function(input)
  local at = 0
  local function next_byte()
    at = at + 1
    return input:byte(at) or 0
  end
  local what, flags = commands[1 + next_byte() % #commands], next_byte()
  restore(dir)
  local changed = damage(next_byte, function() return at < #input and at < 80 end)
  if flags & 1 ~= 0 then sum_again(changed) end
  check(what, command(what))
  fs.remove_tree(root .. "/exported")
end
