---@meta _
-- The vocabulary of `grpo test`, which is busted's, for NAME_test.lua.

---A group of tests.
---@param name string
---@param fn fun()
function describe(name, fn) end

---One test; its name says what is true.
---@param name string
---@param fn fun()
function it(name, fn) end

---@param fn fun() runs before each test of the group
function before_each(fn) end

---@param fn fun() runs after each test of the group
function after_each(fn) end

---A test that is not written yet; inside a test: skips the rest of it.
---@param name_or_reason? string
function pending(name_or_reason) end

-- assert(value, message) is Lua's own.  Every check may be negated: assert.is_not.equal(...),
-- assert.no.error(...).

---@class grpo.test.Assert
---@field are grpo.test.Assert
---@field is grpo.test.Assert
---@field has grpo.test.Assert
---@field is_not grpo.test.Assert the opposite
---@field are_not grpo.test.Assert the opposite
---@field has_no grpo.test.Assert the opposite
---@field no grpo.test.Assert the opposite
---@overload fun(value: any, message?: any, ...: any): any
local Assert = {}

---The same value (==).
---@param expected any
---@param actual any
function Assert.equal(expected, actual) end

---@param expected any
---@param actual any
function Assert.equals(expected, actual) end

---@param expected any
---@param actual any
function Assert.not_equal(expected, actual) end

---The same value, tables compared field by field.
---@param expected any
---@param actual any
function Assert.same(expected, actual) end

---@param expected number
---@param actual number
---@param tolerance number
function Assert.near(expected, actual, tolerance) end

---@param value any
function Assert.is_true(value) end

---@param value any
function Assert.is_false(value) end

---@param value any
function Assert.is_nil(value) end

---@param value any
function Assert.is_not_nil(value) end

---@param value any
function Assert.is_number(value) end

---@param value any
function Assert.is_string(value) end

---@param value any
function Assert.is_table(value) end

---@param value any
function Assert.is_boolean(value) end

---@param value any
function Assert.is_function(value) end

---@param value any
function Assert.number(value) end

---@param value any
function Assert.string(value) end

---@param value any
function Assert.table(value) end

---@param value any
function Assert.boolean(value) end

---@param value any
function Assert.truthy(value) end

---@param value any
function Assert.is_truthy(value) end

---@param value any
function Assert.falsy(value) end

---@param value any
function Assert.is_falsy(value) end

---@param pattern string a Lua pattern
---@param text string
function Assert.matches(pattern, text) end

---@param pattern string
---@param text string
function Assert.match(pattern, text) end

---@param fn fun()
---@param message? any the error, without its position
function Assert.has_error(fn, message) end

---@param fn fun()
---@param message? any
function Assert.error(fn, message) end

---@param fn fun()
---@param message? any
function Assert.errors(fn, message) end

---@param fn fun()
function Assert.has_no_error(fn) end

---@param fn fun()
---@param pattern string
function Assert.error_matches(fn, pattern) end

-- The names that are words of Lua too: assert["true"](value).
Assert["true"], Assert["false"], Assert["nil"] = Assert.is_true, Assert.is_false, Assert.is_nil

---@type grpo.test.Assert
assert = nil
