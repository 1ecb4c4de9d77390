-- Tokens that are injected between the model's turns: the engine's gradients are those of plain
-- sequences, one at a time, whose masks and losses are made here by hand.

local grpo = require "grpo"
local core = require "grpo.core"
local losses = require "grpo.losses"
local tiny = require "tests.lua.tiny"

local config = tiny.llama { vocab_size = 258, intermediate_size = 48, num_hidden_layers = 2,
  num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64,
  initializer_range = 0.2, tie_word_embeddings = true }
local prompts = { { 72, 105 }, { 1, 2, 3, 4, 5 }, { 200 } }
local G, LENGTH = 4, 24

-- One-byte stop strings: turns are short.
local stop = {}
for byte = 33, 120, 3 do stop[#stop + 1] = string.char(byte) end

-- Two to five bytes after every turn, until a completion has three turns.
local function talkative()
  local turns = {}
  return function(prompt, sample, ids, finish, first)
    local key = prompt .. "/" .. sample
    turns[key] = (turns[key] or 0) + 1
    assert(#ids > 0 and (finish == "stop" or finish == "eos") and first >= 1)
    if turns[key] == 3 then return nil end
    local reply = {}
    for i = 1, 2 + (prompt + sample) % 4 do reply[i] = (40 + 11 * i + first) % 256 end
    return reply
  end
end

local function make(options)
  local model = core.model_new(config, { seed = 1 })
  return core.engine(tiny.with({ model = model, tokenizer = core.tokenizer_bytes(),
    reference = core.model_new(config, { seed = 2 }), prompts_per_step = 3, group_size = G,
    max_prompt_tokens = 8, max_new_tokens = LENGTH, turns = true, optimizer = {} }, options)), model
end

local function roll_out(engine, more)
  return engine:rollout(tiny.with({ prompts = prompts, n = G, seed = 5, step = 1,
    on_turn = talkative(),
    sampling = { max_new_tokens = LENGTH, temperature = 1.0, stop = stop } }, more))
end

-- n completions as an update takes them.
local function completions(n)
  local list = {}
  for i = 1, n do list[i] = { advantage = ((7 * i) % 5 - 2) / 1.5 } end
  return list
end

local function gradients(model)
  local list = {}
  for name, tensor in model:parameters() do
    list[name] = tensor.grad and tensor.grad:reshape { -1 }:totable() or nil
  end
  return list
end

-- Largest difference between two sets of gradients, over the largest of them.
local function distance(a, b)
  local most, size = 0, 0
  for name, list in pairs(a) do
    for i, v in ipairs(list) do
      most, size = math.max(most, math.abs(v - b[name][i])), math.max(size, math.abs(v))
    end
  end
  return most / size, size
end

-- The same loss by the readable Lua, sequence by sequence, on a model with the same weights.
local function by_hand(batch, name, options, kl)
  local model, reference = core.model_new(config, { seed = 1 }),
    core.model_new(config, { seed = 2 })
  local cs, n = completions(#batch), #batch
  local tokens, value = 0, 0
  for i = 1, n do
    for _, drawn in ipairs(batch:sampled(i)) do tokens = tokens + (drawn and 1 or 0) end
  end
  for i = 1, n do
    local ids, mask, sequence, a = batch:ids(i), {}, {}, {}
    for k, drawn in ipairs(batch:sampled(i)) do
      mask[k], sequence[k], a[k] = drawn and 1 or 0, 1, cs[i].advantage
    end
    local prompt = prompts[(i - 1) // G + 1]
    local t = model:score({ prompt }, { ids }, { grad = true })
    t.old_logp = t.logp:detach()
    t.ref_logp = reference:score({ prompt }, { ids }).logp
    t.mask, t.sequence, t.lengths, t.advantage = grpo.tensor(mask), sequence, { #ids },
      grpo.tensor(a)
    t.num_sequences, t.num_tokens, t.normalizer, t.max_new_tokens = n, tokens, tokens, LENGTH
    local loss = losses[name](t, tiny.with(
      { clip = 0.2, kl = kl, kl_estimator = "k3", sapo = { pos = 1.0, neg = 1.05 } }, options))
    value = value + loss:item()
    loss:backward()
  end
  return gradients(model), value
end

describe("gradients with injected tokens", function()
  local cases = {
    { "grpo", {}, 0.0 }, { "grpo", {}, 0.1 }, { "dapo", { clip_high = 0.28 }, 0.0 },
      { "dr_grpo", {}, 0.05 },
    { "gspo", { importance = "sequence", clip = 3e-4, clip_high = 4e-4 }, 0.0 },
      { "sapo", {}, 0.0 },
    { "reinforce", {}, 0.0 }, { "cispo", {}, 0.0 }, { "rloo", {}, 0.0 },
    { "gmpo", { clip = 0.4 }, 0.0 },
      { "gspo_token", { importance = "sequence", clip = 3e-4, clip_high = 4e-4 }, 0.0 },
  }
  for _, case in ipairs(cases) do
    local name, options, kl = table.unpack(case)
    it(("are those of plain sequences with a mask made by hand: %s, kl %g")
      :format(name, kl), function()
      local engine, model = make()
      local batch = roll_out(engine)
      local expected, value = by_hand(batch, name, options, kl)
      if kl > 0 then engine:reference(batch) end
      local m = engine:update(batch, completions(#batch),
        tiny.with({ loss = name, lr = 0.0, max_grad_norm = 0.0, kl = kl }, options))
      local far, size = distance(expected, gradients(model))
      assert.is_true(size > 1e-3)
      assert.is_true(far < 2e-4, ("%s: gradients differ by %g of the largest"):format(name, far))
      assert.near(value, m.loss, 1e-4)
      assert.equal(0, m.ratio_max_deviation)
    end)
  end

  it("are the same for a loss that forgets the mask", function()
    local function loss(with_mask)
      return function(t)
        local l = -((t.logp - t.old_logp):exp() * t.advantage)
        return (with_mask and l * t.mask or l):sum() / t.normalizer
      end
    end
    local kept
    for _, with_mask in ipairs { true, false } do
      local engine, model = make()
      local batch = roll_out(engine)
      engine:update(batch, completions(#batch),
        { loss = loss(with_mask), lr = 0.0, max_grad_norm = 0.0 })
      local grads = gradients(model)
      if kept then assert.equal(0, (distance(kept, grads))) end
      kept = grads
    end
  end)

  it("ignore advantages that are given to them", function()
    local kept
    for _, at_put_in in ipairs { 0.0, 100.0 } do
      local engine, model = make()
      local batch = roll_out(engine)
      local cs = completions(#batch)
      for i, c in ipairs(cs) do
        local per_token = {}
        for k, drawn in ipairs(batch:sampled(i)) do
          per_token[k] = drawn and c.advantage or at_put_in
        end
        c.advantage = per_token
      end
      engine:update(batch, cs, { lr = 0.0, max_grad_norm = 0.0 })
      local grads = gradients(model)
      if kept then assert.equal(0, (distance(kept, grads))) end
      kept = grads
    end
  end)
end)

describe("on_turn", function()
  it("marks what it gave, in the batch's own order", function()
    local engine = make()
    local batch = roll_out(engine)
    local put_in = 0
    for i = 1, #batch do
      local sampled, logprobs = batch:sampled(i), batch:logprobs(i)
      assert.equal(batch:length(i), #sampled)
      for k, drawn in ipairs(sampled) do
        if not drawn then
          put_in = put_in + 1
          assert.equal(0, logprobs[k])
        end
      end
    end
    assert.is_true(put_in > 10)
    assert.is_nil(make({ turns = false })
      :rollout({ prompts = prompts, n = G, sampling = { max_new_tokens = 4 } })
      :sampled(1))
  end)

  it("passes its error on, and the engine is as good as before", function()
    local engine = make()
    for pattern, on_turn in pairs {
      ["turns_engine_test.lua:%d+: no idea"] = function() error("no idea") end,
      ["rollout.on_turn%[2%]"] = function() return { 1, "x" } end,
      ["on_turn: a function expected"] = 3,
    } do
      tiny.refused(pattern, roll_out, engine, { on_turn = on_turn })
    end
    local batch, other = roll_out(engine), roll_out((make()))
    for i = 1, #other do assert.same(other:ids(i), batch:ids(i)) end
  end)

  it("wants an engine made for turns", function()
    tiny.refused("made without", roll_out, (make { turns = false }))
  end)
end)
