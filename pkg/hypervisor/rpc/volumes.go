// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/finos/caplv/pkg/hypervisor"
)

// Volume implements [hypervisor.Volumes].
func (h *host) Volume(ctx context.Context, pool, name string) (hypervisor.Volume, error) {
	p, err := h.pool(ctx, pool)
	if err != nil {
		return hypervisor.Volume{}, err
	}
	v, err := h.find(ctx, p, name)
	return v.volume(pool), err
}

// found is a volume as libvirt knows it.
type found struct {
	handle libvirt.StorageVol
	libvirtxml.StorageVolume
}

// find looks for a volume, and refreshes the pool before it says that there is none. A volume whose file somebody removed
// is known until then, but cannot be described.
func (h *host) find(ctx context.Context, pool libvirt.StoragePool, name string) (found, error) {
	v, err := h.look(ctx, pool, name)
	if err != nil && answered(err) {
		if err := h.refresh(ctx, pool); err != nil {
			return found{}, err
		}
		v, err = h.look(ctx, pool, name)
	}
	if says(err, libvirt.ErrNoStorageVol) {
		return found{}, fmt.Errorf("volume %s/%s: %w", pool.Name, name, hypervisor.ErrNotFound)
	}
	if err != nil {
		return found{}, fmt.Errorf("looking for volume %s/%s: %w", pool.Name, name, err)
	}
	return v, nil
}

func (h *host) look(ctx context.Context, pool libvirt.StoragePool, name string) (found, error) {
	handle, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (libvirt.StorageVol, error) { return l.StorageVolLookupByName(pool, name) })
	if err != nil {
		return found{}, err
	}
	return h.describe(ctx, handle)
}

func (h *host) describe(ctx context.Context, handle libvirt.StorageVol) (found, error) {
	v := found{handle: handle}
	text, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (string, error) { return l.StorageVolGetXMLDesc(handle, 0) })
	if err != nil {
		return v, err
	}
	return v, v.Unmarshal(text)
}

func (f found) volume(pool string) hypervisor.Volume {
	if f.Name == "" {
		return hypervisor.Volume{}
	}
	v := hypervisor.Volume{
		Pool: pool, Name: f.Name, Path: f.path(),
		CapacityBytes: bytesOf(f.Capacity), AllocationBytes: bytesOf(f.Allocation),
	}
	if f.Target != nil && f.Target.Format != nil {
		v.Format = f.Target.Format.Type
	}
	return v
}

func (f found) path() string {
	if f.Target == nil {
		return ""
	}
	return f.Target.Path
}

// bytesOf reads a size that libvirt wrote: it always writes bytes.
func bytesOf(size *libvirtxml.StorageVolumeSize) int64 {
	if size == nil {
		return 0
	}
	return int64(min(size.Value, math.MaxInt64))
}

// ListVolumes implements [hypervisor.Volumes].
func (h *host) ListVolumes(ctx context.Context, pool string) ([]hypervisor.Volume, error) {
	p, err := h.pool(ctx, pool)
	if err != nil {
		return nil, err
	}
	if err := h.refresh(ctx, p); err != nil {
		return nil, err
	}
	handles, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) ([]libvirt.StorageVol, error) {
		handles, _, err := l.StoragePoolListAllVolumes(p, 1, 0)
		return handles, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing pool %s: %w", pool, err)
	}
	var volumes []hypervisor.Volume
	for _, handle := range handles {
		v, err := h.describe(ctx, handle)
		if answered(err) { // it went meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing pool %s: %w", pool, err)
		}
		volumes = append(volumes, v.volume(pool))
	}
	slices.SortFunc(volumes, func(a, b hypervisor.Volume) int { return strings.Compare(a.Name, b.Name) })
	return volumes, nil
}

// CreateOverlay implements [hypervisor.Volumes].
func (h *host) CreateOverlay(
	ctx context.Context, pool, name string, sizeBytes int64, base hypervisor.Volume,
) (hypervisor.Volume, error) {
	p, err := h.pool(ctx, pool)
	if err != nil {
		return hypervisor.Volume{}, err
	}
	if v, err := h.find(ctx, p, name); !isNotFound(err) {
		return v.volume(pool), err
	}
	below, err := h.lookAgain(ctx, base)
	if err != nil {
		return hypervisor.Volume{}, fmt.Errorf("base of volume %s/%s: %w", pool, name, err)
	}
	_, err = h.create(ctx, p, overlayXML(name, max(sizeBytes, below.CapacityBytes), below))
	if err != nil && !says(err, libvirt.ErrStorageVolExist) {
		return hypervisor.Volume{}, fmt.Errorf("creating volume %s/%s on %s: %w", pool, name, below.Path, err)
	}
	v, err := h.find(ctx, p, name)
	return v.volume(pool), err
}

// lookAgain describes a volume as it is now: what libvirt knows of its size is as old as the last refresh, and an overlay
// smaller than its base cuts off the end of it.
func (h *host) lookAgain(ctx context.Context, v hypervisor.Volume) (hypervisor.Volume, error) {
	p, err := h.pool(ctx, v.Pool)
	if err != nil {
		return v, err
	}
	if err := h.refresh(ctx, p); err != nil {
		return v, err
	}
	now, err := h.find(ctx, p, v.Name)
	return now.volume(v.Pool), err
}

func (h *host) create(ctx context.Context, pool libvirt.StoragePool, v libvirtxml.StorageVolume) (libvirt.StorageVol, error) {
	text, err := v.Marshal()
	if err != nil {
		return libvirt.StorageVol{}, err
	}
	return askWithin(ctx, h.conn, h.slow(), func(l *libvirt.Libvirt) (libvirt.StorageVol, error) {
		return l.StorageVolCreateXML(pool, text, 0)
	})
}

// overlayXML names the base's format, because QEMU no longer guesses it: a guest could write another header into a raw one.
func overlayXML(name string, size int64, base hypervisor.Volume) libvirtxml.StorageVolume {
	return libvirtxml.StorageVolume{
		Name:       name,
		Capacity:   size64(size),
		Allocation: size64(0),
		Target:     &libvirtxml.StorageVolumeTarget{Format: &libvirtxml.StorageVolumeTargetFormat{Type: "qcow2"}},
		BackingStore: &libvirtxml.StorageVolumeBackingStore{
			Path: base.Path, Format: &libvirtxml.StorageVolumeTargetFormat{Type: base.Format},
		},
	}
}

func size64(n int64) *libvirtxml.StorageVolumeSize {
	return &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(max(n, 0))}
}

// DeleteVolume implements [hypervisor.Volumes].
func (h *host) DeleteVolume(ctx context.Context, pool, name string) error {
	p, err := h.pool(ctx, pool)
	if err != nil {
		return err
	}
	v, err := h.find(ctx, p, name)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = tellWithin(ctx, h.conn, h.slow(), func(l *libvirt.Libvirt) error { return l.StorageVolDelete(v.handle, 0) })
	if err != nil && !says(err, libvirt.ErrNoStorageVol) {
		return fmt.Errorf("deleting volume %s/%s: %w", pool, name, err)
	}
	h.sent.forget(v.trace())
	return nil
}
