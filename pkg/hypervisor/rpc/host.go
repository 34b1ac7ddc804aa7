// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"
	"k8s.io/utils/clock"

	"github.com/finos/caplv/pkg/hypervisor"
)

// slowness is how many times longer than others a call may take that waits for processes or disks.
const slowness = 3

// host is one connection. go-libvirt knows neither contexts nor deadlines, so both are kept here: see [call].
type host struct {
	clock     clock.WithDelayedExecution
	options   Options
	api       *libvirt.Libvirt
	transport net.Conn // closing it ends every call
	slots     chan struct{}

	lost  chan struct{} // closed with the connection
	once  sync.Once
	cause error // why it is lost, once it is
}

var _ hypervisor.Host = (*host)(nil)

func newHost(d dialer, transport net.Conn) *host {
	return &host{
		clock: d.clock, options: d.options, transport: transport,
		slots: make(chan struct{}, d.options.MaxInFlight), lost: make(chan struct{}),
	}
}

// lose ends the connection. Only the first cause counts.
func (h *host) lose(cause error) {
	h.once.Do(func() {
		h.cause = cause
		close(h.lost)
		_ = h.transport.Close() // it may be closed already: that is how we know
	})
}

func (h *host) alive() bool {
	select {
	case <-h.lost:
		return false
	default:
		return true
	}
}

// keepAlive asks the SSH server for an answer from time to time, and ends the connection when none comes.
func (h *host) keepAlive(client *ssh.Client) {
	for h.pause(h.options.KeepAliveInterval) {
		late := h.clock.AfterFunc(h.options.KeepAliveInterval, func() { h.lose(errors.New("the SSH server fell silent")) })
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			h.lose(err)
			return
		}
	}
}

// pause waits, and says whether the connection is still there.
func (h *host) pause(d time.Duration) bool {
	timer := h.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-h.lost:
		return false
	}
}

// quick and slow are the deadlines of calls.
func (h *host) quick() time.Duration { return h.options.CallTimeout }

func (h *host) slow() time.Duration { return slowness * h.options.CallTimeout }

// call runs a short series of RPCs under one deadline, whose expiry ends the connection. At most MaxInFlight of them run at
// a time. A caller whose context ends gets its error at once, while the series goes on: nothing can take it back.
func call[T any](ctx context.Context, h *host, doing string, limit time.Duration, rpcs func(*libvirt.Libvirt) (T, error)) (T, error) {
	var none T
	if err := h.acquire(ctx); err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		defer func() { <-h.slots }()
		late := h.clock.AfterFunc(limit, func() { h.lose(fmt.Errorf("%s took longer than %s", doing, limit)) })
		defer late.Stop()
		value, err := rpcs(h.api)
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		if r.err != nil {
			return none, fmt.Errorf("%s: %w", doing, h.explain(r.err))
		}
		return r.value, nil
	case <-ctx.Done():
		return none, fmt.Errorf("%s: %w", doing, ctx.Err())
	case <-h.lost:
		return none, fmt.Errorf("%s: %w", doing, h.gone())
	}
}

// do is call for what only succeeds or fails.
func do(ctx context.Context, h *host, doing string, limit time.Duration, rpcs func(*libvirt.Libvirt) error) error {
	_, err := call(ctx, h, doing, limit, func(api *libvirt.Libvirt) (struct{}, error) { return struct{}{}, rpcs(api) })
	return err
}

func (h *host) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.lost:
		return h.gone()
	}
}

func (h *host) gone() error {
	return fmt.Errorf("%w: %w", hypervisor.ErrUnreachable, h.cause)
}

// explain tells libvirt's answers, and ours, from errors of a connection that broke.
func (h *host) explain(err error) error {
	switch {
	case answered(err):
		return describe(err)
	case errors.Is(err, hypervisor.ErrNotFound), errors.Is(err, hypervisor.ErrPoolNotFound), errors.Is(err, hypervisor.ErrNameTaken):
		return err
	case !h.alive():
		return h.gone()
	case errors.Is(err, libvirt.ErrInterrupted):
		return fmt.Errorf("%w: %w", hypervisor.ErrUnreachable, err)
	default:
		return err
	}
}
