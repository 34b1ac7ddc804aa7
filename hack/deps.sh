#!/usr/bin/env bash
# deps.sh: installs the Debian packages of hack/packages that are missing. Does nothing, quickly, when all are there.
set -euo pipefail
cd "$(dirname "$0")"
missing=()
while read -r package _; do
	case $package in '' | '#'*) continue ;; esac
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$package")
done <packages
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "These Debian packages are missing, and only root can install them: ${missing[*]}" >&2
	exit 1
fi
./step.sh "apt-get update" ./apt-get.sh update -q
./step.sh "apt-get install ${missing[*]} (a minute or two, once)" \
	./apt-get.sh install -y -q --no-install-recommends "${missing[@]}"
