#!/usr/bin/env bash
# The manual pages name every command and flag that there is and no other.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
cd "$root" || exit 1
skipped() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }

pages=$work/man
mkdir -p "$pages"
OUT=$pages "$GRPO" repl <tools/gen-man.lua >"$work/out" 2>&1
result "the pages are written without a word" "$(cat "$work/out")"
if command -v scdoc >/dev/null; then
  for source in "$pages"/*.scd; do
    scdoc <"$source" >"${source%.scd}" 2>>"$work/scdoc"
  done
  result "scdoc reads them" "$(cat "$work/scdoc")"
else
  skipped "scdoc reads them" "scdoc is not installed"
fi

# "command flag" lines, of the program and of the pages, which write another command's out: "grpo run --resume"
"$GRPO" repl >"$work/there" <<'LUA'
local cli = require "grpo.commands"
for _, name in ipairs(cli.commands) do
  print(name)
  for _, flag in ipairs(cli.command(name).flags) do print(name .. " --" .. flag.name) end
end
LUA
awk '/^## grpo / { command = $3; print command; next } /^# / { command = "" }
     command { text = $0; gsub(/grpo [a-z]+ --[a-z-]+/, "", text); while (match(text, /--[a-z][a-z-]*/)) {
       print command " " substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH) } }' "$pages"/*.scd |
  sort -u >"$work/named"
result "every command and flag is in a page" "$(sort -u "$work/there" | comm -23 - "$work/named")"
result "no page names a command or flag that is not there" "$(sort -u "$work/there" | comm -13 - "$work/named")"
result "grpo(1) lists the commands in the order of --help" "$(diff \
  <("$GRPO" --help | sed -nE 's/^  ([a-z]+) .*/\1/p') \
  <(sed -n '/^# COMMANDS/,/^# CONV/p' "$pages/grpo.1.scd" | sed -nE 's/^\*([a-z]+)\*$/\1/p'))"
missing=''
# GRPO_RELOAD_ALWAYS is for tests
for variable in $(grep -rhoE 'getenv\("GRPO_[A-Z_]+"' src lua --include=*.c --include=*.lua | grep -oE 'GRPO_[A-Z_]+' |
  grep -v GRPO_RELOAD_ALWAYS | sort -u); do
  tr -d '\\' <"$pages/grpo.1.scd" | grep -qE "^\*$variable\*" || missing+="grpo(1): $variable "
  "$GRPO" --help | grep -qE "^  $variable " || missing+="--help: $variable "
  grep -qE "\`$variable=" README.md docs/*.md || missing+="docs: $variable "
done
result "every variable of the environment is in grpo(1), --help and docs" "$missing"
missing=''
for page in $(grep -ohE '\*grpo[a-z-]*\*\([0-9]\)' "$pages"/*.scd | tr -d '*' | sort -u); do
  [ -e "$pages/$(sed -E 's/\(([0-9])\)/.\1.scd/' <<<"$page")" ] || missing+="$page "
done
result "pages that are named exist" "$missing"
if [ -e include/grpo.h ]; then
  missing=''
  for name in $(grep -oE '\bgrpo_[a-z_]+\b' "$pages/grpo.3.scd" | sort -u); do
    grep -qw "$name" include/grpo.h || missing+="$name "
  done
  result "grpo(3) names what grpo.h declares" "$missing"
fi
if command -v man >/dev/null && command -v groff >/dev/null; then
  warnings=''
  for page in "$pages"/*.[1-9]; do
    warnings+=$(LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
  done
  result "man renders them without a warning" "$warnings"
else
  skipped "man renders them without a warning" "man and groff are not installed"
fi
finish
