# Sourced by the tests: TAP on stdout.  End with finish.
# shellcheck shell=bash
number=0 bad=0

# result NAME [PROBLEM] : one TAP line; the problem, if any, as a comment
result() {
  number=$((number + 1))
  if [ -z "${2:-}" ]; then
    echo "ok $number - $1"
  else
    bad=1
    echo "not ok $number - $1"
    # shellcheck disable=SC2001
    sed 's/^/# /' <<<"$2"
  fi
}

# show FILE... : what a failed check shows.  It is never empty, because an empty problem is a pass.
show() { cat "$@" 2>&1 | grep . || echo "the check failed; nothing is in $*"; }

finish() { echo "1..$number"; exit $bad; }
