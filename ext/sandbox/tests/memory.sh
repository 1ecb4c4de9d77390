#!/usr/bin/env bash
# Allocations that fail around a sandbox: tools/check-memory.  TAP on stdout.
cd "$(dirname "$0")/../../.." || exit 1
export TYPED=ext/sandbox/tests/memory.lua
POINTS=${POINTS:-12} SEED=${SEED:-37} exec tools/check-memory repl
