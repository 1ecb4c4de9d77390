#!/usr/bin/env bash
# Columns and wording of sources and documents (tools/plain), and that tools/plain finds what it should.
# TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# names NAME FILE TEXT WANTED : tools/plain names "LINE: the beginning of a complaint" for each line of WANTED, and no more
names() {
  printf '%s\n' "$3" >"$work/$2"
  result "$1" "$(diff <(printf '%s' "$4") <(tools/plain "$work/$2" | sed -E "s,^$work/$2:,,; s/^([0-9]+: [^:]*).*/\1/"))"
}

long=$(printf '%0100d' 0)
names "101 columns in Lua" a.lua "x = $long" '1: 104 columns, want at most 100
'
names "characters are counted, not bytes" a.h "${long:10} ääääääääää" '1: 101 columns, want at most 100
'
names "an annotation may be long" a.lua "---@field x number $long" ''
names "a comment that begins with a noun phrase" a.c "/* Of a step that ended. */
int of; /* What remains. */
/* The same seed gives the same bits, and of
 * What follows nothing is known. */" '1: "Of a"
2: "What"
'
names "a comment in Lua is read from its first line" a.lua "-- Returns the list.
-- What is missing is nil.
local x -- The same for a list" '3: "The same for"
'
names "wording in strings and documents" a.md "The run goes on after a crash.
There is no cache, and that is no longer slow.
This is no number." '1: "goes on after"
3: "is no number"
'
result "sources and documents that have been gone through" "$(tools/plain)"
finish
