// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package stand_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/finos/caplv/test/stand"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Short() {
		stand.Enter()
	}
	os.Exit(m.Run())
}

type started struct {
	host *stand.Libvirt
	took time.Duration
	err  error
}

var start = sync.OnceValue(func() started {
	begin := time.Now()
	host, err := stand.StartLibvirt(context.Background(), stand.Options{})
	return started{host, time.Since(begin), err}
})

// libvirtHost is the one host of this package's tests. Each of them has to leave it as it found it.
func libvirtHost(t *testing.T) *stand.Libvirt {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a sandbox with libvirt, which -short leaves out")
	}
	s := start()
	if s.err != nil {
		t.Fatal(s.err)
	}
	t.Cleanup(func() {
		if left := leftovers(t, s.host); left != "" {
			t.Errorf("left behind:\n%s", left)
		}
	})
	return s.host
}

func TestTheHostIsUpInFifteenSeconds(t *testing.T) {
	host := libvirtHost(t)
	t.Logf("the start took %s", start().took.Round(time.Millisecond))
	if limit := 15 * time.Second; start().took > limit {
		t.Errorf("that is more than %s", limit)
	}
	for _, list := range []string{"pool-list", "net-list"} {
		if got := strings.TrimSpace(virsh(t, host, list, "--name")); got != "default" {
			t.Errorf("virsh %s: got %q, want default", list, got)
		}
	}
}

func TestADomainGoesWithoutATrace(t *testing.T) {
	host := libvirtHost(t)
	virsh(t, host, "define", "testdata/paused.xml")
	virsh(t, host, "start", "paused", "--paused")
	left := leftovers(t, host)
	for _, want := range []string{"domain paused", "/etc/libvirt/qemu/paused.xml", "/nvram/paused_VARS.fd", "process qemu-system"} {
		if !strings.Contains(left, want) {
			t.Errorf("a running domain's %s is not seen in:\n%s", want, left)
		}
	}

	begin := time.Now()
	virsh(t, host, "destroy", "paused") // libvirt waits for the pid to vanish: an unburied QEMU would hang it
	virsh(t, host, "undefine", "paused", "--nvram")
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("destroying a paused domain took %s", took)
	}
}

func TestADomainOutlivesItsDaemon(t *testing.T) {
	host := libvirtHost(t)
	virsh(t, host, "create", "testdata/paused.xml", "--paused")
	if err := host.Restart(t.Context(), stand.Libvirtd); err != nil {
		t.Fatal(err)
	}
	if state := strings.TrimSpace(virsh(t, host, "domstate", "paused")); state != "paused" {
		t.Errorf("after libvirtd's restart the domain is %s", state)
	}
	virsh(t, host, "destroy", "paused")
	if err := os.Remove("/var/lib/libvirt/qemu/nvram/paused_VARS.fd"); err != nil { // transient: nothing to undefine
		t.Error(err)
	}
}

func TestAFrozenDaemonAnswersLater(t *testing.T) {
	host := libvirtHost(t)
	if err := host.Freeze(stand.Libvirtd); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		api := libvirt.NewWithDialer(dialers.NewLocal(dialers.WithSocket(host.Socket)))
		answered <- api.Connect()
	}()
	select {
	case err := <-answered:
		t.Errorf("a frozen daemon answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := host.Thaw(stand.Libvirtd); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(15 * time.Second):
		t.Error("a thawed daemon does not answer")
	}
}

func TestAnAddedImageIsAVolume(t *testing.T) {
	host := libvirtHost(t)
	image := filepath.Join(t.TempDir(), "base.raw")
	if err := os.WriteFile(image, []byte(strings.Repeat("disk", 1024)), 0o600); err != nil {
		t.Fatal(err)
	}
	volume, err := host.AddImage(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	if info := virsh(t, host, "vol-info", volume, "--pool", "default"); !strings.Contains(info, "4.00 KiB") {
		t.Errorf("the volume is not the file:\n%s", info)
	}
	virsh(t, host, "vol-create-as", "default", "stray.qcow2", "1M", "--format", "qcow2")
	if left := leftovers(t, host); left != "volume stray.qcow2" {
		t.Errorf("leftovers: got %q, want the stray volume alone", left)
	}
	virsh(t, host, "vol-delete", "stray.qcow2", "--pool", "default")
}

func virsh(t *testing.T, host *stand.Libvirt, args ...string) string {
	t.Helper()
	out, err := host.Virsh(context.WithoutCancel(t.Context()), args...) // also in cleanups, when the test's context has ended
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func leftovers(t *testing.T, host *stand.Libvirt) string {
	t.Helper()
	left, err := host.Leftovers(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(left, "\n")
}
