-- experiments/recipes/notebook.lua
--
-- The recipe of the QLoRA notebook: Llama-3.1-8B-Instruct improves on GSM8K by rewards alone.
--
--   grpo check experiments/recipes/notebook.lua      prompts, scored samples, memory, time
--   grpo run experiments/recipes/notebook.lua        with models/Llama-3.1-8B-Instruct and gsm8k/
--   ... --arg model=DIR --arg data=DIR --arg steps=N --arg lr=X --arg seed=N
--
-- The program is experiments/gsm8k.lua, and its numbers are in configs/train/gsm8k-lora.json; this
-- file only says where model and data are. ../README.md says how to get the data.
--
-- Published: frozen weights in NF4 with double quantisation; LoRA of rank 8, alpha 32,
-- dropout 0.05 on all seven projections; temperature 0.7, top_p 0.9; beta 0.02; a cosine after a
-- warm-up; the layout <thinking>, <answer>; four rewards, of which a right answer earns 2.0;
-- greedy accuracy on the test split before, on the way and after; ten answers shown at the end.
--
-- Not published, chosen here: 4 prompts in a step (one buffer, one optimizer step from it), 500
-- steps, groups of 8, 400 and 320 tokens, learning rate 1e-5 after a tenth of warm-up, clip 0.2,
-- gradient norm 0.2, weights 0.25, 0.5 and 0.5 of the other three rewards, 200 rows per evaluation.
-- Different: nothing is padded, and a group shares its prompt (docs/algorithms.md).
--
-- Memory of the real model, computed from its config.json: weights 5.7 GB, of which the embedding
-- and the output projection in bf16 take 2.1; keys and values 3.1 GB (11,840 tokens of 256 KiB);
-- adapter, gradient and moments 0.3 GB; beside them the activations of one group, which
-- model.gradient_checkpointing=true makes smaller. `grpo check` has the figure for your settings.

local grpo = require "grpo"

-- The program stands one directory up.
package.path = package.path:match("^[^?]*") .. "../?.lua;" .. package.path

local args = grpo.args
args.model = args.model or "models/Llama-3.1-8B-Instruct"
args.data  = args.data or "gsm8k"

return require "gsm8k"
