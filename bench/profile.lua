-- bench/profile.lua - samples of stacks (bench/profile.c) as shares by kind of work.

local core = require "grpo.core"

local env = os.getenv

-- ---- stacks -------------------------------------------------------------------------------------

-- A list of stacks, each a list of addresses, innermost first.
local function read_samples(path)
  local file <close> = assert(io.open(path, "rb"))
  local stacks = {}
  while true do
    local head = file:read(8)
    local n = head and string.unpack("=I8", head) or 0
    if n == 0 then return stacks end
    stacks[#stacks + 1] = { string.unpack("=" .. ("I8"):rep(n), file:read(8 * n)) }
    stacks[#stacks][n + 1] = nil
  end
end

-- Returns what addr2line says: [address] = { { name, file }, ... }, inlined functions first.
local function symbols(program, stacks)
  local seen, list = {}, {}
  for _, stack in ipairs(stacks) do
    for _, a in ipairs(stack) do
      if a > 0 and a < 1 << 32 and not seen[a] then
        seen[a] = {}
        list[#list + 1] = ("0x%x"):format(a)
      end
    end
  end
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write(table.concat(list, "\n"), "\n")
  file:close()
  local pipe = assert(io.popen(("addr2line -a -f -i -e '%s' <'%s'"):format(program, name)))
  local at, fn
  for line in pipe:lines() do
    local address = line:match "^0x(%x+)$"
    if address then
      at, fn = seen[tonumber(address, 16)], nil
    elseif fn then
      at[#at + 1] = { fn, line:match "([^/]+):[%d?]+" or "??" }
      fn = nil
    else
      fn = line
    end
  end
  pipe:close()
  os.remove(name)
  return seen
end

-- The functions of a stack, innermost first; { "library", "library" } stands for each function that
-- is in no file of ours.
local function frames_of(stack, known)
  local frames = {}
  for _, a in ipairs(stack) do
    local here = known[a]
    if here and #here > 0 and here[1][1] ~= "??" then
      for _, f in ipairs(here) do frames[#frames + 1] = f end
    else
      frames[#frames + 1] = { "library", "library" }
    end
  end
  return frames
end

-- ---- the kind of a stack ------------------------------------------------------------------------

local kinds = { "products forward", "products dX", "products dW", "packing", "adapters",
  "attention forward",
  "attention backward", "norms, rope, activations", "head", "sampling", "optimizer", "copies, adds",
  "waiting", "Lua", "rest" }

-- The phase of the step, nil outside of one.
local function phase_of(frames)
  local back = false
  for _, f in ipairs(frames) do
    local name = f[1]
    back = back or name:find "^tape_backward" ~= nil
    if name == "engine_rollout" then return "generate" end
    if name == "engine_reference" then return "reference" end
    if name == "optimizer_step" then return "optimizer" end
    if name == "engine_update" then return back and "backward" or "forward" end
    if name == "engine_sft" or name == "rate_product" or name == "rate_read" then return nil end
  end
  return "reward"
end

local function any(frames, fn)
  for _, f in ipairs(frames) do
    if fn(f[1], f[2]) then return true end
  end
  return false
end

-- Returns dX, dW, packing or forward, from the name of the surrounding product; *_packed are
-- products with packed operands.
local function product(frames)
  for _, f in ipairs(frames) do
    local name = f[1]
    if name:find "pack" and not name:find "_packed$" then return "packing" end
    if name:find "_dx" or name:find "^dx" then return "products dX" end
    if name:find "_dw" or name:find "^dw" or name:find "^outer" or name:find "_db" then
      return "products dW"
    end
    if name:find "^gemm" or name:find "^matrix_" or name:find "^weight_" then
      return "products forward"
    end
  end
  return "products forward"
end

local function is_head(name, file)
  return file == "op_loghead.c" or file == "logits.c" or name:find "logits" ~= nil
end

local by_file = {
  ["norm_rope.c"] = "norms, rope, activations",
  ["elementwise.c"] = "norms, rope, activations", ["op_norm.c"] = "norms, rope, activations",
  ["logits.c"] = "head",
  ["op_mlp.c"] = "norms, rope, activations", ["sampler.c"] = "sampling",
  ["optimizer.c"] = "optimizer",
  ["op_loghead.c"] = "head", ["op_policy_loss.c"] = "head", ["policy_terms.c"] = "head",
  ["pool.c"] = "waiting",
  ["op_shape.c"] = "copies, adds", ["op_small.c"] = "copies, adds", ["replay.c"] = "copies, adds",
  ["op_embedding.c"] = "copies, adds", ["op_attention.c"] = "copies, adds",
  ["cache.c"] = "copies, adds",
  ["op_rope.c"] = "norms, rope, activations",
}
local products = { ["gemm.c"] = true, ["gemm_dw.c"] = true, ["gemm_bf16.c"] = true,
  ["gemm_bf16_native.c"] = true,
  ["gemm_quant.c"] = true, ["panels.c"] = true, ["panels_dx.c"] = true, ["quant.c"] = true }
local attention = { ["attention_grad.c"] = true, ["attention.c"] = true, ["attention_f32.c"] = true,
  ["kv.c"] = true, ["attention_tile_bf16.inc.c"] = true }

local function kind_of(frames)
  -- the pool runs chunks, so its frame counts only if no function of ours is inside it
  for i, f in ipairs(frames) do
    local name, file = f[1], f[2]
    if name:find "^vec_add" or name:find "^vec_acc" or name == "add" then return "copies, adds" end
    if name:find "adamw" then return "optimizer" end
    if name == "low_rank_add" then return "adapters" end
    if products[file] then
      local outer = table.move(frames, i, #frames, 1, {})
      if any(outer, is_head) then return "head" end
      local kind = product(outer)
      local lora = any(outer, function(n, where)
        return where == "op_lora.c" or n:find "^lora_" ~= nil
      end)
      local base = any(outer, function(n) return n:find "^weight_" ~= nil end)
      return lora and not base and "adapters" or kind
    end
    if attention[file] then
      local back = any(frames, function(_, where) return where == "attention_grad.c" end)
      return back and "attention backward" or "attention forward"
    end
    if by_file[file] and (file ~= "pool.c" or i <= 2 or frames[i - 1][1] == "library") then
      return by_file[file]
    end
    if file:find "^lua_" then return "Lua" end
  end
  -- a library counts as Lua if Lua's functions are its nearest callers here; else it is libc, which
  -- moves memory
  local nearest = frames[1]
  for _, f in ipairs(frames) do
    if f[1] ~= "library" then
      nearest = f
      break
    end
  end
  if nearest[1]:find "^lua" or nearest[2]:find "^l?main.c" or nearest[2] == "lua_vm.c" then
    return "Lua"
  end
  return frames[1][1] == "library" and "copies, adds" or "rest"
end

-- ---- steps --------------------------------------------------------------------------------------

-- Returns the samples from the end of the first update to the end of the last one, which leaves out
-- set-up, warm-up and the supervised step.
local function of_steps(all)
  local first, last, inside = nil, 0, false
  for i, s in ipairs(all) do
    local update = any(s, function(name) return name == "engine_update" end)
    if inside and not update and not first then first = i end
    inside = update
    if update then last = i end
  end
  return first or 1, last
end

local function innermost(frames)
  for _, f in ipairs(frames) do
    local name, file = f[1], f[2]
    if name ~= "library" and not name:find "^v_" and not file:find "intrin.h$" then
      return ("%s (%s)"):format(name, file)
    end
  end
  return "library"
end

local function count(all)
  local c = { total = 0, kinds = {}, phases = {}, functions = {} }
  local first, last = of_steps(all)
  for i = first, last do
    local phase = phase_of(all[i])
    if phase then
      local kind, fn = kind_of(all[i]), innermost(all[i])
      c.total = c.total + 1
      c.phases[phase] = (c.phases[phase] or 0) + 1
      c.kinds[kind] = c.kinds[kind] or {}
      c.kinds[kind][phase] = (c.kinds[kind][phase] or 0) + 1
      c.functions[kind .. ": " .. fn] = (c.functions[kind .. ": " .. fn] or 0) + 1
    end
  end
  return c
end

-- ---- the table ----------------------------------------------------------------------------------

local phases = { "generate", "reference", "reward", "forward", "backward", "optimizer" }

local function out(format, ...) core.out(format:format(...) .. "\n") end

local function print_table(c, report)
  local row = report.workloads[1].rows[1]
  out("%s %s: %d samples of %d steps, %.4f s a step (core time %.4f); %% of all",
    report.workloads[1].name, row.compute,
    c.total, report.workloads[1].runs, row.seconds.step, row.core_seconds)
  local head = { ("  %-26s"):format "" }
  for _, p in ipairs(phases) do head[#head + 1] = ("%10s"):format(p) end
  out("%s%10s", table.concat(head), "step")
  for _, kind in ipairs(kinds) do
    if c.kinds[kind] then
      local cells, sum = { ("  %-26s"):format(kind) }, 0
      for _, p in ipairs(phases) do
        local n = c.kinds[kind][p] or 0
        sum = sum + n
        cells[#cells + 1] = n > 0 and ("%10.1f"):format(100 * n / c.total) or ("%10s"):format "-"
      end
      out("%s%10.1f", table.concat(cells), 100 * sum / c.total)
    end
  end
  local cells = { ("  %-26s"):format "all" }
  for _, p in ipairs(phases) do
    cells[#cells + 1] = ("%10.1f"):format(100 * (c.phases[p] or 0) / c.total)
  end
  out("%s%10.1f", table.concat(cells), 100.0)
  local names = {}
  for name in pairs(c.functions) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    return c.functions[a] > c.functions[b] or c.functions[a] == c.functions[b] and a < b
  end)
  for i = 1, math.min(#names, tonumber(env "PROFILE_TOP")) do
    out("  %5.1f  %s", 100 * c.functions[names[i]] / c.total, names[i])
  end
  out("")
end

local stacks = read_samples(env "PROFILE_SAMPLES")
local known, all = symbols(env "PROFILE_PROGRAM", stacks), {}
for i, stack in ipairs(stacks) do all[i] = frames_of(stack, known) end
local c, report = count(all), core.json_decode(env "PROFILE_REPORT")
if env "PROFILE_JSON" == "1" then
  core.out(core.json_encode { name = report.workloads[1].name, samples = c.total,
    phases = core.json_object(c.phases), kinds = core.json_object(c.kinds) } .. "\n")
else
  print_table(c, report)
end
