-- Chat templates: small cases of our own, hostile templates, and the reference's cases.
local jinja = require "grpo.jinja"
local grpo = require "grpo"
local tiny = require "tests.lua.tiny"

local function render(source, vars) return (grpo.template(source):render(vars)) end

local cases = {
  { "{{ 'a' ~ 1 ~ none ~ true ~ missing }}", "a1NoneTrue" },
  { "{{ '' != false }} {{ true == 1 }} {{ 1.0 }} {{ 7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 "
    .. "}}",
    "True True 1.0 3 2 3.5 1024" },
  { "  {% if true %}\n  x\n  {% endif %}\ny\n", "  x\ny" },
  { "a  {{- 'b' -}}  c {#- note -#} d{% raw %}{{ x }}{% endraw %}", "abcd{{ x }}" },
  { "a\n  {%+ if true %}b{% endif +%}\nc", "a\n  b\nc" },
  { "{% for x in [1,2,3] if x != 2 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not "
    .. "loop.last }}{% endfor %}",
    "1/2:1,2/2:3" },
  { "{% set a = 1 %}{% for x in [1] %}{% set a = 2 %}{% endfor %}{{ a }}", "1" },
  { "{% set ns = namespace(a=1) %}{% for x in [1] %}{% set ns.a = 2 %}{% endfor %}{{ ns.a }}",
    "2" },
  { "{{ ['\u{A0}\u{200B}é\u{FEFF}\u{E0001}'] }}", "['\\xa0\\u200bé\\ufeff\\U000e0001']" },
  { "{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}"
      .. "{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "02" },
  { "{{ [1,2,3][1:] }}{{ 'abc'[::-1] }}{{ [1,2,3][-1] }}{{ 'äbc'[0] }}", "[2, 3]cba3ä" },
  { "{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}", "1x12" },
  { "{% set x %} a {% endset %}[{{ x | trim | upper }}]", "[A]" },
  { "{{ {'b': 1, 'a': [true, none, 'ä\"']} | tojson }}", '{"b": 1, "a": [true, null, "ä\\""]}' },
  { "{{ {'a': [1], 'b': {}} | tojson(indent=2) }}", '{\n  "a": [\n    1\n  ],\n  "b": {}\n}' },
  { "{{ 'a b  c'.split() }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'xxaxx'.strip('x') }}",
    "['a', 'b', 'c']['a,b', 'c']a" },
  { "{{ ['b', 'A', 'c'] | sort | join('-') }} {{ {'b': 1, 'a': 2} | dictsort }}",
    "A-b-c [('a', 2), ('b', 1)]" },
  { "{{ [{'r': 1}, {'r': 2}] | selectattr('r', 'equalto', 2) | list }} {{ [{'r': 1}] | "
    .. "map(attribute='r') | first }}",
    "[{'r': 2}] 1" },
  { "{{ x is defined }} {{ 1 is not string }} {{ 4 is divisibleby 2 }} {{ 'a' is in ['a'] }} {{ "
    .. "{} is mapping }}",
    "False True True True True" },
  { "{{ 'yes' if 1 < 2 <= 2 else 'no' }} {{ not 1 in [2] }} {{ missing | default('d') }}",
    "yes True d" },
  { "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "a=1;b=2;" },
  { "{% for x in [[1, [2]], [3]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}",
    "123" },
  { "{{ 'hello wORLD'.title() }} {{ 'äB'.upper() }} {{ 'a\\u00e9\\n' }}", "Hello World ÄB aé\n" },
  { "{% call(x) m() %}<{{ x }}>{% endcall %}", false },
  { "{{ [false, 1] | first }}{{ ([] | first) is defined }}{{ {'a': false}['a'] }}",
    "FalseFalseFalse" },
  { "{% macro m() %}{{ caller(1) }}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}", "<1>" },
}

local hostile = {
  { "{{ 'x' * 1000000000 }}", "too long" },
  { "{{ 'x' * 1e9 }}", "does not work" },
  { "{{ [1] * 1000000000 }}", "too many steps" },
  { "{{ range(1000000000) | list }}", "range" },
  { "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "calls inside each other" },
  { "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "calls inside each other" },
  { "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "too many steps" },
  { "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "too long" },
  { "{% for i in range(99999) %}" .. ("x"):rep(1000) .. "{% endfor %}", "too long" },
  { "{{ " .. ("("):rep(10000) .. (")"):rep(10000) .. " }}", "nested deeper" },
  { ("{% if 1 %}"):rep(1000), "nested deeper" },
  { "{{ " .. ("not "):rep(10000) .. "1 }}", "nested deeper" },
  { "{{ " .. ("-"):rep(10000) .. "1 }}", false },
  { "{{ [" .. ("["):rep(10000), "not closed" },
  { "{{ x", "not closed" }, { "{% if x %}", "not closed" }, { "{# x", "not closed" },
    { "{% raw %}", "not closed" },
  { "{{ 'x }}", "not closed" }, { "{% endif %}", "without its beginning" },
    { "{% include 'x' %}", "single file" },
  { "{{ ''.__class__.__mro__ }}", "undefined" }, { "{{ os.execute('x') }}", "'os' is undefined" },
  { "{{ x | nothing }}", "no filter" }, { "{{ 1 // 0 }}", "division by zero" },
  { "{{ 9223372036854775807 + 1 }}", "out of range" }, { "{{ '%100000000d' % 1 }}", "too long" },
  { "{{ messages.foo.bar }}", "'messages' is undefined" }, { "{{ 'a' + 1 }}", "str and a int" },
}

-- Each of these looked at gigabytes for a handful of steps.
local costly = {
  "{% set x = 'a' * 4000000 %}{% set y = 'a' * 300000 ~ 'b' %}{% for i in range(9999) %}{{ y in x "
    .. "}}{% endfor %}",
  "{% set x = 'a' * 4000000 %}{% set y = 'a' * 300000 ~ 'b' %}{% for i in range(999) %}{{ "
    .. "x.find(y) }}{% endfor %}",
  "{% set x = 'a' * 4000000 %}{% set y = 'a' * 300000 ~ 'b' %}{{ x.split(y) }}{{ x.replace(y, '') "
    .. "}}{{ x.count(y) }}"
    .. "{% for i in range(999) %}{{ x.rfind(y) }}{% endfor %}",
  "{% set x = 'a ' * 400000 %}{{ x.rsplit(none, 300000) | length }}{% for i in range(99) %}{{ "
    .. "x.rsplit(none, 9) }}"
    .. "{% endfor %}",
  "{% set x = 'a' * 4000000 %}{% set y = x ~ '' %}"
    .. "{% for i in range(99999) %}{{ x == y }}{{ x is sameas y }}{% endfor %}",
  "{% set x = 'a' * 4000000 %}{% set d = {x: 1} %}{% set y = x ~ '' %}"
    .. "{% for i in range(99999) %}{{ d[y] }}{{ y in d }}{{ d.get(y) }}{% endfor %}",
  "{% set x = 'a' * 4000000 %}{% for i in range(99999) %}{{ x.startswith(x) }}{{ x.isalpha() }}{{ "
    .. "x is lower }}"
    .. "{{ x.removeprefix('b') | length if 0 }}{% endfor %}",
  "{{ (['A' * 4000000] * 1000) | sort | length }}{{ (['A' * 4000000] * 1000) | unique | list }}",
  "{{ '%s' * 5000 % (('a' * 4000000,) * 5000) }}",
  "{{ ([1] * 99999) | tojson(separators=('a' * 400000, ':')) }}",
  "{% set k = {'a' * 4000000: 1} %}{{ ([k] * 99999) | tojson }}",
  "{% macro m(" .. ("a, ")
  :rep(30000) .. "b) %}{% endmacro %}{% for i in range(99999) %}{{ m() }}{% endfor %}",
  "{% set x = ' ' * 16000000 %}{% for i in range(999) %}{{ x.strip() }}{% endfor %}",
  "{% set d = dict.fromkeys if 0 else {} %}{% set p = 'a.' * 100000 %}"
    .. "{{ ([{'a': 1}] * 9999) | map(attribute=p) | list | length }}",
}

describe("a Jinja template", function()
  it("computes as Python does", function()
    for _, case in ipairs(cases) do
      local ok, text = pcall(render, case[1], {})
      if case[2] then assert.equal(case[2], ok and text or case[1] .. ": " .. tostring(text)) end
      assert.equal(case[2] ~= false, ok)
    end
  end)
  it("names the line of an error", function()
    assert.error_matches(function() render("a\n\n{{ 1 +\n 'x' }}") end, "template:3: ")
    assert.error_matches(function() render("a\n{% if %}") end, "template:2: ")
    tiny.refused("^template:2: no!$", render, "\n{{ raise_exception('no!') }}")
  end)
  it("ends in bounded time, whatever it says", function()
    for _, case in ipairs(hostile) do
      local ok, err = pcall(render, case[1] or "", {})
      local name = case[1]:sub(1, 60)
      assert.equal(name, ok and name .. " rendered" or name)
      if case[2] then
        local found = tostring(err):find(case[2], 1, true)
        assert.equal(name, found and name or name .. ": " .. tostring(err))
      end
      assert.matches("^template:%d+: ", tostring(err))
    end
  end)
  it("pays for what it looks at", function()
    for i, source in ipairs(costly) do
      local ok, err = pcall(render, source, {})
      local name = ("costly template %d: "):format(i)
      assert.equal(name, ok and name .. "rendered" or name)
      local found = tostring(err):find "too many steps" or tostring(err)
        :find "too long" or tostring(err):find "at most"
        or tostring(err):find "undefined"
      assert.equal(name, found and name or name .. tostring(err):sub(1, 200))
    end
    assert.equal(("a"):rep(300000), grpo.template("{{ " .. ("'a'"):rep(300000) .. " }}"):render())
  end)
  it("finds long texts in long texts", function()
    local x = ("lorem ipsum "):rep(10000)
    assert.equal("TrueFalse1" .. #x - 12, render("{{ x[:20000] in x }}{{ (x ~ '!') in x }}"
      .. "{{ (x.split(x[:60000]) | length) - 2 }}{{ x.rfind('lorem') }}", { x = x }))
    assert.equal("['a b', 'c', 'd']['a b c d']['a b  c', 'd']",
      render("{{ ' a b  c d '.strip().rsplit(none, 2) }}"
      .. "{{ ['a b c d'.rsplit(none, 0)[0]] }}{{ 'a b  c d'.rsplit(none, 1) }}"))
  end)
  it("takes Lua values in a set order, or in the order given", function()
    local vars = { m = { zeta = 1, content = "c", role = "r", alpha = grpo.json.null } }
    assert.equal('{"role": "r", "content": "c", "alpha": null, "zeta": 1}',
      render("{{ m | tojson }}", vars))
    vars = { m = jinja.dict { { "z", 1 }, { "a", {} } },
      n = jinja.from_json '{"z": [1.5, "\\u00e9"], "b": null}' }
    assert.equal('{"z": 1, "a": []}{"z": [1.5, "é"], "b": null}',
      render("{{ m | tojson }}{{ n | tojson }}", vars))
    local cycle = {}
    cycle[1] = cycle
    assert.error_matches(function() render("", { x = cycle }) end, "contains itself")
    assert.error_matches(function() render("", { x = print }) end, "cannot use a function")
    assert.error_matches(function()
      jinja.from_json "[1,"
    end, "from_json: JSON:1:4: a value is missing")
  end)
  it("marks what an assistant wrote", function()
    local text, spans = grpo.template("ab{% generation %}cde{% endgeneration %}f"):render()
    assert.equal("abcdef", text)
    assert.same({ { 3, 5 } }, spans)
  end)
end)

local function slurp(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read "a"
  f:close()
  return text
end

describe("templates by name", function()
  if not tiny.shared then return pending "GRPO_SHARED is not set" end
  local chat_templates = require "grpo.models.chat_templates"
  it("give what the families' own give, and refuse where they do", function()
    local published = { chatml = "chatml", gemma2 = "gemma", llama3 = "llama3",
      mistral_v01 = "mistral", phi3 = "phi3" }
    local n = 0
    for line in io.lines(tiny.shared .. "/oracles/tokenizers/chat_templates/cases.jsonl") do
      local case = jinja.from_json(line).map
      local name = published[case.template]
      -- phi3's own ends with the end token where it asks for nothing
      if name and not (name == "phi3" and not case.context.map.add_generation_prompt) then
        local template = grpo.template(chat_templates.find(name))
        local ok, text = pcall(template.render, template, case.context)
        n = n + 1
        assert.equal(case.rendered or false, ok and text)
      end
    end
    assert.is_true(n > 30)
  end)
end)

describe("published chat templates", function()
  if not tiny.shared then return pending "GRPO_SHARED is not set" end
  local dir = tiny.shared .. "/oracles/tokenizers/chat_templates/"
  it("render as the reference does", function()
    local n = 0
    for line in io.lines(dir .. "cases.jsonl") do
      local case = jinja.from_json(line).map
      local template = grpo.template(slurp(dir .. "templates/" .. case.template .. ".jinja"))
      local ok, text, spans = pcall(template.render, template, case.context)
      n = n + 1
      if case.rendered then
        assert.equal(case.rendered, ok and text or tostring(text))
      else
        assert.is_false(ok)
        assert.truthy(tostring(text):find(case.error, 1, true))
      end
      local want = case.generation_spans
      if want then
        assert.equal(want.n, #spans)
        for i, span in ipairs(spans) do
          assert.equal(want[i][1], utf8.len(text:sub(1, span[1] - 1)))
          assert.equal(want[i][2], utf8.len(text:sub(1, span[2])))
        end
      end
    end
    assert.equal(368, n)
  end)
end)
