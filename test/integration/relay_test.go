// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net"
	"sync"
	"testing"
)

// relay is a wire that can be held: connections stay open, and nothing comes through.
type relay struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	flow  *sync.Cond
	held  bool
	quota int // bytes until it is held by itself; 0 is no limit
	ended bool
	conns []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, to: to}
	r.flow = sync.NewCond(&r.mu)
	var accepting sync.WaitGroup
	accepting.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close() // ends accept
		accepting.Wait()
		r.end()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = client.Close() // the client sees that
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.mu.Unlock()
		go r.pump(client, server)
		go r.pump(server, client)
	}
}

// pump copies until one side ends, and then ends the other.
func (r *relay) pump(from, to net.Conn) {
	defer to.Close() //nolint:errcheck // the copy is over
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !r.passes(n) {
			return
		}
		if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// passes waits while the wire is held. It is false at the end.
func (r *relay) passes(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quota > 0 {
		r.quota -= n
		r.held = r.quota <= 0
	}
	for r.held && !r.ended {
		r.flow.Wait()
	}
	return !r.ended
}

func (r *relay) silence() { r.set(func() { r.held = true }) }

// silenceAfter holds the wire after so many bytes more.
func (r *relay) silenceAfter(bytes int) { r.set(func() { r.quota = bytes }) }

// speak lets what was held through, the ends of connections included.
func (r *relay) speak() { r.set(func() { r.held, r.quota = false, 0 }) }

func (r *relay) end() {
	r.set(func() { r.ended = true })
	for _, c := range r.conns {
		_ = c.Close() // one of the two may be closed already
	}
}

func (r *relay) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	r.flow.Broadcast()
}
