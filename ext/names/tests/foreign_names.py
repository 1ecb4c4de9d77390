#!/usr/bin/env python3
"""Writes ext/names/tests/cases: the options that TRL, transformers and verl have.

  pip install --no-deps trl==1.16.0 transformers==5.23.0 verl==0.9.1
  python3 ext/names/tests/foreign_names.py SITE-PACKAGES ext/names/tests/cases

hugging_face.txt has a line "CLASS FIELD" for each field of the classes of options, verl.txt a line
for each key of the configuration that its trainer prints.  The files are read as text, so that
neither torch nor ray is needed.  ext/names/tests/foreign_names_test.lua holds the table of names to both.
"""

import ast
import pathlib
import re
import sys

CLASSES = [
    ("GRPOConfig", "trl/trainer/grpo_config.py"),
    ("_BaseConfig", "trl/trainer/base_config.py"),
    ("TrainingArguments", "transformers/training_args.py"),
    ("ModelConfig", "trl/trainer/model_config.py"),
    ("ScriptArguments", "trl/scripts/utils.py"),
    ("DPOConfig", "trl/trainer/dpo_config.py"),
    ("KTOConfig", "trl/trainer/kto_config.py"),
    ("RewardConfig", "trl/trainer/reward_config.py"),
]


def fields(path, name):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for one in node.body:
                if isinstance(one, ast.AnnAssign) and not one.target.id.startswith("_"):
                    yield one.target.id


def keys(path):
    """The dotted paths of a YAML file's block mappings, without those of lists and of Hydra."""
    above = []
    for line in path.read_text().splitlines():
        match = re.match(r"( *)([\w.-]+):", line)
        if not match:
            continue
        depth = len(match[1])
        while above and above[-1][0] >= depth:
            above.pop()
        above.append((depth, match[2]))
        dotted = ".".join(key for _, key in above)
        if "_target_" not in dotted:
            yield dotted


def main():
    packages, out = map(pathlib.Path, sys.argv[1:3])
    lines = [f"{name} {field}" for name, path in CLASSES for field in fields(packages / path, name)]
    (out / "hugging_face.txt").write_text("\n".join(lines) + "\n")
    config = packages / "verl/trainer/config/_generated_ppo_trainer.yaml"
    (out / "verl.txt").write_text("\n".join(dict.fromkeys(keys(config))) + "\n")


main()
