// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// aGuest starts a domain and prints where it is: the state folder and the network namespace.
const aGuest = `virsh -q create ../../testdata/paused.xml --paused >&2 &&
cat /run/caplv-stand/state && readlink /proc/self/ns/net || exit 1
`

// running is a stand that runs, with a guest in it, and runs on until it is ended.
type running struct {
	cmd          *exec.Cmd
	state, netns string
}

func runningGuest(t *testing.T) running {
	t.Helper()
	cmd := command("run", "--", "sh", "-c", aGuest+"exec sleep 600")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := running{cmd: cmd}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			s.end(t, syscall.SIGTERM)
		}
	})
	lines := bufio.NewScanner(stdout)
	for _, field := range []*string{&s.state, &s.netns} {
		if !lines.Scan() {
			t.Fatalf("the guest did not start: %v", lines.Err())
		}
		*field = lines.Text()
	}
	return s
}

// end sends a signal to the outermost process and returns its exit status.
func (s running) end(t *testing.T, sig syscall.Signal) int {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // no success is expected: the status says how it ended
	return s.cmd.ProcessState.ExitCode()
}

// remains says what is left of a sandbox that has ended, as seen from outside. A namespace that no process is in and that
// is mounted nowhere is gone.
func remains(state, netns string) string {
	left := holders(state)
	if _, err := os.Stat(state); err == nil {
		left = append(left, state)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		left = append(left, err.Error())
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, state) || strings.Contains(line, netns) {
			left = append(left, line)
		}
	}
	return strings.Join(left, ", ")
}

// holders lists the processes in a sandbox: those that see its folders. The numbers of namespaces are no mark of it, the
// kernel gives them out again at once.
func holders(state string) []string {
	var found []string
	tables, _ := filepath.Glob("/proc/[0-9]*/mountinfo") // the pattern is valid, and that is the only error
	for _, table := range tables {
		if mounts, err := os.ReadFile(table); err == nil && strings.Contains(string(mounts), filepath.Base(state)+"/") {
			found = append(found, filepath.Dir(table))
		}
	}
	return found
}

func awaitNobodyIn(t *testing.T, state string) {
	t.Helper()
	gone := func(context.Context) (bool, error) { return len(holders(state)) == 0, nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true, gone); err != nil {
		t.Fatalf("still in the sandbox: %v", holders(state))
	}
}

// machine is what a stand could change of the machine that it runs on.
func machine(t *testing.T) map[string]string {
	t.Helper()
	seen := map[string]string{}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		seen["link "+link.Name] = link.Flags.String()
	}
	for _, file := range []string{"/etc/passwd", "/etc/group", "/etc/hosts", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/hostname"} {
		seen[file] = contents(t, file)
	}
	for _, pattern := range []string{
		"/etc/libvirt/*", "/etc/libvirt/qemu/*", "/var/lib/libvirt/*", "/var/lib/libvirt/*/*", "/var/log/libvirt/*", "/var/cache/libvirt/*",
		"/run/libvirt*", "/run/sshd*", "/run/caplv*", "/sys/fs/cgroup/*/machine*",
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		seen[pattern] = strings.Join(paths, " ")
	}
	return seen
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
