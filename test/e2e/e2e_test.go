// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/test/controlplane"
	"github.com/finos/caplv/test/e2e"
	"github.com/finos/caplv/test/stand"
	"github.com/finos/caplv/test/stand/sandbox"
)

// world is one for all tests: each leaves it as it found it.
var world *e2e.World

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("e2e: not in -short mode")
		return
	}
	if !sandbox.Inside() { // the sandbox has no network to build from
		if _, err := controlplane.Build(context.Background(), os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	stand.Enter()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx := context.Background()
	var err error
	if world, err = e2e.Start(ctx, e2e.NewProgress(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := world.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := errors.Join(world.ApplyOffice(ctx), world.WaitForHost(ctx), world.WaitForCluster(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// restore closes the window and waits until nothing is left, however the test ended.
func restore(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background() // the test's own is over
		if err := errors.Join(world.CloseWindow(ctx), world.Kill(ctx, false), world.WaitUntilGone(ctx)); err != nil {
			t.Error(err)
		}
	})
}

// TestAWindowOpensAndCloses is the story of the demo: the guest boots, is what the user asked for, and goes without a trace.
func TestAWindowOpensAndCloses(t *testing.T) {
	restore(t)
	ctx := t.Context()
	must(t, world.OpenWindow(ctx))
	machine, err := world.WaitForDomain(ctx)
	must(t, err)
	guest, err := world.Guest(ctx, machine.Status.Domain.UUID)
	must(t, err)
	must(t, guest.Prove(ctx))
	for path, want := range map[string]string{
		"/etc/hostname": "spot-worker-01\n",
		"/etc/systemd/system/kubelet.service.d/90-provider-id.conf":  machine.Spec.ProviderID,
		"/etc/NetworkManager/system-connections/enp1s0.nmconnection": "address1=192.168.122.100/24,192.168.122.1",
		"/etc/kubernetes/kubeconfig":                                 e2e.Marker, // what all workers share is there as well
	} {
		content, err := guest.File(ctx, path)
		must(t, err)
		if !strings.Contains(content, want) {
			t.Errorf("%s in the guest holds %q, want %q", path, content, want)
		}
	}
	mode, err := guest.Run(ctx, "/usr/bin/stat", "-c", "%a %U", "/etc/NetworkManager/system-connections/enp1s0.nmconnection")
	must(t, err)
	if strings.TrimSpace(mode) != "600 root" {
		t.Errorf("the keyfile has mode and owner %q", mode)
	}
	t.Run("and nobody shows a secret", secretsStaySecret)

	must(t, world.CloseWindow(ctx))
	must(t, world.WaitUntilGone(ctx))
	must(t, world.WaitForPhase(ctx, schedulingv1.PhaseInactive))
}

// secretsStaySecret looks for what was planted in secrets, where it must not be. It has to be run while a machine is there.
func secretsStaySecret(t *testing.T) {
	ctx := t.Context()
	key := strings.Split(strings.TrimSpace(string(world.Host.ClientKey)), "\n")
	planted := []string{e2e.Marker, key[len(key)/2]}
	look := func(where string, text []byte) {
		t.Helper()
		for _, secret := range planted {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s shows a secret", where)
			}
		}
	}
	objects, err := world.Kubectl(ctx, nil, "get", "cluster-api,events,events.events.k8s.io,configmaps", "-A", "-o", "json")
	must(t, err)
	look("an object or event", []byte(objects))
	domains, err := world.Host.Virsh(ctx, "list", "--all", "--uuid")
	must(t, err)
	for uuid := range strings.FieldsSeq(domains) {
		xml, err := world.Host.Virsh(ctx, "dumpxml", "--security-info", uuid)
		must(t, err)
		look("the domain's XML", []byte(xml))
	}
	logs := 0
	for _, pattern := range []string{
		filepath.Join(world.Dir, "*.log"), filepath.Join(world.ControlPlane.Dir, "*.log"),
		filepath.Join(world.Host.LogDir, "*"), "/var/log/libvirt/qemu/*", filepath.Join(world.Host.PoolDir, "*.log*"),
	} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			look(file, text)
			logs++
		}
	}
	if logs < 8 {
		t.Errorf("only %d logs were looked at", logs)
	}
	secrets, err := world.Kubectl(ctx, nil, "get", "secret", "spot-worker-01", "-o", "jsonpath={.data.value}")
	must(t, err)
	if secrets == "" {
		t.Error("the data Secret is empty: the marker was not planted")
	}
}

func TestTheKillSwitchRemovesTheMachine(t *testing.T) {
	restore(t)
	ctx := t.Context()
	must(t, world.OpenWindow(ctx))
	_, err := world.WaitForDomain(ctx)
	must(t, err)
	must(t, world.Kill(ctx, true))
	must(t, world.WaitUntilGone(ctx))
	must(t, world.WaitForPhase(ctx, schedulingv1.PhaseTerminated))
}

func TestDeletingTheScheduledMachineRemovesTheMachine(t *testing.T) {
	ctx := t.Context()
	t.Cleanup(func() {
		if err := world.ApplyOffice(context.Background()); err != nil { // the test's own context is over
			t.Error(err)
		}
	})
	must(t, world.OpenWindow(ctx))
	_, err := world.WaitForDomain(ctx)
	must(t, err)
	_, err = world.Kubectl(ctx, nil, "delete", "scheduledmachine", e2e.Worker.Name, "--timeout=2m")
	must(t, err)
	must(t, world.WaitUntilGone(ctx))
}

// moments of a provisioning, in order, each told from what is there.
var moments = []struct {
	name string
	come func(ctx context.Context) bool
}{
	{"the provider ID is stored", func(ctx context.Context) bool { return machine(ctx).Spec.ProviderID != "" }},
	{"the root volume is there", func(context.Context) bool { return poolHas("-root.qcow2") }},
	{"the Ignition volume is there", func(context.Context) bool { return poolHas("-ignition.json") }},
	{"the domain is defined", func(context.Context) bool {
		defined, err := filepath.Glob("/etc/libvirt/qemu/*.xml")
		return err == nil && len(defined) > 0
	}},
	{"the domain runs", func(context.Context) bool {
		running, err := filepath.Glob("/run/libvirt/qemu/*_*.pid")
		return err == nil && len(running) > 0
	}},
}

func machine(ctx context.Context) *infrav1.LibvirtMachine {
	m := &infrav1.LibvirtMachine{}
	if err := world.Client.Get(ctx, e2e.Worker, m); err != nil {
		return &infrav1.LibvirtMachine{}
	}
	return m
}

func poolHas(ending string) bool {
	found, err := filepath.Glob(filepath.Join(world.Host.PoolDir, "*"+ending))
	return err == nil && len(found) > 0
}

// waitFor looks as often as it can: the moment is short.
func waitFor(ctx context.Context, t *testing.T, name string, come func(context.Context) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !come(ctx) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", name)
		}
	}
}

