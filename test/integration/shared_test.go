// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
	"github.com/finos/caplv/test/stand"
)

func TestTheSocketOnThisMachine(t *testing.T) {
	libvirt := libvirtHost(t)
	for _, uri := range []string{"qemu+unix:///system", "qemu+unix:///system?socket=" + libvirt.Socket} {
		wantAnswer(t, connect(t, connector(t, impatient()), hypervisor.Target{Key: "default/local", URI: uri}))
	}
	awaitSessions(t, 0) // it was not reached by SSH
}

func TestSSHThatRestartsIsFoundAgain(t *testing.T) {
	libvirt := libvirtHost(t)
	c, to := connector(t, impatient()), target(libvirt)
	host := connect(t, c, to)
	if err := libvirt.Restart(t.Context(), stand.SSHD); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Info(t.Context()); !errors.Is(err, hypervisor.ErrUnreachable) {
		t.Errorf("got %v, want the host unreachable", err)
	}
	wantAnswer(t, reconnect(t, c, to))
}

// Uploads fill the connection and the pool, misses refresh the pool that others change: libvirt refuses a refresh meanwhile.
func TestManyChangeOnePoolAtOnce(t *testing.T) {
	libvirt := libvirtHost(t)
	c, to := connector(t, rpc.Options{}), target(libvirt)
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			host, err := c.Connect(t.Context(), to)
			if err != nil {
				t.Error(err)
				return
			}
			file, disk := fmt.Sprintf("file-%d", i), fmt.Sprintf("disk-%d", i)
			for round := range 3 {
				content := strings.Repeat(fmt.Sprint(round), 300_000)
				v, err := host.UploadVolume(t.Context(), "default", file, []byte(content))
				if err != nil {
					t.Error(err)
				} else if string(readSecret(t, v)) != content {
					t.Errorf("%s does not hold what was uploaded", file)
				}
				if _, err := host.CreateOverlay(t.Context(), "default", disk, 0, hypervisor.Volume{Pool: "default", Name: baseImage}); err != nil {
					t.Error(err)
				}
				if _, err := host.Volume(t.Context(), "default", "nobody"); !errors.Is(err, hypervisor.ErrNotFound) {
					t.Errorf("got %v, want nothing found", err)
				}
			}
			for _, name := range []string{file, disk} {
				if err := host.DeleteVolume(t.Context(), "default", name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if n := sessions(t); n != 1 {
		t.Errorf("there are %d connections, want 1", n)
	}
}

func TestMoreCallersThanFitGiveUpTogether(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	freeze(t, libvirt)
	ctx, giveUp := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if _, err := host.Volume(ctx, "default", baseImage); !errors.Is(err, context.Canceled) || errors.Is(err, hypervisor.ErrUnreachable) {
				t.Errorf("got %v, want it given up", err)
			}
		})
	}
	giveUp()
	callers.Wait() // or the test hangs
	thaw(t, libvirt)
	wantAnswer(t, host) // the same connection
}

func TestAnyStateLeadsToRunning(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	d := newDomain(t, libvirt, host)
	startDomain(t, host, d)
	for _, command := range [][]string{{"suspend"}, {"destroy"}, {"managedsave"}, {"managedsave", "--paused"}} {
		virsh(t, libvirt, append(command, d.Name)...)
		startDomain(t, host, d)
	}
}
