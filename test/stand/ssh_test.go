// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package stand_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/finos/caplv/test/stand"
	"github.com/finos/caplv/test/stand/sandbox"
)

func TestTheAccountReachesLibvirt(t *testing.T) {
	host := libvirtHost(t)
	client := login(t, host, address(t, host))
	for _, tc := range []struct {
		socket string
		driver libvirt.ConnectURI
		name   string
	}{
		{host.Socket, libvirt.QEMUSystem, sandbox.Hostname},
		{host.Socket, libvirt.TestDefault, sandbox.Hostname},
		{"/var/run/libvirt/libvirt-sock", libvirt.QEMUSystem, sandbox.Hostname},
	} {
		conn, err := client.Dial("unix", tc.socket)
		if err != nil {
			t.Fatalf("%s: %v", tc.socket, err)
		}
		api := libvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))
		if err := api.ConnectToURI(tc.driver); err != nil {
			t.Fatalf("%s by %s: %v", tc.driver, tc.socket, err)
		}
		if name, err := api.ConnectGetHostname(); err != nil || name != tc.name {
			t.Errorf("%s by %s calls its host %q (%v), want %q", tc.driver, tc.socket, name, err, tc.name)
		}
		if err := api.Disconnect(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheAccountReachesNothingElse(t *testing.T) {
	host := libvirtHost(t)
	sshd := address(t, host)
	client := login(t, host, sshd)
	for _, kind := range []string{"session", "x11", "auth-agent@openssh.com"} {
		_, _, err := client.OpenChannel(kind, nil)
		wantRefused(t, "a channel of kind "+kind, err)
	}
	tunnel := ssh.Marshal(struct{ Mode, Unit uint32 }{1, 0})
	_, _, err := client.OpenChannel("tun@openssh.com", tunnel)
	wantRefused(t, "a tunnel", err)

	for _, to := range []struct{ network, address string }{
		{"tcp", sshd}, // it listens, so that only a rule can refuse
		{"tcp", stand.BridgeAddress + ":53"},
		{"unix", "/run/libvirt/libvirt-sock-ro"},
		{"unix", "/run/libvirt/../libvirt/libvirt-sock"},
	} {
		_, err := client.Dial(to.network, to.address)
		wantRefused(t, to.network+" "+to.address, err)
	}
	for _, at := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"unix", "/tmp/caplv-listener"}} {
		if _, err := client.Listen(at.network, at.address); err == nil || !strings.Contains(err.Error(), "denied by peer") {
			t.Errorf("listening on the host's %s %s: got %v, want it denied", at.network, at.address, err)
		}
	}
	if _, err := client.Dial("unix", host.Socket); err != nil {
		t.Errorf("the refusals say nothing, the connection is broken: %v", err)
	}
}

// wantRefused tells a server that says no from a connection that broke.
func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
		t.Errorf("%s: got %v, want it refused", what, err)
	}
}

func TestNobodyElseLogsIn(t *testing.T) {
	host := libvirtHost(t)
	for name, change := range map[string]func(*ssh.ClientConfig){
		"root, with the account's key":    func(c *ssh.ClientConfig) { c.User = "root" },
		"the account, with no password":   func(c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.Password("")} },
		"the account, with its hash, '*'": func(c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.Password("*")} },
	} {
		config := clientConfig(t, host)
		change(config)
		client, err := ssh.Dial("tcp", address(t, host), config)
		if err == nil {
			t.Errorf("logged in as %s", name)
			_ = client.Close()
		} else if !strings.Contains(err.Error(), "unable to authenticate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheBridgeIsTheSameServer(t *testing.T) {
	host := libvirtHost(t)
	login(t, host, stand.BridgeAddress+":22") // as guests see it, and as users write it: qemu+ssh://caplv@192.168.122.1/system
}

func TestARestartOfSSHDCutsConnections(t *testing.T) {
	host := libvirtHost(t)
	client := login(t, host, address(t, host))
	cut := make(chan struct{})
	go func() {
		_ = client.Wait() // how it was cut does not matter
		close(cut)
	}()
	if err := host.Restart(t.Context(), stand.SSHD); err != nil {
		t.Fatal(err)
	}
	select {
	case <-cut:
	case <-time.After(5 * time.Second):
		t.Error("the connection outlived its server")
	}
	login(t, host, address(t, host))
}

func address(t *testing.T, host *stand.Libvirt) string {
	t.Helper()
	u, err := url.Parse(host.URI)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// login connects as the account. The host key must have the fingerprint and be a known host's, as a user would have it.
func login(t *testing.T, host *stand.Libvirt, address string) *ssh.Client {
	t.Helper()
	client, err := ssh.Dial("tcp", address, clientConfig(t, host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // it may have been cut
	return client
}

func clientConfig(t *testing.T, host *stand.Libvirt) *ssh.ClientConfig {
	t.Helper()
	key, err := ssh.ParsePrivateKey(host.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/known_hosts"
	if err := os.WriteFile(file, host.KnownHosts, 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := knownhosts.New(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, remote net.Addr, key ssh.PublicKey) error {
		if got := ssh.FingerprintSHA256(key); got != host.HostKeyFingerprint {
			t.Errorf("the host key is %s, want %s", got, host.HostKeyFingerprint)
		}
		return known(name, remote, key)
	}
	return &ssh.ClientConfig{User: "caplv", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: check, Timeout: 5 * time.Second}
}
