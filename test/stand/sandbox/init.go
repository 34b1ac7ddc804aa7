// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// Hostname is what the sandbox calls itself, and what libvirt reports as the host's name.
	Hostname = "caplv-stand"
	// interruptInit asks the init to interrupt the program inside. It is not SIGINT, because a terminal sends that to the
	// program and to its init alike.
	interruptInit = unix.SIGUSR1
)

// runInit is process 1 of the sandbox: it furnishes the namespaces, runs the program and buries the dead. QEMU puts
// itself into the background, so it becomes a child of process 1, and libvirt waits for its pid to vanish.
func runInit(state string, folders []string) (int, error) {
	unix.CloseOnExec(lockFD) // ours to hold, not the program's
	if err := os.Unsetenv(initEnv); err != nil {
		return 0, err
	}
	if err := furnish(state, folders); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, interruptInit)

	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}
	program, err := syscall.ForkExec(self, os.Args, attr)
	if err != nil {
		return 0, fmt.Errorf("starting %s in the sandbox: %w", self, err)
	}
	go pass(signals, program)
	return reap(program)
}

// pass hands signals to the program. SIGINT is dropped: it came from the terminal, which sent it to the program as well.
func pass(signals <-chan os.Signal, program int) {
	for s := range signals {
		switch s {
		case unix.SIGTERM:
			_ = unix.Kill(program, unix.SIGTERM) // it may have ended: then so do we
		case interruptInit:
			_ = unix.Kill(program, unix.SIGINT)
		}
	}
}

// reap waits for every child and orphan until the program ends, and returns the program's exit status.
func reap(program int) (int, error) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for the program in the sandbox: %w", err)
		case pid == program && ws.Signaled():
			return exitSignaled + int(ws.Signal()), nil
		case pid == program:
			return ws.ExitStatus(), nil
		}
	}
}

// furnish makes the new namespaces a machine of their own.
func furnish(state string, folders []string) error {
	steps := []func() error{
		func() error { return mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") },
		func() error { return mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777") },
		furnishRun, furnishSys, furnishEtc, furnishKVM,
		func() error { return furnishFolders(state, folders) },
		func() error { return unix.Sethostname([]byte(Hostname)) },
		loopbackUp,
		func() error { return os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") },
		func() error { return os.WriteFile(markerFile, []byte(state+"\n"), 0o600) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("furnishing the sandbox: %w", err)
		}
	}
	return nil
}

func furnishRun() error {
	if err := mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	return makeDirs("/run/lock", "/run/user", PrivateDir)
}

// furnishSys mounts sysfs anew, because it shows the network devices of the namespace that it was mounted in, and libvirt
// reads /sys/class/net. The control groups are put back: libvirt and container runtimes look there.
func furnishSys() error {
	const groups, aside = "/sys/fs/cgroup", PrivateDir + "/cgroup"
	if err := makeDirs(aside); err != nil {
		return err
	}
	if err := mount(groups, aside, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount(aside, groups, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Unmount(aside, unix.MNT_DETACH)
}

// furnishEtc makes /etc writable without the machine's changing. What is written lies on a tmpfs, because the upper
// folder of an overlay must not lie on an overlay itself, as a container's root does.
func furnishEtc() error {
	const upper, work = PrivateDir + "/etc/upper", PrivateDir + "/etc/work"
	if err := makeDirs(upper, work); err != nil {
		return err
	}
	if err := mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work); err != nil {
		return err
	}
	const hosts = "127.0.0.1 localhost\n127.0.1.1 " + Hostname + "\n"
	return os.WriteFile("/etc/hosts", []byte(hosts), 0o644)
}

// furnishKVM hides /dev/kvm behind an empty file, unless KVMVariable is set: many a container and cloud machine has the device, and
// no guest survives in it. With the variable it gets the mode that udev would give it, because QEMU does not run as root.
func furnishKVM() error {
	const device, devices = "/dev/kvm", PrivateDir + "/dev"
	var stat unix.Stat_t
	switch err := unix.Stat(device, &stat); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("looking at %s: %w", device, err)
	}
	if err := makeDirs(devices); err != nil {
		return err
	}
	if err := mount("tmpfs", devices, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755"); err != nil {
		return err
	}
	const own = devices + "/kvm"
	kind := uint32(unix.S_IFREG)
	if os.Getenv(KVMVariable) != "" {
		kind = unix.S_IFCHR
	}
	if err := unix.Mknod(own, kind|0o666, int(stat.Rdev)); err != nil {
		return fmt.Errorf("making %s: %w", own, err)
	}
	if err := unix.Chmod(own, 0o666); err != nil { // whatever the umask is
		return fmt.Errorf("opening %s to all: %w", own, err)
	}
	return mount(own, device, "", unix.MS_BIND, "")
}

// furnishFolders puts folders of the state folder in the place of the machine's.
func furnishFolders(state string, folders []string) error {
	for _, dir := range folders {
		own := filepath.Join(state, dir)
		if err := makeDirs(own, dir); err != nil {
			return err
		}
		if err := mount(own, dir, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", source, target, err)
	}
	return nil
}

// makeDirs makes folders and their parents, for everybody to enter, whatever the process mask.
func makeDirs(paths ...string) error {
	const mode = 0o755
	for _, path := range paths {
		if err := os.MkdirAll(path, mode); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	return nil
}

func loopbackUp() error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock) //nolint:errcheck // nothing was written to it
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(sock, unix.SIOCGIFFLAGS, lo); err != nil {
		return fmt.Errorf("reading the flags of lo: %w", err)
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	return nil
}
