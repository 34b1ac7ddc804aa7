// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adminPath is searched after PATH: an ordinary account's PATH leaves out the daemons.
const adminPath = "/usr/sbin:/sbin:/usr/bin:/bin"

// need is a Debian package and a file that shows that it, or another distribution's like, is there.
type need struct{ pkg, file string }

func needs() []need {
	return []need{
		{"libvirt-daemon-system", "libvirtd"},
		{"libvirt-daemon-system", "virtlogd"},
		{"libvirt-daemon-system", "/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so"},
		{"libvirt-clients", "virsh"},
		{"qemu-system-x86", "qemu-system-x86_64"},
		{"qemu-utils", "qemu-img"},
		{"ovmf", "/usr/share/OVMF/OVMF_CODE*.fd"},
		{"openssh-server", "sshd"},
		{"dnsmasq-base", "dnsmasq"},
		{"iptables", "iptables"},
		{"iproute2", "ip"},
	}
}

// missing returns the packages whose files are not there, each once.
func missing() []string {
	var pkgs []string
	for _, n := range needs() {
		if found(n.file) || len(pkgs) > 0 && pkgs[len(pkgs)-1] == n.pkg {
			continue
		}
		pkgs = append(pkgs, n.pkg)
	}
	return pkgs
}

func found(file string) bool {
	if !strings.Contains(file, "/") {
		_, err := program(file)
		return err == nil
	}
	files, err := filepath.Glob(file)
	return err == nil && len(files) > 0
}

// program finds a command in PATH, and then where daemons are.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range filepath.SplitList(adminPath) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// Ensure returns nil at once when all that the stand needs is there. As root on Debian it installs missing packages,
// saying so and how long it took on log; they set up their services on the machine as they always do. Otherwise the error
// says in one line what is missing and how to get it.
func Ensure(ctx context.Context, log io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for namespaces and mounts: run it with sudo, or go test -short to leave such tests out")
	}
	if pkgs := missing(); len(pkgs) > 0 {
		if err := install(ctx, log, pkgs); err != nil {
			return err
		}
	}
	return tun()
}

func install(ctx context.Context, log io.Writer, pkgs []string) error {
	list := strings.Join(pkgs, " ")
	apt, err := program("apt-get")
	if err != nil {
		return fmt.Errorf("missing what Debian has in %s, and there is no apt-get here: install it", list)
	}
	flock, err := program("flock") // hack/apt-get.sh holds the same lock: apt-get fails when another one has the lists
	if err != nil {
		return fmt.Errorf("missing what Debian has in %s, and there is no flock here: install util-linux", list)
	}
	start := time.Now()
	_, _ = fmt.Fprintf(log, "stand: installing %s\n", list) // a log that cannot be written stops nothing
	options := []string{"/run/lock/caplv-apt-get", apt, "-q", "-y", "-o", "DPkg::Lock::Timeout=300"}
	for _, args := range [][]string{{"update"}, append([]string{"install", "--no-install-recommends"}, pkgs...)} {
		cmd := exec.CommandContext(ctx, flock, append(options, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "PATH="+os.Getenv("PATH")+":"+adminPath)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("missing %s, and apt-get %s failed (%w): %s", list, args[0], err, lastLines(out, 3))
		}
	}
	if still := missing(); len(still) > 0 {
		return fmt.Errorf("apt-get installed %s, but the files of %s are not where Debian has them", list, strings.Join(still, " "))
	}
	_, _ = fmt.Fprintf(log, "stand: installed in %s\n", time.Since(start).Round(time.Second))
	return nil
}

func tun() error {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return errors.New("missing /dev/net/tun, which network cards of guests need: modprobe tun, or give the container that device")
	}
	return nil
}

// Check is one thing that the stand needs. Err is nil when it is there, else it says what to do.
type Check struct {
	Name string
	Err  error
}

// Doctor looks at all that the stand needs, and changes nothing.
func Doctor() []Check {
	checks := []Check{{Name: "root", Err: nil}, {Name: "namespaces", Err: namespaces()}, {Name: "/dev/net/tun", Err: tun()}}
	if os.Geteuid() != 0 {
		checks[0].Err = errors.New("run it with sudo")
	}
	for _, n := range needs() {
		c := Check{Name: filepath.Base(n.file)}
		if !found(n.file) {
			c.Err = fmt.Errorf("apt-get install %s", n.pkg)
		}
		checks = append(checks, c)
	}
	return checks
}

func namespaces() error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run it as root, and with CAP_SYS_ADMIN when in a container (%w)", err)
	}
	return nil
}

// lastLines returns the end of a program's output as one line.
func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
