-- Chat templates by name, for model.chat_template: the layouts of model families as Jinja.  Their
-- special tokens are single tokens only if the tokenizer's vocabulary has them.

-- Returns a template that writes t.turn for each message.  Fields of t: begin, whether bos_token
-- comes first; alternating, whether users and assistants must take turns, without a system message;
-- prompt, the beginning of the turn to be generated.
local function turns(t)
  local lines = { t.begin and "{{ bos_token }}" or "" }
  if t.alternating then
    lines[#lines + 1] = "{% for m in messages %}"
      .. "{% if (loop.index0 % 2 == 0) != (m.role == 'user') %}{{ raise_exception("
      .. "'Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
      .. "{% endfor %}"
  end
  lines[#lines + 1] = "{% for m in messages %}" .. t.turn .. "{% endfor %}"
  lines[#lines + 1] = t.prompt and ("{% if add_generation_prompt %}" .. t.prompt .. "{% endif %}")
    or ""
  return table.concat(lines)
end

local chat_templates = {
  chatml = turns { turn = "{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}",
    prompt = "{{ '<|im_start|>assistant\\n' }}" },
  gemma = turns { begin = true, alternating = true,
    turn = "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' ~ "
      .. "(m.content | trim) ~ '<end_of_turn>\\n' }}",
    prompt = "{{ '<start_of_turn>model\\n' }}" },
  llama3 = turns { begin = true,
    turn = "{{ '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\\n\\n' ~ "
      .. "(m.content | trim) ~ '<|eot_id|>' }}",
    prompt = "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}" },
  mistral = turns { begin = true, alternating = true,
    turn = "{% if m.role == 'user' %}{{ '[INST] ' ~ m.content ~ ' [/INST]' }}"
      .. "{% else %}{{ m.content ~ eos_token ~ ' ' }}{% endif %}" },
  phi3 = turns { turn = "{{ '<|' ~ m.role ~ '|>\\n' ~ m.content ~ '<|end|>\\n' }}",
    prompt = "{{ '<|assistant|>\\n' }}" },
}

local names = {}
for name in pairs(chat_templates) do names[#names + 1] = name end
table.sort(names)

local named = { names = names }

-- Returns the template of that name, or nil.
function named.find(name) return chat_templates[name] end

return named
