// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
	"github.com/finos/caplv/test/stand"
)

const otherFingerprint = "SHA256:hAoYrhR9rv7VrGx4JAyeZcpDNdy30MOv23Bbo72iwo8"

// impatient are limits that a busy machine still keeps.
func impatient() rpc.Options {
	return rpc.Options{
		DialTimeout: 3 * time.Second, CallTimeout: 2 * time.Second, KeepaliveInterval: time.Minute,
		MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	libvirt := libvirtHost(t)
	otherKey := newKey(t)
	for name, tc := range map[string]struct {
		change func(*hypervisor.Target)
		reason string
		names  []string
	}{
		"another fingerprint": {
			func(h *hypervisor.Target) { h.HostKeyFingerprint = otherFingerprint },
			hypervisor.ReasonHostKeyRefused, []string{otherFingerprint, libvirt.HostKeyFingerprint},
		},
		"no fingerprint": {
			func(h *hypervisor.Target) { h.HostKeyFingerprint = "" },
			hypervisor.ReasonHostKeyRefused, []string{"ssh-keygen"},
		},
		"known hosts of others": {
			func(h *hypervisor.Target) {
				h.HostKeyFingerprint, h.KnownHosts = "", []byte("elsewhere "+strings.SplitN(string(libvirt.KnownHosts), " ", 2)[1])
			},
			hypervisor.ReasonHostKeyRefused, []string{"127.0.0.1"},
		},
		"another user's key": {
			func(h *hypervisor.Target) { h.PrivateKey = otherKey },
			hypervisor.ReasonLoginRefused, []string{"caplv", "authorized_keys"},
		},
		"a socket that sshd does not forward to": {
			func(h *hypervisor.Target) { h.URI += "?socket=/run/libvirt/libvirt-sock-ro" },
			hypervisor.ReasonSocketRefused, []string{"AllowStreamLocalForwarding", "AllowTcpForwarding", "group", "libvirt-sock-ro"},
		},
		"a port where nobody listens": {
			func(h *hypervisor.Target) { h.URI = "qemu+ssh://caplv@127.0.0.1:1/system" },
			hypervisor.ReasonUnreachable, []string{"127.0.0.1:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := target(libvirt)
			tc.change(&to)
			_, err := connector(t, impatient()).Connect(t.Context(), to)
			refusal, ok := errors.AsType[*hypervisor.ConnectError](err)
			if !ok || refusal.Reason != tc.reason {
				t.Fatalf("got %v, want the reason %s", err, tc.reason)
			}
			for _, word := range tc.names {
				if !strings.Contains(refusal.Message, word) {
					t.Errorf("the message does not name %s: %s", word, refusal.Message)
				}
			}
		})
	}
	awaitSessions(t, 0)
}

func TestKnownHostsLetUsIn(t *testing.T) {
	libvirt := libvirtHost(t)
	key := strings.SplitN(string(libvirt.KnownHosts), " ", 2)[1]
	hashed := knownhosts.HashHostname(knownhosts.Normalize(address(t, libvirt)))
	for name, lines := range map[string]string{
		"plain": string(libvirt.KnownHosts), "hashed": hashed + " " + key,
	} {
		t.Run(name, func(t *testing.T) {
			to := target(libvirt)
			to.HostKeyFingerprint, to.KnownHosts = "", []byte("# comment\n"+lines)
			wantAnswer(t, connect(t, connector(t, impatient()), to))
		})
	}
}

func TestASilentPeerHoldsNobodyUp(t *testing.T) {
	for name, tc := range map[string]struct {
		call, keepalive time.Duration
		within          time.Duration
	}{
		"the call's deadline finds it":           {2 * time.Second, time.Minute, 10 * time.Second},
		"the keepalive finds it before the call": {time.Minute, 500 * time.Millisecond, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			libvirt := libvirtHost(t)
			relay := newRelay(t, address(t, libvirt))
			to, o := target(libvirt), impatient()
			to.URI = "qemu+ssh://caplv@" + relay.address() + "/system"
			o.CallTimeout, o.KeepaliveInterval = tc.call, tc.keepalive
			c := connector(t, o)
			host := connect(t, c, to)
			wantAnswer(t, host)

			relay.silence()
			begin := time.Now()
			if _, err := host.Info(t.Context()); !errors.Is(err, hypervisor.ErrUnreachable) {
				t.Errorf("got %v, want the host unreachable", err)
			}
			if took := time.Since(begin); took > tc.within {
				t.Errorf("it took %s to notice", took)
			}
			if _, err := c.Connect(t.Context(), to); !errors.Is(err, hypervisor.ErrUnreachable) {
				t.Errorf("connecting through silence: got %v, want the host unreachable", err)
			}

			relay.speak()
			wantAnswer(t, reconnect(t, c, to))
		})
	}
	awaitSessions(t, 0)
}

