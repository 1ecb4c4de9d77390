#!/usr/bin/env python3
"""tests/oracles/text_data.py : writes tests/cases/text_data/, files of rows in JSON, CSV and TSV, and
ext/parquet/tests/compressed/, the compressed ones, each with cases.jsonl with the rows that Python's json and csv modules read in them.

gzip is Python's own; zstd is pyarrow's (26.0).
"""
import csv
import gzip
import io
import json
import os

import pyarrow as pa

OUT = os.path.join(os.path.dirname(__file__), "..", "cases", "text_data")
COMPRESSED = os.path.join(os.path.dirname(__file__), "..", "..", "ext", "parquet", "tests", "compressed")
ROWS = [
    {"question": "What is 6*7?", "answer": "42", "n": 1},
    {"question": "naïve \"quoted\", with a comma\nand a line", "answer": "日本 😀", "n": -2.5},
    {"question": "", "answer": "\ttab", "n": None},
]
LINES = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in ROWS)
ARRAY = json.dumps(ROWS)


def table(delimiter, end):
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerow(["question", "answer"])
    for row in ROWS:
        writer.writerow([row["question"], row["answer"]])
    return out.getvalue()


def zstd(data):
    return pa.compress(data, codec="zstd", asbytes=True)


def read_table(text, delimiter):
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))


lines, array = LINES.encode(), ARRAY.encode()
half = LINES.index("\n") + 1
first, rest = LINES[:half].encode(), LINES[half:].encode()
comma, tab = table(",", "\n"), table("\t", "\r\n")
FILES = [
    ("rows.jsonl", "jsonl", lines, ROWS),
    ("no_end.jsonl", "jsonl", lines.rstrip(b"\n"), ROWS),
    ("crlf.jsonl", "jsonl", lines.replace(b"\n", b"\r\n"), ROWS),
    ("mark.jsonl", "jsonl", b"\xef\xbb\xbf" + lines, ROWS),
    ("rows.jsonl.gz", "jsonl", gzip.compress(lines, mtime=0), ROWS),
    ("two_members.jsonl.gz", "jsonl", gzip.compress(first, mtime=0) + gzip.compress(rest, mtime=0), ROWS),
    ("split_line.jsonl.gz", "jsonl",
     gzip.compress(lines[:20], mtime=0) + gzip.compress(lines[20:], mtime=0), ROWS),
    ("padded.jsonl.gz", "jsonl", gzip.compress(lines, mtime=0) + bytes(512), ROWS),
    ("rows.jsonl.zst", "jsonl", zstd(lines), ROWS),
    ("two_frames.jsonl.zst", "jsonl", zstd(first) + zstd(rest), ROWS),
    ("skippable.jsonl.zst", "jsonl", zstd(first) + b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd(rest), ROWS),
    ("marked.jsonl.gz", "jsonl", gzip.compress(b"\xef\xbb\xbf" + lines, mtime=0), ROWS),
    ("rows.json", "json", array, ROWS),
    ("pretty.json", "json", json.dumps(ROWS, indent=2).encode(), ROWS),
    ("crlf.json", "json", json.dumps(ROWS, indent=2).replace("\n", "\r\n").encode(), ROWS),
    ("mark.json", "json", b"\xef\xbb\xbf" + array, ROWS),
    ("lines.json", "json", lines, ROWS),
    ("rows.json.gz", "json", gzip.compress(array, mtime=0), ROWS),
    ("rows.json.zst", "json", zstd(array), ROWS),
    ("empty.json", "json", b"[]", []),
    ("rows.csv", "csv", comma.encode(), read_table(comma, ",")),
    ("mark.csv", "csv", b"\xef\xbb\xbf" + comma.encode(), read_table(comma, ",")),
    ("crlf.csv", "csv", table(",", "\r\n").encode(), read_table(table(",", "\r\n"), ",")),
    ("rows.csv.gz", "csv", gzip.compress(comma.encode(), mtime=0), read_table(comma, ",")),
    ("rows.tsv", "tsv", tab.encode(), read_table(tab, "\t")),
    ("rows.tsv.zst", "tsv", zstd(tab.encode()), read_table(tab, "\t")),
]



def is_compressed(name):
    return name.endswith((".gz", ".zst"))


def write(out, files):
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "cases.jsonl"), "w") as cases:
        for name, kind, data, rows in files:
            with open(os.path.join(out, name), "wb") as f:
                f.write(data)
            cases.write(json.dumps({"file": name, "format": kind, "rows": rows}) + "\n")


write(OUT, [file for file in FILES if not is_compressed(file[0])])
write(COMPRESSED, [file for file in FILES if is_compressed(file[0])])
with open(os.path.join(COMPRESSED, "tar.gz"), "wb") as f:  # an archive, which is refused by name
    f.write(gzip.compress(bytes(257) + b"ustar\x0000" + bytes(248), mtime=0))
