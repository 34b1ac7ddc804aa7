// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/finos/caplv/pkg/hypervisor"
)

// server is an SSH server that lets one key in, and forwards to nothing: a client that meets SocketRefused was let in.
type server struct {
	address string
	keys    map[string]ssh.PublicKey // host keys by type
	client  []byte                   // the private key that may log in
}

func newServer(t *testing.T, hostKeys ...crypto.Signer) server {
	t.Helper()
	client := edKey(t)
	s := server{keys: map[string]ssh.PublicKey{}, client: pemOf(t, client, "")}
	allowed := signer(t, client).PublicKey().Marshal()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if slices.Equal(key.Marshal(), allowed) {
			return &ssh.Permissions{}, nil
		}
		return nil, errors.New("not this one")
	}}
	for _, key := range hostKeys {
		config.AddHostKey(signer(t, key))
		s.keys[signer(t, key).PublicKey().Type()] = signer(t, key).PublicKey()
	}
	s.address = listen(t, func(c net.Conn) {
		conn, channels, requests, err := ssh.NewServerConn(c, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for channel := range channels {
			_ = channel.Reject(ssh.ConnectionFailed, "open failed") // the client sees it
		}
		_ = conn.Close()
	})
	return s
}

// listen serves each connection in a goroutine, until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // nobody waits for it
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // the client may have been first
				serve(c)
			}()
		}
	}()
	return listener.Addr().String()
}

