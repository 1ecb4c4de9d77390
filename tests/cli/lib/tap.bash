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

# there FILE... : names each file that is missing or empty, in which nothing can be found
there() { local file; for file; do [ -s "$file" ] || echo "$file is missing or empty"; done; }

# none PATTERN FILE... : the lines that match, which is a problem; a file without any text is one too
none() { local pattern=$1; shift; there "$@"; grep -hE -e "$pattern" "$@" 2>/dev/null; }

# every PATTERN FILE... : the lines that do not match, which is a problem; as is a file without text
every() { local pattern=$1; shift; there "$@"; grep -hvE -e "$pattern" "$@" 2>/dev/null; }

# absent DIR PATH... : the paths that are there, which is a problem; a DIR that is missing is one too
absent() {
  local path; [ -d "$1" ] || echo "$1 is missing"; shift
  for path; do [ ! -e "$path" ] || echo "$path"; done
}

# A command that is not there, such as a helper that no file defines, fails the test wherever it is
# called: bash calls this in a process of its own, and what it prints could be taken for a result.
missing=${TMPDIR:-/tmp}/grpo-missing-$$
command_not_found_handle() {
  echo "$1: command not found" | tee -a "$missing" >&2
  return 127
}

finish() {
  if [ -e "$missing" ]; then
    result "every command is there" "$(sort -u "$missing")"
    rm -f "$missing"
  fi
  echo "1..$number"
  exit $bad
}
