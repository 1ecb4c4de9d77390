"""Writes grpo/_abi.py, the ctypes declarations of libgrpo, from include/grpo.abi: python3 signatures.py LIST.

The list has every function, struct, offset and constant of grpo.h, and a test holds it to the header.  What is written
is then compared with the sizes and offsets in the list, so a field that ctypes would lay out otherwise is found here.
"""
import re
import sys

NUMBERS = {"int32_t": "c_int32", "grpo_status": "c_int32", "int": "c_int", "uint32_t": "c_uint32", "int64_t": "c_int64",
           "uint64_t": "c_uint64", "uint8_t": "c_uint8", "size_t": "c_size_t", "double": "c_double", "float": "c_float"}


def read(path):
    """The list by kind: constants, structs (of several sizes the last), their fields, callbacks, functions."""
    kinds = {"constant": {}, "struct": {}, "field": {}, "type": {}, "function": {}}
    for line in open(path):
        _, kind, rest = line.rstrip("\n").split(" ", 2)
        if kind == "type":
            match = re.match(r"(.*) \(\*(grpo_\w+)\)\((.*)\)$", rest)
            if match:
                kinds[kind][match[2]] = match[1], match[3]
        elif kind == "function":
            match = re.match(r"(.*?)(\w+)\((.*)\)$", rest)
            kinds[kind][match[2]] = match[1], match[3]
        elif kind == "field":
            name, offset, _, declared = rest.split(" ", 3)
            struct, field = name.split(".")
            kinds[kind].setdefault(struct, []).append((int(offset), field, declared))
        else:
            name, value = rest.split(" ")
            kinds[kind][name] = int(value)
    return kinds


def ctype(declared, kinds, counted=False):
    """The ctypes expression of a C type; counted: text whose length stands beside it, so that it may hold zeros."""
    plain = re.sub(r"\bconst\b|\bstruct\b", "", declared)
    stars, base = plain.count("*"), plain.replace("*", "").strip()
    if "(" in declared:
        return "c.c_void_p"
    if base in NUMBERS:
        expression = "c." + NUMBERS[base]
    elif base == "char" and stars:
        expression, stars = "c.POINTER(c.c_char)" if counted else "c.c_char_p", stars - 1
    elif base in kinds["struct"] or base in kinds["type"]:
        expression = base
    elif stars:  # of something that only the library sees
        expression, stars = "c.c_void_p", stars - 1
    else:
        return "None"
    return "c.POINTER(" * stars + expression + ")" * stars


def arguments(text, kinds):
    types = []
    for one in [] if text in ("", "void") else text.split(","):
        match = re.match(r"(.*?)(\w+)(\[\d+\])?$", one.strip())
        types.append(ctype(match[1] + ("*" if match[3] else ""), kinds))
    return types


def written(kinds):
    out = ['"""Written by python/signatures.py from include/grpo.abi."""', "import ctypes as c", ""]
    out += [f"{name} = {value}" for name, value in kinds["constant"].items()]
    out += [f"class {name}(c.Structure):\n    pass" for name in kinds["struct"]]
    for name, (result, text) in kinds["type"].items():
        out.append(f"{name} = c.CFUNCTYPE({', '.join([ctype(result, kinds)] + arguments(text, kinds))})")
    for name, fields in kinds["field"].items():
        names = {field for _, field, _ in fields}
        rows = [f"({field!r}, {ctype(declared, kinds, field + '_length' in names)})"
                for _, field, declared in sorted(fields)]
        out.append(f"{name}._fields_ = [{', '.join(rows)}]")
    out.append("FUNCTIONS = {")
    for name, (result, text) in kinds["function"].items():
        out.append(f"    {name!r}: ({ctype(result, kinds)}, [{', '.join(arguments(text, kinds))}]),")
    return "\n".join(out + ["}", ""])


def disagreements(text, kinds):
    """What the declarations lay out otherwise than the list says."""
    module = {}
    exec(compile(text, "_abi.py", "exec"), module)
    import ctypes
    for name, size in kinds["struct"].items():
        if ctypes.sizeof(module[name]) != size:
            yield f"{name} has {ctypes.sizeof(module[name])} bytes, and {size} in the list"
    for name, fields in kinds["field"].items():
        for offset, field, _ in fields:
            if getattr(module[name], field).offset != offset:
                yield f"{name}.{field} is at {getattr(module[name], field).offset}, and at {offset} in the list"


def generate(path):
    kinds = read(path)
    text = written(kinds)
    wrong = list(disagreements(text, kinds))
    if wrong:
        sys.exit("\n".join("signatures: " + one for one in wrong))
    return text


if __name__ == "__main__":
    print(generate(sys.argv[1]), end="")
