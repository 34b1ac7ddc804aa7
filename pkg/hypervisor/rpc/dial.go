// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"golang.org/x/crypto/ssh"
	"k8s.io/utils/clock"

	"github.com/finos/caplv/pkg/hypervisor"
)

// dialer makes connections.
type dialer struct {
	clock   clock.WithDelayedExecution
	options Options
}

// dial opens a connection. Every error is a [*hypervisor.ConnectError], and leaves nothing open.
func (d dialer) dial(ctx context.Context, target hypervisor.Target) (*host, error) {
	e, err := parseURI(target.URI)
	if err != nil {
		return nil, err
	}
	if e.ssh() {
		login, err := newLogin(e, target)
		if err != nil {
			return nil, err
		}
		return d.dialSSH(ctx, e, login)
	}
	return d.dialSocket(ctx, e)
}

// deadline closes a connection when the whole dial takes too long. That ends whatever waits for it.
func (d dialer) deadline(conn net.Conn) (done func() (expired bool)) {
	var expired atomic.Bool
	timer := d.clock.AfterFunc(d.options.DialTimeout, func() {
		expired.Store(true)
		_ = conn.Close() // it may have been closed by then
	})
	return func() bool {
		timer.Stop()
		return expired.Load()
	}
}

func (d dialer) dialSSH(ctx context.Context, e endpoint, l login) (*host, error) {
	client, tcp, err := d.logIn(ctx, e, l)
	if err != nil {
		return nil, err
	}
	done := d.deadline(tcp)
	h, err := d.open(e, client, tcp)
	expired := done()
	if err == nil && !expired {
		go h.keepAlive(client)
		return h, nil
	}
	_ = tcp.Close() // frees all that the client has
	if err == nil || expired && !answered(err) {
		return nil, unreachable(fmt.Sprintf("SSH on %s works, but libvirt does not answer; restart it on the host", e.address), err)
	}
	return nil, err
}

// open goes through an SSH connection to libvirt.
func (d dialer) open(e endpoint, client *ssh.Client, tcp net.Conn) (*host, error) {
	conn, err := forward(client, e)
	if err != nil {
		return nil, err
	}
	return d.openLibvirt(e, conn, tcp)
}

// forward opens a channel to the first of libvirt's sockets that is there.
func forward(client *ssh.Client, e endpoint) (net.Conn, error) {
	var refusal error
	for _, socket := range e.sockets {
		conn, err := client.Dial("unix", socket)
		if err == nil {
			return conn, nil
		}
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
			return nil, unreachable(fmt.Sprintf("The connection to %s broke", e.address), err)
		}
		refusal = err
	}
	return nil, &hypervisor.ConnectError{
		Reason: hypervisor.ReasonSocketRefused,
		Message: fmt.Sprintf("The SSH server on %s does not forward to %s; check that libvirt runs there, that %s is in the group "+
			"of the socket (libvirt), and that sshd_config has AllowStreamLocalForwarding and AllowTcpForwarding set to yes or local, "+
			"and no PermitOpen or restrict that forbids it", e.address, strings.Join(e.sockets, " or "), e.user),
		Err: refusal,
	}
}

func (d dialer) dialSocket(ctx context.Context, e endpoint) (*host, error) {
	var causes []error
	for _, socket := range e.sockets {
		conn, err := (&net.Dialer{Timeout: d.options.DialTimeout}).DialContext(ctx, "unix", socket)
		if err != nil {
			causes = append(causes, err)
			continue
		}
		done := d.deadline(conn)
		h, err := d.openLibvirt(e, conn, conn)
		expired := done()
		if err == nil && !expired {
			return h, nil
		}
		_ = conn.Close() // go-libvirt may have closed it
		if err == nil || expired && !answered(err) {
			return nil, unreachable(fmt.Sprintf("Libvirt does not answer on %s; restart it", socket), err)
		}
		return nil, err
	}
	return nil, &hypervisor.ConnectError{
		Reason: hypervisor.ReasonSocketRefused,
		Message: fmt.Sprintf("Nothing listens on %s, or we may not connect to it; check that libvirt runs, and our membership of its group",
			strings.Join(e.sockets, " or ")),
		Err: errors.Join(causes...),
	}
}

// openLibvirt opens the driver. Closing transport ends everything about the connection.
func (d dialer) openLibvirt(e endpoint, conn, transport net.Conn) (*host, error) {
	h := newHost(d, transport)
	h.api = libvirt.NewWithDialer(dialers.NewAlreadyConnected(&watchedConn{Conn: conn, lost: h.lose}))
	err := h.api.ConnectToURI(e.driver)
	if err == nil {
		return h, nil
	}
	h.lose(err)
	if !answered(err) {
		return nil, unreachable(fmt.Sprintf("Libvirt closed the connection (%s); look at its log on the host", e.driver), err)
	}
	return nil, &hypervisor.ConnectError{
		Reason: hypervisor.ReasonLibvirtRefused,
		Message: fmt.Sprintf("Libvirt answers, but does not open %s; check that its driver is installed, and that libvirtd.conf has "+
			"auth_unix_rw set to none or polkit lets the account in", e.driver),
		Err: err,
	}
}

// login is what it takes to be let in.
type login struct {
	signer  ssh.Signer
	promise promise
}

// newLogin reads a target's credentials. Errors do not quote them.
func newLogin(e endpoint, target hypervisor.Target) (login, error) {
	signer, err := ssh.ParsePrivateKey(target.PrivateKey)
	if err != nil {
		message := "The private key cannot be read; give one in PEM, as ssh-keygen writes it"
		if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
			message = "The private key has a passphrase; give one without"
		}
		return login{}, &hypervisor.ConnectError{
			Reason: hypervisor.ReasonInvalidCredentials, Message: message, Err: errors.New("parsing the private key"),
		}
	}
	p := promise{fingerprint: strings.TrimSpace(target.HostKeyFingerprint)}
	if p.fingerprint != "" && !strings.HasPrefix(p.fingerprint, "SHA256:") {
		return login{}, &hypervisor.ConnectError{
			Reason:  hypervisor.ReasonInvalidCredentials,
			Message: "The host key's fingerprint must read SHA256:…, as ssh-keygen -l prints it",
		}
	}
	known, err := parseKnownHosts(target.KnownHosts)
	if err != nil {
		return login{}, &hypervisor.ConnectError{
			Reason: hypervisor.ReasonInvalidCredentials, Message: "The known hosts cannot be read: write lines as ssh-keyscan prints them", Err: err,
		}
	}
	p.known = slices.DeleteFunc(known, func(k knownHost) bool { return !k.matches(e.address) })
	if len(p.fingerprints()) == 0 {
		return login{}, &hypervisor.ConnectError{
			Reason: hypervisor.ReasonHostKeyRefused,
			Message: fmt.Sprintf("No host key is promised for %s; give its fingerprint, which ssh-keygen -lf "+
				"/etc/ssh/ssh_host_ed25519_key.pub prints on the host, or a line about it in the known hosts", normalize(e.address)),
		}
	}
	return login{signer: signer, promise: p}, nil
}
