// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/finos/caplv/pkg/hypervisor"
)

const (
	uploadMode = "0600"
	// slowestBytesPerSecond is what a connection must carry. A slower one counts as dead.
	slowestBytesPerSecond = 64 << 10
)

// UploadVolume implements [hypervisor.Volumes]. Libvirt can neither rename a volume nor say whether it is complete: one that
// an interrupted upload left has its full size and ends in zeros. So what is there is read back and compared.
func (h *host) UploadVolume(ctx context.Context, pool, name string, content []byte) (hypervisor.Volume, error) {
	p, err := h.pool(ctx, pool)
	if err != nil {
		return hypervisor.Volume{}, err
	}
	v, err := h.find(ctx, p, name)
	if err == nil {
		complete, err := h.holds(ctx, v, content)
		if err != nil || complete {
			return v.volume(pool), err
		}
		if err := h.DeleteVolume(ctx, pool, name); err != nil {
			return hypervisor.Volume{}, err
		}
	} else if !isNotFound(err) {
		return hypervisor.Volume{}, err
	}
	return h.upload(ctx, p, name, content)
}

func isNotFound(err error) bool { return errors.Is(err, hypervisor.ErrNotFound) }

func (h *host) upload(ctx context.Context, pool libvirt.StoragePool, name string, content []byte) (hypervisor.Volume, error) {
	handle, err := h.create(ctx, pool, uploadXML(name, int64(len(content))))
	if err == nil {
		err = h.send(ctx, handle, content)
	}
	if err != nil {
		return hypervisor.Volume{}, fmt.Errorf("uploading volume %s/%s: %w", pool.Name, name, err)
	}
	v, err := h.find(ctx, pool, name)
	if err != nil {
		return hypervisor.Volume{}, err
	}
	complete, err := h.holds(ctx, v, content)
	if err == nil && !complete {
		err = fmt.Errorf("volume %s/%s does not hold what was uploaded; check the disk of the host", pool.Name, name)
	}
	return v.volume(pool.Name), err
}

func uploadXML(name string, size int64) libvirtxml.StorageVolume {
	return libvirtxml.StorageVolume{
		Name:       name,
		Capacity:   size64(size),
		Allocation: size64(size),
		Target: &libvirtxml.StorageVolumeTarget{
			Format:      &libvirtxml.StorageVolumeTargetFormat{Type: "raw"},
			Permissions: &libvirtxml.StorageVolumeTargetPermissions{Mode: uploadMode},
		},
	}
}

func (h *host) send(ctx context.Context, handle libvirt.StorageVol, content []byte) error {
	if len(content) == 0 {
		return nil
	}
	unsent := bytes.NewReader(content)
	err := tellWithin(ctx, h.conn, h.transfer(len(content)), func(l *libvirt.Libvirt) error {
		err := l.StorageVolUpload(handle, unsent, 0, uint64(len(content)), 0)
		if err == nil && unsent.Len() > 0 { // libvirt does not mind a stream that ends early
			return fmt.Errorf("%d of %d bytes were not taken", unsent.Len(), len(content))
		}
		return err
	})
	return err
}

// holds says whether a volume's bytes are these, and nobody but its owner may read them.
func (h *host) holds(ctx context.Context, v found, content []byte) (bool, error) {
	permissions := v.Target != nil && v.Target.Permissions != nil && v.Target.Permissions.Mode == uploadMode
	if !permissions || bytesOf(v.Capacity) != int64(len(content)) {
		return false, nil
	}
	if len(content) == 0 {
		return true, nil
	}
	got, err := askWithin(ctx, h.conn, h.transfer(len(content)), func(l *libvirt.Libvirt) ([]byte, error) {
		var got bytes.Buffer
		err := l.StorageVolDownload(v.handle, &got, 0, uint64(len(content)), 0)
		return got.Bytes(), err
	})
	if err != nil {
		return false, fmt.Errorf("reading back volume %s: %w", v.Name, err)
	}
	return bytes.Equal(got, content), nil
}

// transfer is the limit of a call that carries so many bytes.
func (h *host) transfer(size int) time.Duration {
	return h.slow() + time.Duration(size/slowestBytesPerSecond)*time.Second
}
