local grpo = require "grpo"
local core = require "grpo.core"
local json = grpo.json

describe("json.decode", function()
  it("reads values", function()
    assert.same({ a = { 1, 2.5, "x", true, false }, b = {} },
      json.decode('{"a":[1,2.5,"x",true,false],"b":{}}'))
    assert.equal(json.null, json.decode("null"))
    assert.equal("integer", math.type(json.decode("12")))
    for _, text in ipairs { "1.5", "1e3", "1.0", "-0.0" } do
      assert.equal("float", math.type(json.decode(text)), text)
    end
    assert.equal(9007199254740993, json.decode("9007199254740993"))
    assert.equal("ä\n😀", json.decode('"\\u00e4\\n\\ud83d\\ude00"'))
    assert.equal(9007199254740992, json.decode("9007199254740992"))
  end)
  it("names the place of a mistake", function()
    local ok, err = pcall(json.decode, '{"a": 1,}', "config.json")
    assert.is_false(ok)
    assert.equal("EFORMAT", err.code)
    assert.matches("config.json", tostring(err))
    for _, bad in ipairs { "", "{", "[1,]", "nul", "1 2", '"\xff"', ("[")
      :rep(5000), '{"a" 1}', "'a'" } do
      assert.is_false(pcall(json.decode, bad))
    end
    assert.error_matches(function() json.decode() end, "string expected")
    assert.error_matches(function() json.decode({}) end, "string expected, got table")
  end)
end)

describe("json.encode", function()
  it("sorts keys and writes the shortest numbers", function()
    assert.equal('{"a": 1, "b": [1, 2], "c": "x"}', json.encode { c = "x", b = { 1, 2 }, a = 1 })
    assert.equal("0.1", json.encode(0.1))
    assert.equal("1", json.encode(1.0))
    assert.equal("1e+300", json.encode(1e300):gsub("1e300", "1e+300"))
    assert.equal("[null, null, null]", json.encode { 0 / 0, 1 / 0, -1 / 0 })
    assert.equal("9223372036854775807", json.encode(math.maxinteger))
    assert.equal("null", json.encode(json.null))
    assert.equal('"\\"\\\\\\n\\u0001"', json.encode('"\\\n\1'))
    assert.equal('"\xef\xbf\xbd"', json.encode("\xff"))
  end)
  it("tells lists from objects", function()
    assert.equal("[]", json.encode {})
    assert.equal("{}", json.encode(core.json_object {}))
    assert.equal("{}", json.encode(json.decode("{}")))
    assert.equal("[]", json.encode(json.decode("[]")))
  end)
  it("indents", function()
    assert.equal('{\n  "a": [\n    1\n  ]\n}', json.encode({ a = { 1 } }, { indent = 2 }))
  end)
  it("reads back what it wrote", function()
    local v = { x = { 1, { y = 0.1 + 0.2 }, "é" }, z = -0.5, big = 2 ^ 60, list = { { {} } } }
    assert.same(v, json.decode(json.encode(v)))
    for _ = 1, 200 do
      local x = (math.random() - 0.5) * 10 ^ math.random(-300, 300)
      assert.equal(x, json.decode(json.encode(x)))
    end
  end)
  it("reads back texts that hold zero bytes", function()
    for _, text in ipairs { "\0", "a\0b", "\0\0", "\\u0000", "\\\0", "\"\0\u{80}" } do
      local back = json.decode(json.encode { [text] = text, list = { text, "x" } })
      assert.equal(text, back[text])
      assert.equal(text, back.list[1])
    end
  end)
  it("refuses what JSON cannot hold", function()
    assert.error_matches(function() json.encode(print) end, "cannot write a function")
    assert.error_matches(function() json.encode { 1, nil, 3, x = 1 } end, "keys")
    assert.error_matches(function() json.encode { [1.5] = 1 } end, "has the key 1.5")
    assert.error_matches(function() local t = {} t.t = t json.encode(t) end, "inside itself")
    assert.error_matches(function() json.encode({}, { ident = 2 }) end, "did you mean 'indent'")
    assert.error_matches(function() json.encode() end, "value expected")
  end)
end)
