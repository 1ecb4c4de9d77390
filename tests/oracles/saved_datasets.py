#!/usr/bin/env python3
"""tests/oracles/saved_datasets.py : writes tests/cases/saved/, datasets as save_to_disk of `datasets` (5.2.0) writes them.

tests/oracles/saved_datasets.py --check GRPO : asks the program GRPO for each of them, also under names with quotes and
in several files, runs the command of its refusal as it is, and compares the rows that GRPO reads then.
"""
import os
import re
import subprocess
import sys
import tempfile

from datasets import Dataset, DatasetDict

OUT = os.path.join(os.path.dirname(__file__), "..", "cases", "saved")
ROWS = [{"question": f"{a}+1=", "answer": str(a + 1)} for a in range(4)]


def save(where):
    Dataset.from_list(ROWS).save_to_disk(os.path.join(where, "one"))
    DatasetDict({"train": Dataset.from_list(ROWS), "test": Dataset.from_list(ROWS[:2])}).save_to_disk(os.path.join(where, "dict"))
    DatasetDict({"alpha": Dataset.from_list(ROWS)}).save_to_disk(os.path.join(where, "other"))


def lua(program, code):
    return subprocess.run([program, "repl"], input=code, text=True, capture_output=True)


def check(program):
    os.environ["PATH"] = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as where:
        os.chdir(where)
        save(".")
        Dataset.from_list(ROWS).save_to_disk("it's \"odd\"")
        Dataset.from_list(ROWS).save_to_disk("many", num_shards=3)
        for name, split, want in (("one", None, 4), ("dict", None, 4), ("dict", "test", 2), ("other", None, 4),
                                  ("it's \"odd\"", None, 4), ("many", None, 4), ("dict/test", None, 2),
                                  ("one/data-00000-of-00001.arrow", None, 4)):
            opts = f', {{ split = "{split}" }}' if split else ""
            said = lua(program, f"grpo.data.load([[{name}]]{opts})")
            command = re.search(r"convert it: (python3 -c .*)", said.stdout + said.stderr).group(1)
            subprocess.run(["bash", "-c", command], check=True, capture_output=True)
            file = re.search(r'(\w+\.parquet)', command).group(1)
            rows = lua(program, f'local d = grpo.data.load("{file}") print(#d, d[1].question, d[#d].answer)').stdout.split()
            assert rows[:3] == [str(want), "0+1=", str(want)], (name, rows)
            os.remove(file)
            print("ok", name, split or "", command)


if len(sys.argv) > 1:
    check(os.path.abspath(sys.argv[2]))
else:
    save(OUT)
