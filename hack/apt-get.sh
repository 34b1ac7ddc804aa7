#!/usr/bin/env bash
# apt-get.sh ARGUMENTS...: apt-get, one at a time: it fails at once when another one of ours holds the lists, and builds run
# side by side. For the packages' own lock, which others may hold as well, it waits.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
exec flock /run/lock/caplv-apt-get apt-get -o DPkg::Lock::Timeout=300 "$@"
