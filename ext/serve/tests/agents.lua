-- A run whose completions are conversations with other programs: see agents.sh.
local grpo = require "grpo"
local tok = grpo.tokenizer.bytes()
tok.chat_template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}<|endoftext|>"
  .. "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
local rows = {}
for a = 0, 9 do rows[#rows + 1] = { question = ("%d+1="):format(a), answer = tostring(a + 1) } end
return grpo.experiment {
  model = {
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64,
      num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 512 },
    tokenizer = tok,
  },
  data = {
    train = grpo.data.list(rows), max_prompt_tokens = 120,
    prompt = function(row) return { { role = "user", content = row.question } } end,
  },
  sampling = { group_size = 2, max_new_tokens = 60 },
  agents = { port = 0, seconds = tonumber(grpo.args.seconds or 600) },
  stages = { { kind = "agents", train = { steps = 2, prompts_per_step = 2, lr = 1e-3 } } },
}
