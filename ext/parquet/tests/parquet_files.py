#!/usr/bin/env python3
"""ext/parquet/tests/parquet_files.py [--sweep DIR [--grpo PROGRAM]] : Parquet files that pyarrow (26.0) writes,
and the rows that it reads in them.

Without --sweep it writes ext/parquet/tests/cases: small files over types, encodings, codecs, page versions and
nullability, with cases.jsonl. With --sweep it writes files over all combinations into DIR, has PROGRAM read
them, and compares; it prints how many files of each kind agreed.
"""
import argparse
import collections
import datetime
import decimal
import json
import math
import os
import random
import subprocess
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

HERE = os.path.dirname(os.path.abspath(__file__))
D, R = decimal.Decimal, random.Random(5)
WORDS = ["", "a", "yes", "naïve", "日本", "😀 smile", "a longer text " * 4, "line\nbreak", "tab\t\"quote\""]
EPOCH = datetime.datetime(1970, 1, 1)


def whole(bits, signed):
    low = -(1 << bits - 1) if signed else 0
    high = (1 << bits - 1) - 1 if signed else (1 << bits) - 1
    return lambda: R.choice([low, high, 0, 1, R.randint(low, high), R.randint(max(low, -9), 9)])


def real():
    return R.choice([0.0, -0.0, 1.5, -2.25, 1e30, 1e-30, float("nan"), float("inf"), R.gauss(0, 1)])


def digits(precision, scale):
    # pyarrow wants a decimal of exactly that scale
    def make():
        n = R.choice([0, 1, -1, 10**precision - 1, -10**precision + 1, R.randint(-10**precision + 1, 10**precision - 1)])
        return D((n < 0, tuple(map(int, str(abs(n)))), -scale))
    return make


def word():
    return R.choice(WORDS)


def data(n=None):
    return lambda: bytes(R.randint(32, 126) for _ in range(n if n is not None else R.randint(0, 12)))


def day():
    return datetime.date(R.choice([1, 1600, 1900, 1970, 2000, 2024, 9999]), R.randint(1, 12), R.randint(1, 28))


def moment(micro=True, years=(1, 1900, 1969, 1970, 2024, 9999)):
    def make():
        t = datetime.datetime(R.choice(years), R.randint(1, 12), R.randint(1, 28), R.randint(0, 23), R.randint(0, 59), R.randint(0, 59))
        return t.replace(microsecond=R.choice([0, 1000 * R.randint(0, 999), R.randint(0, 999999) if micro else 0]))
    return make


def milli(make):
    return lambda: (lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))(make())


def clock(step):
    return lambda: (EPOCH + datetime.timedelta(microseconds=R.randrange(0, 86400 * 10**6, step))).time()


def many(make, most=4):
    return lambda: [make() if R.random() < 0.8 else None for _ in range(R.randint(0, most))]


def turn():
    return None if R.random() < 0.1 else {"role": R.choice(["user", "assistant", None]), "content": word()}


def tool():
    return {"name": word(), "parameters": {"type": "object", "required": many(word)() if R.random() < 0.7 else None}}


def pairs():
    return [(k, R.choice([None, R.randint(0, 9)])) for k in R.sample("abcdef", R.randint(0, 4))]


