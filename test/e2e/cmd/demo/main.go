// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows the whole product at work on this machine: a worker's window opens, its machine boots, is looked at from
// inside, and goes again without a trace. DEMO_KEEP=1 leaves it running.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/test/controlplane"
	"github.com/finos/caplv/test/e2e"
	"github.com/finos/caplv/test/stand"
	"github.com/finos/caplv/test/stand/sandbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !sandbox.Inside() { // the control plane is built outside: the sandbox has no network
		if _, err := controlplane.Build(ctx, os.Stdout); err != nil {
			fail(err)
		}
	}
	stand.Enter()
	if err := run(ctx, e2e.NewProgress(os.Stdout)); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "demo:", err)
	os.Exit(1)
}

func run(ctx context.Context, progress *e2e.Progress) (err error) {
	world, err := e2e.Start(ctx, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Stop(context.WithoutCancel(ctx))) }()
	ctx, endWatch := context.WithCancel(ctx)
	defer endWatch()
	d := &demo{World: world, progress: progress}
	for _, chapter := range []func(context.Context) error{d.apply, d.open, d.look} {
		if err := chapter(ctx); err != nil {
			return errors.Join(err, d.explain(context.WithoutCancel(ctx)))
		}
	}
	if os.Getenv("DEMO_KEEP") != "" {
		return d.keep(ctx)
	}
	for _, chapter := range []func(context.Context) error{d.close, d.tearDown} {
		if err := chapter(ctx); err != nil {
			return errors.Join(err, d.explain(context.WithoutCancel(ctx)))
		}
	}
	progress.Say("Done: the host is as it was")
	return nil
}

// demo tells the story.
type demo struct {
	*e2e.World
	progress *e2e.Progress
	uuid     string
}

// apply brings in the user's manifests, with the window closed.
func (d *demo) apply(ctx context.Context) error {
	if err := d.progress.Step("manifests/samples/office-hours.yaml applied, its window closed today", func() error {
		return d.ApplyOffice(ctx)
	}); err != nil {
		return err
	}
	go d.watch(ctx)
	if err := d.progress.Step("host reachable over SSH, cluster provisioned", func() error {
		return errors.Join(d.WaitForHost(ctx), d.WaitForCluster(ctx))
	}); err != nil {
		return err
	}
	if err := d.WaitForPhase(ctx, schedulingv1.PhaseInactive); err != nil {
		return err
	}
	return d.show(ctx, "get", "cluster,libvirtcluster,libvirthost,scheduledmachine")
}

// open opens the window, and waits for the machine.
func (d *demo) open(ctx context.Context) error {
	if err := d.progress.Step("window opened", func() error { return d.OpenWindow(ctx) }); err != nil {
		return err
	}
	if err := d.progress.Step("domain runs", func() error {
		machine, err := d.WaitForDomain(ctx)
		d.uuid = machine.Status.Domain.UUID
		return err
	}); err != nil {
		return err
	}
	if err := d.show(ctx, "get", "machine,libvirtmachine,ignitionconfig,scheduledmachine"); err != nil {
		return err
	}
	out, err := d.Host.Virsh(ctx, "list", "--all")
	d.quote("virsh list --all", out)
	return err
}

// look boots the guest, and reads what was made for it from inside.
func (d *demo) look(ctx context.Context) error {
	var guest *e2e.Guest
	if err := d.progress.Step("guest booted: UEFI, Ignition, systemd", func() (err error) {
		guest, err = d.Guest(ctx, d.uuid)
		return err
	}); err != nil {
		return err
	}
	for _, path := range []string{
		"/etc/hostname",
		"/etc/systemd/system/kubelet.service.d/90-provider-id.conf",
		"/etc/NetworkManager/system-connections/enp1s0.nmconnection",
	} {
		content, err := guest.File(ctx, path)
		if err != nil {
			return err
		}
		d.quote("guest: "+path, content)
	}
	return d.progress.Step("guest has its static address, and its kubelet unit the provider ID", func() error {
		return guest.Prove(ctx)
	})
}

// close closes the window, and waits until nothing is left.
func (d *demo) close(ctx context.Context) error {
	if err := d.progress.Step("window closed", func() error { return d.CloseWindow(ctx) }); err != nil {
		return err
	}
	if err := d.progress.Step("machine gone, and domain, NVRAM, volumes and objects with it", func() error {
		return d.WaitUntilGone(ctx)
	}); err != nil {
		return err
	}
	if err := d.WaitForPhase(ctx, schedulingv1.PhaseInactive); err != nil {
		return err
	}
	out, err := d.Host.Virsh(ctx, "vol-list", "default")
	d.quote("virsh vol-list default", out)
	return err
}

// tearDown deletes the user's objects, and checks that the host is as it was.
func (d *demo) tearDown(ctx context.Context) error {
	return d.progress.Step("user's objects deleted", func() error { return d.DeleteOffice(ctx) })
}

// keep leaves everything running until somebody interrupts it.
func (d *demo) keep(ctx context.Context) error {
	fmt.Printf(`
It is left running. In another terminal, in this folder:

  bin/stand enter -- env KUBECONFIG=%s PATH=%s/bin/k8s:$PATH bash

and in there, for example:

  kubectl get scheduledmachines -w
  kubectl get cluster-api
  kubectl patch scheduledmachine %s --type=merge -p '{"spec":{"killSwitch":true}}'
  virsh list --all

Interrupt this (Ctrl-C) to take it down.
`, d.ControlPlane.Kubeconfig, d.Root(), e2e.Worker.Name)
	<-ctx.Done()
	return nil
}

// watch prints what a user would see who watches.
func (d *demo) watch(ctx context.Context) {
	cmd := exec.CommandContext(ctx, d.ControlPlane.Kubectl(), "--kubeconfig", d.ControlPlane.Kubeconfig,
		"--cache-dir", d.Dir, "get", "scheduledmachines", "-w")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return // it is only for show
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		d.progress.Say("watch | %s", lines.Text())
	}
	_ = cmd.Wait() // it ends when we do
}

func (d *demo) show(ctx context.Context, args ...string) error {
	out, err := d.Kubectl(ctx, nil, args...)
	d.quote("kubectl "+strings.Join(args, " "), out)
	return err
}

func (d *demo) quote(title, text string) {
	fmt.Printf("\n  $ %s\n", title)
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		fmt.Printf("  | %s\n", line)
	}
	fmt.Println()
}

// explain shows what there is when something went wrong.
func (d *demo) explain(ctx context.Context) error {
	err := d.show(ctx, "get", "cluster-api,events", "-A")
	for _, p := range d.Programs {
		tail, readErr := lastLines(p.LogFile(), 20)
		d.quote(p.LogFile(), tail)
		err = errors.Join(err, readErr)
	}
	return err
}

func lastLines(path string, n int) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n"), errors.Join(err, file.Close())
}
