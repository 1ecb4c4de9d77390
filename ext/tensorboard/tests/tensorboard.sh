#!/usr/bin/env bash
# Event files for TensorBoard after kills and resumes: a reader that follows TensorBoard's rule (a SessionLog START
# makes it forget its step and later ones) sees each step once.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

experiment exp.lua 'sampling = { group_size = 4, max_new_tokens = 4 }, eval = { every = 2 },
  train = { prompts_per_step = 2 }, checkpoint = { every = 5 },
  stages = { { kind = "grpo", train = { steps = 7 } }, { kind = "grpo", train = { steps = 7 } } },
  hooks = {
    on_step = function(_, tr) if tr.step_count == tonumber(os.getenv "KILL" or 0) then os.execute "kill -9 $PPID" end end,
    on_eval = function(_, tr) if tr.step_count == tonumber(os.getenv "KILL_EVAL" or -1) then os.execute "kill -9 $PPID" end end,
  }' '' 'train = grpo.data.list(rows), eval = grpo.data.list { rows[1] }'
sed -i '/^  sampling = { group_size = 4, max_new_tokens = 6 },$/d' exp.lua

cat >read.lua <<'LUA'
local function varint(s, i)
  local value, shift = 0, 0
  while true do
    local byte = s:byte(i)
    value, shift, i = value | (byte & 127) << shift, shift + 7, i + 1
    if byte < 128 then return value, i end
  end
end
local function fields(s)
  local found, i = {}, 1
  while i <= #s do
    local key, value
    key, i = varint(s, i)
    if key & 7 == 0 then value, i = varint(s, i)
    elseif key & 7 == 1 then value, i = string.unpack("<d", s, i)
    elseif key & 7 == 5 then value, i = string.unpack("<f", s, i)
    else
      local size
      size, i = varint(s, i)
      value, i = s:sub(i, i + size - 1), i + size
    end
    found[#found + 1] = { key >> 3, value }
    found[key >> 3] = found[key >> 3] or value
  end
  return found
end
local function of(list, number)
  for _, field in ipairs(list) do
    if field[1] == number then return field[2] end
  end
end
-- The steps of each scalar, as TensorBoard shows them.
local seen, starts = {}, 0
for path in os.getenv("FILES"):gmatch("%S+") do
  local s, i = io.open(path, "rb"):read("a"), 1
  while i <= #s do
    local size = string.unpack("<I8", s, i)
    local event = fields(s:sub(i + 12, i + 11 + size))
    local step, summary = of(event, 2) or 0, of(event, 5)
    if of(event, 7) then
      starts = starts + 1
      for _, steps in pairs(seen) do
        for k = #steps, 1, -1 do if steps[k] >= step then table.remove(steps, k) end end
      end
    end
    for _, value in ipairs(summary and fields(summary) or {}) do
      local name = of(fields(value[2]), 1)
      seen[name] = seen[name] or {}
      table.insert(seen[name], step)
    end
    i = i + 16 + size
  end
end
print("starts " .. starts)
for _, name in ipairs { "reward", "stage", "eval/mean_length" } do print(name .. " " .. table.concat(seen[name] or {}, " ")) end
for name, steps in pairs(seen) do
  for k = 2, #steps do if steps[k] <= steps[k - 1] then print("twice: " .. name .. " " .. steps[k]) end end
end
LUA
# points RUN : what a reader of its event files sees
points() { FILES=$(echo "runs/$1"/events.out.tfevents.*) "$GRPO" repl <read.lua 2>&1; }
shown() { result "$1" "$(diff <(printf '%s\n' "starts $3" "reward $(seq -s' ' 14)" "stage $(seq -s' ' 14)" \
  'eval/mean_length 0 2 4 6 7 8 10 12 14') <(points "$2"))"; }

"$GRPO" run exp.lua --quiet --as whole >/dev/null 2>&1 </dev/null
shown "a whole run has each step once, and its stage once" whole 0
{ KILL=4 "$GRPO" run exp.lua --quiet --as begun </dev/null; KILL=9 "$GRPO" run --resume=runs/begun --quiet </dev/null; } >/dev/null 2>&1
"$GRPO" run --resume=runs/begun --quiet sampling.temperature=0.5 >/dev/null 2>&1 </dev/null
shown "killed before the first checkpoint and behind another, resumed with an option: each step once" begun 2
{ KILL_EVAL=7 "$GRPO" run exp.lua --quiet --as evaluated </dev/null; KILL_EVAL=7 "$GRPO" run --resume=runs/evaluated --quiet </dev/null; } >/dev/null 2>&1
"$GRPO" run --resume=runs/evaluated --quiet >/dev/null 2>&1 </dev/null
shown "killed twice in an evaluation behind a checkpoint of the same step: once" evaluated 1
"$GRPO" run exp.lua --quiet --as stopped --steps 6 >/dev/null 2>&1 </dev/null
for file in runs/stopped/events.out.tfevents.*; do mv "$file" "runs/stopped/events.out.tfevents.9999999990.${file##*.}.9"; done
"$GRPO" run --resume=runs/stopped --quiet >/dev/null 2>&1 </dev/null
shown "stopped, and resumed while the clock is behind: the files stay in order" stopped 1
"$GRPO" run exp.lua --quiet --as none --steps 1 log.tensorboard=false >/dev/null 2>&1 </dev/null
result "log.tensorboard = false: none" "$(there runs/none/metrics.jsonl; compgen -G 'runs/none/events*')"
finish
