"""Conversations as transformers renders them: continued messages, absent tools and documents, variables, reasoning.

Writes tests/cases/chat/cases.jsonl: each line has a template, messages and options, and what apply_chat_template
(transformers 5.24) makes of them, or false where it raises.  Also templates/, three directories of a tokenizer's
files, and loaded.jsonl with what they render.

To run it, in an environment of your own:  pip install transformers jinja2 tokenizers;  python tests/oracles/chat_rendering.py
"""
import itertools
import json
import os
import shutil

from tokenizers import Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases", "chat")

TEMPLATES = {
    "plain": "{% for m in messages %}[{{ m.role }}]{{ m.content }}</{{ m.role }}>\n{% endfor %}"
             "{% if add_generation_prompt %}[assistant]{% endif %}",
    "trims": "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}</{{ m.role }}>\n{% endfor %}"
             "{% if add_generation_prompt %}[assistant]{% endif %}",
    "reasons": "{% for m in messages %}{{ m.role }}:{% if m.reasoning_content is defined %}<think>{{ m.reasoning_content }}"
               "</think>{% endif %}{{ m.content }}\n{% endfor %}",
    "thinks": "{% for m in messages %}{{ m.role }}:{% if m.thinking %}<t>{{ m.thinking }}</t>{% endif %}{{ m.content }}\n"
              "{% endfor %}",
    "parts": "{% for m in messages %}{{ m.role }}:{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
             "{% if p.type == 'text' %}{{ p.text }}{% else %}<{{ p.type }}>{% endif %}{% endfor %}{% endif %};{% endfor %}",
    "switches": "{{ tools is none }},{{ documents is none }},{{ tools is defined }},{{ x is defined }},{{ x | default('-') }},"
                "{{ enable_thinking }}{% for t in tools or [] %}|{{ t.function.name }}{% endfor %}"
                "{% for d in documents or [] %}|{{ d.title }}={{ d.text }}{% endfor %}:{{ messages[0].content }}",
    "json": "{% for m in messages %}{{ m | tojson }}{% endfor %}",
}

USER = {"role": "user", "content": "q"}
ENDS = ["", " ", "\n", "x", " x", "x ", " x ", "\tx\n\n", "q", "</assistant>", "a b", "ä \u00a0"]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
DOCUMENTS = [{"title": "T", "text": "body"}]


def cases():
    for name, end in itertools.product(("plain", "trims", "reasons", "parts"), ENDS):
        yield name, [USER, {"role": "assistant", "content": end}], {"continue_final_message": True}
    for name, end in itertools.product(("parts",), ENDS):
        for parts in ([end], ["one", end], [end, None]):
            content = [{"type": "text", "text": t} if t is not None else {"type": "image"} for t in parts]
            yield name, [USER, {"role": "assistant", "content": content}], {"continue_final_message": True}
    for name, field in itertools.product(("reasons", "thinks", "plain"), ("reasoning_content", "thinking", "reasoning", "content", "other")):
        for end in ("", " ", "r", " r "):
            message = {"role": "assistant", "content": "A", field: end}
            yield name, [USER, message], {"continue_final_message": field}
    for names in itertools.permutations(("reasoning_content", "thinking", "reasoning"), 2):
        for name in ("reasons", "thinks", "json"):
            yield name, [USER, {"role": "assistant", "content": "A", names[0]: "1", names[1]: "2"}], {}
            yield name, [USER, {"role": "assistant", names[0]: "1", "content": "A", "name": None}], {}
    for tools, documents in itertools.product((None, [], TOOLS), (None, [], DOCUMENTS)):
        yield "switches", [USER], {"tools": tools, "documents": documents}
    for kwargs in ({"enable_thinking": False}, {"enable_thinking": True, "x": 1.5}, {"x": None}, {"x": [1, "a", {"b": None}]},
                   {"documents": DOCUMENTS}, {"x": "text"}):
        yield "switches", [USER], {"kwargs": kwargs}
    yield "json", [USER, {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]},
                   {"role": "tool", "content": "1", "tool_call_id": "x"}], {}
    yield "plain", [], {}
    yield "plain", ["q"], {}
    yield "plain", [USER], {"continue_final_message": True, "add_generation_prompt": True}
    yield "plain", [USER], {"add_generation_prompt": True}


def rendered(tokenizer, messages, options, template=None):
    options = dict(options)
    kwargs = options.pop("kwargs", {})
    try:
        return tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, **options, **kwargs)
    except Exception:
        return False


def write(name, value):
    path = os.path.join(OUT, "templates", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(value if isinstance(value, str) else json.dumps(value))


def loaded(tokenizer):
    """Tokenizers whose templates are files, a list and an object."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    shown = "{{ bos_token }}%s{%% for m in messages %%}{{ m.content }}{%% endfor %%}"
    texts = {"default": shown % "D", "tool_use": shown % "T", "rag": shown % "R"}
    write("files/chat_template.jinja", texts["default"])
    write("files/tokenizer_config.json", config)
    for name in ("tool_use", "rag"):
        write(f"files/additional_chat_templates/{name}.jinja", texts[name])
    write("files/additional_chat_templates/notes.txt", "no template")
    write("object/tokenizer_config.json", dict(config, chat_template=texts))
    write("list/tokenizer_config.json", dict(config, chat_template=[{"name": k, "template": v} for k, v in texts.items()]))
    write("both/chat_template.jinja", shown % "F")
    write("both/tokenizer_config.json", dict(config, chat_template=texts))
    for directory in ("files", "object", "list", "both"):
        path = os.path.join(OUT, "templates", directory)
        tokenizer.backend_tokenizer.save(os.path.join(path, "tokenizer.json"))
        own = AutoTokenizer.from_pretrained(path)
        for tools, template in ((None, None), (TOOLS, None), (None, "rag")):
            if template and not isinstance(own.chat_template, dict):
                continue
            yield {"directory": directory, "tools": tools, "template": template,
                   "rendered": rendered(own, [USER], {"tools": tools}, template)}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "<s>": 1}, unk_token="a")))
    with open(os.path.join(OUT, "cases.jsonl"), "w") as f:
        f.write(json.dumps(TEMPLATES) + "\n")
        for name, messages, options in cases():
            made = rendered(tokenizer, messages, options, TEMPLATES[name])
            f.write(json.dumps([name, messages, options, made], ensure_ascii=False) + "\n")
    with open(os.path.join(OUT, "loaded.jsonl"), "w") as f:
        f.writelines(json.dumps(case) + "\n" for case in loaded(tokenizer))


main()
