// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Daemon names a program that the stand runs.
type Daemon string

// The daemons, in the order in which they start: Virtlogd, Libvirtd, SSHD.
const (
	Libvirtd Daemon = "libvirtd"
	Virtlogd Daemon = "virtlogd"
	SSHD     Daemon = "sshd"
)

const (
	pollInterval = 20 * time.Millisecond
	startTimeout = 30 * time.Second // a small machine that also compiles
	stopTimeout  = 10 * time.Second
)

// daemon is a foreground child process that can be started again. It is not for concurrent use.
type daemon struct {
	name  Daemon
	args  []string
	log   string
	ready func(ctx context.Context) error // nil once it serves

	process *os.Process
	ended   chan struct{} // closed when the process was reaped
}

// start runs the daemon and waits until it serves. Its output goes to the end of its log file.
func (d *daemon) start(ctx context.Context) error {
	if d.process != nil {
		return fmt.Errorf("%s runs already", d.name)
	}
	path, err := program(string(d.name))
	if err != nil {
		return err
	}
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own copy
	cmd := exec.Command(path, d.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the program, which then may still need us
	if err := cmd.Start(); err != nil {
		return err
	}
	d.process, d.ended = cmd.Process, make(chan struct{})
	go func(ended chan<- struct{}) {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}(d.ended)
	return d.await(ctx)
}

func (d *daemon) await(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-d.ended:
			return false, errors.New("it ended")
		default:
			last = d.ready(ctx)
			return last == nil, nil
		}
	})
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(d.log) // without it the other two still say enough
	return fmt.Errorf("starting %s: %w; last answer: %w; its log ends with: %s", d.name, err, last, lastLines(log, 5))
}

// stop ends the daemon; sshd together with its open connections. One that does not run is no error.
func (d *daemon) stop(ctx context.Context) error {
	if d.process == nil {
		return nil
	}
	family := []int{d.process.Pid}
	if d.name == SSHD {
		family = append(family, descendants(d.process.Pid)...)
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT, unix.SIGKILL} {
		for _, pid := range family {
			_ = unix.Kill(pid, sig) // it may be gone by now
		}
		if sig == unix.SIGTERM {
			continue // a frozen one needs the next signal to notice
		}
		select {
		case <-d.ended:
			d.process = nil
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stopTimeout):
		}
	}
	return fmt.Errorf("%s does not end", d.name)
}

func (d *daemon) signal(sig unix.Signal) error {
	if d.process == nil {
		return fmt.Errorf("%s does not run", d.name)
	}
	return d.process.Signal(sig)
}

// daemon finds one by its name.
func (l *Libvirt) daemon(name Daemon) (*daemon, error) {
	for _, d := range l.daemons {
		if d.name == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("the stand runs no %q", name)
}

// StopDaemon ends a daemon; domains live on. sshd takes its open connections with it.
func (l *Libvirt) StopDaemon(ctx context.Context, name Daemon) error {
	d, err := l.daemon(name)
	if err != nil {
		return err
	}
	return d.stop(ctx)
}

// StartDaemon starts a daemon that was stopped, and waits until it serves.
func (l *Libvirt) StartDaemon(ctx context.Context, name Daemon) error {
	d, err := l.daemon(name)
	if err != nil {
		return err
	}
	return d.start(ctx)
}

// Restart stops a daemon and starts it again.
func (l *Libvirt) Restart(ctx context.Context, name Daemon) error {
	if err := l.StopDaemon(ctx, name); err != nil {
		return err
	}
	return l.StartDaemon(ctx, name)
}

// Freeze makes a daemon hang (SIGSTOP): its sockets still take connections, and nothing is answered.
func (l *Libvirt) Freeze(name Daemon) error { return l.signal(name, unix.SIGSTOP) }

// Thaw ends what Freeze did.
func (l *Libvirt) Thaw(name Daemon) error { return l.signal(name, unix.SIGCONT) }

func (l *Libvirt) signal(name Daemon, sig unix.Signal) error {
	d, err := l.daemon(name)
	if err != nil {
		return err
	}
	return d.signal(sig)
}

// Stop ends the daemons, last started first. Domains live on until they are destroyed or the sandbox ends.
func (l *Libvirt) Stop(ctx context.Context) error {
	var errs []error
	for _, d := range slices.Backward(l.daemons) {
		errs = append(errs, d.stop(ctx))
	}
	return errors.Join(errs...)
}

func (l *Libvirt) addDaemon(name Daemon, ready func(context.Context) error, args ...string) {
	d := &daemon{name: name, args: args, log: filepath.Join(l.LogDir, string(name)+".log"), ready: ready}
	l.daemons = append(l.daemons, d)
}
