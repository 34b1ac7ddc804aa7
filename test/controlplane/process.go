// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	readyTimeout = time.Minute
	pollInterval = 100 * time.Millisecond
	// stopGrace is how long a process may take to stop when asked, before it is killed.
	stopGrace = 10 * time.Second
)

// process is one program that runs until it is stopped.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it has ended and was reaped
}

// supervisor starts processes and stops them in reverse order. They end with this process, even when it is killed.
type supervisor struct {
	dir       string
	spawn     chan func()
	ended     chan *process // each process, once
	processes []*process
}

func newSupervisor(dir string) *supervisor {
	s := &supervisor{dir: dir, spawn: make(chan func()), ended: make(chan *process, 8)}
	go func() {
		// The kernel sends a parent-death signal when the *thread* that forked ends, so one thread starts all processes
		// and lives as long as they do (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for start := range s.spawn {
			start()
		}
	}()
	return s
}

// start runs a program in the supervisor's folder, logging to NAME.log there. It inherits only the search path: no
// proxies, no KUBECONFIG, and a home that goes with the folder.
func (s *supervisor) start(name, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(s.dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own copy
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, log, log
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir}
	// A group of its own: an interrupt at the terminal reaches us alone, and we stop the processes in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s.spawn <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s.processes = append(s.processes, p)
	go func() {
		_ = p.cmd.Wait() // how it ended is in its ProcessState
		close(p.done)
		s.ended <- p
	}()
	return p, nil
}

// await asks until ready returns nil. It gives up early when the process ends.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			return false, p.failure()
		default:
			last = ready(ctx)
			return last == nil, nil
		}
	})
	if err == nil || errors.Is(err, errEnded) {
		return err
	}
	return fmt.Errorf("%s does not get ready: %w\n%s", p.name, errors.Join(err, last), p.tail())
}

var errEnded = errors.New("ended by itself")

func (p *process) failure() error {
	return fmt.Errorf("%s %w: %s\n%s", p.name, errEnded, p.cmd.ProcessState, p.tail())
}

// tail is the end of the log.
func (p *process) tail() []byte {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return lastLines(content, 20)
}

func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}

// stop stops all processes, the last one first, and returns once they are reaped.
func (s *supervisor) stop() error {
	var errs []error
	for _, p := range slices.Backward(s.processes) {
		errs = append(errs, p.stop())
	}
	close(s.spawn)
	return errors.Join(errs...)
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has ended
	select {
	case <-p.done:
		return nil
	case <-time.After(stopGrace):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not stop within %s and was killed", p.name, stopGrace)
}

// reservation keeps free ports from others until their processes start.
type reservation struct{ listeners []net.Listener }

// port reserves a port of the address; 0 takes a free one.
func (r *reservation) port(address string, port int) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
	if err != nil {
		return 0, err
	}
	r.listeners = append(r.listeners, listener)
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (r *reservation) release() {
	for _, listener := range r.listeners {
		_ = listener.Close()
	}
	r.listeners = nil
}