TURN = pa.struct([("role", pa.string()), ("content", pa.string())])
DELTA = ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
TEXT = ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
FIXED = ["BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"]
# name -> arrow type, generator, encodings beside PLAIN and dictionaries, options of the writer
TYPES = {
    "bool": (pa.bool_(), lambda: R.random() < 0.5, ["RLE"], {}),
    "half": (pa.float16(), lambda: R.choice([0.0, 1.5, -2.0, 65504.0, 2**-24, float("inf")]), FIXED[:1], {}),
    "float": (pa.float32(), real, ["BYTE_STREAM_SPLIT"], {}),
    "double": (pa.float64(), real, ["BYTE_STREAM_SPLIT"], {}),
    "text": (pa.string(), word, TEXT, {}),
    "large_text": (pa.large_string(), word, TEXT, {}),
    "category": (pa.dictionary(pa.int32(), pa.string()), word, [], {}),
    "bytes": (pa.binary(), data(), TEXT, {}),
    "fixed": (pa.binary(5), data(5), FIXED, {}),
    "uuid": (pa.uuid(), lambda: uuid.UUID(int=R.getrandbits(128)).bytes, [], {}),
    "decimal_9_2": (pa.decimal128(9, 2), digits(9, 2), FIXED, {}),
    "decimal_18_4": (pa.decimal128(18, 4), digits(18, 4), [], {}),
    "decimal_38_10": (pa.decimal128(38, 10), digits(38, 10), [], {}),
    "decimal_76_30": (pa.decimal256(76, 30), digits(76, 30), [], {}),
    "decimal_int32": (pa.decimal128(9, 2), digits(9, 2), DELTA, {"store_decimal_as_integer": True}),
    "decimal_int64": (pa.decimal128(18, 0), digits(18, 0), DELTA, {"store_decimal_as_integer": True}),
    "date": (pa.date32(), day, DELTA, {}),
    "time_ms": (pa.time32("ms"), clock(1000), DELTA, {}),
    "time_us": (pa.time64("us"), clock(1), DELTA, {}),
    "moment_ms": (pa.timestamp("ms"), milli(moment()), DELTA, {}),
    "moment_us": (pa.timestamp("us"), moment(), DELTA, {}),
    "moment_ns": (pa.timestamp("ns"), moment(years=(1900, 1969, 1970, 2024)), DELTA, {}),
    "moment_utc": (pa.timestamp("us", "UTC"), moment(), DELTA, {}),
    "moment_berlin": (pa.timestamp("us", "Europe/Berlin"), moment(years=(1970, 2024)), DELTA, {}),
    "moment_int96": (pa.timestamp("ns"), moment(years=(1900, 1969, 1970, 2024)), [], {"use_deprecated_int96_timestamps": True}),
    "null": (pa.null(), lambda: None, [], {}),
    "list": (pa.list_(pa.int64()), many(whole(64, True)), [], {}),
    "texts": (pa.list_(pa.string()), many(word), [], {}),
    "large_list": (pa.large_list(pa.float64()), many(lambda: R.gauss(0, 1)), [], {}),
    "three": (pa.list_(pa.int32(), 3), lambda: [1, None, R.randint(0, 9)], [], {}),
    "lists": (pa.list_(pa.list_(pa.string())), many(many(word, 3), 3), [], {}),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), lambda: {"a": R.choice([None, 1]), "b": word()}, [], {}),
    "messages": (pa.list_(TURN), many(turn), [], {}),
    "deep": (pa.struct([("turns", pa.list_(TURN)), ("n", pa.int32())]), lambda: {"turns": R.choice([None, many(turn)()]), "n": 3}, [], {}),
    "tools": (pa.list_(pa.struct([("name", pa.string()), ("parameters", pa.struct([("type", pa.string()), ("required", pa.list_(pa.string()))]))])), many(tool, 3), [], {}),
    "map": (pa.map_(pa.string(), pa.int64()), pairs, [], {}),
    "maps": (pa.list_(pa.map_(pa.string(), pa.int32())), many(pairs, 2), [], {}),
}
for bits in 8, 16, 32, 64:
    TYPES[f"int{bits}"] = (getattr(pa, f"int{bits}")(), whole(bits, True), DELTA, {})
    TYPES[f"uint{bits}"] = (getattr(pa, f"uint{bits}")(), whole(bits, False), DELTA, {})


def values_of(name, nulls, n):
    make = TYPES[name][1]
    share = {"required": 0, "none": 0, "some": 0.3, "all": 1}[nulls]
    return [None if R.random() < share else make() for _ in range(n)]


def table_of(name, nulls, n):
    kind = TYPES[name][0]
    values = values_of(name, nulls, n)
    if isinstance(kind, pa.BaseExtensionType):
        array = pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    elif pa.types.is_dictionary(kind):
        array = pa.array(values, pa.string()).dictionary_encode()
    else:
        array = pa.array(values, kind)
    field = pa.field("v", array.type, nullable=nulls != "required")
    return pa.table([array, pa.array(range(n), pa.int32())], pa.schema([field, pa.field("i", pa.int32(), nullable=False)]))


def plain(v):
    """A value of to_pylist as JSON has it: what Python prints for dates and decimals."""
    if isinstance(v, float):
        return v if math.isfinite(v) else None
    if isinstance(v, bytes):
        return v.decode("latin-1")
    if isinstance(v, D):
        return format(v, "f")
    if isinstance(v, datetime.datetime):
        return str(v.astimezone(datetime.timezone.utc) if v.tzinfo else v)
    if isinstance(v, (datetime.date, datetime.time, uuid.UUID)):
        return str(v)
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    return v


def rows_of(path):
    table = pq.read_table(path)
    if table.schema.field("v").type == pa.timestamp("ns"):  # to_pylist would want pandas
        table = table.set_column(0, "v", table["v"].cast(pa.timestamp("us")))
    return [plain(row) for row in table.to_pylist()]


def leaf_paths(schema):
    return [schema.column(i).path for i in range(len(schema.names)) if schema.column(i).path.split(".")[0] == "v"]


