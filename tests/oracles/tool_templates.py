#!/usr/bin/env python3
"""tests/oracles/tool_templates.py : writes tests/cases/tools/, rows with tools as a JSON-lines file, one JSON
array and a Parquet file, and cases.jsonl with what transformers' apply_chat_template (5.23.0) makes of each row.

Keys stand in an order that is neither sorted nor usual.  The Parquet file is pyarrow's (26.0); its rows are read as
`datasets` gives them to Python, with None for a field that a struct of another row has.
"""
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

OUT = os.path.join(os.path.dirname(__file__), "..", "cases", "tools")

WEATHER = {"function": {"parameters": {"required": ["place", "days"], "type": "object", "properties": {
    "place": {"description": "town, or \"here\"", "type": "string"},
    "days": {"maximum": 14, "type": "integer", "minimum": 1},
    "Unit": {"enum": ["°C", "°F"], "type": "string", "default": None}}},
    "name": "weather", "strict": True, "description": "A forecast"}, "type": "function"}
SUM = {"type": "function", "function": {"name": "sum", "description": "Adds numbers", "parameters": {
    "type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
    "required": ["numbers"]}}}
ODD = {"zebra": 1, "apple": {"y": [1, {"b": 2, "a": {}}], "x": []}, "10": "ten", "9": "nine", "type": "odd"}

ROWS = [
    {"tools": [WEATHER, SUM], "messages": [{"content": "Rain?", "role": "user"}]},
    {"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Rain in Ulm, and 2 + 0.5?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "function": {"name": "weather", "arguments": {"place": "Ulm", "days": 2, "at": None}}},
            {"type": "function", "function": {"arguments": {"numbers": [2, 0.5]}, "name": "sum"}}]},
        {"role": "tool", "name": "weather", "content": {"sky": "grey", "mm": 3, "Chance": [0.25, 0.75]}},
        {"role": "tool", "name": "sum", "content": "2.5"}], "tools": [SUM, WEATHER]},
    {"tools": [ODD], "messages": [{"role": "user", "content": "<&>\u2028 'quoted' 日本 😀"}]},
]

TEMPLATES = {
    "lines": """{%- for tool in tools %}{{ tool | tojson }}
{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content if m.content is string else m.content | tojson }}
{%- for call in m.tool_calls or [] %}
<call>{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}</call>
{%- endfor %}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}""",
    "indented": """{%- for tool in tools %}{{ tool | tojson(indent=4) }}
{% endfor %}{{ messages | tojson(indent=2) }}""",
    "properties": """{%- for tool in tools %}{% set f = tool.function if tool.function is defined else tool %}
{%- for key, value in f.items() %}{{ key }}={{ value }};{% endfor %}
{%- if f.parameters is defined %}{% for name in f.parameters.properties %}
- {{ name }}: {{ f.parameters.properties[name] }}{% endfor %}{% endif %}
{% endfor %}{{ messages[-1] }}|{{ messages[0].keys() | list }}""",
}


def rendered(tokenizer, template, row):
    return tokenizer.apply_chat_template(row["messages"], tools=row["tools"], chat_template=template,
                                         tokenize=False, add_generation_prompt=True)


def columnar(rows):
    """The rows with arguments and contents as texts, which a Parquet file can hold."""
    made = []
    for row in rows[:2]:
        messages = [{"role": m["role"], "content": m["content"] if isinstance(m["content"], str) else json.dumps(m["content"])}
                    for m in row["messages"]]
        made.append({"tools": row["tools"], "messages": messages})
    return made


def main():
    os.makedirs(OUT, exist_ok=True)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))
    with open(os.path.join(OUT, "rows.jsonl"), "w") as f:
        f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    with open(os.path.join(OUT, "rows.json"), "w") as f:
        json.dump({"version": 1, "rows": ROWS}, f, indent=1)
    parquet = os.path.join(OUT, "rows.parquet")
    pq.write_table(pa.Table.from_pylist(columnar(ROWS)), parquet)
    with open(os.path.join(OUT, "cases.jsonl"), "w") as f:
        for name, template in TEMPLATES.items():
            for file, rows in (("rows.jsonl", ROWS), ("rows.json", ROWS), ("rows.parquet", pq.read_table(parquet).to_pylist())):
                for i, row in enumerate(rows, 1):
                    case = {"file": file, "row": i, "name": name, "template": template,
                            "rendered": rendered(tokenizer, template, row)}
                    f.write(json.dumps(case, ensure_ascii=False) + "\n")


main()
