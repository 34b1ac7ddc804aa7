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

	"golang.org/x/crypto/ssh"

	"github.com/finos/caplv/pkg/hypervisor"
)

// line is an open way to libvirt's socket.
type line struct {
	net.Conn
	client *ssh.Client // nil on this machine
	cut    func()      // closes all of it at once, without a word to the peer, which may be silent
}

func dialLocal(ctx context.Context, e endpoint) (line, error) {
	var causes []error
	for _, socket := range e.sockets {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil {
			return line{Conn: c, cut: func() { _ = c.Close() }}, nil // it may be closed already
		}
		causes = append(causes, err)
	}
	return line{}, &hypervisor.ConnectError{
		Reason: hypervisor.ReasonSocketRefused,
		Message: fmt.Sprintf("Nothing listens on %s, or we may not connect to it; check that libvirtd runs, and that we are in its "+
			"socket's group", e),
		Err: errors.Join(causes...),
	}
}

// dialSSH logs in and goes on to libvirt's socket. Every error leaves nothing open.
func dialSSH(ctx context.Context, e endpoint, target hypervisor.Target) (line, error) {
	signer, err := parseKey(target.PrivateKey)
	if err != nil {
		return line{}, err
	}
	keys, err := newHostKeys(target, e.address)
	if err != nil {
		return line{}, err
	}
	client, tcp, err := logIn(ctx, e, signer, keys)
	if err != nil {
		return line{}, err
	}
	defer context.AfterFunc(ctx, tcp.cut)()
	c, err := forward(client, e)
	if err != nil {
		tcp.cut()
		return line{}, err
	}
	return line{Conn: c, client: client, cut: tcp.cut}, nil
}

func parseKey(pem []byte) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(pem)
	if err == nil {
		return signer, nil
	}
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, invalidCredentials("The private key has a passphrase; give one without", nil)
	}
	// The parser's words stay here: some of them quote what they read.
	return nil, invalidCredentials("The private key cannot be read; give one in PEM, as ssh-keygen writes it", nil)
}

func invalidCredentials(message string, cause error) error {
	return &hypervisor.ConnectError{Reason: hypervisor.ReasonInvalidCredentials, Message: message, Err: cause}
}

// logIn makes an SSH connection. A server with keys of several types shows the one that we ask for first. As long as that is
// another key than was promised, we ask again without its type: the promise may be about one of the others.
func logIn(ctx context.Context, e endpoint, signer ssh.Signer, keys hostKeys) (*ssh.Client, tcpLine, error) {
	algorithms := keys.algorithms()
	var shown []string
	for len(algorithms) > 0 {
		client, tcp, err := handshake(ctx, e, signer, keys, algorithms)
		if err == nil {
			return client, tcp, nil
		}
		other, refused := errors.AsType[*otherKeyError](err)
		if !refused {
			if noSuchKey(err) {
				break
			}
			return nil, tcpLine{}, err
		}
		shown = append(shown, other.fingerprint+" ("+other.kind+")")
		algorithms = slices.DeleteFunc(algorithms, func(a string) bool { return keyType(a) == other.kind })
	}
	if len(shown) == 0 {
		shown = []string{"no key of that type"}
	}
	return nil, tcpLine{}, &hypervisor.ConnectError{
		Reason: hypervisor.ReasonHostKeyRefused,
		Message: fmt.Sprintf("The host key of %s should be %s, but it shows %s. Compare on the host itself (ssh-keygen -lf "+
			"/etc/ssh/ssh_host_ed25519_key.pub) before you change what is expected", e, keys.promised(), strings.Join(shown, ", ")),
		Err: errors.New("host key was not promised"),
	}
}

// tcpLine is a TCP connection that can be cut more than once.
type tcpLine struct{ net.Conn }

func (t tcpLine) cut() { _ = t.Close() } // it may be closed already

// handshake connects and logs in, asking for a host key of one of the algorithms.
func handshake(ctx context.Context, e endpoint, signer ssh.Signer, keys hostKeys, algorithms []string) (*ssh.Client, tcpLine, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.address)
	if err != nil {
		return nil, tcpLine{}, unreachable(fmt.Sprintf(
			"Nothing answers at %s; check that the host is up, that its name is right, and that no firewall is in between", e), err)
	}
	tcp, trusted := tcpLine{conn}, false
	// ssh.ClientConfig.Timeout is about TCP alone, and a peer may fall silent later.
	defer context.AfterFunc(ctx, tcp.cut)()
	c, channels, requests, err := ssh.NewClientConn(tcp, e.address, &ssh.ClientConfig{
		User:              e.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			err := keys.check(key)
			trusted = err == nil
			return err
		},
	})
	if err == nil {
		return ssh.NewClient(c, channels, requests), tcp, nil
	}
	tcp.cut()
	return nil, tcpLine{}, handshakeError(e, trusted, err)
}

// handshakeError says why there is no login.
func handshakeError(e endpoint, trusted bool, err error) error {
	_, incompatible := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	_, otherKey := errors.AsType[*otherKeyError](err)
	switch {
	case otherKey, noSuchKey(err):
		return err // for logIn
	case incompatible:
		return unreachable(fmt.Sprintf("The SSH server at %s has no algorithm that we accept; update it", e), err)
	case trusted && saysNo(err):
		return &hypervisor.ConnectError{
			Reason: hypervisor.ReasonLoginRefused,
			Message: fmt.Sprintf("The SSH server at %s does not let %s in with this key; add its public key to the account's "+
				"authorized_keys, and check that sshd_config allows the account", e, e.user),
			Err: err,
		}
	default:
		return unreachable(fmt.Sprintf("No SSH server answers at %s, or it broke off; check sshd there", e), err)
	}
}

// saysNo tells a server that refused the login from one that broke off. The library has no type for either.
func saysNo(err error) bool {
	return strings.Contains(err.Error(), "unable to authenticate") || strings.Contains(err.Error(), "ssh: disconnect, reason")
}

// noSuchKey says that the server has no host key of the algorithms that we asked for.
func noSuchKey(err error) bool {
	negotiation, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	return ok && strings.Contains(negotiation.What, "host key")
}

// forward opens a channel to the first of libvirt's sockets that is there.
func forward(client *ssh.Client, e endpoint) (net.Conn, error) {
	var refusal error
	for _, socket := range e.sockets {
		c, err := client.Dial("unix", socket)
		if err == nil {
			return c, nil
		}
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
			return nil, unreachable(fmt.Sprintf("The SSH server at %s fell silent, or broke off; check sshd there", e), err)
		}
		refusal = err
	}
	return nil, &hypervisor.ConnectError{
		Reason: hypervisor.ReasonSocketRefused,
		Message: fmt.Sprintf("The SSH server at %s does not forward to %s. Check that libvirtd runs; that %s is in the group libvirt; "+
			"that sshd_config has AllowStreamLocalForwarding and AllowTcpForwarding at yes or local and no PermitOpen or "+
			"DisableForwarding against it; and that authorized_keys has no restrict without port-forwarding",
			e, strings.Join(e.sockets, " or "), e.user),
		Err: refusal, // it reads the same for all of these causes
	}
}
