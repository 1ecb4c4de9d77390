#!/usr/bin/env python3
"""tests/oracles/tokenizer_random.py [SEED] [CASES] [DIRECTORY] : random tokenizers of every component and option of the library
tokenizers (0.23.3), with the ids and texts that the library gives.

Without arguments it writes tests/cases/tokenizer_random/ (three of its BPE models come out a little otherwise each time).  To look for differences among more of them:
    python3 tests/oracles/tokenizer_random.py 7 2000 /tmp/random && make build/release/tests/text/test_random
    TOKENIZER_CASES=/tmp/random build/release/tests/text/test_random
"""
import base64
import json
import os
import random
import resource
import struct
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

WORDS = ["the", "quick", "brown", "fox", "jumped", "over", "12345", "2024", "x=3;", "don't", "I'M", "naïve", "Größe", "²³", "½", "日本語",
         "カタカナ", "ひらがな", "한국어", "각", "😀", "👩‍👩‍👧", "e\u0301", "E\u0301a\u0308", "a\u200bb", "tab\there", "\ufeffmark", "▁▁", "▁",
         "--", "...", "(a,b)", "\u2028", "\x07bell", "C++", "ﬁ", "™", "İstanbul", "ǅ", "ẞ", "привет", "Ёлка", "مرحبا", "שלום", "नमस्ते", "क्ष", "ไทย",
         "Ⅷ", "①", "ｱｲｳ", "ＡＢＣ", "©\u200d®", "\r\n", "\xa0", "\u3000", "\u0085", "\u180e", "_", "snake_case", "</w>", "##s", "<0x41>", "[MASK]", "<s>",
         "</s>", "<unk>", "Ġ", "Ċ", "é", "|", "\u0340", "\u1100\u1161\u11a8", "🇩🇪🇫", "\u0600a", "\0", "\ufffd", "\ue000", "\U000e0041", "ـ", "ꦀ", "½½", "''", "'s"]
GAPS = [" ", " ", " ", "", "", "  ", "\n", "-", "\t", " \n ", "\u3000"]
BYTES = ["<0x%02X>" % b for b in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>", "[MASK]"]


def random_text(r):
    return r.choice(["", " "] + [""] * 4) + "".join(r.choice(WORDS) + r.choice(GAPS) for _ in range(r.randint(0, 9)))


# ---- models: their long members, and random values of the others ------------------------------------------------------

def corpus():
    r = random.Random(5)
    plain = [random_text(r).replace("\0", "") for _ in range(300)]
    return plain + [s.replace(" ", "▁") for s in plain]


def mapped(lines):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return ["".join(p for p, _ in pre.pre_tokenize_str(s)) for s in lines if s]


def bpe(prefix=None, suffix=None, bytes_too=()):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    lines = corpus()
    if prefix or suffix:
        t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL + list(bytes_too), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  max_token_length=6, show_progress=False, continuing_subword_prefix=prefix or "", end_of_word_suffix=suffix or "")
    t.train_from_iterator(lines + mapped(lines), trainer)
    m = json.loads(t.to_str())["model"]
    return {"vocab": m["vocab"], "merges": m["merges"]}


def pieces(prefix):
    r = random.Random(3)
    words = sorted({w for w in WORDS if w.isalpha()} | set("abcdeinorstuxyzäß12."))
    parts = {p for w in words for p in [w, w[:2], w[:1]]} | {prefix + w[i:i + n] for w in words for i in range(1, len(w)) for n in (1, 2)}
    names = SPECIAL + sorted(parts | {"▁the", "▁", "Ġthe", "Ġ"} - set(SPECIAL))
    r.shuffle(names)
    return {"vocab": {name: i for i, name in enumerate(names)}}


