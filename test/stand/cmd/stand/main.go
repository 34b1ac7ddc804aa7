// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stand gives a command a libvirt host of its own, in a sandbox that ends with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/finos/caplv/test/stand"
	"github.com/finos/caplv/test/stand/sandbox"
)

const usage = `stand runs commands beside a libvirt host of their own. The machine's own libvirt is not touched.

  stand run -- COMMAND                start libvirtd and sshd in a new sandbox, run COMMAND in it, take all of it down
  stand enter [NAME|PID] -- COMMAND   run COMMAND in a sandbox that runs already
  stand list                          the sandboxes that run: name and pid of their init
  stand doctor                        what the stand needs, and what of it is missing
  stand install                       install what is missing (as root, on Debian)

COMMAND finds LIBVIRT_DEFAULT_URI and CAPLV_STAND_{URI,KEY_FILE,KNOWN_HOSTS_FILE,FINGERPRINT,POOL_DIR,DOMAIN_TYPE}
in its environment. CAPLV_STAND_KEEP=1 keeps logs and disks in .cache/stand until the next start.
`

const exitUsage = 2

func main() {
	code, err := dispatch(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func dispatch(args []string) (int, error) {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "run":
		if len(args) < 2 || args[0] != "--" {
			return exitUsage, errors.New("usage: stand run -- COMMAND")
		}
		return 0, run(args[1:])
	case "enter":
		return enter(args)
	case "list":
		return 0, list()
	case "doctor":
		return doctor(), nil
	case "install":
		return 0, stand.Ensure(context.Background(), os.Stderr)
	default:
		fmt.Fprint(os.Stderr, usage)
		return exitUsage, nil
	}
}

// run starts the host and becomes the command, so that signals reach it as if nobody were between.
func run(command []string) error {
	stand.Enter()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	start := time.Now()
	host, err := stand.StartLibvirt(ctx, stand.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "stand: libvirt is up in %s: %s\n", time.Since(start).Round(time.Millisecond), host.URI)
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, command, append(os.Environ(), host.Environ()...))
}

// enter replaces this process by the command, in the namespaces of a running sandbox.
func enter(args []string) (int, error) {
	name := ""
	if len(args) > 0 && args[0] != "--" {
		name, args = args[0], args[1:]
	}
	if len(args) < 2 || args[0] != "--" {
		return exitUsage, errors.New("usage: stand enter [NAME|PID] -- COMMAND")
	}
	target, err := find(name)
	if err != nil {
		return 0, err
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return 0, errors.New("nsenter is not installed: apt-get install util-linux")
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	// A mount namespace belongs to a process, not to a thread: only a program without threads can enter one.
	argv := []string{nsenter, fmt.Sprintf("--target=%d", target.PID), "--mount", "--net", "--pid", "--ipc", "--uts", "--"}
	argv = append(append(argv, "env", "--chdir="+dir), args[1:]...)
	env, err := os.ReadFile(filepath.Join(target.Dir, "env")) // not there when only stand.Enter was called
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	return 0, syscall.Exec(nsenter, argv, append(os.Environ(), strings.Fields(string(env))...))
}

// find returns the sandbox of that name or pid, or the only one.
func find(name string) (sandbox.Running, error) {
	all, err := sandbox.List()
	if err != nil {
		return sandbox.Running{}, err
	}
	for _, s := range all {
		if s.Name == name || fmt.Sprint(s.PID) == name || name == "" && len(all) == 1 {
			return s, nil
		}
	}
	if len(all) == 0 {
		return sandbox.Running{}, errors.New("no sandbox runs: start one with stand run")
	}
	return sandbox.Running{}, fmt.Errorf("which of %d sandboxes is meant by %q? see stand list", len(all), name)
}

func list() error {
	all, err := sandbox.List()
	for _, s := range all {
		fmt.Printf("%s\t%d\n", s.Name, s.PID)
	}
	return err
}

func doctor() (code int) {
	for _, check := range stand.Doctor() {
		if check.Err == nil {
			fmt.Printf("ok       %s\n", check.Name)
			continue
		}
		fmt.Printf("MISSING  %s: %v\n", check.Name, check.Err)
		code = 1
	}
	return code
}
