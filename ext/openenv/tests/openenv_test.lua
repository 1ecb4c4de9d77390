-- grpo.openenv: addresses, messages, and an environment whose server is a function of this test.

local grpo = require "grpo"
local core = require "grpo.core"
local messages = require "grpo.openenv.messages"

local function refused(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function observation(text, reward, done)
  return core.json_encode { type = "observation",
    data = { observation = { text = text, n = 3, list = { 1 } }, reward = reward, done = done } }
end

-- Calls f while answer(message, number of the connection) is the server: it returns a text; or nil
-- and a problem, nil if it says nothing.  Returns the messages that it got, as texts.
local function with_server(answer, f)
  local real, got, connections = core.websocket, {}, 0
  core.websocket = function(place)
    connections = connections + 1
    local number, last = connections, nil
    got[#got + 1] = "open " .. place.address
    return {
      send = function(_, text)
        last = core.json_decode(text)
        got[#got + 1] = last.type
      end,
      wait = function() return answer(last, number) end,
      close = function() got[#got + 1] = "gone" end,
    }
  end
  local ok, err = pcall(f)
  core.websocket = real
  if not ok then error(err, 0) end
  return got
end

local function half() return 0.5 end

local function open(o)
  o.url, o.action, o.observation = o.url or "http://there", o.action or "text",
    o.observation or "text"
  o.backoff = 0
  return grpo.openenv(o)
end

describe("an address of an environment", function()
  it("is read", function()
    for url, want in pairs {
      ["http://127.0.0.1:8000"] = { address = "127.0.0.1", port = 8000, path = "/ws", tls = false },
      ["wss://a.b-c.org/e/"] = { address = "a.b-c.org", port = 443, path = "/e/ws", tls = true },
      ["ws://[::1]:9/x"] = { address = "::1", port = 9, path = "/x/ws", tls = false },
    } do assert.same(want, messages.place(url)) end
  end)

  it("is refused if it is not one", function()
    for _, url in ipairs { "x", "ftp://a", "http://", "http://a:0", "http://a:70000", "http://a b",
      "http://u@a", "http://a:x", "http://a\r\nb", "http://a/b\r\nHost: c" } do
      assert.is_nil(messages.place(url))
    end
    assert.matches("openenv.url: got x, want an address", refused(open, { url = "x" }))
    assert.matches("the variable NOT_SET is not set", refused(open, { key_env = "NOT_SET" }))
  end)
end)

describe("a message of an environment", function()
  it("is an observation or a problem", function()
    assert.same({ observation = { a = 1 }, reward = 0.5, done = true }, messages.read(
      '{"type":"observation","data":{"observation":{"a":1},"reward":0.5,"done":true}}'))
    assert.is_nil(messages.read(
      '{"type":"observation","data":{"observation":{},"reward":null,"done":false}}').reward)
    assert.same({ nil, "no room", "CAPACITY_REACHED" },
      { messages.read '{"type":"error","data":{"message":"no\\nroom","code":"CAPACITY_REACHED"}}' })
    for text, want in pairs { ["{"] = "not JSON", ["[]"] = "without data", ["5"] = "without data",
      ['{"type":"state","data":{}}'] = "not an observation",
      ['{"type":"observation","data":{"observation":[1]}}'] = "not an observation",
      ['{"type":"observation","data":{"observation":{},"reward":"x"}}'] = "not a finite number",
      ['{"type":"observation","data":{"observation":{},"reward":1e999}}'] = "not",
      ['{"type":"error","data":{"message":5}}'] = "it has failed" } do
      local read, problem = messages.read(text)
      assert.is_nil(read)
      assert.matches(want, problem)
    end
  end)
end)

describe("an environment behind an address", function()
  it("is reset with a seed, stepped and left", function()
    local sent = {}
    local got = with_server(function(message)
      sent[#sent + 1] = core.json_encode(message.data)
      return observation(message.type, 1, message.data.text == "end")
    end, function()
      local env = open { reset = function(row) return { level = row.level } end }
      local state, first = env.reset({ level = 2 }, half)
      assert.equal("reset", first)
      assert.same({ "step", 1 }, { env.step(state, "go", {}) })
      assert.same({ nil, 1 }, { env.step(state, "end", {}) })
      env.close(state)
      env.close(state)
    end)
    assert.same({ '{"level": 2, "seed": 1073741824}', '{"text": "go"}', '{"text": "end"}' }, sent)
    assert.same({ "open there", "reset", "step", "step", "close", "gone" }, got)
  end)

  it("has actions and observations of the script's own", function()
    with_server(function(message)
      return observation(tostring(message.data.number), false)
    end, function()
      local env = open { action = function(text) return { number = #text } end,
        observation = function(o) return o.text .. o.n end }
      local state = env.reset({}, half)
      assert.same({ "33", false }, { env.step(state, "abc", {}) })
      assert.equal("3", select(2, open({ observation = "n" }).reset({}, half)))
      assert.equal("[1]", select(2, open({ observation = "list" }).reset({}, half)))
      assert.matches("has no field 'txt', but: list, n, text",
        refused(open({ observation = "txt" }).reset, {}, half))
      assert.matches("action returned a number",
        refused(open({ action = function() return 5 end }).step, state, "a", {}))
      assert.matches("reset returned a nil",
        refused(open({ reset = function() end }).reset, {}, half))
    end)
  end)

  it("is tried again where a reset fails, and not where a step does", function()
    local got = with_server(function(message, number)
      if number == 1 then return nil, "it has closed the connection" end
      if number == 2 then
        return '{"type":"error","data":{"message":"full","code":"CAPACITY_REACHED"}}'
      end
      if message.type == "step" then return nil, nil end
      return observation "there"
    end, function()
      local env = open { timeout = 0.01 }
      local state, text = env.reset({}, half)
      assert.equal("there", text)
      assert.matches("openenv: http://there: step: it has not answered within 0.01 seconds",
        refused(env.step, state, "a", {}))
      assert.matches("the session is over", refused(env.step, state, "a", {}))
    end)
    assert.equal(3, select(2, table.concat(got, " "):gsub("open", "")))
  end)

  it("costs one line where it cannot be", function()
    local count = 0
    with_server(function()
      count = count + 1
      return '{"type":"error","data":{"message":"full","code":"CAPACITY_REACHED"}}'
    end, function()
      assert.matches("reset: full; start the server with a max_concurrent_envs",
        refused(open({ retries = 2 }).reset, {}, half))
    end)
    assert.equal(3, count)
    with_server(function()
      return '{"type":"error","data":{"message":"bad row","code":"EXECUTION_ERROR"}}'
    end, function() assert.matches("reset: bad row$", refused(open({}).reset, {}, half)) end)
    with_server(function() return observation("x", 0, true) end, function()
      assert.matches("over before the model's first turn", refused(open({}).reset, {}, half))
    end)
  end)

  it("is told where nobody listens", function()
    if core.websocket_library() == "none" then return pending "no libwebsockets" end
    local env = grpo.openenv { url = "http://127.0.0.1:9", action = "text", observation = "text",
      retries = 0, timeout = 20 }
    local said = refused(env.reset, {}, half)
    assert.matches("^openenv: http://127.0.0.1:9: reset: [^\n]+$", said)
  end)
end)

describe("a connection", function()
  it("may be left at any moment", function()
    -- it listens, and never answers
    local server = core.websocket_library() ~= "none" and core.http_listen { purpose = "a test" }
    if not server then return pending "needs libwebsockets and libmicrohttpd" end
    for round = 1, 10 do
      for _ = 1, 20 do
        local one = core.websocket { address = "127.0.0.1", port = server:port(), path = "/ws" }
        if round % 2 == 0 then core.process.sleep(0.0003) end
        one:send "{}"
        one:close()
      end
      core.process.sleep(0.005)
    end
    server:close()
  end)
end)
