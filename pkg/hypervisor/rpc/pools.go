// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/digitalocean/go-libvirt"
	"k8s.io/apimachinery/pkg/util/wait"
	"libvirt.org/go/libvirtxml"

	"github.com/finos/caplv/pkg/hypervisor"
)

// host is an open connection.
type host struct {
	*conn
}

var _ hypervisor.Host = (*host)(nil)

// slow is the limit of calls that wait for QEMU or for a disk.
func (h *host) slow() time.Duration { return 4 * h.limit }

// pool finds a storage pool, and starts it when it is not active.
func (h *host) pool(ctx context.Context, name string) (libvirt.StoragePool, error) {
	pool, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (libvirt.StoragePool, error) { return l.StoragePoolLookupByName(name) })
	if says(err, libvirt.ErrNoStoragePool) {
		return pool, fmt.Errorf("pool %s: %w", name, hypervisor.ErrPoolNotFound)
	}
	if err != nil {
		return pool, fmt.Errorf("looking for pool %s: %w", name, err)
	}
	active, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (int32, error) { return l.StoragePoolIsActive(pool) })
	if err != nil {
		return pool, fmt.Errorf("looking at pool %s: %w", name, err)
	}
	if active != 0 {
		return pool, nil
	}
	return pool, h.startPool(ctx, pool)
}

// startPool starts a pool. A folder that is gone, as one in memory is after a reboot, is made anew.
func (h *host) startPool(ctx context.Context, pool libvirt.StoragePool) error {
	err := h.activate(ctx, pool)
	if err == nil || !answered(err) {
		return err
	}
	folder, lookErr := h.isFolder(ctx, pool)
	if lookErr != nil || !folder { // to build any other type may format a disk
		return errors.Join(err, lookErr)
	}
	build := func(l *libvirt.Libvirt) error { return l.StoragePoolBuild(pool, libvirt.StoragePoolBuildNew) }
	if buildErr := tellWithin(ctx, h.conn, h.slow(), build); buildErr != nil {
		return errors.Join(err, fmt.Errorf("making the folder of pool %s: %w", pool.Name, buildErr))
	}
	return h.activate(ctx, pool)
}

func (h *host) activate(ctx context.Context, pool libvirt.StoragePool) error {
	create := func(l *libvirt.Libvirt) error { return l.StoragePoolCreate(pool, libvirt.StoragePoolCreateNormal) }
	err := tellWithin(ctx, h.conn, h.slow(), create)
	if err == nil || says(err, libvirt.ErrOperationInvalid) { // somebody else started it
		return nil
	}
	return fmt.Errorf("starting pool %s: %w", pool.Name, err)
}

func (h *host) isFolder(ctx context.Context, pool libvirt.StoragePool) (bool, error) {
	text, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (string, error) { return l.StoragePoolGetXMLDesc(pool, 0) })
	if err != nil {
		return false, fmt.Errorf("reading the definition of pool %s: %w", pool.Name, err)
	}
	parsed := &libvirtxml.StoragePool{}
	if err := parsed.Unmarshal(text); err != nil {
		return false, fmt.Errorf("reading the definition of pool %s: %w", pool.Name, err)
	}
	return parsed.Type == "dir", nil
}

// refresh makes libvirt look at a pool's files. It refuses while somebody uploads into the pool or creates a large volume
// there ("has asynchronous jobs running", without a code of its own): then what it knew before has to do, after a while.
func (h *host) refresh(ctx context.Context, pool libvirt.StoragePool) error {
	var last error
	patience := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 6}
	err := wait.ExponentialBackoffWithContext(ctx, patience, func(ctx context.Context) (bool, error) {
		last = tellWithin(ctx, h.conn, h.slow(), func(l *libvirt.Libvirt) error { return l.StoragePoolRefresh(pool, 0) })
		if says(last, libvirt.ErrInternalError) {
			return false, nil
		}
		return true, last
	})
	if err != nil && !says(last, libvirt.ErrInternalError) {
		return fmt.Errorf("refreshing pool %s: %w", pool.Name, err)
	}
	return ctx.Err()
}
