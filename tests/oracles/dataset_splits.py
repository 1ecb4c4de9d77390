#!/usr/bin/env python3
"""tests/oracles/dataset_splits.py > tests/cases/dataset_splits.jsonl : trees of data files, and which of them the
datasets library (5.2) takes for each configuration and split."""
import json
import os
import sys
import tempfile

import datasets

CONFIGS = "---\nlicense: mit\nconfigs:\n%sdataset_info:\n  features:\n  - name: file\n    dtype: string\n---\n# Title\n"
TREES = [
    ("", ["train.jsonl"]),
    ("", ["train.jsonl", "test.jsonl"]),
    ("", ["train.jsonl", "validation.jsonl", "test.jsonl", "README.txt.md"]),
    ("", ["data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl", "data/test-00000-of-00001.jsonl"]),
    ("", ["data/train-00000-of-00001-abc123.jsonl", "data/extra-00000-of-00001.jsonl"]),
    ("", ["data/train-00000-of-00001.jsonl", "other.jsonl"]),
    ("", ["train/a.jsonl", "train/b.jsonl", "test/a.jsonl"]),
    ("", ["data/train/a.jsonl", "data/dev/a.jsonl"]),
    ("", ["my-train.jsonl", "my-eval.jsonl"]),
    ("", ["my_train_file.jsonl", "my_valid_file.jsonl"]),
    ("", ["training.jsonl", "testing.jsonl", "dev.jsonl"]),
    ("", ["val.jsonl", "train_1.jsonl", "train_2.jsonl"]),
    ("", ["trains.jsonl", "contest.jsonl"]),
    ("", ["anything.jsonl", "more.jsonl"]),
    ("", ["sub/anything.jsonl", "more.jsonl"]),
    ("", ["train.jsonl", "train.txt.md", "config.json"]),
    ("", [".hidden/train.jsonl", "train.jsonl", "__pycache__/test.jsonl"]),
    ("", ["a/train.jsonl", "b/train.jsonl", "b/test.jsonl"]),
    ("", ["train-part/x.jsonl", "test part/x.jsonl"]),
    ("", ["evaluation/x.jsonl", "x/train/y/z.jsonl"]),
    (CONFIGS % "- config_name: default\n  data_files: all.jsonl\n", ["all.jsonl", "train.jsonl"]),
    (CONFIGS % "- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path: data/test-*\n",
     ["data/train-00000-of-00001.jsonl", "data/test-00000-of-00001.jsonl"]),
    (CONFIGS % ("- config_name: main\n  data_files:\n  - split: train\n    path: main/train-*\n  - split: test\n    path: main/test-*\n"
                "- config_name: socratic\n  data_files:\n  - split: train\n    path: socratic/train-*\n  - split: test\n    path: socratic/test-*\n"),
     ["main/train-00000-of-00001.jsonl", "main/test-00000-of-00001.jsonl", "socratic/train-00000-of-00001.jsonl",
      "socratic/test-00000-of-00001.jsonl"]),
    (CONFIGS % "- config_name: one\n  data_files: one/*.jsonl\n- config_name: two\n  data_files:\n  - two/a.jsonl\n  - two/b.jsonl\n  default: true\n",
     ["one/a.jsonl", "one/b.jsonl", "two/a.jsonl", "two/b.jsonl"]),
    (CONFIGS % "- config_name: dir\n  data_dir: sub\n- config_name: other\n  data_dir: other\n",
     ["sub/train.jsonl", "sub/test.jsonl", "other/data/train-00000-of-00001.jsonl", "train.jsonl"]),
    (CONFIGS % "- config_name: m\n  data_files:\n  - split: train\n    path:\n    - a/*.jsonl\n    - b.jsonl\n  - split: held_out\n    path: \"**/c.jsonl\"\n",
     ["a/1.jsonl", "a/2.jsonl", "b.jsonl", "x/y/c.jsonl"]),
    (CONFIGS % "- config_name: default\n  data_files:\n  - split: train\n    path: \"data_[0-9].jsonl\"\n", ["data_1.jsonl", "data_2.jsonl", "data_x.jsonl"]),
]


def build(dir, readme, files):
    for path in files:
        full = os.path.join(dir, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as f:
            f.write(json.dumps({"file": path}) + "\n")
    if readme:
        with open(os.path.join(dir, "README.md"), "w") as f:
            f.write(readme)


def taken(dir):
    result = {}
    for name in datasets.get_dataset_config_names(dir):
        config = datasets.load_dataset_builder(dir, name).config
        result[name] = {str(split): [os.path.relpath(p, dir) for p in paths] for split, paths in config.data_files.items()}
    return result


for readme, files in TREES:
    with tempfile.TemporaryDirectory() as dir:
        dir = os.path.realpath(dir)
        build(dir, readme, files)
        sys.stdout.write(json.dumps({"readme": readme, "files": files, "taken": taken(dir)}, sort_keys=True) + "\n")
