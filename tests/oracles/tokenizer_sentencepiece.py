#!/usr/bin/env python3
"""tests/oracles/tokenizer_sentencepiece.py [DIRECTORY] : small SentencePiece models with their own tables of replacements, as tokenizer.json files
like those of XLM-R, T5 and ALBERT, with the ids and texts that the library tokenizers (0.23.3) gives.

Without an argument it writes tests/cases/tokenizer_sentencepiece/, whose rules are a choice of NFKC's.  With one it writes a model for each of
SentencePiece's tables, which are too large to be committed, and TOKENIZER_CASES=DIRECTORY build/release/tests/text/test_random compares them.
It needs the packages tokenizers, sentencepiece and protobuf.
"""
import base64
import io
import json
import os
import random
import sys
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

from tokenizer_random import decode_row, encode_row, random_ids, random_text

EXTRA = ["①②", "㍿", "ﾊﾟﾋﾟ", "ｶﾞ", "Å", "A\u030a", "ﬃ", "ﷺ", "カ\u3099", "が", "\u0958", "x²", "½", "\u00ad", "`` ''", "Ⅳ", "\u1e9b\u0323", "ΑΣ", "İI", "ß", "<extra_id_1>", "[MASK]"]


def rules():
    """Some hundred rules of NFKC, and of our own, among them keys that begin other keys."""
    out = {}
    for first, last in [(0xA0, 0x17F), (0x2160, 0x216F), (0x2460, 0x2473), (0xFB00, 0xFB06), (0xFF01, 0xFF5E), (0xFF66, 0xFF9F)]:
        for cp in range(first, last + 1):
            c = chr(cp)
            if unicodedata.normalize("NFKC", c) != c:
                out[c] = unicodedata.normalize("NFKC", c)
    for base in "aeiouAEIOU":
        for mark in "\u0300\u0301\u0302\u0308":
            out[base + mark] = unicodedata.normalize("NFC", base + mark)
    return out | {"ｶﾞ": "ガ", "ﾊﾟ": "パ", "\u00ad": "", "\u200b": " ", "\t": " ", "\u3000": " ", "日本": "Nippon", "日": "day"}


def train(name, text, own):
    with tempfile.TemporaryDirectory() as d:
        options = {"normalization_rule_name": name}
        if own:
            with open(os.path.join(d, "rules.tsv"), "w", encoding="utf-8") as f:
                for key, value in sorted(own.items()):
                    f.write(" ".join("%X" % ord(c) for c in key) + "\t" + " ".join("%X" % ord(c) for c in value) + "\n")
            options = {"normalization_rule_tsv": os.path.join(d, "rules.tsv")}
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=model, vocab_size=260, model_type="unigram", num_threads=1,
                                                 hard_vocab_limit=False, character_coverage=0.98, minloglevel=2, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto


def metaspace(scheme="always"):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


def added(pairs, **flags):
    return [{"id": i, "content": c, "single_word": False, "lstrip": flags.get(c, False), "rstrip": False, "normalized": False, "special": True} for c, i in pairs]


def template(before, after):
    ids = dict(before + after)
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": c, "type_id": 0}} for c, _ in before] + [{"Sequence": {"id": "A", "type_id": 0}}]
            + [{"SpecialToken": {"id": c, "type_id": 0}} for c, _ in after], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {c: {"id": c, "ids": [i], "tokens": [c]} for c, i in ids.items()}}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(kind, *members):
    return {"type": "Sequence", kind: list(members)}


