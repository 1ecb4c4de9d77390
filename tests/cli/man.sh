#!/usr/bin/env bash
# The manual pages: fresh, and they name every command and flag that there is and no other.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
cd "$root" || exit 1
skipped() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }

mkdir -p "$work/docs/man"
OUT=$work "$GRPO" repl <tools/gen-man.lua >"$work/out" 2>&1
result "docs/man/*.scd are what make man writes" \
  "$(cat "$work/out"; for page in docs/man/*.scd; do diff "$page" "$work/$page" | head -n 6; done)"
if command -v scdoc >/dev/null; then
  stale=''
  for source in docs/man/*.scd; do
    # but for the first lines: scdoc's version and the date
    scdoc <"$source" 2>&1 | grep -vE '^(\.\\"|\.TH)' | cmp -s - <(grep -vE '^(\.\\"|\.TH)' "${source%.scd}") || stale+="${source%.scd} "
  done
  result "docs/man/*.[1-9] are what scdoc makes of them" "$stale"
else
  skipped "docs/man/*.[1-9] are what scdoc makes of them" "scdoc is not installed"
fi

# "command flag" lines, of the program and of the pages, which write another command's out: "grpo run --resume"
"$GRPO" repl >"$work/there" <<'LUA'
local cli = require "grpo.cli"
for _, name in ipairs(cli.commands) do
  print(name)
  for _, flag in ipairs(cli.command(name).flags) do print(name .. " --" .. flag.name) end
end
LUA
awk '/^## grpo / { command = $3; print command; next } /^# / { command = "" }
     command { text = $0; gsub(/grpo [a-z]+ --[a-z-]+/, "", text); while (match(text, /--[a-z][a-z-]*/)) {
       print command " " substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH) } }' docs/man/*.scd |
  sort -u >"$work/named"
result "every command and flag is in a page" "$(sort -u "$work/there" | comm -23 - "$work/named")"
result "no page names a command or flag that is not there" "$(sort -u "$work/there" | comm -13 - "$work/named")"
result "grpo(1) lists the commands in the order of --help" "$(diff \
  <("$GRPO" --help | sed -nE 's/^  ([a-z]+) .*/\1/p') \
  <(sed -n '/^; commands/,/^; end/p' docs/man/grpo.1.scd | sed -nE 's/^\*([a-z]+)\*$/\1/p'))"
missing=''
# GRPO_RELOAD_ALWAYS is for tests
for variable in $(grep -rhoE 'getenv\("GRPO_[A-Z_]+"' src lua --include=*.c --include=*.lua | grep -oE 'GRPO_[A-Z_]+' |
  grep -v GRPO_RELOAD_ALWAYS | sort -u); do
  tr -d '\\' <docs/man/grpo.1.scd | grep -qE "^\*$variable\*" || missing+="grpo(1): $variable "
  "$GRPO" --help | grep -qE "^  $variable " || missing+="--help: $variable "
  grep -qE "\`$variable=" README.md docs/*.md || missing+="docs: $variable "
done
result "every variable of the environment is in grpo(1), --help and docs" "$missing"
missing=''
for page in $(grep -ohE '\*grpo[a-z-]*\*\([0-9]\)' docs/man/*.scd | tr -d '*' | sort -u); do
  [ -e "docs/man/$(sed -E 's/\(([0-9])\)/.\1/' <<<"$page")" ] || missing+="$page "
done
result "pages that are named exist" "$missing"
if [ -e include/grpo.h ]; then
  missing=''
  for name in $(grep -oE '\bgrpo_[a-z_]+\b' docs/man/grpo.3.scd | sort -u); do
    grep -qw "$name" include/grpo.h || missing+="$name "
  done
  result "grpo(3) names what grpo.h declares" "$missing"
fi
if command -v man >/dev/null && command -v groff >/dev/null; then
  warnings=''
  for page in docs/man/*.[1-9]; do
    warnings+=$(LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
  done
  result "man renders them without a warning" "$warnings"
else
  skipped "man renders them without a warning" "man and groff are not installed"
fi
finish