// TestKillingCaplvNeitherLeaksNorDuplicates kills the controller with SIGKILL at five moments of a provisioning, and at four of
// a removal.
func TestKillingCaplvNeitherLeaksNorDuplicates(t *testing.T) {
	caplv := world.Programs["caplv"]
	for _, moment := range moments {
		t.Run("as soon as "+moment.name, func(t *testing.T) {
			restore(t)
			ctx := t.Context()
			must(t, world.OpenWindow(ctx))
			waitFor(ctx, t, moment.name, moment.come)
			must(t, caplv.Kill())
			t.Logf("killed while the host has %v", leftovers(ctx, t))
			must(t, caplv.Start(ctx))
			_, err := world.WaitForDomain(ctx)
			must(t, err)
			expectOneOfEach(ctx, t)
		})
	}
	for _, moment := range []struct {
		name string
		come func(ctx context.Context) bool
	}{
		{"the machine is to go", func(ctx context.Context) bool { return machine(ctx).DeletionTimestamp != nil }},
		{"the domain is off", func(ctx context.Context) bool { return !moments[4].come(ctx) }},
		{"the domain is undefined", func(ctx context.Context) bool { return !moments[3].come(ctx) }},
		{"a volume is gone", func(context.Context) bool { return !poolHas("-ignition.json") || !poolHas("-root.qcow2") }},
	} {
		t.Run("in a removal, as soon as "+moment.name, func(t *testing.T) {
			restore(t)
			ctx := t.Context()
			must(t, world.OpenWindow(ctx))
			_, err := world.WaitForDomain(ctx)
			must(t, err)
			must(t, world.CloseWindow(ctx))
			waitFor(ctx, t, moment.name, moment.come)
			must(t, caplv.Kill())
			t.Logf("killed while the host has %v", leftovers(ctx, t))
			must(t, caplv.Start(ctx))
			must(t, world.WaitUntilGone(ctx))
		})
	}
}

func leftovers(ctx context.Context, t *testing.T) []string {
	t.Helper()
	left, err := world.Host.Leftovers(ctx)
	must(t, err)
	return left
}

// expectOneOfEach looks at the host itself: one domain, one root volume, one Ignition volume.
func expectOneOfEach(ctx context.Context, t *testing.T) {
	t.Helper()
	domains, err := world.Host.Virsh(ctx, "list", "--all", "--uuid")
	must(t, err)
	if n := len(strings.Fields(domains)); n != 1 {
		t.Errorf("there are %d domains", n)
	}
	for _, ending := range []string{"-root.qcow2", "-ignition.json"} {
		found, err := filepath.Glob(filepath.Join(world.Host.PoolDir, "*"+ending))
		must(t, err)
		if len(found) != 1 {
			t.Errorf("there are %d volumes like %s", len(found), ending)
		}
	}
}

