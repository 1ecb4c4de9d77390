#!/usr/bin/env bash
# Allocations that fail, a few of each kind: tools/check-memory.  TAP on stdout.
cd "$(dirname "$0")/../.." || exit 1
POINTS=${POINTS:-12} SEED=${SEED:-37} exec tools/check-memory "$@"
