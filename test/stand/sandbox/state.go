// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// state is the folder of one sandbox, made and removed by the process outside. Its lock is held as long as that process
// or the sandbox's init lives: a folder whose lock is free is left over from a process that was killed.
type state struct {
	dir  string
	lock *os.File
}

// newState makes the folder of a new sandbox, and removes folders that killed sandboxes left behind.
func newState() (*state, error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	all, err := lockFile(filepath.Join(root, ".lock"), unix.LOCK_EX) // nobody sweeps a folder that is just being made
	if err != nil {
		return nil, err
	}
	defer all.Close() //nolint:errcheck // closing is unlocking
	if err := sweep(root); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(root, filepath.Base(os.Args[0])+"-")
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(dir, "lock"), unix.LOCK_EX)
	return &state{dir: dir, lock: lock}, err
}

// stateRoot is .cache/stand in the outermost module around the working directory, else a folder in /var/tmp. It is on
// disk: images are too large for a tmpfs.
func stateRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root := "/var/tmp/caplv-stand"
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			root = filepath.Join(dir, ".cache", "stand")
		}
	}
	return root, os.MkdirAll(root, 0o750)
}

// sweep removes the folders of sandboxes that are gone.
func sweep(root string) error {
	dirs, err := filepath.Glob(filepath.Join(root, "*", "lock"))
	if err != nil {
		return err
	}
	for _, path := range dirs {
		lock, err := lockFile(path, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
			continue // in use, or just removed by its owner
		}
		if err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(filepath.Dir(path)), lock.Close()); err != nil {
			return fmt.Errorf("removing what an earlier stand left: %w", err)
		}
	}
	return nil
}

func (s *state) remove() error {
	defer s.lock.Close() //nolint:errcheck // closing is unlocking
	if os.Getenv(keepEnv) != "" {
		fmt.Fprintf(os.Stderr, "stand: kept %s until the next stand starts\n", s.dir)
		return nil
	}
	return os.RemoveAll(s.dir)
}

func (s *state) writePID(pid int) error {
	return os.WriteFile(filepath.Join(s.dir, "pid"), []byte(strconv.Itoa(pid)+"\n"), 0o600)
}

// lockFile opens or creates a file and locks it. The lock ends when the last copy of the descriptor is closed.
func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	return f, nil
}

// Running is a sandbox as seen from outside.
type Running struct {
	Name string // of its state folder
	Dir  string
	PID  int // of its init, as the caller's pid namespace counts
}

// List returns the sandboxes that run from the module around the working directory.
func List() ([]Running, error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "*", "pid"))
	if err != nil {
		return nil, err
	}
	var running []Running
	for _, file := range files {
		dir := filepath.Dir(file)
		lock, err := lockFile(filepath.Join(dir, "lock"), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			_ = lock.Close() // its owners are gone, and the next start sweeps it
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			running = append(running, Running{Name: filepath.Base(dir), Dir: dir, PID: pid})
		}
	}
	return running, nil
}