def write(path, table, encoding, codec, page, small, options):
    args = dict(compression=codec, data_page_version=page, **options)
    if small:
        args.update(row_group_size=max(1, table.num_rows // 3), data_page_size=64, write_batch_size=16)
    if encoding == "dictionary":
        return pq.write_table(table, path, **args)
    args["use_dictionary"] = False
    if encoding != "PLAIN":
        args["column_encoding"] = {"v": encoding}
    pq.write_table(table, path, **args)


def combinations():
    for name, (_, _, encodings, options) in TYPES.items():
        for encoding in ["dictionary", "PLAIN"] + encodings:
            for codec in ["none", "snappy", "zstd", "gzip"]:
                for page in ["1.0", "2.0"]:
                    for nulls in ["required", "none", "some", "all"]:
                        for n in [0, 1, 40, 700]:
                            if name == "null" and nulls != "all" or n == 0 and nulls != "some":
                                continue
                            yield name, encoding, codec, page, nulls, n, options


READER = """
local core = require "grpo.core"
for path in io.lines(%r) do
  local out = assert(io.open(path .. ".out", "w"))
  local ok, err = pcall(function()
    for row in grpo.data.parquet(path):rows() do out:write(core.json_encode(row), "\\n") end
  end)
  if not ok then out:write(core.json_encode { error = tostring(err) }, "\\n") end
  out:close()
end
"""


def same(ours, theirs):
    if isinstance(ours, float) or isinstance(theirs, float):
        return ours is not None and theirs is not None and float(ours) == float(theirs)
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    return ours == theirs


def sweep(dir, program, step):
    os.makedirs(dir, exist_ok=True)
    files, expected, refused = [], [], collections.Counter()
    for k, (name, encoding, codec, page, nulls, n, options) in enumerate(combinations()):
        if k % step:
            continue
        path = os.path.join(dir, f"{k}.parquet")
        try:
            write(path, table_of(name, nulls, n), encoding, codec, page, n > 1, options)
        except (pa.ArrowException, OSError) as e:
            refused[f"{name} {encoding}: {str(e)[:60]}"] += 1
            continue
        files.append((path, name, encoding, codec, page, nulls, n))
        expected.append(rows_of(path))
    with open(os.path.join(dir, "list"), "w") as f:
        f.writelines(path + "\n" for path, *_ in files)
    subprocess.run([program, "repl"], input=(READER % os.path.join(dir, "list")).encode(), check=True)
    agreed, wrong = collections.Counter(), 0
    for (path, *what), rows in zip(files, expected):
        with open(path + ".out") as f:
            ours = [json.loads(line) for line in f]
        if same(ours, rows):
            agreed[what[0], what[1]] += 1
        else:
            wrong += 1
            if wrong <= 10:
                at = next((i for i, (a, b) in enumerate(zip(ours, rows)) if not same(a, b)), min(len(ours), len(rows)))
                print("differs:", path, *what, "row", at, ours[at : at + 1], "want", rows[at : at + 1])
    for (name, encoding), n in agreed.items():
        print(f"{name:16} {encoding:24} {n}")
    for why, n in refused.items():
        print(f"not written by pyarrow ({n}):", why)
    print(sum(agreed.values()), "files agree,", wrong, "differ")


def cases():
    out = os.path.join(HERE, "cases")
    os.makedirs(out, exist_ok=True)
    codecs, pages, shares = ["none", "snappy", "zstd", "gzip"], ["1.0", "2.0"], ["some", "none", "required", "some"]
    with open(os.path.join(out, "cases.jsonl"), "w") as f:
        k = 0
        for name, (_, _, encodings, options) in TYPES.items():
            for encoding in ["dictionary", "PLAIN"] + encodings:
                k += 1
                path = os.path.join(out, f"{name}_{encoding.lower()}.parquet")
                nulls = "all" if name == "null" else shares[k // 2 % 4]
                try:
                    write(path, table_of(name, nulls, 12), encoding, codecs[k % 4], pages[k // 4 % 2], k % 3 == 0,
                          dict(options, store_schema=False, write_statistics=False))
                except (pa.ArrowException, OSError):
                    continue
                f.write(json.dumps({"file": os.path.basename(path), "rows": rows_of(path)}, ensure_ascii=False) + "\n")
    sums = [{"question": f"{a}+{b}=", "solution": str(a + b), "turns": [{"role": "user", "content": f"{a}+{b}="}]}
            for a in range(10) for b in range(10)]
    os.makedirs(os.path.join(out, "sums"), exist_ok=True)
    pq.write_table(pa.Table.from_pylist(sums), os.path.join(out, "sums", "train-00000-of-00001.parquet"), row_group_size=30)
    with open(os.path.join(out, "sums", "train.jsonl"), "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in sums)
    os.makedirs(os.path.join(out, "refused"), exist_ok=True)
    for codec in ["brotli", "lz4"]:
        pq.write_table(pa.table({"v": ["text"] * 50}), os.path.join(out, "refused", f"{codec}.parquet"),
                       compression=codec, store_schema=False, write_statistics=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep")
    parser.add_argument("--grpo", default="./grpo")
    parser.add_argument("--step", type=int, default=1, help="only every STEP-th combination")
    args = parser.parse_args()
    sweep(args.sweep, args.grpo, args.step) if args.sweep else cases()
