-- grpo.mcp: the tools of a server, what a model reads of them, and servers that are not well.

local grpo = require "grpo"
local core = require "grpo.core"
local messages = require "grpo.mcp.messages"
local tiny = require "tests.lua.tiny"
local tools = require "grpo.options.tools"

local function program(mode, file) return { "sh", "ext/mcp/tests/cases/tools.sh", mode, file } end

local function server(mode, o)
  o = o or {}
  o.command, o.timeout = program(mode, o.file), o.timeout or 5
  o.file = nil
  return grpo.mcp(o)
end

-- Notices are counted, not shown.
local function quiet(f)
  local notice, lines = core.notice, {}
  core.notice = function(text) lines[#lines + 1] = text end
  local ok, err = pcall(f, lines)
  core.notice = notice
  if not ok then error(err, 0) end
  return lines
end

local function complain(path, format, ...) error(path .. ": " .. format:format(...), 0) end

local limits = { instructions = 50000000, memory = 67108864, seconds = 5 }

-- Returns the text that a model reads after its call, and whether the call has failed.
local function called(group, name, arguments)
  return tools.call(tools.list(group, complain), { name = name, arguments = arguments }, limits,
    { rng = core.rng(1, "turn", 0, 0, 0) })
end

local function refused(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe("the tools of a server", function()
  it("are those that it lists, page by page", function()
    local group = server "good"
    local list = tools.list({ theirs = group, own = print }, complain)
    local names = {}
    for i, tool in ipairs(list) do names[i] = tool.name end
    assert.same({ "add", "fail", "get-time", "own" }, names)
    assert.equal("adds", group.add.description)
    assert.same({ "a", "b" }, group.add.parameters.required)
    assert.matches('"properties": {}', core.json_encode(tools.for_template(list)))
  end)

  it("are called, and pings between are answered", function()
    tiny.temporary(function(file)
      local group = server("good", { file = file })
      assert.equal("42", (called(group, "add", { a = 40, b = 2 })))
      assert.same({ "noon", false }, { called(group, "get-time", {}) })
      assert.same({ "error: it went wrong", true }, { called(group, "fail", {}) })
      assert.same({ "error: argument 'b' is missing", true }, { called(group, "add", { a = 1 }) })
      local log = core.fs.read(file)
      assert.matches('"id": "p", "jsonrpc": "2.0", "result": {}', log)
      assert.matches('"code": %-32601', log)
      assert.equal(1, select(2, log:gsub('"method": "initialize"', "")))
    end)
  end)

  it("may be some of them", function()
    local group = server("good", { tools = { "add" } })
    assert.is_nil(group.fail)
    assert.matches("has no tool 'ad'; did you mean 'add'",
      refused(server, "good", { tools = { "ad" } }))
  end)

  it("have names that are there once", function()
    assert.matches("two tools of the name 'add'",
      refused(tools.list, { theirs = server "good", add = print }, complain))
    assert.matches("compact", refused(tools.check_form, "compact",
      tools.list(server("good", { tools = { "get-time" } }), complain), complain))
  end)

  it("are not asked for by options that are wrong", function()
    for text, o in pairs { ["want one of command and url"] = {}, ["mcp.url: got x"] = { url = "x" },
      ["mcp.command: is empty"] = { command = {} }, ["comand"] = { comand = "x" },
      ["got a number in the list"] = { command = { 5 } },
      ["a command has no key"] = { command = "x", key_env = "K" },
      ["the variable NOT_SET is not set"] = { url = "http://127.0.0.1:9", key_env = "NOT_SET" } } do
      assert.matches(text, refused(grpo.mcp, o))
    end
  end)
end)

describe("a server that is not well", function()
  it("is told in one line when it gives no list", function()
    for mode, text in pairs { gone = "it has ended", mute = "it has not answered within",
      wrong = "the inputSchema of its tool 'bad'", twice = "two of its tools have the name 'add'",
      endless = "its list of tools has no end", version = "it names no version",
      null = "its list of tools is not a list" } do
      quiet(function()
        local said = refused(server, mode, { timeout = mode == "mute" and 0.2 or 5 })
        assert.matches("gives no tools, because: " .. text, said)
        assert.is_nil(said:find "\n")
      end)
    end
    quiet(function()
      assert.matches("it has ended", refused(grpo.mcp, { command = { "/no/such/program" } }))
    end)
  end)

  it("costs a call, which the model reads", function()
    for mode, text in pairs { dies = "it has ended", hang = "has not answered within 0.3 seconds",
      garbage = "it wrote what is not JSON", flood = "it writes on and on",
      huge = "a line of more than a mebibyte" } do
      local lines = quiet(function()
        local group = server(mode, { timeout = mode == "hang" and 0.3 or 20 })
        local said, failed = called(group, "get-time", {})
        assert.is_true(failed)
        assert.matches("^error: .*" .. text, said)
      end)
      assert.equal(1, #lines)
    end
  end)

  it("is started again", function()
    tiny.temporary(function(file)
      quiet(function()
        local group = server("once", { file = file })
        assert.is_true(select(2, called(group, "add", { a = 1, b = 2 })))
        assert.equal("3", (called(group, "add", { a = 1, b = 2 })))
      end)
      os.remove(file .. ".again")
    end)
  end)

  it("is not started over and over", function()
    local lines = quiet(function()
      local group = server("dies")
      for _ = 1, 3 do called(group, "get-time", {}) end
      assert.equal("error: the server does not answer", (called(group, "get-time", {})))
    end)
    assert.equal(2, #lines)
  end)

  it("may refuse a call, or change its list", function()
    assert.equal("error: no such thing", (called(server "refuses", "get-time", {})))
    local lines = quiet(function()
      local group = server "changes"
      for _ = 1, 2 do called(group, "get-time", {}) end
    end)
    assert.equal(1, #lines)
    assert.matches("its list of tools has changed", lines[1])
  end)

  it("has its long and odd results cut and told", function()
    local said = called(server("long", { max_result_bytes = 99999 }), "get-time", {})
    assert.equal(("y"):rep(99998) .. "... (cut)", said)
    assert.equal("a\n[image image/png]\n\n[something]\nb\n[resource_link file:///y]",
      (called(server "odd", "get-time", {})))
  end)
end)

describe("an event stream", function()
  it("has the messages between empty lines", function()
    assert.same({ "{}", "a\nb" }, messages.events(
      "id: 0\ndata: \n\nevent: message\r\nid: 1\r\ndata: {}\r\n\r\n: x\n\ndata:a\ndata: b"))
  end)
end)
