#!/usr/bin/env python3
"""ext/yaml/tests/yaml_cases.py > ext/yaml/tests/yaml.jsonl : YAML texts and what PyYAML reads in them.

The texts are those on which YAML 1.1, which PyYAML reads, and 1.2 agree.
"""
import json

import yaml

TEXTS = [
    "a: 1\nb: 2.5\nc: text with spaces\nd: -3\n",
    "list:\n- one\n- two\n-   three\nnested:\n  - - 1\n    - 2\n  - - 3\n",
    "flow: {a: [1, 2, {b: c}], 'd': \"e\"}\n",
    "text: |\n  line one\n    indented\n\n  line two\nfolded: >\n  these words\n  are one line\n\n  this is another\n",
    "strip: |-\n  no break at the end\nkeep: |+\n  all breaks\n\n\nnext: 1\n",
    "quoted: 'it''s'\nescapes: \"tab\\tnew\\nline \\u00e9 \\x41 \\\\ \\\"\"\n",
    "multi: this plain text\n  goes on\n  for three lines\n",
    "double: \"a quoted text\n  goes on too\"\n",
    "# a comment\na: 1 # behind a value\n# another\nb: 'a # in quotes'\nc: a#b\n",
    "null_one: null\nnull_two: ~\nnull_three:\nyes_one: true\nyes_two: True\nno_one: false\n",
    "strings: ['1', \"2.5\", 'true', 'null', \"~\"]\n",
    "exponent: 1.5e+3\nsmall: 2.5e-4\nnegative: -1.25\n",
    "url: http://example.com:80/a?b=c\ntime: a:b\ncolon: 'x: y'\n",
    "? complex\n: value\n? other\n: - 1\n  - 2\n",
    "empty_map: {}\nempty_list: []\nempty_text: ''\n",
    "a:\n  b:\n    c:\n      d: deep\n  e: f\n",
    "--- \na: 1\n...\n",
    "%YAML 1.1\n---\na: 1\n",
    "- plain\n- 'single'\n- \"double\"\n- 12\n- {a: 1}\n",
    "unicode: \u00e4\u00f6\u00fc \u65e5\u672c \U0001f600\n",
    "template: |\n  {question}\n  Answer in <answer> tags.\nkeys.with.dots: 1\n\"quoted key\": 2\n",
    "lr: cosine:peak=1e-4,warmup=20\nratio: 0.1\nname: run-1\n",
    "[a, b,\n c]\n",
    "just a text\n",
    "42\n",
]

for text in TEXTS:
    print(json.dumps({"yaml": text, "value": yaml.safe_load(text)}, sort_keys=True))
