#!/usr/bin/env python3
"""Plays the session of docs/session.md in a pseudo-terminal and prints what was seen: docs/session/record.py [GRPO]

Starts a run, attaches to it, shows its worst completion, edits its reward file, changes an option, pauses and resumes it.  Then
kills and resumes the run, and compares the steps that it repeats with those before.  The exit status is 1 when anything differs
from what is expected.  Works in a directory of its own; takes about 20 seconds.
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GRPO = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../grpo"))
RUN = "runs/sums-001"
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])|[\x07\x08]")
TIMED = re.compile(r"^(time/|tokens_per_second/)|^(step_time|memory/peak_bytes|crc32c)$")


def fail(why):
    sys.exit(f"record: {why}")


def until(what, ready, seconds=300):
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            fail(f"waited in vain for {what}")
        time.sleep(0.02)


def shell(line, show=None):
    """A line of the other window."""
    print(f"$ {show or line}", flush=True)
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    if done.returncode:
        fail(f"{line}: exit status {done.returncode}")
    return done.stdout


class Attached:
    """`grpo attach` in a pseudo-terminal."""

    def __init__(self):
        print("$ grpo attach sums-001")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", COLUMNS="110")
            os.execv(GRPO, [GRPO, "attach", "sums-001"])
        sys.stdout.write(self.answer())

    def answer(self):
        """What came up to the next prompt."""
        text, deadline = "", time.monotonic() + 120
        while not text.endswith("sums-001> "):
            if time.monotonic() > deadline or not select.select([self.fd], [], [], 60)[0]:
                fail(f"no prompt after: {text!r}")
            try:
                text = ESCAPES.sub("", text + os.read(self.fd, 65536).decode("utf-8", "replace"))
            except OSError:
                fail(f"attach has ended: {text!r}")
        return text[: -len("sums-001> ")].replace("\r\n", "\n").replace("\r", "")

    def say(self, line):
        os.write(self.fd, line.encode() + b"\n")
        text = self.answer()
        shown = text.split("\n", 1)[1] if "\n" in text else ""  # without the echo, which may come twice
        shown = shown[len(line) + 1 :] if shown.startswith(line + "\n") else shown
        print(f"sums-001> {line}")
        sys.stdout.write(shown)
        sys.stdout.flush()
        return shown

    def leave(self):
        deadline = time.monotonic() + 60
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:  # between two lines the prompt does not see Ctrl-D
            if time.monotonic() > deadline:
                fail("attach did not end at Ctrl-D")
            try:
                os.write(self.fd, b"\x04")
                while select.select([self.fd], [], [], 0.2)[0]:  # a full terminal would hold attach up
                    os.read(self.fd, 65536)
            except OSError:  # attach has closed it
                time.sleep(0.2)
        print("sums-001> (Ctrl-D)")


def rows(name):
    with open(f"{RUN}/{name}.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def timeless(row):
    return {key: value for key, value in row.items() if not TIMED.search(key)}


def last_step():
    try:
        return rows("metrics")[-1]["step"]
    except (FileNotFoundError, IndexError):
        return 0


def live():
    shell("grpo run sums.lua --detach")
    until("the first checkpoint", lambda: os.path.exists(f"{RUN}/checkpoints/step-000300"))
    window = Attached()
    if "total" not in window.say("worst(1)"):
        fail("no worst completion")
    print("\n# in another window: text after the answer shall cost something\n")
    shell("diff reward.lua better.lua; cp better.lua reward.lua", "vi reward.lua        # the difference:")
    until("the reload", lambda: "reloaded at step" in open(f"{RUN}/output.log", encoding="utf-8").read())
    shell("grpo logs sums-001 | grep reloaded")
    print("\n# and back\n")
    window.say("worst(1)")
    window.say("tr.config.train.kl")
    window.say("tr.config.train.kl = 0.02")
    window.say("pause()")
    before = window.say("tr.step_count")
    time.sleep(0.5)
    if window.say("tr.step_count") != before:
        fail("the run did not pause")
    window.say("resume()")
    window.leave()
    return int(before)


def killed(changed):
    until("some steps more", lambda: last_step() >= changed + 30)
    with open(f"{RUN}/run.json", encoding="utf-8") as file:
        pid = json.load(file)["pid"]
    print("\n# a power cut\n")
    print(f"$ kill -9 {pid}")
    os.kill(pid, signal.SIGKILL)
    until("its end", lambda: "crashed" in subprocess.run([GRPO, "runs"], capture_output=True, text=True, check=True).stdout)
    shell("grpo runs", "grpo runs")
    metrics, completions = rows("metrics"), rows("completions")
    shell("grpo run --resume=runs/sums-001 --detach")
    until("the same step", lambda: last_step() > metrics[-1]["step"])
    shell("grpo stop sums-001")
    log = shell("grep -E 'resumed|changed|reloaded' runs/sums-001/run.log | cut -d' ' -f2-")
    if int(re.search(r"changed at step (\d+)", log)[1]) < int(re.search(r"resumed at step (\d+)", log)[1]):
        fail("nothing to repeat: a checkpoint came after the changes")
    return metrics, completions


def compare(metrics, completions):
    last = metrics[-1]["step"]
    again = [row for row in rows("metrics") if row["step"] <= last]
    if [timeless(row) for row in metrics] != [timeless(row) for row in again]:
        fail("the metrics differ")
    texts = [row for row in rows("completions") if row["step"] < last]  # the last step's may have been cut short
    if [row for row in completions if row["step"] < last] != texts:
        fail("the completions differ")
    print(f"\n# {len(again)} steps of metrics and {len(texts)} completions, before and after: only the times differ.")


def main():
    work = tempfile.mkdtemp()
    for name in os.listdir(HERE):
        if name.endswith(".lua"):
            shutil.copy(os.path.join(HERE, name), work)
    os.chdir(work)
    os.symlink(GRPO, "grpo")
    os.environ["PATH"] = work + ":" + os.environ["PATH"]
    try:
        compare(*killed(live()))
    finally:
        subprocess.run([GRPO, "stop", "--now", "sums-001"], capture_output=True, check=False)
        os.chdir("/")
        shutil.rmtree(work)


main()
