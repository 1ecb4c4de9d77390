#!/usr/bin/env bash
# Lua's library belongs to scripts, hooks and sessions: whatever they make of it, the run goes on with the same bits.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

# All of Lua's library goes, with what may be done to the strings' metatable; the functions of this file keep what they need.
cat >spoil.lua <<'LUA'
local next, rawset, type, globals, getmetatable, error = next, rawset, type, _G, getmetatable, error
local package = package
local kept = { _G = true, arg = true }
return function()
  for name, value in next, globals do
    if not kept[name] then
      if type(value) == "table" and value ~= package then
        for field in next, value do value[field] = nil end
      end
      rawset(globals, name, nil)
    end
  end
  package.path, package.cpath, package.searchers, package.loaded, package.preload[5] = nil, nil, nil, nil, 5
  local strings = getmetatable("")
  local methods = strings.__index
  for _, name in next, { "format", "sub", "find", "gsub", "rep", "match", "gmatch", "byte", "lower" } do
    if type(methods) == "table" then methods[name] = nil; rawset(methods, name, error) end
  end
  strings.__index = nil
end
LUA
experiment body.lua 'eval = { every = 3 }, checkpoint = { every = 2, keep = 9 },
  train = { steps = 6, prompts_per_step = 2, lr = 1e-3 },
  hooks = { on_start = at "on_start", on_rollout = at "on_rollout", on_step = function(m, tr)
    if where == "on_step" then spoil() end
    if where == "session" and tr.step_count == 2 then tr.paused = true end
  end, on_eval = at "on_eval", on_checkpoint = at "on_checkpoint" }' \
  '{ name = "digits", fn = function(text) now() return select(2, gsub(text, digits, "")) / 6 end },
    { name = "right", fn = numeric.equal }' \
  'train = grpo.data.list(rows), eval = grpo.data.list { rows[1], rows[20] }'
{ cat <<'LUA'; cat body.lua; } >exp.lua
local spoil = require "spoil"
local numeric = require "rewards.numeric"
local where, digits, gsub, select = os.getenv "SPOIL", "%d", string.gsub, select
local function at(name)
  return function() if where == name then spoil() end end
end
local now = at "reward"
LUA
"$GRPO" run exp.lua --quiet --dir whole >/dev/null 2>err </dev/null || show err
for place in on_start on_rollout reward on_step on_eval on_checkpoint; do
  SPOIL=$place "$GRPO" run exp.lua --quiet --dir $place >/dev/null 2>err </dev/null; status=$?
  result "a run continues when $place takes all of Lua's library away" \
    "$([ $status = 0 ] && different whole/exp-001 $place/exp-001 || show err)"
done

# ---- an attached session --------------------------------------------------------------------------------------------------
# begin DIRECTORY : a run that pauses after step 2
begin() {
  SPOIL=session "$GRPO" run exp.lua --quiet --dir "$1" </dev/null >"$1.out" 2>"$1.err" &
  pid=$!
  for _ in $(seq 400); do [ -S "$1/exp-001/control.sock" ] && grep -q 'paused at step' "$1/exp-001/run.log" 2>/dev/null && return; sleep 0.05; done
  echo "# the run did not pause"; cat "$1.err"
}
attach() { timeout 60 "$GRPO" attach "$@" >out 2>err; }
begin session
attach session/exp-001 <<'LUA'
string.format = nil
table.concat = nil
print = nil
setmetatable = nil
local spoil = package.loaded.spoil
spoil()
tr.step_count
worst(1)
tr.state.n = 1
show("still here")
save()
LUA
status=$?
result "a session that takes Lua's library away is served on" \
  "$([ $status = 0 ] && grep -qx 2 out && grep -q '^\[digits ' out && grep -q 'still here' out || show out err)"
attach session/exp-001 <<'LUA'
tr.state.n
function package.loaded.x() end
resume()
LUA
result "so is the next one, in which the library is still away" "$(grep -qx 1 out && grep -q "undefined global 'package'" err || show out err)"
wait $pid; status=$?
result "and the run ends with the bits that it has without them" "$([ $status = 0 ] && {
  cmp <(timeless whole/exp-001/metrics.jsonl) <(timeless session/exp-001/metrics.jsonl)
  diff -r whole/exp-001/checkpoints/step-000006/model.safetensors session/exp-001/checkpoints/step-000006/model.safetensors; } || show session.err)"
begin killed
printf '%s\n' 'local spoil = package.loaded.spoil' 'spoil()' 'tr.step_count' 'save()' | attach killed/exp-001
kill -9 $pid; wait $pid 2>/dev/null
"$GRPO" run --resume=killed/exp-001 --quiet >/dev/null 2>err </dev/null; status=$?
result "a resume of such a run has the bits, too" "$([ $status = 0 ] && different whole/exp-001 killed/exp-001 || show err)"

# ---- what scripts may do --------------------------------------------------------------------------------------------------
experiment own.lua 'train = { steps = 2, prompts_per_step = 2 }, checkpoint = { every = 0 },
  hooks = { on_step = function(m, tr)
    local s, t = (" a b "):trim(), ("abc"):shout()
    tr:print(("<%s> %s %s %s %s"):format(s, t, ("xyz")[2], string.upper("u"), ("u"):upper()))
  end }'
cat >own_first.lua <<'LUA'
function string.trim(s) return (s:gsub("^%s+", ""):gsub("%s+$", "")) end
getmetatable("").__index.shout = function(s) return s:upper() .. "!" end
assert(string.shout)
local methods = getmetatable("").__index
getmetatable("").__index = function(s, k)
  if type(k) == "number" then return string.sub(s, k, k) end
  return methods[k]
end
function string.upper(s) return "own " .. s end
LUA
sed -i '1i require "own_first"' own.lua
"$GRPO" run own.lua --dir own >out 2>err </dev/null; status=$?
result "functions that a script adds to string are methods, and s[1] is what it makes of it" \
  "$([ $status = 0 ] && grep -q '<a b> ABC! y own u U$' err || show err)"
result "a function of string that a script replaces is told not to be the method" \
  "$(grep -q "^note: own.lua: string.upper is replaced; s:upper() calls Lua's own, because grpo's code calls it, too" err || show err)"
finish
