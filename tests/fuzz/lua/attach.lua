-- Any lines of the other side of `grpo attach`.  The run answers each request with one line, and
-- runs a text only if the request is one; the client shows what it gets without control characters,
-- or ends with one line.
local attach_server = require "grpo.commands.repl.attach_server"
local client = require "grpo.commands.attach"
local core = require "grpo.core"
local expect = require "expect"
local session = require "grpo.commands.repl.session"

local dir = expect.directory()
expect.put(dir .. "/run.json",
  '{"format": 1, "state": "running", "name": "run-001", "script": "x"}\n')

-- ---- the run's side -----------------------------------------------------------------------------

local function ignore() end

-- A session that runs nothing: it says what it was asked.
local function silent_session(options)
  return { run = function(_, text)
    options.look()
    options.out(text)
    return text:find("more", 1, true) ~= nil
  end }
end

local function events_of(lines)
  local list = { { "opened", 0, "" } }
  for i, line in ipairs(lines) do
    if line == "bye" then
      list[#list + 1] = { "gone", 0, "" }
      list[#list + 1] = { "opened", 0, "" }
    else
      list[#list + 1] = { "text", 0, line }
    end
    if i % 5 == 0 then list[#list + 1] = {} end
  end
  return list
end

local function check_server(lines)
  local list, sent = events_of(lines), {}
  local server = { close = ignore, wait = ignore,
    next = function() return table.unpack(table.remove(list, 1) or {}) end,
    send = function(_, _, text) sent[#sent + 1] = text end }
  local directory = { dir = dir, info = { name = "run" }, note = ignore }
  local tr = { directory = directory, step_count = 1, total_steps = function() return 2 end }
  local listen, new = core.channel.listen, session.new
  core.channel.listen = function() return server end
  session.new = silent_session
  local control = attach_server.open(tr)
  local ok, err = pcall(function()
    while #list > 0 do control:serve_some() end
  end)
  core.channel.listen, session.new = listen, new
  if not ok then error(err, 0) end
  for _, text in ipairs(sent) do
    expect.truth(not text:find("\n", 1, true), "an answer of several lines")
    core.json_decode(text, "answer")
  end
end

-- ---- the client's side --------------------------------------------------------------------------

-- terminal: whether there is one.
local function check_client(lines, terminal)
  local at, asked, shown = 0, 0, {}
  local channel = setmetatable({ write = function() return true end, read = function()
    at = at + 1
    return lines[at]
  end }, { __close = ignore })
  local function question()
    asked = asked + 1
    return asked < 4 and "1 + 1" or nil
  end
  local saved = { core.channel.connect, core.out, core.err, core.isatty, core.edit, io.lines }
  core.channel.connect = function() return channel end
  core.out = function(text) shown[#shown + 1] = text end
  core.err, core.isatty = core.out, function() return terminal end
  core.edit = { open = ignore, close = ignore, remember = ignore, read = question }
  rawset(io, "lines", function() return question end)
  local ok, err = pcall(client.run, { words = { dir }, flags = {} })
  core.channel.connect, core.out, core.err, core.isatty, core.edit = table.unpack(saved)
  rawset(io, "lines", saved[6])
  if not ok then expect.refused(err) end
  expect.truth(at > 0, "the client has not read")
  local text = table.concat(shown):gsub("\27%[[%d;]*m", "")
  expect.truth(not text:find("[\0-\8\11-\31\127]"), "a control character is shown")
end

return function(input)
  local lines = {}
  for line in input:gmatch("([^\n]*)\n?") do lines[#lines + 1] = line end
  check_server(lines)
  -- the client's requests are numbered from 1
  table.insert(lines, 1, '{"hello": "run-001", "step": 1, "steps": 2, "state": "running"}')
  check_client(lines, false)
  check_client(lines, true)
  table.remove(lines, 1)
  check_client(lines, true)
end
