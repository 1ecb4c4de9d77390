-- ext/names/gen-page.lua - from-trl.md from the table of other programs' names.
--
--   make options          (./grpo repl <ext/names/gen-page.lua; OUT=DIR writes below DIR)

local core = require "grpo.core"
local foreign = require "grpo.options.foreign"

local out = os.getenv("OUT") or "."

local page = { [[
# Names of TRL, transformers, PEFT and verl

Written by `make options` from `foreign_names.lua`; do not edit.

Every option of TRL's GRPOConfig, DPOConfig, KTOConfig and RewardConfig, with those of transformers
that they inherit, and verl's keys, with the name that each has here, or the reason why there is
none. `grpo help from-trl` and `grpo help from-verl` print these tables, `grpo help NAME` one row. A
script, a file of settings or a command line that has one such name is told the same, with the value
as it is written here:

```
my.lua:7: train.scale_rewards is train.advantage.scale here; write train.advantage.scale = "none"
```

Several such names are answered together, with lines to paste in their place; `grpo help NAME` has
the notes:

```
my.lua:7: 5 options are not known by these names; write in their place:
  compute = "bf16",  -- bf16
  train = {
    lr = "cosine:peak=1e-5,warmup_ratio=0.1",  -- learning_rate, lr_scheduler_type, warmup_ratio
  },
and remove or write by hand:
  -- push_to_hub: no equivalent, because a run uploads nothing; ...
```

A step here is one rollout with all its updates, and it counts prompts: TRL's
`per_device_train_batch_size` counts completions. Where the methods differ in more than names,
[algorithms.md](../../docs/algorithms.md#where-grpo-differs) says so.

Options that nobody sets have other defaults here than in TRL 1.16:

| option | here | TRL |
|---|---|---|
| `train.loss` (`loss_type`) | `"grpo"` | `"dapo"` |
| `sampling.max_new_tokens` (`max_completion_length`) | 256 | 512 |
| `train.epochs` (`num_train_epochs`) | 1 | 3 |
| `train.lr` (`lr_scheduler_type`) | constant | linear, to 0 |
| `seed` | 0 | 42 |
| `model.gradient_checkpointing` | false | true |
| `train.kl_bias_correction` (`use_bias_correction_kl`) | false | true |]] }

local function cell(text) return (text:gsub("|", "\\|")) end

-- The rows of a table; names that have no equivalent for one and the same reason are one row.
local function joined(names)
  local list, by_reason = {}, {}
  for _, row in ipairs(names) do
    local first = not row.ours and by_reason[row.about]
    if first then
      first.name = first.name .. "`, `" .. row.name
    else
      local copy = { name = row.name, ours = row.ours, part = row.part, about = row.about }
      list[#list + 1] = copy
      if not row.ours then by_reason[row.about] = copy end
    end
  end
  return list
end

local function add_names(title, ...)
  page[#page + 1] = ("\n## %s\n\n| there | here | |\n|---|---|---|"):format(title)
  for _, row in ipairs(joined(foreign.rows(...))) do
    local ours = row.ours and ("`%s`%s"):format(row.ours, row.part and ", a part of it" or "") or ""
    page[#page + 1] = ("| `%s` | %s | %s |"):format(row.name, ours, cell(row.about))
  end
end
add_names("TRL", "TRL")
add_names("transformers", "transformers")
add_names("PEFT: fields of LoraConfig in model.lora", "PEFT")
add_names("verl", "verl")

assert(core.fs.write(out .. "/ext/names/from-trl.md", table.concat(page, "\n") .. "\n"))
