// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
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

// UploadVolume implements [hypervisor.Volumes]. Libvirt cannot say whether a volume is complete, or rename one that is. So
// the file begins empty and grows with the upload: its size tells when all has arrived. Whether it still is what we sent
// we only know of our own uploads, on this connection: all others of that name are replaced. Reading a volume back is no
// way out, as go-libvirt's downloads stall the whole connection when replies arrive in another order than it expects.
func (h *host) UploadVolume(ctx context.Context, pool, name string, content []byte) (hypervisor.Volume, error) {
	p, err := h.pool(ctx, pool)
	if err != nil {
		return hypervisor.Volume{}, err
	}
	digest := sha256.Sum256(content)
	v, err := h.find(ctx, p, name)
	if err == nil && h.sent.complete(v.trace(), digest) {
		return v.volume(pool), nil
	}
	if err == nil {
		err = h.DeleteVolume(ctx, pool, name)
	}
	if err != nil && !isNotFound(err) {
		return hypervisor.Volume{}, err
	}
	v, err = h.upload(ctx, p, name, content)
	if err != nil {
		return hypervisor.Volume{}, fmt.Errorf("uploading volume %s/%s: %w", pool, name, err)
	}
	h.sent.add(v.trace(), digest)
	return v.volume(pool), nil
}

func isNotFound(err error) bool { return errors.Is(err, hypervisor.ErrNotFound) }

func (h *host) upload(ctx context.Context, pool libvirt.StoragePool, name string, content []byte) (found, error) {
	handle, err := h.create(ctx, pool, uploadXML(name))
	if err == nil {
		err = h.send(ctx, handle, content)
	}
	if err != nil {
		return found{}, err
	}
	v, err := h.find(ctx, pool, name)
	if size := bytesOf(v.Capacity); err == nil && size != int64(len(content)) {
		err = fmt.Errorf("it has %d bytes instead of %d; check the disk of the host, and that nobody else uploads it", size, len(content))
	}
	return v, err
}

func uploadXML(name string) libvirtxml.StorageVolume {
	return libvirtxml.StorageVolume{
		Name:       name,
		Capacity:   size64(0),
		Allocation: size64(0),
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
	limit := h.slow() + time.Duration(len(content)/slowestBytesPerSecond)*time.Second
	return tellWithin(ctx, h.conn, limit, func(l *libvirt.Libvirt) error {
		err := l.StorageVolUpload(handle, unsent, 0, uint64(len(content)), 0)
		if err == nil && unsent.Len() > 0 { // libvirt does not mind a stream that ends early
			return fmt.Errorf("%d of %d bytes were not taken", unsent.Len(), len(content))
		}
		return err
	})
}

// trace is what changes when somebody writes to a volume's file, makes it anew, or lets others read it.
type trace struct {
	path, mode, modified string
	size                 int64
}

func (f found) trace() trace {
	t := trace{path: f.path(), size: bytesOf(f.Capacity)}
	if f.Target != nil && f.Target.Permissions != nil {
		t.mode = f.Target.Permissions.Mode
	}
	if f.Target != nil && f.Target.Timestamps != nil {
		t.modified = f.Target.Timestamps.Mtime
	}
	return t
}

// sent are the uploads that were completed on a connection. Its zero value is empty.
type sent struct {
	mu      sync.Mutex
	digests map[trace][sha256.Size]byte
}

func (s *sent) add(t trace, digest [sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.digests == nil {
		s.digests = map[trace][sha256.Size]byte{}
	}
	s.digests[t] = digest
}

// complete says whether a volume was uploaded here with that content, and nobody touched it since.
func (s *sent) complete(t trace, digest [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.digests[t]
	return ok && known == digest && t.mode == uploadMode
}

// forget drops what was known of a volume that is deleted.
func (s *sent) forget(t trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.digests, t)
}
