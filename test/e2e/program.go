// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Program is one of our three programs, run with the rights that its manifests give it.
type Program struct {
	name       string
	binary     string
	kubeconfig string
	health     string // address of its probes
	flags      []string
	log        *os.File
	command    *exec.Cmd
}

func newProgram(name, binDir, kubeconfig, logDir string) (*Program, error) {
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(logDir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Program{name: name, binary: filepath.Join(binDir, name), kubeconfig: kubeconfig, health: health, log: log}, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// LogFile is where the program writes its log.
func (p *Program) LogFile() string { return p.log.Name() }

// Start runs the program, and returns once it is ready.
func (p *Program) Start(ctx context.Context) error {
	p.command = exec.Command(p.binary, append([]string{
		"--kubeconfig", p.kubeconfig, "--health-addr", p.health, "--diagnostics-address", "0", "-v", "4",
	}, p.flags...)...)
	p.command.Stdout, p.command.Stderr = p.log, p.log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		return err
	}
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, p.ready); err != nil {
		return errors.Join(fmt.Errorf("%s is not ready; see %s: %w", p.name, p.LogFile(), err), p.Kill())
	}
	return nil
}

func (p *Program) ready(ctx context.Context) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.health+"/readyz", nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, nil //nolint:nilerr // it does not listen yet
	}
	return response.StatusCode == http.StatusOK, response.Body.Close()
}

// Kill ends the program as the kernel would, in the middle of whatever it does.
func (p *Program) Kill() error {
	if p.command == nil {
		return nil
	}
	_ = p.command.Process.Kill() // it may have ended by itself
	_ = p.command.Wait()         // the status says: killed
	p.command = nil
	return nil
}

// Running is the program's process number, or empty.
func (p *Program) Running() string {
	if p.command == nil {
		return ""
	}
	return strconv.Itoa(p.command.Process.Pid)
}