def unigram(bytes_too=()):
    r = random.Random(11)
    found = {}
    for line in corpus() + mapped(corpus()):
        for i in range(len(line)):
            for n in (1, 2, 3, 5):
                if i + n <= len(line):
                    found[line[i:i + n]] = found.get(line[i:i + n], 0) + 1
    best = sorted(found, key=lambda p: (-found[p] * len(p), p))[:500]
    vocab = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0]] + [[p, round(-r.uniform(2, 9), 4)] for p in best if p not in SPECIAL]
    return {"vocab": vocab + [[b, -9.5] for b in bytes_too]}


def all_models():
    return [("BPE", bpe()), ("BPE", bpe(bytes_too=BYTES)), ("BPE", bpe(bytes_too=BYTES[:200:2])), ("BPE", bpe(prefix="##")),
            ("BPE", bpe(suffix="</w>")), ("BPE", bpe(prefix="##", suffix="</w>")), ("WordPiece", pieces("##")), ("WordPiece", pieces("")),
            ("WordLevel", pieces("##")), ("Unigram", unigram()), ("Unigram", unigram(BYTES)), ("Unigram", unigram(BYTES[:250]))]


def flag(r):
    return r.random() < 0.5


def options(r, kind, index):
    if kind == "BPE":
        return {"type": "BPE", "dropout": r.choice([None, None, 0.0]), "unk_token": r.choice([None, "<unk>"]),
                "continuing_subword_prefix": "##" if index in (3, 5) else r.choice([None, None, ""]),
                "end_of_word_suffix": "</w>" if index in (4, 5) else r.choice([None, None, ""]),
                "fuse_unk": flag(r), "byte_fallback": flag(r), "ignore_merges": flag(r)}
    if kind == "WordPiece":
        return {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##" if index == 6 else "",
                "max_input_chars_per_word": r.choice([1, 4, 100])}
    if kind == "WordLevel":
        return {"type": "WordLevel", "unk_token": r.choice(["<unk>", "<unk>", "none"])}
    return {"type": "Unigram", "unk_id": r.choice([0, 0, 0, 1, None]), "byte_fallback": flag(r)}


# ---- normalizers ------------------------------------------------------------------------------------------------------

def charsmap(rules):
    """A table of the normalizer Precompiled.  The children of a node of its trie stand at the node's base, moved by a byte by exclusive or; the
    base is the first place where all of them are free."""
    nodes, leaf, text = [{}], [None], b""
    for key, value in rules.items():
        at = 0
        for b in key.encode():
            if b not in nodes[at]:
                nodes[at][b] = len(nodes)
                nodes.append({})
                leaf.append(None)
            at = nodes[at][b]
        leaf[at] = len(text)
        text += value.encode() + b"\0"
    used, units, place = {0}, {}, {0: 0}
    for i, children in enumerate(nodes):
        wanted = list(children) + [0] * (leaf[i] is not None)
        base = next(b for b in range(1, 1 << 20) if all(b ^ w not in used for w in wanted))
        used |= {base ^ w for w in wanted}
        units[place[i]] = units.get(place[i], 0) | (base ^ place[i]) << 10 | (leaf[i] is not None) << 8
        if leaf[i] is not None:
            units[base] = leaf[i] | 1 << 31
        for b, child in children.items():
            units[base ^ b] = b
            place[child] = base ^ b
    size = (max(units) | 255) + 1
    return base64.b64encode(struct.pack("<%dI" % (size + 1), 4 * size, *(units.get(k, 0) for k in range(size))) + text).decode()


CHARSMAPS = [charsmap(rules) for rules in [
    {"ﬁ": "fi", "™": "TM", "\x07": "", "\t": " ", "\u3000": " ", "e\u0301": "é", "Ａ": "A", "①": "1"},
    {"e": "E", "क": "k", "\u1100\u1161": "가", "\u0301": "", "©": "(c)", "日": "day", "日本": "Japan", "\r": "", " ": "▁"},
    {"a": "", "b": "", "the": "THE", "t": "τ", "😀": ":-)", "\ufeff": "", "\n": " ", "\u0600": "", "x": "xxxxxxxxxxxx"}]]


