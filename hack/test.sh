#!/usr/bin/env bash
# test.sh: all tests, in parts, with a summary of each. A part that fails does not keep the next from running.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export PATH=$PWD/bin:$PATH
status=0

part() {
	local text=$1 started=$SECONDS
	shift
	printf '\n==> %s\n' "$text"
	if gotestsum --format pkgname --format-hide-empty-pkg -- "$@"; then
		printf '    %s: passed in %d s\n' "$text" $((SECONDS - started))
	else
		printf '    %s: FAILED after %d s\n' "$text" $((SECONDS - started))
		status=1
	fi
}

part "units, with the race detector" \
	-race -shuffle=on ./apis/... ./pkg/... ./cmd/... ./test/layers/... ./test/docs/... ./test/apivalidation/...
for target in ignitionmerge:FuzzParse ignitionmerge:FuzzMerge schedule:FuzzParse schedule:FuzzCron schedule:FuzzCalendar; do
	part "$target, 20 s" -run '^$' -fuzz "^${target#*:}\$" -fuzztime 20s -fuzzminimizetime 1s "./pkg/${target%:*}"
done
part "integration: real kube-apiserver, real libvirtd" \
	-p 1 -shuffle=on -timeout 20m ./test/controlplane/... ./test/stand/... ./test/integration/...
part "end to end: the real Ignition, and a guest that boots" \
	-p 1 -timeout 30m ./test/ignition/... ./test/e2e/...
exit $status
