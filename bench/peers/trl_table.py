#!/usr/bin/env python3
"""Runs of bench/peers/trl_grpo.lua and trl_grpo.py beside each other: their steps as one table, and what differs.

    trl_table.py --collect OURS THEIRS CSV    OURS/MODEL-MODE-SEED/metrics.jsonl and THEIRS/MODEL-MODE-SEED.jsonl as CSV
    trl_table.py CSV [--window 10]            means over windows of steps: the lowest and highest of each side's runs

MODE is lora or full.  "apart" counts the windows in which the two ranges have no value in common.  p is that of a
permutation test over whole runs: the share of all ways to name the sides in which the sum over windows of the distance
between the sides' means, in standard deviations of all runs, is at least the one seen.  With n and m runs it cannot be
less than 1 / choose(n + m, n).
"""
import argparse
import csv
import glob
import itertools
import json
import os
import statistics
import sys

METRICS = {"reward": "reward", "kl": "kl", "entropy": "entropy", "length": "completions/mean_length",
           "grad_norm": "grad_norm", "clip_ratio": "clip_ratio/region_mean"}
HEAD = ["model", "mode", "side", "seed", "step", *METRICS]


def collect(ours, theirs, path):
    files = [("grpo", f, f.split(os.sep)[-2]) for f in glob.glob(os.path.join(ours, "*", "metrics.jsonl"))]
    files += [("trl", f, f.split(os.sep)[-1][:-6]) for f in glob.glob(os.path.join(theirs, "*.jsonl"))]
    rows = []
    for side, file, name in sorted(files):
        model, mode, seed = name.rsplit("-", 2)
        if not seed.isdigit():
            continue
        with open(file, encoding="utf-8") as f:
            for step, line in enumerate(f, 1):
                values = json.loads(line)
                rows.append([model, mode, side, int(seed), step, *("%.4g" % values[m] for m in METRICS.values())])
    with open(path, "w", encoding="utf-8", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows([HEAD, *sorted(rows, key=lambda r: r[:5])])


def read(path):
    """{(model, mode): {side: {seed: [row of each step]}}}"""
    runs = {}
    with open(path, encoding="utf-8") as f:
        for row in csv.DictReader(f):
            sides = runs.setdefault((row["model"], row["mode"]), {"grpo": {}, "trl": {}})
            sides[row["side"]].setdefault(row["seed"], []).append(row)
    return runs


def windows(runs, metric, width, steps):
    """One list per run: the mean of the metric over each window."""
    return [[statistics.fmean(float(r[metric]) for r in run[at:at + width]) for at in range(0, steps, width)]
            for run in runs]


def distance(runs, first):
    """The sum over windows of |mean of the runs in `first` - mean of the others| in standard deviations of all."""
    total = 0
    for window in zip(*runs):
        a = [v for i, v in enumerate(window) if i in first]
        b = [v for i, v in enumerate(window) if i not in first]
        spread = statistics.stdev(window)
        total += abs(statistics.fmean(a) - statistics.fmean(b)) / spread if spread else 0
    return total


def p_value(a, b):
    runs, n = a + b, len(a)
    seen = distance(runs, set(range(n)))
    ways = [distance(runs, set(w)) for w in itertools.combinations(range(len(runs)), n)]
    return sum(d >= seen - 1e-12 for d in ways) / len(ways)


def show(path, width):
    for (model, mode), sides in read(path).items():
        if not (sides["grpo"] and sides["trl"]):
            continue
        steps = min(len(run) for runs in sides.values() for run in runs.values()) // width * width
        print("%s, %s: %d runs of grpo, %d of TRL, %d steps in windows of %d" % (
            model, mode, len(sides["grpo"]), len(sides["trl"]), steps, width))
        for metric in METRICS:
            a, b = (windows(list(sides[s].values()), metric, width, steps) for s in ("grpo", "trl"))
            apart, cells = 0, []
            for x, y in zip(zip(*a), zip(*b)):
                apart += max(x) < min(y) or max(y) < min(x)
                cells.append("%.3g..%.3g / %.3g..%.3g" % (min(x), max(x), min(y), max(y)))
            print("  %-10s %s   apart %d of %d, p %.2f" % (metric, "  ".join(cells), apart, len(cells), p_value(a, b)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("csv", nargs="?")
    p.add_argument("--collect", nargs=3, metavar=("OURS", "THEIRS", "CSV"))
    p.add_argument("--window", type=int, default=10)
    o = p.parse_args()
    if o.collect:
        return collect(*o.collect)
    if not o.csv:
        p.error("CSV is missing")
    return show(o.csv, o.window)


sys.exit(main())
