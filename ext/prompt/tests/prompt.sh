#!/usr/bin/env bash
# The extension prompt: the session in its page, curves in an attached session, and TAB on a real terminal.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"

# ---- the page -----------------------------------------------------------------------------------
# Numbers and times may differ from machine to machine: compared without them.
timeless() {
  sed -E 's/\([0-9.]+ (us|ms|s)\)/(TIME)/; s/[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?/#/g; s/[-+]#/#/g; s/ +/ /g'
}
page=$root/ext/prompt/README.md
(cd "$root" && DOCUMENT=$page "$GRPO" repl examples/custom_reward.lua sampling.group_size=4 \
  train.prompts_per_step=2 train.kl=0.02 <ext/prompt/tests/session.lua >"$work/said" 2>"$work/err")
# shellcheck disable=SC2016
result "the session of its page is what the prompt says" "$(
  diff <(sed -n '/^```session$/,/^```$/p' "$page" | grep -v '^```' | timeless) <(timeless <said) || show err)"

# ---- curves -------------------------------------------------------------------------------------
experiment paused.lua 'train = { steps = 3, prompts_per_step = 2 }, hooks = { on_step = function(_, tr)
  if tr.step_count == 1 then tr.paused = true end end }'
"$GRPO" run paused.lua --quiet >/dev/null 2>paused.err </dev/null &
pid=$!
trap 'kill $pid; wait; rm -rf "$work"' EXIT
for _ in $(seq 200); do [ -S runs/paused-001/control.sock ] && break; sleep 0.05; done
printf 'plot("reward")\nplot("rewrd")\n' | LC_ALL=C COLUMNS=60 timeout 60 "$GRPO" attach paused-001 >out 2>err
result "plot draws the metrics of the run in the session's width" "$(
  grep -qE '^\* reward [0-9.e-]+$' out && [ "$(wc -l <out)" = 15 ] && ! grep -qE '.{61}' out \
    && grep -q 'near: reward' err || show out err)"

# ---- a terminal ---------------------------------------------------------------------------------
NEED_EDITING=1
# shellcheck source=tests/cli/lib/terminal.bash
. "$root/tests/cli/lib/terminal.bash"
trap 'kill $pid; wait; terminal kill-server; rm -rf "$work"' EXIT
experiment slow.lua 'train = { steps = 3, prompts_per_step = 2, lr = 1e-3 }'
open A=1 slow.lua
typed 'm:gen' Tab '("1+", { temp' Tab '0, max_new_tokens = 5 })' Enter
result "TAB completes methods and options" "$(shown 'm:generate\("1\+", \{ temperature = 0, max')"
typed 'grpo.experiment { train = { clip_' Tab C-u 'require "rewards.gs' Tab '".' C-u
typed 'dofile("slo' Tab C-u 'tr:st' Tab Tab
result "TAB lists what there is" "$(shown 'tr:step +tr:stop')"
typed C-c; sleep 0.3; typed 'tr:step()' Enter 'tr.batch.completions[1]' Enter
result "a completion has colours" "$(shown "$(printf '\033\\[36m')\\[digits" -e)"
typed 'local t = os.clock() + 1; print("be" .. "gun"); repeat until os.clock() > t; print("en" .. "ded")' \
  Enter
shown '^begun' >/dev/null; typed C-d; shown '^ended' >/dev/null; sleep 0.3; typed C-d
result "Ctrl-D leaves, also after one that came before the prompt" "$(shown '^left')"
open A=1 attach paused-001
typed 'tr:ev' Tab '; 5 +' C-u; sleep 0.2; typed 'bes' Tab '(1)' Enter
result "grpo attach: TAB" "$(shown "$(printf '\033\\[36m')\\[digits" -e)"
result "grpo attach: colours" "$(shown "$(printf '\033\\[3[15]m')[0-9+=]" -e)"
typed '.quit' Enter; shown '^left' >/dev/null
result "the history is this user's alone" "$([ "$(stat -c %a history)" = 600 ] || stat history)"
open A=1
typed Up; typed Up
result "the history is there in the next session" "$(shown '^> .*bes')"
finish
