-- plot() at the prompt.

local core = require "grpo.core"
local curve = require "grpo.commands.repl.pretty.curve"
local plot = require "grpo.commands.repl.plot"
local pretty = require "grpo.commands.repl.pretty"
local text_width = require "grpo.base.text_width"
local tiny = require "tests.lua.tiny"

local function points(f, n)
  local list = {}
  for i = 1, n do list[i] = { i, f(i) } end
  return list
end

local function look(width, more)
  local l = { width = width, utf8 = true, colour = false }
  for k, v in pairs(more or {}) do l[k] = v end
  return l
end

local function lines(...) return table.concat({ ... }, "\n") end

local rising = { name = "reward", points = points(function(i) return i / 10 end, 11) }
local falling = { name = "eval/accuracy", points = { { 1, 1 }, { 6, 0.5 }, { 11, 0 } } }

describe("curves in characters", function()
  it("have values and steps on the axes and a legend with the last value", function()
    assert.equal(lines(
      "  1┤               ⣀⠔⠊",
      "   │           ⢀⡠⠒⠉",
      "0.5┤       ⣀⡠⠔⠊⠁",
      "   │   ⢀⡠⠔⠉",
      "   │⣀⠤⠊⠁",
      "   └───────┬───────┬──",
      "           5      10",
      "━ reward 1.1"), (curve.text({ rising }, look(24), { height = 5 }):gsub(" +%f[\n]", "")))
  end)

  it("are plain ASCII where the locale is not UTF-8", function()
    assert.equal(lines(
      "  1+               ***",
      "   |            ***",
      "0.5+       *****",
      "   |   ****",
      "   |***",
      "   +-------+-------+--",
      "           5      10",
      "* reward 1.1"),
      (curve.text({ rising }, look(24, { utf8 = false }), { height = 5 }):gsub(" +%f[\n]", "")))
  end)

  it("have a mark for each series without colour, and dots with it", function()
    assert.equal(lines(
      "  1┤+++            ***",
      "   │   ++++   *****",
      "0.5┤       ++++",
      "   │  *****    ++++",
      "  0┤**             +++",
      "   └───────┬───────┬──",
      "           5      10",
      "* reward 1.1",
      "+ eval/accuracy 0"),
      (curve.text({ rising, falling }, look(24), { height = 5 }):gsub(" +%f[\n]", "")))
    local text = curve.text({ rising, falling }, look(60, { colour = true }), {})
    assert.matches("\27%[36m━ reward 1.1\27%[0m   \27%[33m━ eval/accuracy 0\27%[0m", text)
    assert.is_nil(text:find("[*]"))
  end)

  it("may have a logarithmic axis, which leaves out values that are not above 0", function()
    local powers = { name = "lr", points = points(function(i) return 10.0 ^ -i end, 4) }
    powers.points[5] = { 5, 0 }
    assert.equal(lines(
      "   0.1┤⠑⢄⡀",
      "  0.01┤  ⠈⠢⡀",
      " 0.001┤    ⠈⠢⡀",
      "0.0001┤      ⠈⠒⢄"),
      (curve.text({ powers }, look(18), { height = 4, log = true }):gsub(" +%f[\n]", "")
        :match "^(.-)\n[^\n]*└"))
    assert.matches("logarithmic axis shows none",
      curve.text({ { name = "a", points = { { 1, -1 } } } }, look(40), { log = true }))
  end)

  it("are never wider than the look, and show one value and equal values too", function()
    local flat = { name = ("name "):rep(30), points = points(function() return 3 end, 500) }
    for _, series in ipairs { { rising }, { rising, falling, flat }, { flat },
      { { name = "x", points = { { 5, 3 } } } } } do
      for width = 24, 160 do
        for _, more in ipairs { {}, { utf8 = false }, { colour = true } } do
          for line in curve.text(series, look(width, more), {}):gmatch "[^\n]+" do
            assert.is_true(text_width.columns(line) <= width, line)
          end
        end
      end
    end
  end)
end)

local run_directory, rows, append = tiny.run_directory, tiny.metrics_rows, tiny.append

describe("plot", function()
  local dir, plotted
  before_each(function()
    dir = run_directory { ["metrics.jsonl"] = rows(1, 40),
      ["eval.jsonl"] = '{"step": 0, "stage": 1, "label": "before", "n": 1, "eval/accuracy": 0}\n'
        .. '{"step": 40, "stage": 1, "label": "step", "n": 1, "eval/accuracy": 0.4}\n' }
    plotted = plot.plotter(dir)
  end)
  after_each(function() core.fs.remove_tree(dir) end)

  it("overlays metrics of steps and of evaluations", function()
    local text = pretty.format(plotted("reward", "eval/accuracy"), look(60))
    assert.matches("%* reward 0.4   %+ eval/accuracy 0.4$", text)
    append(dir .. "/metrics.jsonl", rows(41, 50))
    assert.matches("━ reward 0.5$", pretty.format(plotted "reward", look(60)))
    assert.matches("━ reward 0.1$", pretty.format(plotted("reward", { to = 10 }), look(60)))
  end)

  it("lists the metrics, and those near to one that is missing", function()
    assert.equal("metrics: eval/accuracy, kl, reward", pretty.format(plotted(), look(60)))
    local function message(...) return tostring(select(2, pcall(plotted, ...))) end
    assert.matches("has no metric 'rewad'; near: reward; plot%(%) lists them$", message "rewad")
    assert.matches("near: eval/accuracy; plot", message "accuracy")
    assert.matches("near: eval/accuracy; plot", message "train/accuracy")
    assert.matches("has no metric 'zzzzzzzzzzzz'; plot%(%) lists them$", message "zzzzzzzzzzzz")
  end)

  it("refuses what it cannot draw", function()
    local function message(...) return tostring(select(2, pcall(plotted, ...))) end
    assert.matches("unknown option 'smoth', did you mean 'smooth'",
      message("reward", { smoth = 1 }))
    assert.matches("smooth is 1, want 0 to below 1", message("reward", { smooth = 1 }))
    assert.matches("log is a number, want a boolean", message("reward", { log = 1 }))
    assert.matches("height is 2, want a whole number", message("reward", { height = 2 }))
    assert.matches("got 3, want the name of a metric", message(3))
    assert.matches("no value of 'reward' lies between", message("reward", { from = 1000 }))
    assert.matches("this prompt has no run; name one",
      tostring(select(2, pcall(plot.plotter(nil), "reward"))))
    assert.matches("━ reward 0.4", pretty.format(plot.plotter(nil)("reward", { run = dir }),
      look(60)))
  end)
end)
