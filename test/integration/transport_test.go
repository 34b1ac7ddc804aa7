// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
	"github.com/finos/caplv/test/stand"
)

// impatient bounds what tests wait for, and is long enough for a busy machine that answers.
func impatient() rpc.Options {
	return rpc.Options{
		DialTimeout: 3 * time.Second, CallTimeout: 2 * time.Second, KeepaliveInterval: time.Minute, MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
	}
}

func TestWhoIsNotLetIn(t *testing.T) {
	stand := libvirtHost(t)
	promised := "SHA256:" + strings.Repeat("A", 43)
	for name, tc := range map[string]struct {
		change func(*hypervisor.Target)
		reason string
		says   []string
	}{
		"another host key": {
			func(to *hypervisor.Target) { to.HostKeyFingerprint = promised },
			hypervisor.ReasonHostKeyRefused, []string{promised, stand.HostKeyFingerprint},
		},
		"no host key": {
			func(to *hypervisor.Target) { to.HostKeyFingerprint = "" },
			hypervisor.ReasonHostKeyRefused, []string{"ssh-keygen -lf"},
		},
		"a key that the host does not know": {
			func(to *hypervisor.Target) { to.PrivateKey = strangersKey(t) },
			hypervisor.ReasonLoginRefused, []string{"authorized_keys"},
		},
		"an account that sshd does not allow": {
			func(to *hypervisor.Target) { to.URI = strings.Replace(to.URI, "caplv@", "root@", 1) },
			hypervisor.ReasonLoginRefused, []string{"root"},
		},
		"a socket that sshd does not forward to": {
			func(to *hypervisor.Target) { to.URI += "?socket=/run/libvirt/libvirt-sock-ro" },
			hypervisor.ReasonSocketRefused, []string{"AllowStreamLocalForwarding", "AllowTcpForwarding", "group", "libvirtd"},
		},
	} {
		to := target(stand)
		tc.change(&to)
		_, err := connector(t, impatient()).Connect(t.Context(), to)
		refused, ok := errors.AsType[*hypervisor.ConnectError](err)
		if !ok || refused.Reason != tc.reason {
			t.Errorf("%s: got %v, want %s", name, err, tc.reason)
			continue
		}
		for _, want := range tc.says {
			if !strings.Contains(refused.Message, want) {
				t.Errorf("%s: %q does not say %s", name, refused.Message, want)
			}
		}
	}
}

func TestKnownHostsAreEnough(t *testing.T) {
	stand := libvirtHost(t)
	to := target(stand)
	to.HostKeyFingerprint, to.KnownHosts = "", stand.KnownHosts
	wantAnswer(t, connect(t, connector(t, impatient()), to))
}

func TestTheSocketOnThisMachine(t *testing.T) {
	stand := libvirtHost(t)
	for _, uri := range []string{"qemu+unix:///system", "qemu+unix:///system?socket=" + stand.Socket} {
		wantAnswer(t, connect(t, connector(t, impatient()), hypervisor.Target{Key: "default/local", URI: uri}))
	}
}

func TestAHostThatFallsSilent(t *testing.T) {
	stand := libvirtHost(t)
	for name, options := range map[string]rpc.Options{
		"is noticed by a call":     impatient(),
		"is noticed without calls": {DialTimeout: 3 * time.Second, CallTimeout: time.Hour, KeepaliveInterval: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			gate := newGate(t, stand)
			to := target(stand)
			to.URI = gate.uri
			c := connector(t, options)
			host := connect(t, c, to)
			wantAnswer(t, host)

			gate.shut()
			_, err := host.Info(t.Context())
			wantUnreachable(t, "asking a silent host", err)
			_, err = c.Connect(t.Context(), to)
			wantUnreachable(t, "connecting to it", err)

			gate.open()
			wantAnswer(t, eventually(t, c, to))
		})
	}
}

func TestLibvirtThatHangs(t *testing.T) {
	host := libvirtHost(t)
	c := connector(t, impatient())
	h := connect(t, c, target(host))
	must(t, host.Freeze(stand.Libvirtd))
	thaw := sync.OnceFunc(func() { must(t, host.Thaw(stand.Libvirtd)) })
	defer thaw()

	_, err := h.Info(t.Context())
	wantUnreachable(t, "asking it", err)
	_, err = c.Connect(t.Context(), target(host))
	wantUnreachable(t, "connecting to it", err)

	thaw()
	wantAnswer(t, eventually(t, c, target(host)))
}

func TestACallerWhoGivesUpHarmsNobody(t *testing.T) {
	host := libvirtHost(t)
	h := connect(t, connector(t, rpc.Options{}), target(host))
	must(t, host.Freeze(stand.Libvirtd))
	thaw := sync.OnceFunc(func() { must(t, host.Thaw(stand.Libvirtd)) })
	defer thaw()

	const callers = 20 // more than are in flight at a time
	ctx, giveUp := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer giveUp()
	errs := make(chan error, callers)
	begin := time.Now()
	for range callers {
		go func() {
			_, err := h.Volume(ctx, "default", baseImage)
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, hypervisor.ErrUnreachable) {
			t.Errorf("got %v, want the caller's own end", err)
		}
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("callers were held for %s", took)
	}
	thaw()
	wantAnswer(t, h) // the same connection
}

