// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/finos/caplv/pkg/hypervisor"
)

func (c contract) testLookups(t *testing.T) {
	t.Run("a pool that nobody defined is named by every verb", func(t *testing.T) {
		_, err := c.host.Volume(t.Context(), "nobody", "v")
		wantError(t, "looking for a volume", err, hypervisor.ErrPoolNotFound)
		_, err = c.host.ListVolumes(t.Context(), "nobody")
		wantError(t, "listing volumes", err, hypervisor.ErrPoolNotFound)
		_, err = c.host.CreateOverlay(t.Context(), "nobody", "v", 1, c.Base)
		wantError(t, "creating an overlay", err, hypervisor.ErrPoolNotFound)
		_, err = c.host.UploadVolume(t.Context(), "nobody", "v", []byte("x"))
		wantError(t, "uploading", err, hypervisor.ErrPoolNotFound)
		wantError(t, "deleting", c.host.DeleteVolume(t.Context(), "nobody", "v"), hypervisor.ErrPoolNotFound)
	})
	t.Run("the base is found, and listed", func(t *testing.T) {
		found, err := c.host.Volume(t.Context(), c.Base.Pool, c.Base.Name)
		if err != nil {
			t.Fatal(err)
		}
		if found.Path == "" || found.Format == "" || found.CapacityBytes < 1 {
			t.Errorf("the volume is incomplete: %+v", found)
		}
		if !slices.Contains(names(c.list(t)), c.Base.Name) {
			t.Errorf("%s is not among %v", c.Base.Name, names(c.list(t)))
		}
	})
	t.Run("a volume that is not there is not found", func(t *testing.T) {
		_, err := c.host.Volume(t.Context(), c.Base.Pool, "nobody")
		wantError(t, "looking for it", err, hypervisor.ErrNotFound)
	})
}

func (c contract) testOverlays(t *testing.T) {
	t.Run("an overlay is never smaller than its base", func(t *testing.T) {
		base := c.base(t)
		for _, size := range []int64{0, 512} {
			if overlay := c.overlay(t, size); overlay.Format != "qcow2" || overlay.CapacityBytes != base.CapacityBytes {
				t.Errorf("asked for %d bytes: got %+v, want a qcow2 of %d bytes", size, overlay, base.CapacityBytes)
			}
		}
	})
	t.Run("a larger overlay is found as it was created, and can be created again", func(t *testing.T) {
		want := c.base(t).CapacityBytes + 1<<30
		overlay := c.overlay(t, want)
		if overlay.CapacityBytes != want || overlay.Path == c.Base.Path {
			t.Errorf("got %+v, want %d bytes", overlay, want)
		}
		found, err := c.host.Volume(t.Context(), overlay.Pool, overlay.Name)
		if err != nil {
			t.Fatal(err)
		}
		sameVolume(t, overlay, found)
		again, err := c.host.CreateOverlay(t.Context(), overlay.Pool, overlay.Name, want+1<<30, c.Base)
		if err != nil {
			t.Fatal(err)
		}
		sameVolume(t, overlay, again)
		if !slices.IsSorted(names(c.list(t))) {
			t.Errorf("volumes are not ordered by name: %v", names(c.list(t)))
		}
	})
	t.Run("without its base no overlay is created", func(t *testing.T) {
		name := c.volume(t)
		_, err := c.host.CreateOverlay(t.Context(), c.Base.Pool, name, 1, hypervisor.Volume{
			Pool: c.Base.Pool, Name: "nobody", Path: "/nobody", Format: "qcow2", CapacityBytes: 1,
		})
		wantError(t, "creating it", err, hypervisor.ErrNotFound)
		_, err = c.host.Volume(t.Context(), c.Base.Pool, name)
		wantError(t, "looking for it", err, hypervisor.ErrNotFound)
	})
	t.Run("a deleted volume is not found, and can be deleted again", func(t *testing.T) {
		overlay := c.overlay(t, 0)
		for range 2 {
			if err := c.host.DeleteVolume(t.Context(), overlay.Pool, overlay.Name); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.host.Volume(t.Context(), overlay.Pool, overlay.Name)
		wantError(t, "looking for it", err, hypervisor.ErrNotFound)
		c.base(t)
	})
}

func (c contract) testUploads(t *testing.T) {
	if c.NoUpload {
		return
	}
	t.Run("an uploaded volume holds the bytes", func(t *testing.T) {
		content := bytes.Repeat([]byte("ignition\x00"), 50_000)
		v := c.upload(t, c.volume(t), content)
		if v.Format != "raw" || v.CapacityBytes != int64(len(content)) {
			t.Errorf("got %+v, want raw and %d bytes", v, len(content))
		}
		c.wantContent(t, v, content)
		sameVolume(t, v, c.upload(t, v.Name, content))
	})
	t.Run("what an interrupted upload left behind is replaced", func(t *testing.T) {
		name, content := c.volume(t), []byte("the whole text")
		for _, left := range [][]byte{make([]byte, len(content)), content[:5], []byte("longer than the whole text")} {
			c.upload(t, name, left)
			c.wantContent(t, c.upload(t, name, content), content)
		}
	})
	t.Run("nothing is something to upload", func(t *testing.T) {
		c.wantContent(t, c.upload(t, c.volume(t), nil), nil)
	})
}

// volume is a name that is free, and free again after the test.
func (c contract) volume(t *testing.T) string {
	t.Helper()
	name := "contract-" + uuid.NewString()
	t.Cleanup(func() {
		if err := c.host.DeleteVolume(context.WithoutCancel(t.Context()), c.Base.Pool, name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func (c contract) base(t *testing.T) hypervisor.Volume {
	t.Helper()
	base, err := c.host.Volume(t.Context(), c.Base.Pool, c.Base.Name)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

func (c contract) overlay(t *testing.T, size int64) hypervisor.Volume {
	t.Helper()
	v, err := c.host.CreateOverlay(t.Context(), c.Base.Pool, c.volume(t), size, c.Base)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (c contract) upload(t *testing.T, name string, content []byte) hypervisor.Volume {
	t.Helper()
	v, err := c.host.UploadVolume(t.Context(), c.Base.Pool, name, content)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (c contract) wantContent(t *testing.T, v hypervisor.Volume, want []byte) {
	t.Helper()
	if c.ReadVolume == nil {
		return
	}
	if got := c.ReadVolume(t, v); !bytes.Equal(got, want) {
		t.Errorf("%s holds %d bytes, which are not the %d that were uploaded", v.Name, len(got), len(want))
	}
}

// sameVolume leaves out the allocation, which grows as blocks are written.
func sameVolume(t *testing.T, want, got hypervisor.Volume) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(hypervisor.Volume{}, "AllocationBytes")); diff != "" {
		t.Errorf("another volume (-want +got):\n%s", diff)
	}
}
