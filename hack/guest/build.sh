#!/bin/bash
# build.sh [OUT.qcow2]: builds the test guest, or finds it in the cache, and prints its path; a copy goes to OUT.
# build.sh --ignition, build.sh --tree: the same for its Ignition, or for the archive of its Debian packages, alone.
#
#   EXTRA=containerd,runc    more Debian packages in the guest
#   GUEST_CACHE=DIR          instead of .cache/guest of the repository
#
# No loop device and no mount of a disk: mmdebstrap makes a tree, mke2fs and mtools write it into a disk file.
# Each part is kept under a hash of all that it is made from. See README.md.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${GUEST_CACHE:-$(cd "$here/../.." && pwd)/.cache/guest}
suite=bookworm
disk_mib=3072 # the root file system; sparse. A kubelet evicts pods from a nearly full one.
esp_mib=64
# All but the first three are for time: no calibration loops, self-tests and idle serial ports under emulation.
cmdline='console=ttyS0 quiet systemd.show_status=auto audit=0 mitigations=off tsc=reliable no_timer_check
	lpj=4000000 cryptomgr.notests 8250.nr_uarts=1 rcupdate.rcu_expedited=1 nokaslr'

say() { printf '[%4d s] guest: %s\n' "$SECONDS" "$*" >&2; }
hash() { sha256sum | cut -c1-16; }
words() { sed 's/#.*//' "$@" | xargs; } # a list file without its comments

install_missing() {
	local package missing=()
	for package in $(words "$here/packages"); do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "installing Debian packages that are missing: ${missing[*]}"
	"$here/../step.sh" "apt-get update" "$here/../apt-get.sh" update -q >&2
	"$here/../step.sh" "apt-get install ${missing[*]}" \
		"$here/../apt-get.sh" install -y -q --no-install-recommends "${missing[@]}" >&2
}

# --- Ignition, from its module

ignition_package=github.com/coreos/ignition/v2/internal

build_ignition() { # OUT
	local version
	version=$(go -C "$here/ignition" list -m -f '{{.Version}}' "${ignition_package%/internal}")
	say "building Ignition $version from its module (2 to 5 minutes when nothing is compiled yet)"
	# There is no SELinux in the guest, and Ignition would fail for the lack of its tools.
	CGO_ENABLED=1 go -C "$here/ignition" build -mod=readonly -trimpath -buildvcs=false -o "$1.part" -ldflags \
		"-s -w -X $ignition_package/distro.selinuxRelabel=false -X $ignition_package/version.Raw=$version" "$ignition_package"
	mv "$1.part" "$1"
	say "Ignition built"
}

# --- the tree, from Debian's packages

tree_packages() { echo "$(words "$here/guest-packages" | tr ' ' ,)${EXTRA:+,$EXTRA}"; }

build_tree() { # OUT
	say "installing Debian $suite into a tree (1 to 6 minutes)"
	# The documentation is removed afterwards: a path-exclude would filter each package by a slow script.
	# shellcheck disable=SC2016 # $1 is for the hook
	mmdebstrap --quiet --variant=essential --include="$(tree_packages)" --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
		--aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io --customize-hook='
			cd "$1/usr" && rm -rf share/man share/locale share/doc share/info lib/x86_64-linux-gnu/gconv' \
		"$suite" "$1.part.tar" >"$work/log" 2>&1 || { # the ending decides the format
		cat "$work/log" >&2
		return 1
	}
	mv "$1.part.tar" "$1"
	say "tree ready, $(du -m "$1" | cut -f1) MiB"
}

# --- the image, from both

fill_root() { # ROOT IGNITION
	local path
	cp -a --no-preserve=ownership "$here/rootfs/." "$1/"
	install -m 755 "$2" "$1/usr/bin/ignition"
	mkdir -p "$1/etc/systemd/system-generators"
	for path in $(words "$here/masked"); do ln -sf /dev/null "$1/etc/$path"; done
	rm -f "$1"/usr/lib/*/NetworkManager/*/*.so "$1"/etc/NetworkManager/dispatcher.d/01-ifupdown # Wi-Fi, modems and the like
	rm -rf "$1"/etc/hostname "$1"/var/lib/dbus/machine-id "$1"/var/cache/{apt,debconf} "$1"/var/lib/apt/lists
	chroot "$1" passwd -q -d root # for a person at the serial console; nothing else listens
	touch "$1/usr"                # newer than these two, or systemd would redo ldconfig, hwdb and more on the first boot
	touch -r "$1/usr" "$1/etc/.updated" "$1/var/.updated"
}