func edKey(t *testing.T) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecKey(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signer(t *testing.T, key crypto.Signer) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pemOf(t *testing.T, key crypto.Signer, passphrase string) []byte {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func (s server) target() hypervisor.Target {
	return hypervisor.Target{Key: "default/s", URI: "qemu+ssh://caplv@" + s.address + "/system", PrivateKey: s.client}
}

// reason dials once, and returns why that failed.
func reason(t *testing.T, target hypervisor.Target) *hypervisor.ConnectError {
	t.Helper()
	c, err := connect(t.Context(), target, Options{DialTimeout: 5 * time.Second}.withDefaults(), clock.RealClock{})
	if err == nil {
		c.close(errForgotten)
		t.Fatal("there is a connection")
	}
	failure, ok := errors.AsType[*hypervisor.ConnectError](err)
	if !ok {
		t.Fatalf("got %v, want a reason", err)
	}
	return failure
}

func wantReason(t *testing.T, what string, target hypervisor.Target, want string) {
	t.Helper()
	failure := reason(t, target)
	if failure.Reason != want {
		t.Errorf("%s: got %s (%v: %v), want %s", what, failure.Reason, failure, failure.Err, want)
	}
}

func TestAnyOfTheHostKeysMayBeTheOneThatWasPromised(t *testing.T) {
	s := newServer(t, edKey(t), ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384()), ecKey(t, elliptic.P521()), rsaKey(t))
	for kind, key := range s.keys {
		pinned := s.target()
		pinned.HostKeyFingerprint = ssh.FingerprintSHA256(key)
		wantReason(t, "fingerprint of "+kind, pinned, hypervisor.ReasonSocketRefused)

		known := s.target()
		known.KnownHosts = []byte(knownhosts.Line([]string{s.address}, key))
		wantReason(t, "known "+kind, known, hypervisor.ReasonSocketRefused)

		hashed := s.target()
		hashed.KnownHosts = []byte(knownhosts.Line([]string{knownhosts.HashHostname(knownhosts.Normalize(s.address))}, key))
		wantReason(t, "hashed "+kind, hashed, hypervisor.ReasonSocketRefused)
	}
}

func TestAnotherHostKeyIsRefusedAndBothAreNamed(t *testing.T) {
	s, other := newServer(t, edKey(t), rsaKey(t)), signer(t, edKey(t)).PublicKey()
	target := s.target()
	target.HostKeyFingerprint = ssh.FingerprintSHA256(other)
	wantReason(t, "another fingerprint", target, hypervisor.ReasonHostKeyRefused)
	refused := reason(t, target)
	for _, want := range []string{ssh.FingerprintSHA256(other), ssh.FingerprintSHA256(s.keys[ssh.KeyAlgoED25519]), ssh.FingerprintSHA256(s.keys[ssh.KeyAlgoRSA])} {
		if !strings.Contains(refused.Message, want) {
			t.Errorf("%s is not named in %q", want, refused.Message)
		}
	}
	if again := reason(t, target); again.Message != refused.Message {
		t.Errorf("the message changes from one attempt to the next:\n%s\n%s", refused.Message, again.Message)
	}

	target = s.target()
	target.KnownHosts = []byte(knownhosts.Line([]string{s.address}, other))
	wantReason(t, "another known key", target, hypervisor.ReasonHostKeyRefused)
	target.KnownHosts = []byte(knownhosts.Line([]string{s.address}, signer(t, ecKey(t, elliptic.P256())).PublicKey()))
	wantReason(t, "a known key of a type that the host lacks", target, hypervisor.ReasonHostKeyRefused)
	target.KnownHosts = []byte(knownhosts.Line([]string{"elsewhere"}, s.keys[ssh.KeyAlgoED25519]))
	wantReason(t, "the key of another host", target, hypervisor.ReasonHostKeyRefused)
	target.HostKeyFingerprint = ssh.FingerprintSHA256(s.keys[ssh.KeyAlgoED25519])
	target.KnownHosts = []byte("@revoked * " + string(ssh.MarshalAuthorizedKey(s.keys[ssh.KeyAlgoED25519])))
	wantReason(t, "a revoked key", target, hypervisor.ReasonHostKeyRefused)
	wantReason(t, "no promise at all", s.target(), hypervisor.ReasonHostKeyRefused)
}

func TestCredentialsThatCannotBeRead(t *testing.T) {
	key := edKey(t)
	s := newServer(t, key)
	good := s.target()
	good.HostKeyFingerprint = ssh.FingerprintSHA256(signer(t, key).PublicKey())
	for name, change := range map[string]func(*hypervisor.Target){
		"no key":                func(g *hypervisor.Target) { g.PrivateKey = nil },
		"no PEM":                func(g *hypervisor.Target) { g.PrivateKey = []byte("PRIVATE-STUFF") },
		"half a key":            func(g *hypervisor.Target) { g.PrivateKey = g.PrivateKey[:len(g.PrivateKey)/2] },
		"a key with a pass":     func(g *hypervisor.Target) { g.PrivateKey = pemOf(t, key, "PRIVATE-STUFF") },
		"an MD5 fingerprint":    func(g *hypervisor.Target) { g.HostKeyFingerprint = "MD5:00:11" },
		"half a fingerprint":    func(g *hypervisor.Target) { g.HostKeyFingerprint = g.HostKeyFingerprint[:20] },
		"no known hosts at all": func(g *hypervisor.Target) { g.KnownHosts = []byte("nonsense nonsense nonsense") },
	} {
		target := good
		change(&target)
		wantReason(t, name, target, hypervisor.ReasonInvalidCredentials)
		failure := reason(t, target)
		if strings.Contains(failure.Message, "PRIVATE") || failure.Err != nil && strings.Contains(failure.Err.Error(), "PRIVATE") {
			t.Errorf("%s: the error quotes the key: %v, %v", name, failure, failure.Err)
		}
	}
	stranger := good
	stranger.PrivateKey = pemOf(t, edKey(t), "")
	wantReason(t, "a stranger's key", stranger, hypervisor.ReasonLoginRefused)
}

func TestHostsThatDoNotAnswer(t *testing.T) {
	before := runtime.NumGoroutine()
	hold := make(chan struct{})
	t.Run("", func(t *testing.T) {
		key := edKey(t)
		for name, serve := range map[string]func(net.Conn){
			"silent":        func(net.Conn) { <-hold },
			"hangs up":      func(net.Conn) {},
			"is no sshd":    func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
			"stops halfway": func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-x\r\n")); <-hold },
		} {
			s := server{address: listen(t, serve), client: pemOf(t, key, "")}
			target := s.target()
			target.HostKeyFingerprint = ssh.FingerprintSHA256(signer(t, key).PublicKey())
			begin := clock.RealClock{}.Now()
			_, err := connect(t.Context(), target, Options{DialTimeout: 50 * time.Millisecond}.withDefaults(), clock.RealClock{})
			if !errors.Is(err, hypervisor.ErrUnreachable) {
				t.Errorf("a host that %s: got %v, want nobody there", name, err)
			}
			if took := (clock.RealClock{}).Since(begin); took > 5*time.Second {
				t.Errorf("a host that %s held us for %s", name, took)
			}
		}
		nobody := server{address: "127.0.0.1:1", client: pemOf(t, key, "")}.target()
		nobody.HostKeyFingerprint = ssh.FingerprintSHA256(signer(t, key).PublicKey())
		wantReason(t, "a closed port", nobody, hypervisor.ReasonUnreachable)
		wantReason(t, "a missing socket", hypervisor.Target{URI: "qemu+unix:///system?socket=/nowhere"}, hypervisor.ReasonSocketRefused)
	})
	close(hold)
	wantGoroutines(t, before)
}

// wantGoroutines waits for those that are just ending.
func wantGoroutines(t *testing.T, want int) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) { return runtime.NumGoroutine() <= want, nil })
	if err != nil {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%d goroutines more than before:\n%s", runtime.NumGoroutine()-want, stacks[:runtime.Stack(stacks, true)])
	}
}