func TestLibvirtThatRestarts(t *testing.T) {
	host := libvirtHost(t)
	c := connector(t, impatient())
	h := connect(t, c, target(host))
	for range 3 {
		g := guest{name: "survivor", uuid: uuid.NewString(), disk: overlay(t, h)}
		if _, err := h.DefineDomain(t.Context(), g.xml(host.DomainType)); err != nil {
			t.Fatal(err)
		}
		must(t, h.StartDomain(t.Context(), g.uuid))
		must(t, host.Restart(t.Context(), stand.Libvirtd))
		_, err := h.Domain(t.Context(), g.uuid)
		wantUnreachable(t, "asking on the old connection", err)

		h = eventually(t, c, target(host))
		must(t, h.DestroyDomain(t.Context(), g.uuid)) // at once: libvirtd is still gathering what runs
		must(t, h.UndefineDomain(t.Context(), g.uuid))
		must(t, h.DeleteVolume(t.Context(), "default", g.disk.Name))
		if _, err := h.Domain(t.Context(), g.uuid); !errors.Is(err, hypervisor.ErrNotFound) {
			t.Errorf("after it was undefined: %v", err)
		}
	}
}

func TestSSHThatRestarts(t *testing.T) {
	host := libvirtHost(t)
	c := connector(t, impatient())
	h := connect(t, c, target(host))
	must(t, host.Restart(t.Context(), stand.SSHD))
	_, err := h.Info(t.Context())
	wantUnreachable(t, "asking on the old connection", err)
	wantAnswer(t, eventually(t, c, target(host)))
}

func TestConnectionsLeaveNothingBehind(t *testing.T) {
	stand := libvirtHost(t)
	c := connector(t, rpc.Options{MinBackoff: time.Nanosecond, MaxBackoff: time.Nanosecond})
	wrong := target(stand)
	wrong.Key, wrong.HostKeyFingerprint = "default/wrong", "SHA256:"+strings.Repeat("A", 43)
	refused := target(stand)
	refused.Key, refused.URI = "default/refused", stand.URI+"?socket=/nowhere"
	round := func() {
		wantAnswer(t, connect(t, c, target(stand)))
		for _, to := range []hypervisor.Target{wrong, refused} {
			if _, err := c.Connect(t.Context(), to); err == nil {
				t.Errorf("connected to %s", to.Key)
			}
		}
		c.Forget(target(stand).Key)
	}
	round() // what the runtime keeps for ever is there now
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)
	for range 50 {
		round()
	}
	poll(t, "goroutines and descriptors are as before", func() bool {
		return runtime.NumGoroutine() <= goroutines && openFiles(t) <= descriptors
	})
}

func TestManyShareOneConnection(t *testing.T) {
	stand := libvirtHost(t)
	gate := newGate(t, stand)
	c, to := connector(t, rpc.Options{}), target(stand)
	to.URI = gate.uri
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			h, err := c.Connect(t.Context(), to)
			if err != nil {
				t.Error(err)
				return
			}
			name, content := fmt.Sprintf("shared-%d", i), strings.Repeat(fmt.Sprint(i), 300_000)
			for range 5 {
				if _, err := h.UploadVolume(t.Context(), "default", name, []byte(content)); err != nil {
					t.Error(err)
				}
				if _, err := h.Volume(t.Context(), "default", "nobody"); !errors.Is(err, hypervisor.ErrNotFound) {
					t.Error(err)
				}
				if err := h.DeleteVolume(t.Context(), "default", name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := gate.count(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// gate is a relay in front of sshd that can stop forwarding without closing anything, as a cable that was pulled.
type gate struct {
	uri string

	mu    sync.Mutex
	way   chan struct{} // closed while bytes may pass
	conns int
}

func newGate(t *testing.T, libvirt *stand.Libvirt) *gate {
	t.Helper()
	u, err := url.Parse(libvirt.URI)
	if err != nil {
		t.Fatal(err)
	}
	sshd := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.Host = listener.Addr().String()
	g := &gate{uri: u.String(), way: make(chan struct{})}
	g.open()
	t.Cleanup(func() {
		_ = listener.Close() // whoever waits for it gives up
		g.open()
	})
	go g.serve(listener, sshd)
	return g
}

func (g *gate) serve(listener net.Listener, sshd string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", sshd)
		if err != nil {
			_ = client.Close() // which is what the client would see without us
			continue
		}
		g.mu.Lock()
		g.conns++
		g.mu.Unlock()
		go g.copy(client, server)
		go g.copy(server, client)
	}
}

func (g *gate) copy(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		g.mu.Lock()
		way := g.way
		g.mu.Unlock()
		<-way
		if _, writeErr := to.Write(buffer[:n]); errors.Join(err, writeErr) != nil {
			_, _ = to.Close(), from.Close() // the other direction may have been first
			return
		}
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.way = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.way:
	default:
		close(g.way)
	}
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns
}

// eventually connects to a host that is coming back.
func eventually(t *testing.T, c *rpc.Connector, to hypervisor.Target) (host hypervisor.Host) {
	t.Helper()
	poll(t, "there is a connection again", func() (ok bool) {
		h, err := c.Connect(t.Context(), to)
		host = h
		return err == nil
	})
	return host
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("not true after 20 seconds: %s", what)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func wantAnswer(t *testing.T, h hypervisor.Host) {
	t.Helper()
	if _, err := h.Volume(t.Context(), "default", baseImage); err != nil {
		t.Fatal(err)
	}
}

func wantUnreachable(t *testing.T, doing string, err error) {
	t.Helper()
	if !errors.Is(err, hypervisor.ErrUnreachable) {
		t.Fatalf("%s: got %v, want it unreachable", doing, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
