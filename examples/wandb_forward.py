#!/usr/bin/env python3
"""Forwards a run to Weights & Biases while it trains: examples/wandb_forward.py RUN [--project NAME]

RUN is a run directory (runs/NAME-NNN).  Reads RUN/metrics.jsonl, eval.jsonl, completions.jsonl and run.log as they
grow, one wandb.log() a step, and ends with the run; started again, it sends the whole run again under the same id.
Evaluations are logged at their own step.  Beside numbers it sends two tables: `completions`, the first --completions N
texts of a step with prompt, advantage and rewards, and `notes`, the lines of run.log up to then.  A step is sent when
the next one is there, because its completions are written after its metrics.
--offline keeps everything in ./wandb; --dry-run prints instead and needs no wandb.
grpo itself knows nothing of this: the files are its interface.
"""
import argparse
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
    parser.add_argument("--completions", type=int, default=8, metavar="N",
                        help="completions of each step that are sent (default: 8; 0: none)")
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between two looks (default: 2)")
    return parser.parse_args()


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Tail:
    """The whole lines that a log has gained since the last look.  A resume may cut the log: then from its start."""

    def __init__(self, run, name):
        self.path, self.offset = os.path.join(run, name + ".jsonl"), 0

    def rows(self):
        try:
            file = open(self.path, "rb")
        except FileNotFoundError:
            return
        with file:
            if os.fstat(file.fileno()).st_size < self.offset:
                self.offset = 0
            file.seek(self.offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        yield from map(json.loads, whole.splitlines())


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


class Log:
    """The lines of run.log up to the last look, each with its time."""

    def __init__(self, run):
        self.path, self.lines = os.path.join(run, "run.log"), []

    def grew(self):
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            text = ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        before, self.lines = self.lines, lines
        return lines != before

    def table(self):
        return ["time", "note"], [line.partition(" ")[::2] for line in self.lines]


def completions_table(rows):
    """Rows of completions.jsonl as columns and their values; a reward that did not apply is None."""
    rewards = sorted({name for row in rows for name in row.get("rewards") or {}})
    columns = ["step", "prompt", "text", "reward", "advantage", *("rewards/" + name for name in rewards)]
    fixed = ("step", "prompt", "text", "reward", "advantage")
    return columns, [[*(row.get(name) for name in fixed), *((row.get("rewards") or {}).get(name) for name in rewards)]
                     for row in rows]


class Printer:
    def log(self, values, step):
        print(step, json.dumps(values, sort_keys=True))

    @staticmethod
    def table(columns, data):
        return {"columns": columns, "data": data}

    def finish(self):
        print("finished")


def sink(options, info, config):
    """What has log() and finish(), and a function that makes a table of columns and rows."""
    if options.dry_run:
        return Printer(), Printer.table
    try:
        import wandb
    except ImportError:
        sys.exit("wandb_forward: the Python package wandb is not installed; or use --dry-run")
    name = os.path.basename(os.path.normpath(options.run))
    # dots are fine in names; the origin of each value stays in RUN/config.json
    settings = {path: entry["value"] for path, entry in config.get("options", {}).items() if "value" in entry}
    out = wandb.init(project=options.project, name=name, id=f"{name}-{int(info['started'])}", resume="allow",
                     config=settings, mode="offline" if options.offline else "online")
    return out, lambda columns, data: wandb.Table(columns=columns, data=data)


class Sender:
    """Logs each step once, in order, with what belongs to it."""

    def __init__(self, options, out, table):
        self.out, self.table, self.most = out, table, options.completions
        self.metrics, self.evaluations, self.completions = (
            Tail(options.run, name) for name in ("metrics", "eval", "completions"))
        self.log = Log(options.run)
        self.steps, self.reports, self.texts = [], [], {}  # read, and not sent
        self.sent = -1

    def texts_of(self, step):
        rows = self.texts.pop(step, [])
        return {"completions": self.table(*completions_table(rows))} if rows else {}

    def notes(self):
        return {"notes": self.table(*self.log.table())} if self.log.grew() else {}

    def step(self, row):
        for report in [r for r in self.reports if r["step"] < row["step"]]:
            self.reports.remove(report)
            self.out.log(numbers(report), step=report["step"])
        self.out.log({**numbers(row), **self.texts_of(row["step"])}, step=row["step"])
        self.sent = row["step"]

    def look(self, over):
        """Sends what is there; the newest step waits for its completions, unless the run is over."""
        self.reports += self.evaluations.rows()
        self.steps += self.metrics.rows()
        for row in self.completions.rows():
            rows = self.texts.setdefault(row["step"], [])
            if len(rows) < self.most:
                rows.append(row)
        whole = len(self.steps) if over else max(len(self.steps) - 1, 0)
        for row in self.steps[:whole]:
            self.step(row)
        self.steps = self.steps[whole:]
        notes = self.notes() if whole or over else {}
        if over:
            for report in self.reports:
                self.out.log({**numbers(report), **notes}, step=max(report["step"], self.sent))
                notes = {}
        if notes:
            self.out.log(notes, step=max(self.sent, 0))


def main():
    options = arguments()
    try:
        info = read_json(os.path.join(options.run, "run.json"))
        config = read_json(os.path.join(options.run, "config.json"))
    except (FileNotFoundError, NotADirectoryError):
        sys.exit(f"wandb_forward: {options.run}: not a run directory: it has no run.json or config.json")
    out, table = sink(options, info, config)
    sender = Sender(options, out, table)
    over = False
    while not over:
        over = is_over(os.path.join(options.run, "run.json"))  # before the last look, which then sees everything
        sender.look(over)
        if not over:
            time.sleep(options.interval)
    out.finish()


if __name__ == "__main__":
    main()
