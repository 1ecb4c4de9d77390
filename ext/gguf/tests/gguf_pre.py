#!/usr/bin/env python3
"""ext/gguf/tests/gguf_pre.py LLAMA_VOCAB_CPP : how the pre-tokenizers that tokenizer.ggml.pre names cut text.

Reads the names and their regular expressions in llama.cpp's src/llama-vocab.cpp (the sdist of llama-cpp-python has
it), takes the original expressions where its comments give them, cuts texts with Hugging Face's tokenizers, and
writes ext/gguf/tests/gguf_pre.json: for each name the pieces of each text, the name that cuts in the same way, or null
if the name is refused. Needs: pip install tokenizers
"""
import json
import os
import re
import sys

from tokenizers import Regex, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
# llama.cpp has code instead of an expression for these.
AFMOE_DIGITS = "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"
WRITTEN = {
    "KIMI_K2": ["[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}"
                "\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}"
                "\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve"
                "|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"],
}
REFUSED = {"GEMMA4", "SARVAM_MOE", "WHITESPACE"}  # they do not merge bytes
TEXTS = [
    "Hello, World! It's 12345 o'clock; I'LL WE'RE don't",
    "a  b   c\td \t e\n\n  f\r\n\r\ng \n h   ",
    "1 12 123 1234 12345 1234567 ١٢٣٤ ½ x10 3.14159 1,000,000 00",
    "naïve café ÀÉ ñandú straße ſ'ſ Ωμέγα кириллица ЗАГЛАВНЫЕ",
    "日本語のテキスト、中文字符。한국어 ㄱㄴ ㄅㄆ ไทย ខ្មែរ ລາວ",
    "{\"key\": [1, 2.5], 'x'} => $a+b=c; <p>`q`~|^ /path/to/file.c //x\n/* y */",
    "…“quoted”‘x’—dash：，？！ ।۔، (a|b).c",
    "e\u0301 n\u0303a \u0301x हिन्दी বাংলা தமிழ் עִבְרִית العربية",
    "😀😀 👍🏽x 🇩🇪\u200bzero\u00a0width\u3000ideographic\u2028line",
    "CamelCaseWord HTTPServer XMLHttp aB Ab AB ab _x_ __init__ x_1",
    "    indented\n\t\tdeep\n" + " " * 70 + "end" + " " * 600,
    "IMGIMGABCZ <sentinel:12> don't 'sup 'Tis you'd 'LL",
    ".Hello -world #tag @name (paren) [x]y\\z\"q",
    "123abc 1234_ 12345é 1234567½ ½1234567 a1234567b9 ١٢٣٤٥٦٧ 1234٥٦٧ 12345́ 12.3456 999999999999",
    "",
    " ",
    "\n",
]


def unescape(s):
    return s.encode("latin-1", "backslashreplace").decode("unicode_escape") if s.isascii() else \
        re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r", "t": "\t"}.get(m[1], m[1]), s)


# llama.cpp spells this out, because its expressions have no (?i).
SPELT = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"


def read(path):
    source = open(path, encoding="utf-8").read()
    rules, kinds, original = {}, [], None
    body = source[source.index("struct llm_tokenizer_bpe : "):source.index("struct llm_tokenizer_bpe_session")]
    for line in body.splitlines():
        line = line.strip()
        if m := re.match(r"case LLAMA_VOCAB_PRE_TYPE_(\w+):", line):
            kinds.append(m[1])
            said = False
        elif line == "default:":
            kinds.append("DEFAULT")
        elif line.startswith("regex_exprs"):
            expressions = []
        elif "original regex" in line:
            said = True
            if m := re.search(r'json: "(.*)"$', line):
                original = unescape(m[1])
        elif m := re.match(r'//\s*"(.*)",?$', line):
            if said or "'s|'t" in line:
                original = unescape(m[1])
        elif m := re.match(r'"(.*)",', line):
            expressions.append(original or unescape(m[1]).replace(SPELT, "(?i:'s|'t|'re|'ve|'m|'ll|'d)")
                               .replace("\\p{AFMoE_digits}", AFMOE_DIGITS))
            original, said = None, False
        elif line == "break;":
            original = None
            for kind in kinds:
                rules[kind] = WRITTEN.get(kind, expressions)
            kinds = []
    names = {}
    names_at = source.index('tokenizer_pre == "default"')
    for m in re.finditer(r'tokenizer_pre == "([^"]+)"|pre_type = LLAMA_VOCAB_PRE_TYPE_(\w+);', source[names_at:]):
        if m[1]:
            kinds.append(m[1])
        else:
            names.update({name: m[2] for name in kinds})
            kinds = []
    return rules, names


def cut(expressions, text):
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(e), "isolated") for e in expressions])
    return [piece for piece, _ in split.pre_tokenize_str(text)] if text else []


def main():
    rules, names = read(sys.argv[1])
    rows, seen = {}, {}
    for name, kind in names.items():
        if kind in REFUSED:
            rows[name] = None
        elif str(rules[kind]) in seen:
            rows[name] = seen[str(rules[kind])]
        else:
            seen[str(rules[kind])] = name
            rows[name] = [cut(rules[kind], text) for text in TEXTS]
    with open(os.path.join(HERE, "gguf_pre.json"), "w", encoding="utf-8") as out:
        out.write("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}"
                                  for name, row in rows.items()) + "}\n")


main()
