-- Masked training: the engine against a transformer written in Lua, what a stage does, filling in
-- masks.

local grpo = require "grpo"
local core = require "grpo.core"
local preflight = require "grpo.loop.preflight"
local schedule = require "grpo.schedule"
local schedule_check = require "grpo.loop.schedule_check"
local tiny = require "tests.lua.tiny"

local text = ("the quick brown fox jumps over the lazy dog. "):rep(6)
local shape = { model_type = "gpt2", n_embd = 24, n_layer = 2, n_head = 3, n_positions = 32,
  initializer_range = 0.2 }

local copy = tiny.with

-- ---- GPT-2 without the causal mask, in small operations ------------------------------------

local function layernorm(x, w, b)
  local centred = x - x:mean(-1):reshape { #x, 1 }
  local variance = (centred * centred):mean(-1):reshape { #x, 1 }
  return centred / (variance + 1e-5):sqrt() * w + b
end

local function parameters(model)
  local p = {}
  for name, t in model:parameters() do p[name:gsub("^transformer%.", "")] = t end
  return p
end

local function attention(p, l, x, heads)
  local n, width = #x, x.shape[2]
  local qkv = x:matmul(p[l .. "attn.c_attn.weight"]) + p[l .. "attn.c_attn.bias"]
  local size, parts = width // heads, {}
  for h = 0, heads - 1 do
    local q, k, v = qkv:narrow(2, h * size + 1, size), qkv:narrow(2, width + h * size + 1, size),
      qkv:narrow(2, 2 * width + h * size + 1, size)
    local weights = (q:matmul(k:transpose(1, 2)) * (1 / math.sqrt(size))):softmax(-1)
    parts[#parts + 1] = weights:matmul(v)
  end
  assert(n == #parts[1])
  return grpo.concat(parts, 2):matmul(p[l .. "attn.c_proj.weight"]) + p[l .. "attn.c_proj.bias"]
end

local function rows_of(t, ids)
  local list = {}
  for i, id in ipairs(ids) do list[i] = t:narrow(1, id + 1, 1) end
  return grpo.concat(list, 1)
end

-- Log-probabilities [n, vocab] of what stands at each place.
local function bidirectional(model, ids)
  local p, config = parameters(model), model.config
  local x = rows_of(p["wte.weight"], ids) + p["wpe.weight"]:narrow(1, 1, #ids)
  for layer = 0, config.n_layer - 1 do
    local l = ("h.%d."):format(layer)
    x = x + attention(p, l, layernorm(x, p[l .. "ln_1.weight"], p[l .. "ln_1.bias"]), config.n_head)
    local h = layernorm(x, p[l .. "ln_2.weight"], p[l .. "ln_2.bias"])
    h = (h:matmul(p[l .. "mlp.c_fc.weight"]) + p[l .. "mlp.c_fc.bias"]):gelu()
    x = x + h:matmul(p[l .. "mlp.c_proj.weight"]) + p[l .. "mlp.c_proj.bias"]
  end
  x = layernorm(x, p["ln_f.weight"], p["ln_f.bias"])
  return x:matmul(p["wte.weight"]:transpose(1, 2)):log_softmax(-1)
end

-- -sum of log p at places first .. #ids, whose tokens are hidden from the model.
local function masked_nll(model, ids, first, mask)
  local seen, hidden = table.move(ids, 1, #ids, 1, {}), {}
  for i = first, #ids do
    seen[i] = mask
    hidden[#hidden + 1] = ids[i]
  end
  return -(bidirectional(model, seen):narrow(1, first, #hidden):gather(2, hidden)):sum()
end

local function new_engine(model)
  return core.engine { model = model, tokenizer = model.tokenizer, prompts_per_step = 4,
    group_size = 1, max_prompt_tokens = 16, max_new_tokens = 16, examples = true, optimizer = {} }
end

describe("masked training", function()
  local tok = grpo.tokenizer.chars(text):with_mask()

  local function new_model()
    return grpo.model.new(copy(shape, { vocab_size = #tok }), { seed = 4, tokenizer = tok })
  end

  -- Ratio 1: which tokens are masked is known without the engine's random numbers.
  local rows, lengths = {}, { { 3, 9 }, { 0, 12 }, { 7, 1 }, { 1, 20 } }
  for i, n in ipairs(lengths) do
    local ids = tok:encode(text:sub(i * 5, i * 5 + n[1] + n[2] - 1))
    rows[i] = { prompt = table.move(ids, 1, n[1], 1, {}),
      target = table.move(ids, n[1] + 1, #ids, 1, {}) }
  end

  local function by_hand(model)
    local sum, tokens
    for i, row in ipairs(rows) do
      local ids = table.move(row.target, 1, #row.target, #row.prompt + 1,
        table.move(row.prompt, 1, #row.prompt, 1, {}))
      local nll = masked_nll(model, ids, lengths[i][1] + 1, tok.mask)
      sum, tokens = sum and sum + nll or nll, (tokens or 0) + #row.target
    end
    return sum, tokens
  end

  it("has the held-out loss of a transformer written in Lua", function()
    local model = new_model()
    local nll, tokens, right = new_engine(model)
      :masked_loss(rows, { mask = tok.mask, low = 1, high = 1 })
    local want, n = grpo.no_grad(function() return by_hand(model) end)
    assert.equal(n, tokens)
    assert.near(want:item(), nll, 1e-3)
    assert.is_true(right >= 0 and right <= n)
  end)

  it("has its gradient too", function()
    local model = new_model()
    local engine = new_engine(model)
    local m = engine:denoise(rows,
      { mask = tok.mask, low = 1, high = 1, lr = 0, max_grad_norm = 0, step = 1 })
    local got = {}
    for name, t in model:parameters() do got[name] = t.grad:totable() end
    engine:close()
    local other = new_model()
    new_engine(other):close() -- it has gradients now
    local nll, n = by_hand(other)
    local loss = nll / n
    assert.near(loss:item(), m.loss, 1e-4)
    loss:backward()
    local function compare(name, a, b)
      if type(a) ~= "table" then return assert.near(a, b, 1e-4, name) end
      for i = 1, #a do compare(name, a[i], b[i]) end
    end
    for name, t in other:parameters() do compare(name, t.grad:totable(), got[name]) end
  end)

  -- ---- a stage --------------------------------------------------------------------------

  local function experiment(changes)
    local dataset = grpo.data.generate(function(rng)
      local at = 1 + math.floor(rng() * 45)
      return { text = text:sub(at, at + 31) }
    end, { seed = 1, n = 400 })
    local fields = {
      name = "fox", seed = 2,
      model = { config = { model_type = "llama", hidden_size = 48, intermediate_size = 96,
        num_hidden_layers = 2,
        num_attention_heads = 4, max_position_embeddings = 32 },
        tokenizer = grpo.tokenizer.chars(text) },
      data = { train = dataset, eval = dataset:take(40), max_prompt_tokens = 32 },
      train = { steps = 150, prompts_per_step = 8, lr = 3e-3 },
      stages = { { kind = "denoise" } },
    }
    for k, v in pairs(changes or {}) do
      if type(v) == "table" and type(fields[k]) == "table" and k ~= "stages" then
        fields[k] = copy(fields[k], v)
      else
        fields[k] = v
      end
    end
    return grpo.experiment(fields)
  end

  it("learns, far below what frequencies alone give, and is asked to fill in holes", function()
    local tr = grpo.trainer(experiment())
    local before = tr:evaluate()
    assert.near(before["eval/masked_loss"], 3.4, 0.5)
    while tr:step() do
      assert.is_true(tr.metrics.mask_ratio > 0.2 and tr.metrics.mask_ratio < 0.9)
    end
    local after, again = tr:evaluate(), tr:evaluate()
    assert.is_true(after["eval/below_unigram"] > 1.5)
    assert.is_true(after["eval/masked_accuracy"] > 0.6)
    assert.equal(after["eval/masked_loss"], again["eval/masked_loss"])
    assert.equal(before["eval/unigram_entropy"], after["eval/unigram_entropy"])
    -- the tokenizer and the model got a mask, and say so
    assert.equal(tr.tokenizer.mask, tr.model.config.mask_token_id)
    assert.equal(#tr.tokenizer, tr.model.config.vocab_size)
    local filled = tr.model:unmask("the q_ick brown f_x jum", { hole = "_", temperature = 0 })[1]
    assert.equal("the quick brown fox jum", filled.text)
    assert.equal(0, filled.logprobs[1])
    assert.is_true(filled.logprobs[6] < 0)
    local spelt = tr.model:unmask("the q<|mask|>ick brown f<|mask|>x jum", { temperature = 0 })[1]
    assert.same(filled, spelt)
    local options = { n = 3, steps = 8, seed = 7, order = "random" }
    local samples = tr.model:unmask(20, options)
    assert.equal(3, #samples)
    assert.same(samples, tr.model:unmask(20, options))
    assert.is_true(samples[1].text ~= samples[2].text)
  end)

  it("counts the entropy of single tokens", function()
    local counts, n, sum = {}, 0, 0.0
    local dataset = experiment().config.data.train
    for row in dataset:rows() do
      for c in row.text:gmatch(".") do counts[c], n = (counts[c] or 0) + 1, n + 1 end
    end
    for _, k in pairs(counts) do sum = sum - k / n * math.log(k / n) end
    assert.near(sum, grpo.trainer(experiment()):evaluate()["eval/unigram_entropy"], 1e-9)
  end)

  it("takes prompts and targets, and leaves the prompt alone when told", function()
    local function row() return { prompt = "the quick ", answer = "fox" } end
    local changes = { data = { train = grpo.data.generate(row, { n = 20 }), target = function(r)
      return r.answer
    end,
      eval = false, max_prompt_tokens = 16 }, sampling = { max_new_tokens = 8 },
      train = { steps = 1, prompts_per_step = 4,
        denoise = { mask_prompt = false, mask_ratio = 1 } } }
    changes.data.eval = nil
    local tr = grpo.trainer(experiment(changes))
    local m = tr:step()
    assert.equal(4 * 3, m.trained_tokens)
    assert.equal(4 * 13, m.num_tokens)
    assert.equal(1, m.mask_ratio)
    assert.is_nil(m.targets_truncated)
    changes.train = { steps = 1, prompts_per_step = 4, denoise = { mask_ratio = 1 } }
    assert.equal(4 * 13, grpo.trainer(experiment(changes)):step().trained_tokens)
  end)

  it("follows a schedule of the mask ratio", function()
    local tr = grpo.trainer(experiment { train = { steps = 2, prompts_per_step = 8,
      denoise = { mask_ratio = function(p) return p.step == 0 and 1 or 0.25 end } } })
    assert.equal(1, tr:step().mask_ratio)
    assert.near(0.25, tr:step().mask_ratio, 0.12)
    tr = grpo.trainer(experiment { train = { steps = 1, denoise = { mask_ratio = function()
      return 1.5
    end } } })
    tiny.refused("train.denoise.mask_ratio: 1.5 for p.step = 0, want more than 0, up to 1",
      tr.step, tr)
    tiny.refused("train.denoise.mask_ratio: the schedule returns 1.1 for p.step = 5 "
      .. "and p.steps = 10, want 0 to 1", function()
        schedule_check.stage(experiment { train = { steps = 10,
          denoise = { mask_ratio = schedule.linear { from = 0.2, to = 2 } } } }.stages[1])
      end)
  end)

  it("counts targets that are cut, in steps and evaluations", function()
    local dataset = grpo.data.list { { prompt = "the ", answer = "quick brown" },
      { prompt = "the ", answer = "dog" } }
    local tr = grpo.trainer(experiment { sampling = { max_new_tokens = 3 },
      data = { train = dataset, eval = dataset, target = function(row) return row.answer end,
      max_prompt_tokens = 8 }, train = { steps = 2, prompts_per_step = 2 } })
    assert.equal(1, tr:step().targets_truncated)
    assert.equal(2, tr:step().targets_truncated)
    assert.equal(1, tr:evaluate().targets_truncated)
  end)

  it("tells a sampler of its rows", function()
    local told = {}
    local tr = grpo.trainer(experiment { train = { steps = 2, prompts_per_step = 2 },
      data = { sampler = { sample = function(_, p) return { p.taken + 1, p.taken + 2 } end,
        observe = function(_, _, groups)
        told[#told + 1] = #groups .. ":" .. groups[1].index
      end } } })
    while tr:step() do end
    assert.same({ "2:1", "2:3" }, told)
  end)

  it("takes a plain text as it is meant, in spite of a chat template", function()
    local tr = grpo.trainer(experiment { model = { chat_template = "chatml" } })
    assert.same({}, preflight.run(tr))
  end)

  it("takes the whole context where no length is set", function()
    local fields = experiment().config
    local e = grpo.experiment { model = { config = fields.model.config,
      tokenizer = fields.model.tokenizer }, data = { train = fields.data.train },
      stages = { { kind = "denoise" } } }
    grpo.trainer(e)
    assert.equal(32, e.stages[1].config.data.max_prompt_tokens)
  end)

  it("keeps a mask token that a tokenizer has, and adds a row where the vocabulary is given",
    function()
    local own = grpo.tokenizer.chars(text):with_mask("[MASK]")
    assert.equal("[MASK]", own:token(own.mask))
    assert.equal(own, own:with_mask())
    local tr = grpo.trainer(experiment { model = { tokenizer = own } })
    assert.equal(own.mask, tr.tokenizer.mask)
    local plain = grpo.tokenizer.chars(text)
    tr = grpo.trainer(experiment { model = { tokenizer = plain,
      config = copy(experiment().config.model.config, { vocab_size = #plain }) } })
    assert.equal(#plain + 1, tr.model.config.vocab_size)
    assert.equal(#plain, tr.tokenizer.mask)
    assert.is_nil(tr.model.config.mask_token_id) -- before the stage
    tr:step()
    assert.equal(#plain, tr.model.config.mask_token_id)
  end)

  it("a tokenizer with a mask encodes as before and survives its files", function()
    for _, plain in ipairs { grpo.tokenizer.chars(text), grpo.tokenizer.bytes(),
      grpo.tokenizer.train({ text }, { vocab_size = 280 }) } do
      local with = plain:with_mask()
      assert.equal(#plain + 1, #with)
      assert.equal(plain.kind, with.kind)
      assert.same(plain:encode(text), with:encode(text))
      assert.same({ with.mask }, with:encode("<|mask|>"))
      assert.same({ plain.eos, plain.pad }, { with.eos, with.pad })
      assert.equal(plain.chat_template, with.chat_template)
      local dir = tiny.path()
      with:save(dir)
      local loaded = grpo.tokenizer.load(dir)
      core.fs.remove_tree(dir)
      assert.equal(with.mask, loaded.mask)
      assert.same(with:encode("the<|mask|>dog"), loaded:encode("the<|mask|>dog"))
    end
    local from, rag = "tests/cases/chat/templates/files", "/additional_chat_templates/rag.jinja"
    tiny.temporary(function(dir)
      grpo.tokenizer.load(from):with_mask():save(dir)
      assert.equal(core.fs.read(from .. rag), core.fs.read(dir .. rag))
    end)
  end)

  -- ---- what makes no sense ------------------------------------------------------------------

  local function refused(pattern, changes) tiny.refused(pattern, experiment, changes) end

  it("refuses options that contradict it", function()
    refused("rewards: have no say in a denoise stage", { rewards = { function() return 1 end } })
    refused("eval.metric: is not used by a denoise stage", { eval = { metric = function()
      return 1
    end } })
    refused("eval.group_size: is not used by a denoise stage", { eval = { group_size = 4 } })
    refused("sampling.grammar: has no effect in a stage of kind \"denoise\"",
      { sampling = { grammar = [[root ::= "a"]] } })
    refused("sampling.regex: has no effect", { sampling = { regex = "a" } })
    refused("train.kl: a denoise stage measures no KL", { train = { kl = 0.1 } })
    refused("train.denoise.mask_ratio: got 0", { train = { denoise = { mask_ratio = 0 } } })
    refused("train.denoise.mask_ratio: want { low, high }",
      { train = { denoise = { mask_ratio = { 0.5, 0.1 } } } })
    refused("train.denoise.mask_ratio: want { low, high }",
      { train = { denoise = { mask_ratio = { 0, 1 } } } })
    refused("train.denoise.keep: random 0.6 and keep 0.6",
      { train = { denoise = { random = 0.6, keep = 0.6 } } })
    refused("train.denoise.mask_prompt: is false",
      { train = { denoise = { mask_prompt = false } } })
    refused("eval.mask_ratio: got 0", { eval = { mask_ratio = 0 } })
    refused("checkpoint.best: no evaluation has 'eval/accuracy'",
      { checkpoint = { best = "eval/accuracy" } })
  end)

  it("refuses texts longer than the context by the option's name", function()
    tiny.refused("data.max_prompt_tokens: 33 exceeds the model's context of 32 tokens", function()
      grpo.trainer(experiment { data = { max_prompt_tokens = 33 } }):step()
    end)
  end)

  it("refuses what m:unmask cannot do", function()
    local model = new_model()
    local function fails(pattern, ...) tiny.refused(pattern, model.unmask, model, ...) end
    fails("unmask: want a text, a list of token ids or how many masks, got nil")
    fails("unmask.stpes: unknown option, did you mean 'steps'", 4, { stpes = 1 })
    fails("unmask.steps", 4, { steps = 0 })
    fails("want 1 to 32", ("a "):rep(40))
    fails("unmask.order", 4, { order = "best" })
    fails("unmask.hole: want the text", "the", { hole = "" })
    fails("outside the vocabulary", { 1, 1000 })
    local bare = grpo.model.new(copy(shape, { vocab_size = 5 }))
    tiny.refused("no mask token", bare.unmask, bare, 3)
    assert.equal(3, #bare:unmask(3, { mask = 4 })[1].ids)
    local function close(_, key)
      local _ <close> = bare
      return key == "mask" and 1 or nil
    end
    pcall(bare.unmask, bare, 3, setmetatable({}, { __index = close, __pairs = function()
      close()
      return next, {}, nil
    end }))
    assert.equal(5, bare:count() > 0 and bare.config.vocab_size) -- it was in use, and is open
  end)

  it("documents its options", function()
    local page = assert(core.fs.read("ext/denoise/README.md"))
    local annotations = assert(core.fs.read("ext/denoise/lua/grpo/meta/denoise.lua"))
    for _, row in ipairs(require "grpo.ext.denoise".options) do
      assert.truthy(page:find("`" .. row.path .. "`", 1, true), row.path)
      local field = "@field " .. row.path:match("[^.]+$") .. "?"
      assert.truthy(annotations:find(field, 1, true), row.path)
    end
  end)
end)
