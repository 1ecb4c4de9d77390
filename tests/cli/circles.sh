#!/usr/bin/env bash
# No circles among the C files of src: x.c, x.h, x_impl.h and x.inc.c are one unit.  A unit needs
# those that it includes and, for each function that its header declares, the unit that defines it.
# TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/cli/lib/tap.bash
. tests/cli/lib/tap.bash

# "FROM TO" for every pair of units where the first needs the second.
edges() {
  # shellcheck disable=SC2016  # awk's own words
  find src -name '*.[ch]' ! -name '*.inc.c' -print0 | LC_ALL=C sort -z | xargs -0 awk '
    function unit(path) {
      sub(/^src\//, "", path)
      sub(/(\.inc\.c|(_impl)?\.[ch])$/, "", path)
      return path
    }
    FNR == 1 { me = unit(FILENAME); header = FILENAME ~ /\.h$/; text = ""; comment = 0; brace = 0 }
    /^#include "[^"]*\.[ch]"/ { split($0, part, "\""); include[me "\t" part[2]]; next }
    /^#/ { while (/\\$/ && (getline > 0)); next }
    {
      # Comments go; then text is what was read since the last end of a declaration.
      line = $0
      if (comment) { if (!sub(/^.*\*\//, "", line)) next; comment = 0 }
      gsub(/\/\*[^*]*(\*[^\/*][^*]*)*\*+\//, "", line)
      if (sub(/\/\*.*$/, "", line)) comment = 1
      if (brace) { if (line ~ /^}/) brace = 0; next }
      text = text " " line
      if (line ~ /{[ \t]*$/ || line ~ /^[^"]*\) *{.*}[ \t]*$/) end = "{"
      else if (line ~ /;[ \t]*$/) end = ";"
      else next
      if (end == "{" && line !~ /}[ \t]*$/) brace = 1
      if (text !~ /^ *(static|typedef|extern) / && match(text, /^[^(=]*[A-Za-z_0-9]\(/)) {
        name = substr(text, 1, RLENGTH - 1)
        sub(/^.*[^A-Za-z_0-9]/, "", name)
        if (header && end == ";") declares[me "\t" name]
        if (!header && end == "{") defines[name] = me
      }
      text = ""
    }
    END {
      for (pair in include) {
        split(pair, part, "\t")
        to = unit(part[2])
        if (to != part[1]) print part[1], to
      }
      for (pair in declares) {
        split(pair, part, "\t")
        if (part[2] in defines && defines[part[2]] != part[1]) print part[1], defines[part[2]]
      }
    }'
}

# The units in circles, one a line: those that can be reached from themselves.
in_circles() {
  awk '
    !seen[$1, $2]++ { to[$1, ++n[$1]] = $2; unit[$1]; unit[$2] }
    function visit(u,   i, v) {
      for (i = 1; i <= n[u]; i++) {
        v = to[u, i]
        if (mark[v] == start || gone[v]) continue
        mark[v] = start
        visit(v)
      }
    }
    # Units that need nothing of what is left are taken away, until there are no more of them.
    END {
      do {
        fewer = 0
        for (u in unit) if (!gone[u]) {
          needs = 0
          for (i = 1; i <= n[u]; i++) needs += !gone[to[u, i]]
          if (!needs) fewer = gone[u] = 1
        }
      } while (fewer)
      for (u in unit) if (!gone[u]) { start = u; visit(u); if (mark[u] == u) print u }
    }' | LC_ALL=C sort
}

result "no unit of src is part of a circle" "$(edges | in_circles)"
finish
