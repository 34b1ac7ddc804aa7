#!/usr/bin/env bash
# Copyright The caplv Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The emergency stop for many: removes the machines of all ScheduledMachines at once, without a drain, and keeps them away until
# --undo. It annotates their Namespaces; nothing in the ScheduledMachines is changed, and GitOps has nothing to revert.
set -euo pipefail

readonly annotation=5spot.finos.org/kill-switch

usage() {
	cat <<-'TEXT'
		Usage: demo/kill-all.sh [-n NAMESPACE | -A] [-l SELECTOR] [--undo] [--dry-run] [--no-wait] [--timeout SECONDS]

		Removes the machines of all ScheduledMachines at once, without a drain, and keeps them away.

		  -n, --namespace NAMESPACE  Only in this namespace, which also stops what is created there later.
		  -A, --all-namespaces       In all namespaces that have ScheduledMachines. This is the default.
		  -l, --selector SELECTOR    Only those whose labels match, such as rack=3.
		      --undo                 Let go: the schedules count again.
		      --dry-run              Only show what would be done.
		      --no-wait              Return before the machines are gone.
		      --timeout SECONDS      How long to wait for that; 300 when unset.

		KUBECONFIG, or the current context of kubectl, says which cluster it is.
	TEXT
}

die() {
	printf 'kill-all: %s\n' "$1" >&2
	exit "${2:-1}"
}

namespace='' selector='' undo=false dry_run=false wait=true timeout=300

argument() { # the argument of an option
	[[ $# -ge 2 && -n $2 ]] || die "$1 needs an argument; see --help" 2
	printf '%s' "$2"
}

while (($# > 0)); do
	case $1 in
	-n | --namespace) namespace=$(argument "$@") ;;
	-l | --selector) selector=$(argument "$@") ;;
	--timeout) timeout=$(argument "$@") ;;
	-A | --all-namespaces) namespace='' ;;
	--undo) undo=true ;;
	--dry-run) dry_run=true ;;
	--no-wait) wait=false ;;
	-h | --help) usage && exit ;;
	*) die "unknown argument $1; see --help" 2 ;;
	esac
	case $1 in -n | --namespace | -l | --selector | --timeout) shift ;; esac
	shift
done
! $undo || [[ -z $selector ]] || die "--undo lets go of whole namespaces: leave out -l" 2
[[ $timeout =~ ^[0-9]+$ ]] || die "--timeout is '$timeout': write a number of seconds" 2
command -v kubectl >/dev/null || die "kubectl is not in PATH: install it first"

# list prints "namespace name phase" of each ScheduledMachine that is meant.
list() {
	local scope=(--all-namespaces)
	[[ -z $namespace ]] || scope=(--namespace "$namespace")
	kubectl get scheduledmachines "${scope[@]}" --selector "$selector" --output \
		'jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name} {.status.phase}{"\n"}{end}'
}

# switched prints "namespace value" of each Namespace whose switch is pulled.
switched() {
	kubectl get namespaces --output "go-template={{range .items}}{{\$name := .metadata.name}}{{range \$key, \$value := .metadata.annotations -}}
		{{if eq \$key \"$annotation\"}}{{\$name}} {{\$value}}{{\"\\n\"}}{{end}}{{end}}{{end}}"
}

namespaces() {
	if [[ -n $namespace ]]; then
		kubectl get namespace "$namespace" --output 'jsonpath={.metadata.name}{"\n"}'
	elif $undo; then
		cut -d ' ' -f 1 <<<"$pulled"
	else
		cut -d ' ' -f 1 <<<"$machines" | sort -u | sed '/^$/d'
	fi
}

machines=$(list) || die "the ScheduledMachines cannot be listed; is this the right cluster, and the scheduler's CRD installed?"
pulled=$(switched) || die "Namespaces may not be read"
affected=$(namespaces) || die "namespace $namespace does not exist"
[[ -n $affected ]] || { echo "There is nothing to do." && exit; }

change="$annotation=${selector:-true}"
! $undo || change="$annotation-"
options=(--overwrite)
! $dry_run || options+=(--dry-run=server)

for n in $affected; do
	before=$(awk -v n="$n" '$1 == n {print $2}' <<<"$pulled")
	if ! $undo && [[ -n $selector && -n $before && $before != false && $before != "$selector" ]]; then
		die "namespace $n is stopped for '$before' already, and -l $selector would let that go: leave out -l, or --undo first"
	fi
	if $undo; then
		echo "Namespace $n: the schedules count again."
	else
		echo "Namespace $n: stopping$(awk -v n="$n" '$1 == n {printf " %s", $2}' <<<"$machines")."
	fi
	kubectl annotate namespace "$n" "$change" "${options[@]}" >/dev/null || die "the Namespace $n could not be annotated. \
Without the right to do that, stop each by itself: kubectl -n $n patch scheduledmachine NAME --type=merge -p '{\"spec\":{\"killSwitch\":true}}'"
done

if $undo || $dry_run || ! $wait; then
	exit
fi

left() { list | awk '$3 != "Terminated"'; }

last=''
while remaining=$(left) && [[ -n $remaining ]]; do
	if ((SECONDS >= timeout)); then
		printf '%s\n' "$remaining" >&2
		die "these are not gone after $SECONDS s; does the scheduler run? kubectl describe scheduledmachine says what is waited for"
	fi
	if [[ $remaining != "$last" ]]; then
		printf '%4d s  waiting for %s\n' "$SECONDS" "$(awk '{printf "%s/%s (%s) ", $1, $2, $3}' <<<"$remaining")"
		last=$remaining
	fi
	sleep 1
done
printf '%4d s  all are terminated; --undo lets go\n' "$SECONDS"
