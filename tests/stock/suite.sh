#!/usr/bin/env bash
# The tests of the Lua side in a stock Lua: tests/stock/suite.sh DIRECTORY.  TAP on stdout.
set -u
# shellcheck source=tests/cli/lib/stock.bash
. "$(dirname "$0")/../cli/lib/stock.bash"
stock tests/stock/run.lua "$module" test --tap "$@"
