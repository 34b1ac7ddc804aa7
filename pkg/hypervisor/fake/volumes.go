// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/finos/caplv/pkg/hypervisor"
)

func path(pool, name string) string { return "/var/lib/libvirt/" + pool + "/" + name }

// pool finds one, and starts it as the real host does.
func (h *Host) pool(name string) (*pool, error) {
	p, ok := h.pools[name]
	if !ok {
		return nil, fmt.Errorf("pool %s: %w", name, hypervisor.ErrPoolNotFound)
	}
	p.active = true
	return p, nil
}

func (h *Host) volume(pool, name string) (*volume, error) {
	p, err := h.pool(pool)
	if err != nil {
		return nil, err
	}
	v, ok := p.volumes[name]
	if !ok {
		return nil, fmt.Errorf("volume %s/%s: %w", pool, name, hypervisor.ErrNotFound)
	}
	return v, nil
}

// Volume finds a volume.
func (h *Host) Volume(ctx context.Context, pool, name string) (hypervisor.Volume, error) {
	return verb(ctx, h, "Volume", func() (hypervisor.Volume, error) {
		v, err := h.volume(pool, name)
		if err != nil {
			return hypervisor.Volume{}, err
		}
		return v.Volume, nil
	})
}

// ListVolumes returns all volumes of a pool, ordered by name.
func (h *Host) ListVolumes(ctx context.Context, pool string) ([]hypervisor.Volume, error) {
	return verb(ctx, h, "ListVolumes", func() ([]hypervisor.Volume, error) {
		p, err := h.pool(pool)
		if err != nil {
			return nil, err
		}
		var all []hypervisor.Volume
		for _, v := range p.volumes {
			all = append(all, v.Volume)
		}
		slices.SortFunc(all, func(a, b hypervisor.Volume) int { return strings.Compare(a.Name, b.Name) })
		return all, nil
	})
}

// CreateOverlay creates a volume that reads through base.
func (h *Host) CreateOverlay(
	ctx context.Context, pool, name string, sizeBytes int64, base hypervisor.Volume,
) (hypervisor.Volume, error) {
	return verb(ctx, h, "CreateOverlay", func() (hypervisor.Volume, error) {
		p, err := h.pool(pool)
		if err != nil {
			return hypervisor.Volume{}, err
		}
		if v, ok := p.volumes[name]; ok {
			return v.Volume, nil
		}
		below, err := h.volume(base.Pool, base.Name)
		if err != nil {
			return hypervisor.Volume{}, fmt.Errorf("base of %s/%s: %w", pool, name, err)
		}
		return p.add(hypervisor.Volume{
			Pool: pool, Name: name, Format: "qcow2",
			CapacityBytes: max(sizeBytes, below.CapacityBytes), AllocationBytes: 200 << 10,
		}, nil)
	})
}

// UploadVolume makes a volume hold exactly content.
func (h *Host) UploadVolume(ctx context.Context, pool, name string, content []byte) (hypervisor.Volume, error) {
	return verb(ctx, h, "UploadVolume", func() (hypervisor.Volume, error) {
		p, err := h.pool(pool)
		if err != nil {
			return hypervisor.Volume{}, err
		}
		if v, ok := p.volumes[name]; ok && bytes.Equal(v.content, content) {
			return v.Volume, nil
		}
		size := int64(len(content))
		return p.add(hypervisor.Volume{
			Pool: pool, Name: name, Format: "raw", CapacityBytes: size, AllocationBytes: size,
		}, bytes.Clone(content))
	})
}

func (p *pool) add(v hypervisor.Volume, content []byte) (hypervisor.Volume, error) {
	if v.Name == "" || strings.Contains(v.Name, "/") {
		return hypervisor.Volume{}, fmt.Errorf("a volume cannot be called %q", v.Name)
	}
	v.Path = path(v.Pool, v.Name)
	p.volumes[v.Name] = &volume{Volume: v, content: content}
	return v, nil
}

// DeleteVolume removes a volume. Like libvirt, it does not mind overlays and domains that read through it.
func (h *Host) DeleteVolume(ctx context.Context, pool, name string) error {
	return do(ctx, h, "DeleteVolume", func() error {
		p, err := h.pool(pool)
		if err != nil {
			return err
		}
		delete(p.volumes, name)
		return nil
	})
}
