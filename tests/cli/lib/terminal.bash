# Prompts on a real terminal, by tmux, for tests that have read tiny.bash; the tests that follow are
# skipped where tmux is missing, or libedit if they NEED_EDITING.
# shellcheck shell=bash
if ! command -v tmux >/dev/null || [ "${NEED_EDITING:-}" ] && ! "$GRPO" --version | grep -q 'editing: libedit'; then
  number=$((number + 1))
  echo "ok $number - a terminal # SKIP tmux or libedit is not here"
  finish
fi
windows=0
terminal() { tmux -L "grpo-test-$$-$windows" -f /dev/null "$@" 2>/dev/null; }
trap 'terminal kill-server; rm -rf "$work"' EXIT
# open ENVIRONMENT [COMMAND] WORDS... : a prompt in a window of its own
open() {
  local environment=$1 command=repl; shift
  [ "${1:-}" = attach ] && { command=attach; shift; }
  terminal kill-server
  windows=$((windows + 1))
  terminal new-session -d -x 90 -y 50 "env TERM=xterm GRPO_HISTORY=$work/history $environment $GRPO $command $*; echo left; sleep 60"
  shown '^[a-z0-9-]*> *$'
}
typed() { terminal send-keys "$@"; }
screen() { terminal capture-pane -p -S -200 "$@"; }
# shown PATTERN [ARGUMENT...] : it appears on the screen, in some seconds
shown() {
  local pattern=$1; shift
  for _ in $(seq 200); do
    screen "$@" | grep -qE "$pattern" && return 0
    sleep 0.05
  done
  echo "not on the screen: $pattern"
  screen "$@" | grep . | tail -n 30
}
