// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs a program in mount, network, pid, ipc and uts namespaces of its own.
//
// All that the program starts there sees the sandbox's own loopback, /proc, /sys, /run, /etc and /dev/shm, and empty
// folders in the place of those that it names. When the program ends, however it ends, the kernel ends every process in
// the sandbox: there is no teardown to get wrong. There is no way out to another network: download before.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// PrivateDir exists inside a sandbox only: /run there is the sandbox's own. It lies in memory.
	PrivateDir = "/run/caplv-stand"

	// KVMVariable lets guests, when it is set in the environment, use the machine's /dev/kvm, which has to work. Without it
	// they are emulated, on every machine alike.
	KVMVariable = "CAPLV_STAND_KVM"

	markerFile = PrivateDir + "/state"
	// initEnv tells the re-executed program that it is the sandbox's init, and where its state folder is.
	initEnv = "CAPLV_STAND_INIT"
	// keepEnv, when set, keeps the state folder (logs, pool, definitions) until the next stand starts.
	keepEnv = "CAPLV_STAND_KEEP"
	// lockFD is where the init finds the lock of its state folder: the first of exec.Cmd's ExtraFiles.
	lockFD = 3

	exitFailure  = 1
	exitSignaled = 128 // as a shell says it: 128 plus the number of the signal
)

// Enter returns inside a sandbox, and only there. Call it first thing in main or TestMain.
//
// Outside, it calls prepare, runs the program again inside a new sandbox with the same arguments, environment and
// standard streams, passes SIGINT and SIGTERM on to it, removes the sandbox's state, and exits with its status. When it
// cannot, one line on standard error says why, and the exit status is 1.
//
// Each of the folders is replaced by an empty one on disk, made when the machine has none.
func Enter(prepare func() error, folders ...string) {
	if Inside() {
		return
	}
	enter := func() (int, error) { return outside(prepare) }
	if state := os.Getenv(initEnv); state != "" && os.Getpid() == 1 {
		enter = func() (int, error) { return runInit(state, folders) }
	}
	code, err := enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand:", err)
		code = exitFailure
	}
	os.Exit(code)
}

// Inside says whether the calling process runs in a sandbox.
func Inside() bool {
	_, err := os.Stat(markerFile)
	return err == nil
}

// StateDir is a folder on disk for logs, keys and large files. It is gone when the sandbox is.
func StateDir() (string, error) {
	path, err := os.ReadFile(markerFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", errors.New("not in a sandbox: call Enter first")
	}
	return strings.TrimSpace(string(path)), err
}

// outside runs this program again inside a new sandbox and returns its exit status.
func outside(prepare func() error) (code int, err error) {
	if err := prepare(); err != nil {
		return 0, err
	}
	st, err := newState()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.remove()) }()

	// The kernel sends Pdeathsig when the thread that forked ends, not the process: keep the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8) // before the start, or an early signal would end us without the cleanup
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(signals)

	cmd, err := sandboxCommand(st)
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("cannot make namespaces (%w): it takes root with CAP_SYS_ADMIN, which unprivileged containers lack", err)
	}
	defer forward(signals, cmd.Process)()
	if err := st.writePID(cmd.Process.Pid); err != nil {
		return 0, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return ExitStatus(cmd.Wait())
}

func sandboxCommand(st *state) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Args = os.Args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), initEnv+"="+st.dir)
	cmd.ExtraFiles = []*os.File{st.lock} // held until both of us are gone
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  unix.SIGKILL,
	}
	return cmd, nil
}

// forward passes signals on to the sandbox's init until the returned function is called.
func forward(signals <-chan os.Signal, init *os.Process) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				// A process that is gone needs no signal: the error says nothing new.
				switch {
				case s == unix.SIGTERM:
					_ = init.Signal(unix.SIGTERM)
				case !terminalSignalsUs():
					_ = init.Signal(interruptInit)
				}
			}
		}
	}()
	return func() { close(done) }
}

// terminalSignalsUs says whether a Ctrl-C goes to our whole process group, and so to the program inside as well.
func terminalSignalsUs() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close() //nolint:errcheck // it was only asked
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// ExitStatus turns what [exec.Cmd.Wait] returned into an exit status, as a shell does.
func ExitStatus(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exitSignaled + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}
