#!/usr/bin/env bash
# step.sh TEXT COMMAND...: runs a command and says what it is and how long it took. Its output is shown when it fails.
set -euo pipefail
text=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
started=$SECONDS
printf '%s\n' "==> $text"
if ! "$@" >"$log" 2>&1; then
	cat "$log" >&2
	printf '%s\n' "==> $text: failed after $((SECONDS - started)) s" >&2
	exit 1
fi
printf '%s\n' "    done in $((SECONDS - started)) s"
