#!/usr/bin/env bash
# docs/session: the recorded session can be played again.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
name="start, attach, reload, change, pause, resume, detach, kill, resume: the same bits"
if ! command -v python3 >/dev/null; then
  echo "ok 1 - $name # SKIP python3 is not installed"
  echo 1..1
  exit 0
fi
timeout 500 python3 "$root/docs/session/record.py" "$GRPO" >out 2>err; status=$?
result "$name" "$([ $status = 0 ] || { cat err; tail -n 20 out; })"
finish
