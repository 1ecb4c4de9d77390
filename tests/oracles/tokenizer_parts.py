#!/usr/bin/env python3
"""tests/oracles/tokenizer_parts.py : writes tests/cases/tokenizer_parts/: a small BPE model, and combinations of
normalizers, pre-tokenizers and decoders with the ids and texts that the library tokenizers (0.23.3) gives.
"""
import json
import os
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

OUT = os.path.join(os.path.dirname(__file__), "..", "cases", "tokenizer_parts")
WORDS = ["the", "quick", "brown", "fox", "jumped", "over", "12345", "2024", "x=3;", "don't", "naïve", "Größe", "²³", "½",
         "日本語", "😀", "e\u0301", "a\u200bb", "tab\there", "\ufeffmark", "▁▁", "--", "...", "(a,b)", "\u2028", "\x07bell", "C++", "ﬁ"]


def texts(n):
    r = random.Random(7)
    out = ["", " ", "a", "  a", "12", " 1234567 ", "Hello, world! 123", "don't  stop", "ﬁne ² ½ x²", "\n\n a\r\n"]
    while len(out) < n:
        out.append("".join(r.choice(WORDS) + r.choice([" ", "", "  ", "\n", " ", "-"]) for _ in range(r.randint(1, 8))))
    return out


def model():
    """Merges that cross the borders of words, digits and spaces, in ByteLevel's alphabet and in plain characters."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    # ids must not depend on the process: distinct counts would, ties are broken by the alphabet
    corpus = [s for s in texts(200) if s]
    mapped = ["".join(p for p, _ in pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(s)) for s in corpus]
    marked = [s.replace(" ", "▁") for s in corpus]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  max_token_length=6, show_progress=False)
    t.train_from_iterator(corpus + mapped + marked, trainer)
    return json.loads(t.to_str())["model"]


def byte_level(space=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": True, "use_regex": regex}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def digits(alone):
    return {"type": "Digits", "individual_digits": alone}


def metaspace(scheme, cut=True, mark="▁"):
    return {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": cut}


PUNCTUATION = {"type": "Punctuation", "behavior": "Contiguous"}
FALCON = [PUNCTUATION, byte_level(), digits(False), split("[0-9][0-9][0-9]")]


def cases():
    pre = {
        "falcon": FALCON,
        "ByteLevel, Digits": [byte_level(), digits(True)],
        "ByteLevel with a space, Digits": [byte_level(space=True), digits(False)],
        "ByteLevel, Punctuation": [byte_level(regex=False), {"type": "Punctuation", "behavior": "Isolated"}],
        "ByteLevel, Whitespace": [byte_level(regex=False), {"type": "Whitespace"}],
        "ByteLevel, Split": [byte_level(), split("Ġ", "MergedWithNext")],
        "ByteLevel twice": [byte_level(), byte_level(regex=False)],
        "ByteLevel twice with spaces": [byte_level(space=True), byte_level(space=True), digits(True)],
        "ByteLevel, Metaspace": [byte_level(), metaspace("always")],
        "ByteLevel, FixedLength": [byte_level(regex=False), {"type": "FixedLength", "length": 3}],
        "Metaspace, ByteLevel with a space": [metaspace("first"), byte_level(space=True)],
        "Metaspace twice": [metaspace("first"), metaspace("always", mark="Ġ")],
        "Metaspace first, first": [metaspace("never", cut=False), metaspace("first", mark="Ġ")],
        "Digits, Metaspace first": [digits(True), metaspace("first")],
        "Metaspace, Digits, Punctuation": [metaspace("always"), digits(True), PUNCTUATION],
        "FixedLength": [{"type": "FixedLength", "length": 5}],
        "FixedLength, Digits": [{"type": "FixedLength", "length": 2}, digits(True)],
        "WhitespaceSplit, ByteLevel, Split": [{"type": "WhitespaceSplit"}, byte_level(space=True, regex=False), split("[aeiou]", "MergedWithPrevious", True)],
        "CharDelimiterSplit, Digits": [{"type": "CharDelimiterSplit", "delimiter": "-"}, digits(False)],
        "BertPreTokenizer, ByteLevel, Digits": [{"type": "BertPreTokenizer"}, byte_level(space=True), digits(True)],
    }
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            pre[f"ByteLevel, Split {behavior} {invert}"] = [byte_level(regex=False), split("[0-9]+|Ġ", behavior, invert)]
        pre[f"ByteLevel, Punctuation {behavior}"] = [byte_level(), {"type": "Punctuation", "behavior": behavior}]
    for name, steps in pre.items():
        last = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        yield name, None, {"type": "Sequence", "pretokenizers": steps}, last if "ByteLevel" in name or name == "falcon" else None
    yield "Nmt", {"type": "Nmt"}, metaspace("never"), {"type": "Fuse"}
    yield "Nmt, NFKC", {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}]}, byte_level(), {"type": "ByteLevel"} | byte_level()


def write():
    os.makedirs(OUT, exist_ok=True)
    m = model()
    rows = texts(40)
    with open(os.path.join(OUT, "model.json"), "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": [{"id": 0, "content": "<unk>", "special": True, "single_word": False, "lstrip": False,
                   "rstrip": False, "normalized": False}], "model": m}, f, ensure_ascii=False, separators=(",", ":"))
    with open(os.path.join(OUT, "cases.jsonl"), "w", encoding="utf-8") as f:
        for name, normalizer, pre, decoder in cases():
            parts = {"normalizer": normalizer, "pre_tokenizer": pre, "decoder": decoder}
            whole = {"version": "1.0", "truncation": None, "padding": None, "post_processor": None,
                     "added_tokens": [{"id": 0, "content": "<unk>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                                       "normalized": False}], **parts, "model": m}
            t = Tokenizer.from_str(json.dumps(whole))
            out = []
            for s in rows:
                ids = t.encode(s, add_special_tokens=False).ids
                out.append({"text": s, "ids": ids, "ids_special": ids, "decoded": t.decode(ids, skip_special_tokens=False)})
            f.write(json.dumps({"name": name, "parts": json.dumps(parts, ensure_ascii=False)[1:-1], "rows": out}, ensure_ascii=False,
                               separators=(",", ":")) + "\n")


write()