def pattern(r):
    return r.choice([{"String": r.choice([" ", "▁", "the", "e", "  ", "\n", "本", "'"])},
                     {"Regex": r.choice([r"\s+", r"[0-9]", r"\p{N}{1,3}", r"\w+", r"\w+|[^\w\s]+", r"[aeiou]", r"\p{L}+", r"(?i:THE|fox)", r"^\s+|\s+$", r" ?\p{L}+", r"\d+",
                                         r"\p{P}", r"[^\s\w]+", r"\n|\r\n", r"\p{Han}+", r"\S+", r"e(?=r)", r"(?<=a)b", r"^", r"$", r"\b", r"(?=[A-Z])", r"(?<=\d)(?=(?:\d{3})+(?!\d))", r"x*", r".", r"[\u4e00-\u9fa5]+", r"[\w&&[^aeiou]]+", r"[^\W\d]", r"\b\w", r"o\B", r"[[:punct:]]",
                                         r"(?m:e.)", r"[\p{L}&&\p{Lu}]", r"[a-c[x-z]]+", r"[^a-m[n-z]&&\p{L}]", r"\h+", r"[\S&&\D]", r"\W", r"^.", r".$",
                                         r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"])}])


def normalizer(r, depth=0):
    kind = r.choice(["BertNormalizer", "Strip", "StripAccents", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt", "Precompiled", "Replace", "Prepend",
                     "ByteLevel"] + ["Sequence"] * 4 * (depth < 2))
    if kind == "Sequence":
        return {"type": kind, "normalizers": [normalizer(r, depth + 1) for _ in range(r.randint(0, 3))]}
    if kind == "BertNormalizer":
        return {"type": kind, "clean_text": flag(r), "handle_chinese_chars": flag(r), "strip_accents": r.choice([None, True, False]), "lowercase": flag(r)}
    if kind == "Strip":
        return {"type": kind, "strip_left": flag(r), "strip_right": flag(r)}
    if kind == "Precompiled":
        return {"type": kind, "precompiled_charsmap": r.choice(CHARSMAPS)}
    if kind == "Replace":
        return {"type": kind, "pattern": pattern(r), "content": r.choice(["", " ", "▁", "x", "ab", "é"])}
    if kind == "Prepend":
        return {"type": kind, "prepend": r.choice(["▁", " ", "x", "ab"])}
    return {"type": kind}


# ---- pre-tokenizers ----------------------------------------------------------------------------------------------------

BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def byte_level(r):
    return {"type": "ByteLevel", "add_prefix_space": flag(r), "trim_offsets": flag(r), "use_regex": flag(r)}


def metaspace(r):
    return {"type": "Metaspace", "replacement": r.choice(["▁", "▁", "▁", "_"]), "prepend_scheme": r.choice(["always", "first", "never"]), "split": flag(r)}


def pre_tokenizer(r, depth=0):
    kind = r.choice(["BertPreTokenizer", "ByteLevel", "ByteLevel", "CharDelimiterSplit", "Metaspace", "Metaspace", "Whitespace", "Split", "Split", "Punctuation",
                     "WhitespaceSplit", "Digits", "UnicodeScripts", "FixedLength"] + ["Sequence"] * 5 * (depth < 2))
    if kind == "Sequence":
        return {"type": kind, "pretokenizers": [pre_tokenizer(r, depth + 1) for _ in range(r.randint(0, 3))]}
    if kind == "ByteLevel":
        return byte_level(r)
    if kind == "Metaspace":
        return metaspace(r)
    if kind == "CharDelimiterSplit":
        return {"type": kind, "delimiter": r.choice(["-", " ", "e", "本"])}
    if kind == "Split":
        return {"type": kind, "pattern": pattern(r), "behavior": r.choice(BEHAVIORS), "invert": flag(r)}
    if kind == "Punctuation":
        return {"type": kind, "behavior": r.choice(BEHAVIORS)}
    if kind == "Digits":
        return {"type": kind, "individual_digits": flag(r)}
    if kind == "FixedLength":
        return {"type": kind, "length": r.randint(1, 6)}
    return {"type": kind}


# ---- decoders -----------------------------------------------------------------------------------------------------------

def decoder(r, depth=0):
    kind = r.choice(["BPEDecoder", "ByteLevel", "ByteLevel", "WordPiece", "Metaspace", "CTC", "Replace", "Fuse", "Strip", "ByteFallback"] + ["Sequence"] * 4 * (depth < 2))
    if kind == "Sequence":
        return {"type": kind, "decoders": [decoder(r, depth + 1) for _ in range(r.randint(0, 4))]}
    if kind == "BPEDecoder":
        return {"type": kind, "suffix": r.choice(["</w>", "e", ""])}
    if kind == "ByteLevel":
        return byte_level(r)
    if kind == "WordPiece":
        return {"type": kind, "prefix": r.choice(["##", "", "▁"]), "cleanup": flag(r)}
    if kind == "Metaspace":
        return metaspace(r)
    if kind == "CTC":
        return {"type": kind, "pad_token": r.choice(["<s>", "e", ""]), "word_delimiter_token": r.choice(["|", "t", ""]), "cleanup": flag(r)}
    if kind == "Replace":
        return {"type": kind, "pattern": pattern(r), "content": r.choice(["", " ", "x"])}
    if kind == "Strip":
        return {"type": kind, "content": r.choice([" ", "▁", "e"]), "start": r.randint(0, 2), "stop": r.choice([0, 0, 0, 1])}
    return {"type": kind}


# ---- post-processors ------------------------------------------------------------------------------------------------------

def template(r, sequences, ids):
    out = [{"Sequence": {"id": s, "type_id": 0}} for s in sequences]
    for name in r.sample(sorted(ids), r.randint(0, 2)):
        out.insert(r.randint(0, len(out)), {"SpecialToken": {"id": name, "type_id": 0}})
    return out


def post_processor(r, ids, depth=0):
    kind = r.choice(["BertProcessing", "RobertaProcessing", "ByteLevel", "TemplateProcessing", "TemplateProcessing"] + ["Sequence"] * 3 * (depth < 2))
    pairs = {"sep": ["</s>", ids["</s>"]], "cls": ["<s>", ids["<s>"]]}
    if kind == "Sequence":
        return {"type": kind, "processors": [post_processor(r, ids, depth + 1) for _ in range(r.randint(0, 3))]}
    if kind == "BertProcessing":
        return {"type": kind, **pairs}
    if kind == "RobertaProcessing":
        return {"type": kind, **pairs, "trim_offsets": flag(r), "add_prefix_space": flag(r)}
    if kind == "ByteLevel":
        return byte_level(r)
    specials = {name: {"id": name, "ids": [ids[name]] * r.choice([1, 1, 2]), "tokens": [name]} for name in ids}
    for s in specials.values():
        s["tokens"] = [s["id"]] * len(s["ids"])
    return {"type": kind, "single": template(r, "A", ids), "pair": template(r, "AB", ids), "special_tokens": specials}


# ---- whole tokenizers --------------------------------------------------------------------------------------------------------

ADDED = ["<s>", "</s>", "[MASK]", "the", "Größe", " lead", "trail ", "ﬁ", "e\u0301", "É", "A", "12", " ", "\n", "▁▁", "<0x41>", "日本", "fox jumped", "don", "ABC", "  ", "THE", "|"]


def added_tokens(r, names):
    names = dict(names)
    out, next_id = [], len(names)
    contents = ["<unk>"] * flag(r) + ["<s>", "</s>"] * flag(r) + r.sample(ADDED, r.choice([0, 0, 1, 2, 4]))
    for content in dict.fromkeys(contents):
        if content not in names:
            names[content] = next_id
            next_id += 1
        plain = r.random() < 0.3
        out.append({"id": names[content], "content": content, "single_word": not plain and r.random() < 0.3, "lstrip": not plain and r.random() < 0.3,
                    "rstrip": not plain and r.random() < 0.3, "normalized": r.random() < 0.5, "special": flag(r)})
    return out, names


def maybe(r, make, *args):
    return make(r, *args) if r.random() < 0.8 else None


def case(r, all_of):
    index = r.randrange(len(all_of))
    kind, members = all_of[index]
    vocab = members["vocab"]
    names = {p[0]: i for i, p in enumerate(vocab)} if kind == "Unigram" else vocab
    added, names = added_tokens(r, names)
    ids = {name: names[name] for name in ("<s>", "</s>")}
    parts = {"truncation": r.choice([None, None, {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}]),
             "padding": r.choice([None, None, {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"}]),
             "added_tokens": added, "normalizer": maybe(r, normalizer), "pre_tokenizer": maybe(r, pre_tokenizer), "post_processor": maybe(r, post_processor, ids),
             "decoder": maybe(r, decoder)}
    return index, options(r, kind, index), parts


def attempt(call):
    """None if the library fails, by an exception or by a panic."""
    try:
        return call()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def encode_row(t, text):
    def ids(special):
        return attempt(lambda: t.encode(text, add_special_tokens=special).ids)
    row = {"text": text, "ids": ids(False), "ids_special": ids(True)}
    t.encode_special_tokens = True
    row["ids_plain"] = ids(False)
    t.encode_special_tokens = False
    if row["ids_special"] is not None:
        row |= decode_row(t, row["ids_special"])
    return {key: value for key, value in row.items() if value is not None}


def decode_row(t, ids):
    row = {"decoded": attempt(lambda: t.decode(ids, skip_special_tokens=False)), "decoded_skip": attempt(lambda: t.decode(ids, skip_special_tokens=True))}
    return {key: value for key, value in row.items() if value is not None}


def random_ids(r, size):
    ids = [r.randrange(size + 3) for _ in range(r.randint(0, 12))]
    return [i for i in ids for _ in range(r.choice([1, 1, 1, 2]))]


def write(seed, count, directory):
    os.makedirs(directory, exist_ok=True)
    all_of = all_models()
    r = random.Random(seed)
    members = [json.dumps(m, ensure_ascii=False, separators=(",", ":"))[1:-1] for _, m in all_of]
    with open(os.path.join(directory, "models.json"), "w", encoding="utf-8") as f:
        json.dump(members, f, ensure_ascii=False, indent=0)
    with open(os.path.join(directory, "cases.jsonl"), "w", encoding="utf-8") as f:
        while count:
            index, opts, parts = case(r, all_of)
            head = json.dumps({"version": "1.0", **parts}, ensure_ascii=False, separators=(",", ":"))
            if r.random() < 0.05:
                del opts["type"]  # as in files of 2020
            opts = json.dumps(opts, ensure_ascii=False, separators=(",", ":"))
            t = attempt(lambda: Tokenizer.from_str(head[:-1] + ',"model":' + opts[:-1] + "," + members[index] + "}}"))
            if t is None:
                continue
            t.no_truncation()
            t.no_padding()
            forms = [t.normalizer.normalize_str(a["content"]) for a in parts["added_tokens"] if a["normalized"] and t.normalizer]
            if "" in forms or len(set(forms)) < len(forms):
                continue  # what it finds then depends on the order of a hash table, or never ends
            rows = [encode_row(t, random_text(r)) for _ in range(8)]
            if attempt(lambda: t.encode("", add_special_tokens=True)) is None:
                continue  # it panics: a TemplateProcessing after one that makes more than two parts
            for _ in range(3):
                ids = random_ids(r, t.get_vocab_size())
                rows.append({"ids_special": ids, **decode_row(t, ids)})
            f.write(json.dumps({"model": index, "parts": head[1:-1], "options": opts[1:-1], "rows": rows}, ensure_ascii=False, separators=(",", ":")) + "\n")
            count -= 1


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # the library has no limits of its own
    write(int(sys.argv[1]) if len(sys.argv) > 1 else 1, int(sys.argv[2]) if len(sys.argv) > 2 else 100,
          sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(__file__), "..", "cases", "tokenizer_random"))
