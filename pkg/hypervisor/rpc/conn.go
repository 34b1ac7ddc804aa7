// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"golang.org/x/crypto/ssh"
	"k8s.io/utils/clock"

	"github.com/finos/caplv/pkg/hypervisor"
)

// maxInFlight is below the 5 calls of one client that libvirtd works on at a time by default (max_client_requests).
const maxInFlight = 4

// conn is a libvirt connection that many share. go-libvirt's calls know neither contexts nor deadlines, and those of a
// peer that went silent wait for ever; only the end of the connection frees them. So a call that takes too long ends it.
type conn struct {
	libvirt *libvirt.Libvirt
	watch   clock.WithDelayedExecution
	limit   time.Duration // of an ordinary call
	slots   chan struct{} // holds one for each call in flight
	version uint64        // of libvirtd: major*1,000,000 + minor*1,000 + release
	sent    sent

	cut    func()
	once   sync.Once
	reason error         // why it ended; to be read after gone is closed
	gone   chan struct{} // closed when it ended
}

// connect opens the target's driver. The error is a [*hypervisor.ConnectError].
func connect(ctx context.Context, target hypervisor.Target, o Options, watch clock.WithDelayedExecution) (*conn, error) {
	e, err := parseURI(target.URI)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	var l line
	if e.overSSH() {
		l, err = dialSSH(ctx, e, target)
	} else {
		l, err = dialLocal(ctx, e)
	}
	if err != nil {
		return nil, err
	}
	c := newConn(l, o.CallTimeout, watch)
	if err := c.open(ctx, e); err != nil {
		c.close(err)
		return nil, err
	}
	if l.client != nil {
		go c.keepAlive(l.client, o.KeepaliveInterval)
	}
	return c, nil
}

func newConn(l line, limit time.Duration, watch clock.WithDelayedExecution) *conn {
	c := &conn{limit: limit, watch: watch, slots: make(chan struct{}, maxInFlight), cut: l.cut, gone: make(chan struct{})}
	c.libvirt = libvirt.NewWithDialer(dialers.NewAlreadyConnected(&frames{Conn: l.Conn, end: c.close}))
	return c
}

func (c *conn) open(ctx context.Context, e endpoint) error {
	defer context.AfterFunc(ctx, func() { c.close(ctx.Err()) })()
	err := c.libvirt.ConnectToURI(e.driver)
	if err == nil {
		c.version, err = c.libvirt.ConnectGetLibVersion()
	}
	if err == nil {
		return nil
	}
	if _, answered := errors.AsType[libvirt.Error](err); answered {
		return &hypervisor.ConnectError{
			Reason:  hypervisor.ReasonLibvirtRefused,
			Message: fmt.Sprintf("libvirtd on %s does not open %s; see its log there", e, e.driver),
			Err:     err,
		}
	}
	return &hypervisor.ConnectError{
		Reason:  hypervisor.ReasonUnreachable,
		Message: fmt.Sprintf("libvirtd on %s does not answer, though its socket is there; restart it", e),
		Err:     err,
	}
}

// close ends the connection: calls in flight return, the transport is closed. Only the first reason counts.
func (c *conn) close(reason error) {
	c.once.Do(func() {
		c.reason = reason
		close(c.gone)
		c.cut()
	})
}

func (c *conn) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// lost is the error of a call whose connection ended.
func (c *conn) lost() error {
	return fmt.Errorf("%w: %w", hypervisor.ErrUnreachable, c.reason)
}

// keepAlive notices that the peer is gone while nobody calls, and keeps routers from forgetting the connection.
func (c *conn) keepAlive(client *ssh.Client, interval time.Duration) {
	for c.pause(interval) {
		late := c.watch.AfterFunc(interval, func() { c.close(errors.New("sshd does not answer")) })
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil) // a refusal is an answer as well
		late.Stop()
		if err != nil {
			c.close(fmt.Errorf("asking sshd whether it is there: %w", err))
		}
	}
}

// pause waits, and says whether the connection is still there.
func (c *conn) pause(d time.Duration) bool {
	timer := c.watch.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-c.gone:
		return false
	}
}

// ask does one libvirt call under the ordinary time limit.
func ask[T any](ctx context.Context, c *conn, call func(*libvirt.Libvirt) (T, error)) (T, error) {
	return askWithin(ctx, c, c.limit, call)
}

// askWithin does one libvirt call. It ends the connection when there is no answer within limit. A caller whose context
// ends gets its error at once; the call goes on, because others share the connection, and keeps its place until it ends.
func askWithin[T any](ctx context.Context, c *conn, limit time.Duration, call func(*libvirt.Libvirt) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := c.enter(ctx); err != nil {
		return none, err
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-c.slots }()
		late := c.watch.AfterFunc(limit, func() { c.close(fmt.Errorf("no answer within %s", limit)) })
		defer late.Stop()
		value, err := call(c.libvirt)
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		if _, libvirtSays := errors.AsType[libvirt.Error](a.err); a.err != nil && !libvirtSays && !c.alive() {
			return none, c.lost()
		}
		return a.value, a.err
	case <-c.gone:
		return none, c.lost()
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// enter waits for a place.
func (c *conn) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.alive() {
		return c.lost()
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-c.gone:
		return c.lost()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell is ask for calls that only succeed or fail.
func tell(ctx context.Context, c *conn, call func(*libvirt.Libvirt) error) error {
	return tellWithin(ctx, c, c.limit, call)
}

func tellWithin(ctx context.Context, c *conn, limit time.Duration, call func(*libvirt.Libvirt) error) error {
	_, err := askWithin(ctx, c, limit, func(l *libvirt.Libvirt) (struct{}, error) { return struct{}{}, call(l) })
	return err
}
