# tools/plain.awk - see tools/plain.  The first file holds the patterns, the others are read.

function complain(what) {
  printf "%s:%d: %s\n", FILENAME, FNR, what
  bad = 1
}

# The text of a comment that begins on this line, padded; "" where none does.
function comment_start(line) {
  if (kind == "lua") {
    was = in_comment
    in_comment = line ~ /^[ \t]*--[-]*[ \t]*[^ \t-]/
    if (in_comment && was || !match(line, /(^|[ \t])--[-\[]*[ \t]*/)) return ""
  } else if (kind == "c") {
    if (!match(line, /\/[*\/][ \t]*/)) return ""
  } else {
    return ""
  }
  line = substr(line, RSTART + RLENGTH)
  sub(/^[a-z_0-9\/]+\.(c|h|lua|def) - /, "", line)
  return line " "
}

FNR == 1 { file++ }
file == 1 && /^(start|any)\t/ {
  split($0, column, "\t")
  n++
  at_start[n] = column[1] == "start"
  pattern[n] = at_start[n] ? "^" column[2] : column[2]
  unless[n] = column[3]
  advice[n] = column[4]
}
file == 1 { next }

FILENAME !~ /\.(c|h|def|lua|md)$/ { next }
FILENAME ~ /glossary\.md$/ { next } # lists the words that are not said

FNR == 1 {
  kind = FILENAME ~ /\.lua$/ ? "lua" : FILENAME ~ /\.(c|h|def)$/ ? "c" : "text"
  in_comment = 0
}
kind != "text" && length($0) > 100 && !/^---@/ { # an annotation is one line
  wide = $0
  gsub(/[\200-\277]/, "", wide) # the further bytes of a character in UTF-8
  if (length(wide) > 100) complain(length(wide) " columns, want at most 100")
}
{
  start = comment_start($0)
  for (i = 1; i <= n; i++) {
    text = at_start[i] ? start : " " $0 " "
    if (text == "" || text !~ pattern[i]) continue
    if (unless[i] != "-") {
      gsub(unless[i], "", text)
      if (text !~ pattern[i]) continue
    }
    match(text, pattern[i])
    found = substr(text, RSTART, RLENGTH)
    gsub(/^ +| +$/, "", found)
    complain("\"" found "\": " advice[i])
  }
}
END { exit bad }
