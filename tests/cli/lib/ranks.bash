# Sourced by the tests of ranks, after tiny.bash: programs under mpirun.
# shellcheck shell=bash
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# ranks N COMMAND... : N processes of $kind's mpirun
ranks() {
  local n=$1; shift
  case ${kind:?} in
    openmpi) timeout -k 5 120 mpirun.openmpi --oversubscribe --bind-to none -n "$n" "$@" ;;
    mpich) timeout -k 5 120 mpirun.mpich -n "$n" "$@" ;;
  esac
}

# has KIND : is its mpirun here, and grpo's library for it?
has() { command -v "mpirun.$1" >/dev/null && [ -e "$(dirname "$(readlink -f "$GRPO")")/libgrpo-$1.so" ]; }