# modules prints the files of kernel modules in the order in which they have to be loaded; built-in ones have none.
modules() { # ROOT NAME...
	local root=$1 name
	shift
	for name; do
		grep -h "/$name.ko:" "$root"/lib/modules/*/modules.dep || true
	done | awk '{ sub(":", ""); for (i = NF; i > 0; i--) if (!seen[$i]++) print $i }'
}

build_initramfs() { # ROOT WORK
	local ramfs=$2/initramfs module from
	mkdir -p "$ramfs"/{bin,dev,proc,sys,run,root,modules.d}
	install -m 755 "$here/initramfs/init" "$ramfs/init"
	install -m 755 "$1/bin/busybox" "$ramfs/bin/busybox"
	chroot "$1" /bin/busybox --list | grep -vx busybox | xargs -I{} ln -s busybox "$ramfs/bin/{}"
	from=$(echo "$1"/lib/modules/*)
	modules "$1" virtio_pci virtio_blk ext4 crc32c_generic qemu_fw_cfg | while read -r module; do
		cp "$from/$module" "$ramfs/modules.d/"
		echo "/modules.d/${module##*/}"
	done >"$ramfs/modules"
	(cd "$ramfs" && find . | sort | cpio --quiet -o -H newc | zstd -q -19 >"$2/initrd")
}

write_esp() { # ROOT WORK; the partition starts at 1 MiB of WORK/disk
	local fat=$2/disk@@1M
	mkfs.vfat -F 16 -n ESP --offset 2048 "$2/disk" $((esp_mib * 1024)) >/dev/null 2>&1 # warns that the file is longer
	printf 'timeout 0\ndefault guest.conf\n' >"$2/loader.conf"
	printf 'title guest\nlinux /vmlinuz\ninitrd /initrd\noptions %s\n' "$(xargs <<<"$cmdline")" >"$2/guest.conf"
	mmd -i "$fat" ::EFI ::EFI/BOOT ::loader ::loader/entries
	mcopy -i "$fat" /usr/lib/systemd/boot/efi/systemd-bootx64.efi ::EFI/BOOT/BOOTX64.EFI
	mcopy -i "$fat" "$2/loader.conf" ::loader/loader.conf
	mcopy -i "$fat" "$2/guest.conf" ::loader/entries/guest.conf
	mcopy -i "$fat" "$1"/boot/vmlinuz-* ::vmlinuz
	mcopy -i "$fat" "$2/initrd" ::initrd
}

write_root() { # ROOT WORK
	rm -rf "${1:?}"/boot/* "$1"/{vmlinuz,initrd.img}{,.old}
	mkfs.ext4 -q -L root -O ^metadata_csum -J size=8 -d "$1" \
		-E "offset=$(((esp_mib + 1) << 20)),lazy_itable_init=0,assume_storage_prezeroed=1,nodiscard" "$2/disk" "${disk_mib}M"
}

build_image() { # OUT TREE IGNITION
	local root=$work/root
	mkdir "$root"
	tar -xf "$2" -C "$root"
	say "tree unpacked"
	fill_root "$root" "$3"
	build_initramfs "$root" "$work"
	say "initramfs made, $(du -k "$work/initrd" | cut -f1) KiB"
	truncate -s $((disk_mib + esp_mib + 2))M "$work/disk"
	sfdisk -q "$work/disk" <<-E
		label: gpt
		start=1MiB, size=${esp_mib}MiB, type=uefi
		start=$((esp_mib + 1))MiB, size=${disk_mib}MiB, type=linux
	E
	write_esp "$root" "$work"
	write_root "$root" "$work"
	say "disk written"
	qemu-img convert -O qcow2 -c -o compression_type=zstd -W -m 4 "$work/disk" "$1.part" # 3 times less to upload
	mv "$1.part" "$1"
	say "image ready, $(du -m "$1" | cut -f1) MiB"
}

# sources prints all that an image is made of, beside the tree and Ignition.
sources() {
	cat "$here/build.sh" "$here/masked"
	(cd "$here" && find rootfs initramfs \( -type f -printf '%m ' -o -printf '%l ' \) -print | sort)
	find "$here/rootfs" "$here/initramfs" -type f | sort | xargs cat
}

main() {
	local ignition tree image link=guest${EXTRA:+-extra}.qcow2
	mkdir -p "$cache"
	ignition=$cache/ignition-$( (cat "$here"/ignition/go.{mod,sum} && declare -f build_ignition) | hash)
	tree=$cache/tree-$( (tree_packages && declare -f build_tree && echo "$suite") | hash).tar
	image=$cache/image-$( (echo "$ignition $tree" && sources) | hash).qcow2
	exec 9>"$cache/lock"
	flock 9 # two builders would do the same work twice
	work=$(mktemp -d -p "$cache" work.XXXXXX)
	trap 'rm -rf "$work"' EXIT
	case "${1:-}" in
	--ignition)
		[ -s "$ignition" ] || { install_missing && build_ignition "$ignition"; }
		echo "$ignition"
		return
		;;
	--tree)
		[ -s "$tree" ] || { install_missing && build_tree "$tree"; }
		echo "$tree"
		return
		;;
	esac
	if [ ! -s "$image" ]; then
		say "not in the cache yet: this takes minutes once, and under a second from then on"
		[ "$(id -u)" = 0 ] || { say "has to be built as root (it installs Debian packages into a tree)"; exit 1; }
		install_missing
		[ -s "$ignition" ] || build_ignition "$ignition"
		[ -s "$tree" ] || build_tree "$tree"
		build_image "$image" "$tree" "$ignition"
	fi
	ln -sfn "${image##*/}" "$cache/$link"
	[ -z "${1:-}" ] || install -D -m 644 "$image" "$1"
	echo "${1:-$cache/$link}"
}

main "$@"
