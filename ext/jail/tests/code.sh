#!/usr/bin/env bash
# Code rewards through the program: the example, what check and doctor say, an ordinary user, and a kernel that refuses.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

cat >refused.lua <<'LUA'
local code = require "rewards.code"
return code.passes { language = "sh" }
LUA

if ! "$GRPO" doctor | grep -q '^jail for code  *bubblewrap$'; then
  "$GRPO" run refused.lua >out 2>err; status=$?
  result "where the kernel refuses jails, a script with a code reward is refused with one line" "$(
    { [ $status = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q 'code cannot be jailed here' err; } || show err)"
  result "the example of code rewards # SKIP the kernel refuses jails here"
  finish
fi

cd "$root" || exit
"$GRPO" run ext/jail/examples/code_reward.lua --quiet --dir "$work/runs" --arg sft=45 --arg steps=2 train.prompts_per_step=4 >"$work/out" 2>"$work/err"; status=$?
cd "$work" || exit
log=runs/code_reward-001
result "ext/jail/examples/code_reward.lua runs" "$([ $status = 0 ] || show err)"
result "its metrics count the runs, which did not fail to begin" "$(
  grep -q '"rewards/tests/runs": [1-9]' $log/metrics.jsonl || echo "no runs"
  grep -q '"reward_errors"' $log/metrics.jsonl && echo "errors"
  grep -q '"tests.counts": {' $log/completions.jsonl || echo "no columns")"
result "the run leaves no process and no file" "$(
  pgrep -f '^sh main\.sh$'
  ls -d /jail /tmp/main.sh 2>/dev/null)"

# In a user namespace of its own, a limit of namespaces is that process's alone.
refusing() { unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"' sh "$@"; }
if [ "$(refusing echo yes 2>/dev/null)" = yes ]; then
  refusing "$GRPO" run refused.lua >out 2>err; status=$?
  result "where the kernel refuses jails, a script with a code reward is refused with one line" "$(
    { [ $status = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q 'code cannot be jailed here.*max_user_namespaces' err; } || show err)"
  result "doctor says so" "$(refusing "$GRPO" doctor | grep -q '^jail for code .*refuses' || echo "it does not")"
else
  result "where the kernel refuses jails # SKIP needs unshare"
fi

user=(setpriv --reuid 4321 --regid 4321 --clear-groups)
if [ "$(id -u)" = 0 ] && "${user[@]}" "$GRPO" --version >/dev/null 2>&1; then
  result "an ordinary user has jails too" "$("${user[@]}" "$GRPO" doctor | grep -q '^jail for code  *bubblewrap$' || echo "refused")"
else
  result "an ordinary user has jails too # SKIP needs root, setpriv and a program that others may read"
fi
finish