// TestRestartsInTheMiddle restarts what our programs depend on, or all of them, while a machine is there.
func TestRestartsInTheMiddle(t *testing.T) {
	restore(t)
	ctx := t.Context()
	must(t, world.OpenWindow(ctx))
	before, err := world.WaitForDomain(ctx)
	must(t, err)
	must(t, world.Host.Restart(ctx, stand.Libvirtd))
	for _, p := range world.Programs {
		must(t, p.Kill())
		must(t, p.Start(ctx))
	}
	must(t, world.WaitForHost(ctx))
	expectOneOfEach(ctx, t)
	after := &infrav1.LibvirtMachine{}
	must(t, world.Client.Get(ctx, client.ObjectKeyFromObject(before), after))
	if after.UID != before.UID || after.Spec.ProviderID != before.Spec.ProviderID {
		t.Error("the machine was made anew")
	}
	must(t, world.CloseWindow(ctx))
	must(t, world.WaitUntilGone(ctx))
}

// TestAWorkerLeavesInOrder closes a window over an application: its pods go one by one, as their budget allows, then the Machine
// goes, then the Node. Once the Cluster says that it describes the management cluster, once a kubeconfig leads to it.
func TestAWorkerLeavesInOrder(t *testing.T) {
	t.Run("of the management cluster", leavesInOrder)
	t.Run("of the cluster of a kubeconfig", func(t *testing.T) {
		ctx := t.Context()
		must(t, world.ManageByKubeconfig(ctx, true))
		t.Cleanup(func() {
			if err := world.ManageByKubeconfig(context.Background(), false); err != nil { // the test's own context is over
				t.Error(err)
			}
		})
		leavesInOrder(t)
	})
}

func leavesInOrder(t *testing.T) {
	t.Helper()
	restore(t)
	ctx := t.Context()
	must(t, world.SetTimeouts(ctx, 2*time.Second, 2*time.Minute))
	must(t, world.OpenWindow(ctx))
	machine, err := world.WaitForDomain(ctx)
	must(t, err)
	work, err := world.StartWork(ctx, machine.Spec.ProviderID)
	t.Cleanup(func() {
		if err := work.Stop(context.Background()); err != nil { // the test's own context is over
			t.Error(err)
		}
	})
	must(t, err)
	must(t, world.WaitForPhase(ctx, schedulingv1.PhaseActive))
	must(t, world.CloseWindow(ctx))
	must(t, work.Leave(ctx))
	if len(work.Moved) != 2 || work.LeastReady < 1 {
		t.Errorf("pods %v were evicted, and at times only %d were ready", work.Moved, work.LeastReady)
	}
	must(t, world.WaitForPhase(ctx, schedulingv1.PhaseInactive))
	must(t, world.WaitUntilGone(ctx))
}

// TestKillAll pulls the emergency stop for everything, with the script that is there for it, and lets go again.
func TestKillAll(t *testing.T) {
	killAll := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(world.Root(), "demo", "kill-all.sh"), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+world.ControlPlane.Kubeconfig,
			"PATH="+filepath.Dir(world.ControlPlane.Kubectl())+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	restore(t)
	ctx := t.Context()
	must(t, world.OpenWindow(ctx))
	_, err := world.WaitForDomain(ctx)
	must(t, err)

	for refused, args := range map[string][]string{
		"needs an argument": {"-n"}, "unknown argument": {"--all"}, "write a number of seconds": {"--timeout", "soon"},
		"leave out -l": {"--undo", "-l", "a=b"}, "does not exist": {"-n", "nowhere"},
	} {
		if out, err := killAll(args...); err == nil || !strings.Contains(out, refused) {
			t.Errorf("kill-all.sh %v says %q, %v", args, out, err)
		}
	}
	out, err := killAll("--dry-run")
	if err != nil || !strings.Contains(out, "Namespace default: stopping spot-worker-01.") {
		t.Fatalf("%s%v", out, err)
	}
	for _, args := range [][]string{{"-n", "default", "-l", "rack=3"}, {"-n", "default", "-l", "rack=3"}, {"--undo"}} { // it has no such label
		if out, err := killAll(args...); err != nil {
			t.Fatalf("kill-all.sh %v: %s%v", args, out, err)
		}
	}
	expectOneOfEach(ctx, t)

	out, err = killAll()
	if err != nil || !strings.Contains(out, "all are terminated") {
		t.Fatalf("%s%v", out, err)
	}
	must(t, world.WaitUntilGone(ctx))
	if out, err := killAll("-n", "default", "-l", "rack=4"); err == nil || !strings.Contains(out, "stopped for 'true' already") {
		t.Errorf("-l rack=4 lets all others go: %s%v", out, err)
	}
	if out, err := killAll("--undo"); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	_, err = world.WaitForDomain(ctx)
	must(t, err)
}

// TestAScheduleIsCheckedAtAdmission asks the webhook, which runs with the rights of our manifests.
func TestAScheduleIsCheckedAtAdmission(t *testing.T) {
	patch := `{"spec":{"schedule":{"timezone":"Mars/Phobos"}}}`
	waitFor(t.Context(), t, "Mars/Phobos is refused", func(ctx context.Context) bool {
		_, err := world.Kubectl(ctx, nil, "patch", "scheduledmachine", e2e.Worker.Name, "--type=merge", "-p", patch, "--dry-run=server")
		return err != nil && strings.Contains(err.Error(), `denied the request: timezone "Mars/Phobos"`)
	})
}
