// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests what needs a real libvirt host: it runs in a sandbox with libvirtd, QEMU and sshd.
package integration

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/utils/clock"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
	"github.com/finos/caplv/test/stand"
)

const baseImage = "base.qcow2"

func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Short() {
		stand.Enter()
	}
	os.Exit(m.Run())
}

type started struct {
	libvirt *stand.Libvirt
	err     error
}

var start = sync.OnceValue(func() started {
	libvirt, err := stand.StartLibvirt(context.Background(), stand.Options{})
	if err != nil {
		return started{err: err}
	}
	return started{libvirt, addBase(libvirt)}
})

// addBase adds an empty image of 1 GiB.
func addBase(libvirt *stand.Libvirt) error {
	dir, err := os.MkdirTemp("", "base")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it ends with the sandbox
	path := filepath.Join(dir, baseImage)
	if err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", path, "1G").Run(); err != nil {
		return err
	}
	_, err = libvirt.AddImage(context.Background(), path)
	return err
}

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
		left, err := s.libvirt.Leftovers(context.WithoutCancel(t.Context()))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return s.libvirt
}

// target is the stand's host, as a user would describe it.
func target(libvirt *stand.Libvirt) hypervisor.Target {
	return hypervisor.Target{
		Key: "default/stand", URI: libvirt.URI,
		PrivateKey: libvirt.ClientKey, HostKeyFingerprint: libvirt.HostKeyFingerprint,
	}
}

// connector ends with the test.
func connector(t *testing.T, o rpc.Options) *rpc.Connector {
	t.Helper()
	c := rpc.New(clock.RealClock{}, o)
	t.Cleanup(c.Close)
	return c
}

func connect(t *testing.T, c *rpc.Connector, to hypervisor.Target) hypervisor.Host {
	t.Helper()
	host, err := c.Connect(context.WithoutCancel(t.Context()), to) // also in cleanups
	if err != nil {
		t.Fatal(err)
	}
	return host
}
