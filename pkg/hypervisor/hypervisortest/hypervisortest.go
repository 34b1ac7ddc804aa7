// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hypervisortest is the contract of package hypervisor as a test. The fake and the real host both pass it, so that
// what is tested on the fake is true on the real one.
package hypervisortest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/finos/caplv/pkg/hypervisor"
)

// Options say what the host has, and what it cannot do.
type Options struct {
	// Base is a volume that is there, and whose pool the test may use. Nothing of its own is left there.
	Base hypervisor.Volume
	// DomainXML returns the definition of the smallest domain that the host can start: it boots from the file disk, is called
	// name, and has mark as the text of an element of any namespace in its metadata.
	DomainXML func(name, uuid, disk, mark string) string
	// ReadVolume returns a volume's bytes, past the host. When unset, what was uploaded is not compared.
	ReadVolume func(t *testing.T, v hypervisor.Volume) []byte
	// NoUpload says that the host cannot take uploads, as libvirt's test driver.
	NoUpload bool
	// NoFileCheck says that the host starts domains whose disks are missing, as libvirt's test driver.
	NoFileCheck bool
}

const missing = "0e7b4c4e-5d1f-4a65-9d2a-000000000000"

// TestHost holds a host to the contract. It runs for seconds on a real one.
func TestHost(t *testing.T, host hypervisor.Host, o Options) {
	t.Helper()
	c := contract{host: host, Options: o}
	before := c.list(t)
	t.Run("host", c.testInfo)
	t.Run("pools", c.testLookups)
	t.Run("overlays", c.testOverlays)
	t.Run("uploads", c.testUploads)
	t.Run("definitions", c.testDefinitions)
	t.Run("names", c.testNames)
	t.Run("life", c.testLife)
	t.Run("absence", c.testAbsence)
	t.Run("a caller who gave up gets no answer", c.testCanceled)
	if diff := cmp.Diff(names(before), names(c.list(t))); diff != "" {
		t.Errorf("the volumes of pool %s changed (-before +after):\n%s", o.Base.Pool, diff)
	}
}

type contract struct {
	host hypervisor.Host
	Options
}

func (c contract) testInfo(t *testing.T) {
	info, err := c.host.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains([]string{info.Hostname, info.Architecture, info.LibvirtVersion}, "") || info.VCPUs < 1 {
		t.Errorf("the host does not know itself: %+v", info)
	}
	if info.FreeMemoryMiB < 1 || info.FreeMemoryMiB > info.MemoryMiB {
		t.Errorf("%d MiB of %d MiB are free", info.FreeMemoryMiB, info.MemoryMiB)
	}
	if !slices.IsSortedFunc(info.Pools, func(a, b hypervisor.Pool) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("pools are not ordered by name: %v", info.Pools)
	}
	i := slices.IndexFunc(info.Pools, func(p hypervisor.Pool) bool { return p.Name == c.Base.Pool })
	if i < 0 {
		t.Fatalf("pool %s is not among %v", c.Base.Pool, info.Pools)
	}
	if p := info.Pools[i]; !p.Active || p.AvailableBytes < 1 || p.AvailableBytes > p.CapacityBytes {
		t.Errorf("the pool is inactive or without sizes: %+v", p)
	}
}

func (c contract) testCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.host.Volume(ctx, c.Base.Pool, c.Base.Name); !errors.Is(err, context.Canceled) {
		t.Errorf("looking for a volume: got %v, want it canceled", err)
	}
	if _, err := c.host.Volume(t.Context(), c.Base.Pool, c.Base.Name); err != nil {
		t.Errorf("the next caller suffers: %v", err)
	}
}

func (c contract) list(t *testing.T) []hypervisor.Volume {
	t.Helper()
	volumes, err := c.host.ListVolumes(t.Context(), c.Base.Pool)
	if err != nil {
		t.Fatal(err)
	}
	return volumes
}

func names(volumes []hypervisor.Volume) []string {
	all := []string{}
	for _, v := range volumes {
		all = append(all, v.Name)
	}
	return all
}

func wantError(t *testing.T, doing string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %q", doing, got, want)
	}
}
