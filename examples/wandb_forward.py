#!/usr/bin/env python3
"""Forwards a run's metrics to Weights & Biases while it goes on: examples/wandb_forward.py RUN [--project NAME]

RUN is a run directory (runs/NAME-NNN).  Reads RUN/metrics.jsonl and RUN/eval.jsonl as they grow, one wandb.log() a
step, and ends with the run; started again, it sends the whole run again under the same id.  Evaluations are logged at
their own step.  --offline keeps everything in ./wandb; --dry-run prints instead and needs no wandb.
grpo itself knows nothing of this: the files are its interface.
"""
import argparse
import contextlib
import glob
import json
import os
import socket
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="a run directory")
    parser.add_argument("--project", default="grpo")
    parser.add_argument("--offline", action="store_true", help="keep everything in ./wandb")
    parser.add_argument("--dry-run", action="store_true", help="print what would be sent")
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between two looks (default: 2)")
    return parser.parse_args()


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Tail:
    """The whole lines that a log has gained since the last look.  A full file NAME.jsonl is renamed to NAME.000001.jsonl
    and so on, and a new one is begun.  A resume may cut the log: then from the start of its last file."""

    def __init__(self, run, name):
        self.path, self.offset = os.path.join(run, name + ".jsonl"), 0
        self.segments = os.path.join(run, name + ".[0-9]*.jsonl")
        self.read = 0  # the number of the last full file that was read

    def next_segment(self):
        found = sorted(int(path.split(".")[-2]) for path in glob.glob(self.segments))
        if found and found[-1] < self.read or not found and self.read:
            self.read, self.offset = found[-1] if found else 0, 0
        return next((number for number in found if number > self.read), None)

    def lines(self, file):
        if os.fstat(file.fileno()).st_size < self.offset:
            self.offset = 0
        file.seek(self.offset)
        text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.splitlines()

    def rows(self):
        number = 0
        while number is not None:
            with contextlib.ExitStack() as stack:
                try:  # opened before the look at the names: what is not renamed by then follows what was read
                    file = stack.enter_context(open(self.path, "rb"))
                except FileNotFoundError:
                    file = None
                number = self.next_segment()
                if number is not None:
                    file = stack.enter_context(open(f"{self.path[:-6]}.{number:06}.jsonl", "rb"))
                lines = self.lines(file) if file else []
            if number is not None:
                self.read, self.offset = number, 0
            yield from map(json.loads, lines)


def is_over(path):
    """Ended, or its process is gone (a run on another machine counts as alive while it says so)."""
    info = read_json(path)
    if info.get("state") != "running":
        return True
    if info.get("host") != socket.gethostname():
        return False
    try:
        os.kill(info["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def numbers(row):
    return {name: x for name, x in row.items() if isinstance(x, (int, float)) and name != "step"}


class Printer:
    def log(self, values, step):
        print(step, json.dumps(values, sort_keys=True))

    def finish(self):
        print("finished")


def sink(options, info, config):
    if options.dry_run:
        return Printer()
    try:
        import wandb
    except ImportError:
        sys.exit("wandb_forward: the Python package wandb is not installed; or use --dry-run")
    name = os.path.basename(os.path.normpath(options.run))
    # dots are fine in names; the origin of each value stays in RUN/config.json
    settings = {path: entry["value"] for path, entry in config.get("options", {}).items() if "value" in entry}
    return wandb.init(project=options.project, name=name, id=f"{name}-{int(info['started'])}", resume="allow",
                      config=settings, mode="offline" if options.offline else "online")


def main():
    options = arguments()
    try:
        info = read_json(os.path.join(options.run, "run.json"))
        config = read_json(os.path.join(options.run, "config.json"))
    except (FileNotFoundError, NotADirectoryError):
        sys.exit(f"wandb_forward: {options.run}: not a run directory: it has no run.json or config.json")
    out = sink(options, info, config)
    metrics, evaluations = (Tail(options.run, name) for name in ("metrics", "eval"))
    waiting, sent = [], -1  # evaluations that were read before their step
    while True:
        over = is_over(os.path.join(options.run, "run.json"))  # before the last look, which then sees everything
        waiting += evaluations.rows()
        for row in metrics.rows():
            for report in [r for r in waiting if r["step"] < row["step"]]:
                waiting.remove(report)
                out.log(numbers(report), step=report["step"])
            out.log(numbers(row), step=row["step"])
            sent = row["step"]
        if over:
            for report in waiting:
                out.log(numbers(report), step=max(report["step"], sent))
            break
        time.sleep(options.interval)
    out.finish()


if __name__ == "__main__":
    main()
