# Sourced by tests/cli/portable.sh and tools/check-portable: the runs of tests/portable/runs.lua, and one sum for each.
# shellcheck shell=bash
portable=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
portable_cases=(sft grpo ppo nf4)
# shellcheck source=tests/cli/lib/resume.bash
. "$portable/../cli/lib/resume.bash"

# run_sum RUN : SHA-256 of the files of all its checkpoints, and of its logs without times, memory and their sums
run_sum() {
  (
    cd "$1" || exit 1
    find checkpoints -type f | LC_ALL=C sort | while read -r file; do
      echo "$file $(sha256sum <"$file")"
    done
    for log in metrics completions eval; do
      [ ! -e $log.jsonl ] || echo "$log $(timeless $log.jsonl | sha256sum)"
    done
  ) | sha256sum | cut -d' ' -f1
}

# portable_runs PROGRAM... : all runs by this program, which may be several words, in the current directory, which is empty; a
# line "CASE SUM" each.  THREADS: how many, 1 if it is not set.
portable_runs() {
  local case
  for case in "${portable_cases[@]}"; do
    if CASE=$case BASE=base "$@" run "$portable/runs.lua" --quiet --dir . --as "$case" --threads "${THREADS:-1}" \
      >/dev/null 2>"$case.err" </dev/null; then
      [ "$case" != sft ] || ln -sfn sft/latest base
      echo "$case $(run_sum "$case")"
    else
      echo "$case failed: $(head -c 300 "$case.err" | tr '\n' ' ')"
    fi
  done
}

# multiplies_and_adds OBJDUMP OBJECT... : objects with fused instructions outside the tables that are to have them
multiplies_and_adds() {
  local objdump=$1 object; shift
  for object; do
    case $object in */kern/x86/avx2.o | */kern/x86/avx512*.o | */kern/x86/amx.o | */kern/arm/neon.o) continue ;; esac
    "$objdump" -d --no-show-raw-insn "$object" |
      awk -v o="$object" '$2 ~ /^(vfn?m(add|sub)|vfm(addsub|subadd)|vdpbf16|fn?m(add|sub)([.][sdqh])?$|fml[as]|bfmmla|bfdot)/ { print o, $2; exit }'
  done
}
