#!/bin/sh
# grade.sh MODE [FILE] : a judge for tests.  It writes what it was asked into FILE, a line each.
#   good    counts the letters a of a completion          backwards  answers two questions in the other order
#   hang    says nothing                                  dies       ends after the first question
#   garbage writes what is no JSON                        huge       writes a line of two mebibytes
#   flood   answers what nobody asked, without an end
#   once    dies at its first question, and is good when it is started again
#   some    says nothing about completions with a letter b, and is good otherwise
mode=$1 file=${2:-/dev/null}
[ "$mode" = once ] && { [ -e "$file.again" ] && mode=good || { : >"$file.again"; mode=dies; }; }
held=''
while IFS= read -r line; do
  printf '%s\n' "$line" >>"$file"
  id=$(printf '%s' "$line" | sed -E 's/.*"id": ([0-9]+).*/\1/')
  text=$(printf '%s' "$line" | sed -E 's/.*"completion": "([^"]*)".*/\1/')
  score=$(printf '%s' "$text" | tr -cd a | wc -c | tr -d ' ')
  answer="{\"id\": $id, \"score\": $score}"
  case $mode in
    good) echo "$answer" ;;
    backwards) if [ "$held" ]; then printf '%s\n%s\n' "$answer" "$held"; held=''; else held=$answer; fi ;;
    some) case $text in *b*) ;; *) echo "$answer" ;; esac ;;
    hang) ;;
    dies) exit 3 ;;
    garbage) echo "well, let me think" ;;
    flood) while :; do printf '{"id": 0, "score": 1}\n%.0s' 1 2 3 4 5 6 7 8; done ;;
    huge) head -c 2097152 /dev/zero | tr '\0' x; echo ;;
  esac
done