def kinds(proto):
    """The ways in which today's tokenizer.json files hold a SentencePiece model: options and vocabulary, and the other parts."""
    table = proto.normalizer_spec.precompiled_charsmap
    precompiled = [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}] if table else []
    spaces = replace({"Regex": " {2,}"}, " ")
    words = [[p.piece, p.score] for p in proto.pieces[3:]]
    cut = sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace())
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]] + words
    yield "XLM-R", 3, vocab, {"added_tokens": added([("<s>", 0), ("<pad>", 1), ("</s>", 2), ("<unk>", 3)]), "normalizer": sequence("normalizers", *precompiled, spaces),
                             "pre_tokenizer": cut, "post_processor": template([("<s>", 0)], [("</s>", 2)]), "decoder": metaspace()}
    vocab = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]] + words + [["<extra_id_1>", 0.0], ["<extra_id_0>", 0.0]]
    n = len(vocab)
    yield "T5", 2, vocab, {"added_tokens": added([("<pad>", 0), ("</s>", 1), ("<unk>", 2), ("<extra_id_1>", n - 2), ("<extra_id_0>", n - 1)]),
                           "normalizer": precompiled[0] if precompiled else None, "pre_tokenizer": metaspace("first"), "post_processor": template([], [("</s>", 1)]), "decoder": metaspace("first")}
    vocab = [["<pad>", 0.0], ["<unk>", 0.0], ["[CLS]", 0.0], ["[SEP]", 0.0], ["[MASK]", 0.0]] + words
    steps = [replace({"String": "``"}, '"'), replace({"String": "''"}, '"'), {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    yield "ALBERT", 1, vocab, {"added_tokens": added([("<pad>", 0), ("<unk>", 1), ("[CLS]", 2), ("[SEP]", 3), ("[MASK]", 4)], **{"[MASK]": True}),
                               "normalizer": sequence("normalizers", *steps, *precompiled, spaces), "pre_tokenizer": cut, "post_processor": template([("[CLS]", 2)], [("[SEP]", 3)]),
                               "decoder": metaspace()}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    vocab = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0]] + words
    yield "new conversions", 0, vocab, {"added_tokens": added([("<unk>", 0), ("<s>", 1), ("</s>", 2)]),
                                        "normalizer": sequence("normalizers", *precompiled, strip, replace({"Regex": " {2,}"}, "▁")), "pre_tokenizer": metaspace("first"),
                                        "post_processor": template([("<s>", 1)], []), "decoder": metaspace("first")}


def write(directory, names):
    os.makedirs(directory, exist_ok=True)
    r = random.Random(3)
    text = [random_text(r).replace("\0", "") + r.choice(EXTRA) for _ in range(600)]
    models, cases = [], []
    for name, own in names:
        for kind, unk, vocab, parts in kinds(train(name, text, own)):
            members = json.dumps({"vocab": [[p, round(score, 5)] for p, score in vocab]}, ensure_ascii=False, separators=(",", ":"))[1:-1]
            options = {"type": "Unigram", "unk_id": unk, "byte_fallback": False}
            head = json.dumps({"version": "1.0", **parts}, ensure_ascii=False, separators=(",", ":"))
            opts = json.dumps(options, separators=(",", ":"))
            t = Tokenizer.from_str(head[:-1] + ',"model":' + opts[:-1] + "," + members + "}}")
            rows = [encode_row(t, "".join(r.choice([random_text(r), r.choice(EXTRA), " "]) for _ in range(3))) for _ in range(40)]
            for _ in range(5):
                ids = random_ids(r, len(vocab))
                rows.append({"ids_special": ids, **decode_row(t, ids)})
            cases.append({"name": "%s, %s" % (kind, name), "model": len(models), "parts": head[1:-1], "options": opts[1:-1], "rows": rows})
            models.append(members)
    with open(os.path.join(directory, "models.json"), "w", encoding="utf-8") as f:
        json.dump(models, f, ensure_ascii=False, indent=0)
    with open(os.path.join(directory, "cases.jsonl"), "w", encoding="utf-8") as f:
        for c in cases:
            f.write(json.dumps(c, ensure_ascii=False, separators=(",", ":")) + "\n")


if len(sys.argv) > 1:
    write(sys.argv[1], [(name, None) for name in ["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"]])
else:
    write(os.path.join(os.path.dirname(__file__), "..", "cases", "tokenizer_sentencepiece"), [("rules", rules())])
