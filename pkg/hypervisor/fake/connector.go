// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fake is [hypervisor] in memory, with state: what was not created is not found, and what was not deleted is
// listed by [Host.Names]. It keeps the same contract as the real one, checked by package hypervisortest.
package fake

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/finos/caplv/pkg/hypervisor"
)

// Connector reaches the hosts that were added to it. It is safe for concurrent use.
type Connector struct {
	mu       sync.Mutex
	hosts    map[string]*Host // by URI
	open     map[string]hypervisor.Target
	refusals map[string]*hypervisor.ConnectError
}

var _ hypervisor.Connector = (*Connector)(nil)

// New returns a connector that reaches no host yet.
func New() *Connector {
	return &Connector{
		hosts:    map[string]*Host{},
		open:     map[string]hypervisor.Target{},
		refusals: map[string]*hypervisor.ConnectError{},
	}
}

// AddHost puts an empty host at a URI. It has no pools.
func (c *Connector) AddHost(uri string) *Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[uri] = NewHost()
	return c.hosts[uri]
}

// Refuse makes every Connect to a URI fail with err, until it is called with nil. Whoever has a Host already keeps it.
func (c *Connector) Refuse(uri string, err *hypervisor.ConnectError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusals[uri] = err
}

// Connect returns the host that was added with the target's URI.
func (c *Connector) Connect(_ context.Context, target hypervisor.Target) (hypervisor.Host, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusals[target.URI]; err != nil {
		return nil, err
	}
	host, ok := c.hosts[target.URI]
	if !ok {
		return nil, &hypervisor.ConnectError{
			Reason:  hypervisor.ReasonUnreachable,
			Message: fmt.Sprintf("Nothing answers at %s", target.URI),
		}
	}
	c.open[target.Key] = target
	return host, nil
}

// Forget closes the connection of that key.
func (c *Connector) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, key)
}

// Connected returns the keys that have a connection, sorted.
func (c *Connector) Connected() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]string, 0, len(c.open))
	for key := range c.open {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// LastTarget returns what the open connection of that key was asked for with.
func (c *Connector) LastTarget(key string) (hypervisor.Target, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	target, ok := c.open[key]
	return target, ok
}
