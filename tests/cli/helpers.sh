#!/usr/bin/env bash
# The helpers of shell tests: what cannot have been checked is no pass.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"

# test_of LINE : what a test with this line says
test_of() { TMPDIR=$PWD bash -c ". '$root/tests/cli/lib/tap.bash'; $1; finish" 2>err; }

# shellcheck disable=SC2016 # lines of tests
for line in 'result x "$(no_helper a b)"' '! no_helper && result x' 'result x "$(no_helper | sort)"' \
  'result x "$(no_helper >/dev/null 2>&1 || true)"'; do
  result "a helper that does not exist fails the test: $line" "$(
    test_of "$line" >out && echo "it passed"
    grep -q '^not ok 2 - every command is there' out && grep -q '^# no_helper: command not found' out || show out err)"
done
result "and leaves no file" "$(absent . grpo-missing-*)"
echo text >file
for line in 'none a missing' 'every a missing' 'there missing' 'absent missing a' 'show empty' 'none t file' 'every a file' \
  'absent . file'; do
  result "a problem: $line" "$(: >empty; [ "$(test_of "$line" | sed '$d')" ] || echo "it says nothing")"
done
for line in 'none a file' 'every t file' 'there file' 'absent . a'; do
  result "no problem: $line" "$(test_of "$line" | sed '$d')"
done
finish
