-- The module grpo.bench.rates refuses what it cannot measure; run by tests/cli/bench.sh.

local rate_of = require "grpo.bench.rates"

describe("the functions that measure", function()
  it("refuse values that are not a time or not a product", function()
    for _, seconds in ipairs { -1, 61, 0 / 0, 1 / 0, "x", {}, nil } do
      assert.is_false(pcall(rate_of.read, seconds))
      assert.is_false(pcall(rate_of.product, "forward", 8, 8, 8, seconds))
    end
    for _, bad in ipairs { 0, -1, 1.5, 1 << 31, 0 / 0, "x", {} } do
      assert.is_false(pcall(rate_of.product, "forward", bad, 8, 8, 0))
      assert.is_false(pcall(rate_of.product, "dx", 8, bad, 8, 0))
      assert.is_false(pcall(rate_of.product, "dw", 8, 8, bad, 0))
      assert.is_false(pcall(rate_of.product, bad, 8, 8, 8, 0))
    end
    for _, bad in ipairs { {}, { 1 }, { {} }, { { 1, 1 } }, { { 0, 1, 1 } }, { { 1, 1 << 40, 1 } },
      { { 1, 1, 0.5 } },
      1, "x" } do
      assert.is_false(pcall(rate_of.weights, "f32", { 1 }, bad, 0))
    end
    assert.is_false(pcall(rate_of.weights, "f64", { 1 }, { { 8, 8, 1 } }, 0))
    for _, bad in ipairs { {}, { 0 }, { "x" }, { 1.5 }, 1 } do
      assert.is_false(pcall(rate_of.weights, "f32", bad, { { 8, 8, 1 } }, 0))
    end
    for _, what in ipairs { "forward", "dx", "dw", "bf16_forward", "bf16_dx", "bf16_dw",
      "blas_forward", "blas_dw" } do
      assert.is_true(rate_of.product(what, 8, 9, 10, 0) > 0)
    end
    for _, how in ipairs { "f32", "bf16", "int8", "nf4", "bf16_bf16", "blas", "blas_cut" } do
      assert.is_true(rate_of.weights(how, { 1, 3 }, { { 20, 64, 2 }, { 5, 7, 1 } }, 0)[2] > 0)
    end
  end)
end)