func TestAHangingDaemonHoldsNobodyUp(t *testing.T) {
	libvirt := libvirtHost(t)
	c, to := connector(t, impatient()), target(libvirt)
	host := connect(t, c, to)
	freeze(t, libvirt)
	begin := time.Now()
	var callers sync.WaitGroup
	for range 8 { // more than fit at a time
		callers.Go(func() {
			if _, err := host.Volume(t.Context(), "default", baseImage); !errors.Is(err, hypervisor.ErrUnreachable) {
				t.Errorf("got %v, want the host unreachable", err)
			}
		})
	}
	callers.Wait()
	if _, err := c.Connect(t.Context(), to); !errors.Is(err, hypervisor.ErrUnreachable) {
		t.Errorf("connecting: got %v, want the host unreachable", err)
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("that took %s", took)
	}
	thaw(t, libvirt)
	wantAnswer(t, reconnect(t, c, to))
}

func TestACallerWhoGivesUpHarmsNobody(t *testing.T) {
	libvirt := libvirtHost(t)
	o := impatient()
	o.CallTimeout = time.Minute
	host := connect(t, connector(t, o), target(libvirt))
	freeze(t, libvirt)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := host.Volume(ctx, "default", baseImage); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want it given up", err)
	}
	thaw(t, libvirt)
	wantAnswer(t, host)
}

func TestADaemonThatRestartsIsFoundAgain(t *testing.T) {
	libvirt := libvirtHost(t)
	c, to := connector(t, impatient()), target(libvirt)
	host := connect(t, c, to)
	if err := libvirt.StopDaemon(t.Context(), stand.Libvirtd); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Info(t.Context()); !errors.Is(err, hypervisor.ErrUnreachable) {
		t.Errorf("a call without a daemon: got %v, want the host unreachable", err)
	}
	_, err := c.Connect(t.Context(), to)
	if refusal, ok := errors.AsType[*hypervisor.ConnectError](err); !ok || refusal.Reason != hypervisor.ReasonSocketRefused {
		t.Errorf("connecting without a daemon: got %v, want the socket refused", err)
	}
	if err := libvirt.StartDaemon(t.Context(), stand.Libvirtd); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, reconnect(t, c, to))
}

func TestNothingLeaks(t *testing.T) {
	libvirt := libvirtHost(t)
	c, to := connector(t, impatient()), target(libvirt)
	wrong := to
	wrong.HostKeyFingerprint = otherFingerprint
	awaitSessions(t, 0)
	before := runtime.NumGoroutine()
	for range 50 {
		wantAnswer(t, connect(t, c, to))
		c.Forget(to.Key)
		if _, err := c.Connect(t.Context(), wrong); err == nil {
			t.Fatal("connected to a host with another key")
		}
		c.Forget(to.Key)
	}
	awaitSessions(t, 0)
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

func TestOneConnectionIsEnough(t *testing.T) {
	libvirt := libvirtHost(t)
	c, to := connector(t, impatient()), target(libvirt)
	awaitSessions(t, 0)
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			host, err := c.Connect(t.Context(), to)
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				wantAnswer(t, host)
			}
		})
	}
	callers.Wait()
	if n := sessions(t); n != 1 {
		t.Errorf("16 callers made %d connections, want 1", n)
	}
	other := to
	other.URI += "?socket=" + libvirt.Socket
	wantAnswer(t, connect(t, c, other))
	awaitSessions(t, 1) // the one with the old URI is closed
}

// newKey is one that no account accepts.
func newKey(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func wantAnswer(t *testing.T, host hypervisor.Host) {
	t.Helper()
	if _, err := host.Volume(t.Context(), "default", baseImage); err != nil {
		t.Error(err)
	}
}

// reconnect connects as soon as the back-off allows it.
func reconnect(t *testing.T, c *rpc.Connector, to hypervisor.Target) (host hypervisor.Host) {
	t.Helper()
	eventually(t, "the host is reached again", func() (ok bool) {
		var err error
		host, err = c.Connect(t.Context(), to)
		return err == nil
	})
	return host
}

func freeze(t *testing.T, libvirt *stand.Libvirt) {
	t.Helper()
	if err := libvirt.Freeze(stand.Libvirtd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { thaw(t, libvirt) })
}

func thaw(t *testing.T, libvirt *stand.Libvirt) {
	t.Helper()
	if err := libvirt.Thaw(stand.Libvirtd); err != nil {
		t.Error(err)
	}
}

func address(t *testing.T, libvirt *stand.Libvirt) string {
	t.Helper()
	u, err := url.Parse(libvirt.URI)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// sessions counts the account's connections in sshd.
func sessions(t *testing.T) int {
	t.Helper()
	titles, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range titles {
		title, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(title), "sshd") && strings.Contains(string(title), ": caplv [priv]") {
			n++
		}
	}
	return n
}

func awaitSessions(t *testing.T, want int) {
	t.Helper()
	eventually(t, "sshd's sessions end", func() bool { return sessions(t) == want })
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
