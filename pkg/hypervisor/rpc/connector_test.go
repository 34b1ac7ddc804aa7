// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/finos/caplv/pkg/hypervisor"
)

// network is what a connector dials into: it counts, and answers what the test says.
type network struct {
	*Connector
	clock *testingclock.FakeClock
	dials atomic.Int32
	fault error
	last  *conn // that was made
	// When not nil, each dial sends to begun, and then waits for a value from end.
	begun, end chan struct{}
}

func newNetwork() *network {
	n := &network{clock: testingclock.NewFakeClock(time.Unix(0, 0))}
	n.Connector = New(n.clock, Options{})
	n.dial = func(context.Context, hypervisor.Target) (*conn, error) {
		n.dials.Add(1)
		if n.begun != nil {
			n.begun <- struct{}{}
			<-n.end
		}
		if n.fault != nil {
			return nil, n.fault
		}
		n.last = newConn(line{cut: func() {}}, time.Second, clock.RealClock{})
		return n.last, nil
	}
	return n
}

func (n *network) wantDials(t *testing.T, want int32) {
	t.Helper()
	if got := n.dials.Load(); got != want {
		t.Errorf("dialed %d times, want %d", got, want)
	}
}

func laptop() hypervisor.Target {
	return hypervisor.Target{Key: "default/laptop", URI: "qemu+ssh://u@h/system", PrivateKey: []byte("k")}
}

func TestADeadHostIsDialedAfterGrowingPauses(t *testing.T) {
	n := newNetwork()
	n.fault = unreachable("nobody", errors.New("refused"))
	seconds := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}
	for i, pause := range seconds {
		for range 3 { // many machines ask for the same host
			if _, err := n.Connect(t.Context(), laptop()); !errors.Is(err, n.fault) || !errors.Is(err, hypervisor.ErrUnreachable) {
				t.Fatalf("got %v, want the same error each time", err)
			}
		}
		n.wantDials(t, int32(i+1))
		n.clock.Step(pause*time.Second - time.Millisecond)
		_, _ = n.Connect(t.Context(), laptop())
		n.wantDials(t, int32(i+1))
		n.clock.Step(time.Millisecond)
	}
	n.fault = nil
	host, err := n.Connect(t.Context(), laptop())
	if err != nil {
		t.Fatal(err)
	}
	// The pauses start anew after a success, and a connection that broke is replaced at once.
	host.(interface{ close(error) }).close(errors.New("broke"))
	n.fault = unreachable("nobody", nil)
	before := n.dials.Load()
	_, _ = n.Connect(t.Context(), laptop())
	n.clock.Step(time.Second)
	_, _ = n.Connect(t.Context(), laptop())
	n.wantDials(t, before+2)
}

func TestANewKeyIsTriedAtOnce(t *testing.T) {
	n := newNetwork()
	n.fault = &hypervisor.ConnectError{Reason: hypervisor.ReasonLoginRefused, Message: "no"}
	_, _ = n.Connect(t.Context(), laptop())
	n.fault = nil
	changed := laptop()
	changed.PrivateKey = []byte("another")
	if _, err := n.Connect(t.Context(), changed); err != nil {
		t.Errorf("the new key was not tried: %v", err)
	}
}

func TestAChangedTargetReplacesTheConnection(t *testing.T) {
	for name, change := range map[string]func(*hypervisor.Target){
		"URI":         func(t *hypervisor.Target) { t.URI = "qemu+ssh://u@other/system" },
		"key":         func(t *hypervisor.Target) { t.PrivateKey = []byte("another") },
		"known hosts": func(t *hypervisor.Target) { t.KnownHosts = []byte("another") },
		"fingerprint": func(t *hypervisor.Target) { t.HostKeyFingerprint = "SHA256:another" },
	} {
		n := newNetwork()
		first := open(t, n, laptop())
		if open(t, n, laptop()) != first {
			t.Error("the connection is not shared")
		}
		changed := laptop()
		change(&changed)
		if second := open(t, n, changed); second == first || first.alive() || !second.alive() {
			t.Errorf("another %s: the old connection is alive: %t, the new one: %t", name, first.alive(), second.alive())
		}
	}
}

func TestForgettingCloses(t *testing.T) {
	n := newNetwork()
	n.Forget("nobody")
	c := open(t, n, laptop())
	n.Forget(laptop().Key)
	if c.alive() {
		t.Error("the connection is open")
	}
	other := laptop()
	other.Key = "default/other"
	a, b := open(t, n, laptop()), open(t, n, other)
	n.Close()
	if a.alive() || b.alive() {
		t.Error("connections are open")
	}
}

func slowNetwork() *network {
	n := newNetwork()
	n.begun, n.end = make(chan struct{}), make(chan struct{})
	return n
}

func TestManyCallersShareADial(t *testing.T) {
	n := slowNetwork()
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() {
			_, err := n.Connect(t.Context(), laptop())
			errs <- err
		}()
	}
	<-n.begun
	n.end <- struct{}{}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	n.wantDials(t, 1)
}

func TestACallerWhoGivesUpLeavesTheDialToOthers(t *testing.T) {
	n := slowNetwork()
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	_, err := n.Connect(ctx, laptop())
	if !errors.Is(err, context.Canceled) || !errors.Is(err, hypervisor.ErrUnreachable) {
		t.Errorf("got %v, want the caller's own end", err)
	}
	<-n.begun
	n.end <- struct{}{}
	open(t, n, laptop())
	n.wantDials(t, 1)
}

func TestADialThatNobodyWantsAnymoreIsClosed(t *testing.T) {
	n := slowNetwork()
	answer := make(chan error, 1)
	go func() {
		_, err := n.Connect(t.Context(), laptop())
		answer <- err
	}()
	<-n.begun
	n.Forget(laptop().Key)
	n.end <- struct{}{}
	if err := <-answer; !errors.Is(err, hypervisor.ErrUnreachable) {
		t.Errorf("got %v, want no connection", err)
	}
	if n.last == nil || n.last.alive() {
		t.Error("the connection is open, and nobody knows it")
	}
}

func open(t *testing.T, n *network, target hypervisor.Target) *conn {
	t.Helper()
	h, err := n.Connect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return h.(*host).conn
}
