// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rpc is [hypervisor] over libvirt's own protocol, through SSH or on a local socket. Nothing is run on the host,
// and no file is read here: keys and known hosts come with each target.
package rpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/finos/caplv/pkg/hypervisor"
)

// Options bound how long we wait. What is unset has the default beside it.
type Options struct {
	// DialTimeout bounds a whole dial: TCP, SSH, libvirt. 20 seconds.
	DialTimeout time.Duration
	// CallTimeout bounds a call that libvirt answers from its memory. 30 seconds; more for calls that wait for processes,
	// disks and transfers. A call that takes longer ends the connection, because nothing else ends the call.
	CallTimeout time.Duration
	// KeepaliveInterval is how often an SSH server is asked whether it is there, and how long its answer may take. 15 seconds.
	KeepaliveInterval time.Duration
	// MinBackoff and MaxBackoff are the pauses after the first and after many failed dials in a row. 1 second and 1 minute.
	MinBackoff, MaxBackoff time.Duration
}

func (o Options) withDefaults() Options {
	o.DialTimeout = cmp.Or(o.DialTimeout, 20*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, 30*time.Second)
	o.KeepaliveInterval = cmp.Or(o.KeepaliveInterval, 15*time.Second)
	o.MinBackoff = cmp.Or(o.MinBackoff, time.Second)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, time.Minute)
	return o
}

// backoff is the pause after so many failed dials in a row.
func (o Options) backoff(failures int) time.Duration {
	pause := o.MinBackoff
	for i := 1; i < failures && pause < o.MaxBackoff; i++ {
		pause *= 2
	}
	return min(pause, o.MaxBackoff)
}

// Connector keeps one connection per target key. It is safe for concurrent use.
type Connector struct {
	clock   clock.PassiveClock
	options Options
	dial    func(ctx context.Context, target hypervisor.Target) (*conn, error)

	mu    sync.Mutex
	peers map[string]*peer // by target key
}

var _ hypervisor.Connector = (*Connector)(nil)

// New returns a connector without connections.
func New(clock clock.WithDelayedExecution, options Options) *Connector {
	options = options.withDefaults()
	dial := func(ctx context.Context, target hypervisor.Target) (*conn, error) {
		return connect(ctx, target, options, clock)
	}
	return &Connector{clock: clock, options: options, dial: dial, peers: map[string]*peer{}}
}

// peer is what we know of one host. The connector's lock guards it.
type peer struct {
	target  [sha256.Size]byte
	host    *host    // nil before the first dial succeeded
	dialing *attempt // nil when nobody dials

	failures int
	err      error // of the last dial
	retryAt  time.Time
	gone     bool // forgotten, or replaced by one with another target
}

// attempt is a dial that several callers may wait for. Its results are there once done is closed.
type attempt struct {
	done chan struct{}
	host *host
	err  error
}

// Connect returns the shared connection to the target, and dials when there is none that works.
func (c *Connector) Connect(ctx context.Context, target hypervisor.Target) (hypervisor.Host, error) {
	a, open, err := c.lookUp(ctx, target)
	if err != nil {
		return nil, err
	}
	if open != nil {
		return open, nil
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, unreachable("The host has not answered yet", ctx.Err())
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.host, nil
}

// lookUp returns the connection, or the dial to wait for, or why there is neither.
func (c *Connector) lookUp(ctx context.Context, target hypervisor.Target) (*attempt, *host, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[target.Key]
	if sum := sumOf(target); p == nil || p.target != sum {
		p.close()
		p = &peer{target: sum}
		c.peers[target.Key] = p
	}
	switch {
	case p.host != nil && p.host.alive():
		return nil, p.host, nil
	case p.dialing != nil:
		return p.dialing, nil, nil
	case p.err != nil && c.clock.Now().Before(p.retryAt):
		return nil, nil, p.err
	}
	p.dialing = &attempt{done: make(chan struct{})}
	// The dial is everybody's: it goes on when the caller who happened to be first gives up, and has a deadline of its own.
	go c.run(context.WithoutCancel(ctx), p, p.dialing, target)
	return p.dialing, nil, nil
}

func (c *Connector) run(ctx context.Context, p *peer, a *attempt, target hypervisor.Target) {
	conn, err := c.dial(ctx, target)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(a.done)
	p.dialing = nil
	if err != nil {
		p.failures++
		p.err, p.retryAt = err, c.clock.Now().Add(c.options.backoff(p.failures))
		a.err = err
		return
	}
	if p.gone {
		conn.close(errForgotten)
		a.err = unreachable("The connection was given up while it was made", errForgotten)
		return
	}
	p.host, p.failures, p.err = &host{conn}, 0, nil
	a.host = p.host
}

var errForgotten = errors.New("the connection was closed by us")

// close ends what the peer has. A dial that is under way is closed when it succeeds.
func (p *peer) close() {
	if p == nil {
		return
	}
	p.gone = true
	if p.host != nil {
		p.host.close(errForgotten)
	}
}

// Forget closes the connection of that key, and forgets its back-off.
func (c *Connector) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers[key].close()
	delete(c.peers, key)
}

// Close closes all connections.
func (c *Connector) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, p := range c.peers {
		p.close()
		delete(c.peers, key)
	}
}

// sumOf tells targets apart without keeping their keys.
func sumOf(t hypervisor.Target) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", t.URI, t.PrivateKey, t.KnownHosts, t.HostKeyFingerprint))
}

// unreachable is the error of a host that does not answer.
func unreachable(message string, cause error) *hypervisor.ConnectError {
	return &hypervisor.ConnectError{Reason: hypervisor.ReasonUnreachable, Message: message, Err: cause}
}
