"""What the scripts of this directory share: running programs whose output is JSON, medians, environments."""
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GRPO = os.environ.get("GRPO") or os.path.join(ROOT, "grpo")
BENCH = os.path.join(os.path.dirname(os.path.realpath(GRPO)), "bench/grpo-bench")  # make bench
QUIET = 0.1  # cores that others may use before a row is no evidence by the clock


class Failed(Exception):
    """A program that did not do its work; the others go on."""


def run(command, env=None):
    """The JSON that a command prints."""
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except OSError as e:
        raise Failed("%s: %s" % (command[0], e.strerror)) from e
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise Failed("%s: exit status %d%s" % (
            " ".join(command[:3]), done.returncode, ": " + lines[-1] if lines else ""))
    try:
        return json.loads(done.stdout)
    except ValueError as e:
        raise Failed("%s: its output is no JSON" % " ".join(command[:3])) from e


def grpo(arguments, library_path=None):
    """`grpo bench --json`; nothing pins OpenBLAS, and what another interpreter needs is not passed on."""
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    if library_path:
        env.pop("LD_LIBRARY_PATH", None)
    return run([GRPO, "bench", "--json"] + arguments, env)


def median(values):
    return statistics.median(list(values))


def words(text, known, flag):
    """The words of `text` between commas; a usage error for one that is not known."""
    found = [w for w in text.split(",") if w]
    for w in found:
        if w not in known:
            usage("%s: got '%s', want some of %s" % (flag, w, ", ".join(known)))
    if not found:
        usage("%s: got nothing, want some of %s" % (flag, ", ".join(known)))
    return found


def usage(message):
    sys.stderr.write("%s: %s\n" % (os.path.basename(sys.argv[0]), message))
    sys.exit(2)


def complain(message):
    sys.stderr.write("%s: %s\n" % (os.path.basename(sys.argv[0]), message))
