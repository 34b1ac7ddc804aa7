// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
)

// bootTimeout is how long a guest may take to boot on a busy machine that has to emulate it.
const bootTimeout = 6 * time.Minute

// Guest is a running machine, looked at through its guest agent: no network is needed, and nothing in it is ours.
type Guest struct {
	world *World
	uuid  string
}

// Guest waits until the domain's agent answers.
func (w *World) Guest(ctx context.Context, uuid string) (*Guest, error) {
	g := &Guest{world: w, uuid: uuid}
	err := wait.PollUntilContextTimeout(ctx, time.Second, bootTimeout, true, func(ctx context.Context) (bool, error) {
		return g.agent(ctx, "guest-ping", nil, nil) == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("the guest agent of %s does not answer: %w", uuid, err)
	}
	return g, nil
}

// Run runs a command in the guest, and returns what it printed.
func (g *Guest) Run(ctx context.Context, command ...string) (string, error) {
	var started struct {
		PID int `json:"pid"`
	}
	err := g.agent(ctx, "guest-exec", map[string]any{
		"path": command[0], "arg": command[1:], "capture-output": true,
	}, &started)
	if err != nil {
		return "", err
	}
	var ended struct {
		Exited   bool   `json:"exited"`
		ExitCode int    `json:"exitcode"`
		Out      string `json:"out-data"`
		Err      string `json:"err-data"`
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return ended.Exited, g.agent(ctx, "guest-exec-status", map[string]any{"pid": started.PID}, &ended)
	})
	if err != nil {
		return "", err
	}
	out, err := base64.StdEncoding.DecodeString(ended.Out)
	if ended.ExitCode != 0 {
		stderr, _ := base64.StdEncoding.DecodeString(ended.Err)
		return string(out), fmt.Errorf("%v in the guest: exit status %d: %s", command, ended.ExitCode, stderr)
	}
	return string(out), err
}

// File reads a file in the guest.
func (g *Guest) File(ctx context.Context, path string) (string, error) {
	return g.Run(ctx, "/bin/cat", path)
}

func (g *Guest) agent(ctx context.Context, command string, arguments map[string]any, answer any) error {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	out, err := g.world.Host.Virsh(ctx, "qemu-agent-command", g.uuid, string(text))
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal([]byte(out), &struct {
		Return any `json:"return"`
	}{answer})
}

// Prove looks whether the guest is what the sample asks for: it has its own name, its address, and a kubelet that was given
// its provider ID.
func (g *Guest) Prove(ctx context.Context) error {
	machine := &infrav1.LibvirtMachine{}
	if err := g.world.Client.Get(ctx, Worker, machine); err != nil {
		return err
	}
	for _, look := range []struct {
		command []string
		want    string
	}{
		{[]string{"/bin/uname", "-n"}, Worker.Name},
		{[]string{"/bin/ip", "-brief", "address", "show", "enp1s0"}, "192.168.122.100/24"},
		{[]string{"/bin/ip", "route"}, "default via 192.168.122.1 dev enp1s0"},
		{[]string{"/bin/cat", proofPath}, "--provider-id=" + machine.Spec.ProviderID},
	} {
		if err := g.waitFor(ctx, look.want, look.command...); err != nil {
			return err
		}
	}
	return nil
}

// waitFor runs a command until it prints what is wanted: services may still be starting.
func (g *Guest) waitFor(ctx context.Context, want string, command ...string) error {
	var out string
	err := wait.PollUntilContextTimeout(ctx, time.Second, bootTimeout, true, func(ctx context.Context) (bool, error) {
		out, _ = g.Run(ctx, command...) // it may not be there yet
		return strings.Contains(out, want), nil
	})
	if err != nil {
		return fmt.Errorf("%v in the guest prints %q, not %q: %w", command, out, want, err)
	}
	return nil
}
