"""Writes the wheel, with the same bytes each time: python3 pack.py VERSION PROGRAM LIBRARY DIRECTORY.

Its tag is that of the newest symbol of glibc that program and library use.  They may need nothing but libc.
"""
import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

import signatures

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of ELF
LIBC = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*\.so\.\d")
MOST = 5 * 1024 * 1024
METADATA = """Metadata-Version: 2.1
Name: grpo
Version: {version}
Summary: Trains language models with rewards (GRPO) on CPUs
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{description}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: grpo\nRoot-Is-Purelib: false\nTag: {tag}\n"


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True).stdout


def platform(paths):
    """manylinux_2_N_MACHINE; stops where more than libc is needed."""
    newest = (2, 17)
    for path in paths:
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path)):
            if not LIBC.fullmatch(name):
                sys.exit(f"pack: {path} needs {name}, because it was not linked in; a wheel may need libc only")
        used = re.findall(r" UND \S+@GLIBC_(\d+)\.(\d+)", readelf("--dyn-syms", path))
        newest = max([newest] + [(int(a), int(b)) for a, b in used])
    machine = MACHINES.get(int.from_bytes(contents(paths[0])[18:20], "little"))
    if machine is None:
        sys.exit(f"pack: {paths[0]} is for a machine that wheels have no name for here; add it to MACHINES")
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}"


def members(version, program, library, tag):
    """{name in the wheel: (bytes, mode)}"""
    package, info = os.path.join(HERE, "grpo"), f"grpo-{version}.dist-info"
    files = {f"grpo/{name}": (contents(os.path.join(package, name)), 0o644)
             for name in os.listdir(package) if name.endswith((".py", ".lua", ".typed"))}
    files["grpo/_abi.py"] = signatures.generate(os.path.join(ROOT, "include", "grpo.abi")).encode(), 0o644
    files["grpo/libgrpo.so.1"] = contents(library), 0o755
    files[f"grpo-{version}.data/scripts/grpo"] = contents(program), 0o755
    description = contents(os.path.join(ROOT, "docs", "python.md")).decode()
    files[f"{info}/METADATA"] = METADATA.format(version=version, description=description).encode(), 0o644
    files[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode(), 0o644
    files[f"{info}/LICENSE"] = contents(os.path.join(ROOT, "LICENSE")), 0o644
    digest = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
              for name, (data, _) in files.items()}
    record = [f"{name},sha256={digest[name]},{len(data)}" for name, (data, _) in sorted(files.items())]
    files[f"{info}/RECORD"] = "\n".join(record + [f"{info}/RECORD,,", ""]).encode(), 0o644
    return files


def main(version, program, library, directory):
    tag = f"py3-none-{platform([program, library])}"
    path = os.path.join(directory, f"grpo-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        files = members(version, program, library, tag)
        for name in sorted(files, key=lambda n: (".dist-info/" in n, n)):
            data, mode = files[name]
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    size = os.path.getsize(path)
    if size > MOST:
        sys.exit(f"pack: {path} has {size} bytes, and may have {MOST}")
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
