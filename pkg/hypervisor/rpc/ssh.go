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

// errHostKey ends a handshake with a host that showed a key that was not promised.
var errHostKey = errors.New("host key was not promised")

// logIn makes an SSH connection. A server that has keys of several types shows the one that we ask for first, so those
// types that led to another key are left out, until it has none left.
func (d dialer) logIn(ctx context.Context, e endpoint, l login) (*ssh.Client, net.Conn, error) {
	types := l.promise.algorithms()
	var seen []string
	for len(types) > 0 {
		client, tcp, shown, err := d.handshake(ctx, e, l, types)
		if err == nil {
			return client, tcp, nil
		}
		if errors.Is(err, errHostKey) {
			seen = append(seen, ssh.FingerprintSHA256(shown)+" ("+shown.Type()+")")
			types = slices.DeleteFunc(types, func(t string) bool { return t == shown.Type() })
			continue
		}
		if _, none := errors.AsType[*ssh.AlgorithmNegotiationError](err); none && strings.Contains(err.Error(), "host key") {
			break
		}
		return nil, nil, err
	}
	return nil, nil, hostKeyRefused(e, l.promise, seen)
}

func hostKeyRefused(e endpoint, p promise, seen []string) error {
	shown := "no key of such a type"
	if len(seen) > 0 {
		shown = strings.Join(seen, ", ")
	}
	return &hypervisor.ConnectError{
		Reason: hypervisor.ReasonHostKeyRefused,
		Message: fmt.Sprintf("The host key of %s was to be %s, but the host shows %s; compare with what ssh-keygen -lf prints on the "+
			"host, and correct the fingerprint or the known hosts only if the host is yours",
			normalize(e.address), strings.Join(p.fingerprints(), " or "), shown),
		Err: errHostKey,
	}
}

// handshake connects and logs in, asking for host keys of some types. It returns the key that the host showed, and leaves
// nothing open when it fails.
func (d dialer) handshake(ctx context.Context, e endpoint, l login, types []string) (
	client *ssh.Client, tcp net.Conn, shown ssh.PublicKey, err error,
) {
	tcp, err = (&net.Dialer{Timeout: d.options.DialTimeout}).DialContext(ctx, "tcp", e.address)
	if err != nil {
		return nil, nil, nil, unreachable(fmt.Sprintf(
			"Nothing answers at %s; check that the host is up, that its name is right, and that no firewall is in between", e.address), err)
	}
	trusted := false
	config := &ssh.ClientConfig{
		User:              e.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(l.signer)},
		HostKeyAlgorithms: signatures(types),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			shown = key
			if !l.promise.kept(key) {
				return errHostKey
			}
			trusted = true
			return nil
		},
	}
	done := d.deadline(tcp)
	conn, channels, requests, err := ssh.NewClientConn(tcp, e.address, config)
	if expired := done(); err == nil && !expired {
		return ssh.NewClient(conn, channels, requests), tcp, shown, nil
	}
	_ = tcp.Close() // the handshake may have closed it
	return nil, nil, shown, handshakeError(e, trusted, err)
}

// handshakeError says why there is no login. What the SSH library says may change with its version.
func handshakeError(e endpoint, trusted bool, err error) error {
	_, mismatch := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	switch {
	case errors.Is(err, errHostKey), mismatch && strings.Contains(err.Error(), "host key"):
		return err // for logIn
	case mismatch:
		return unreachable(fmt.Sprintf("The SSH server on %s offers no algorithm that we accept; update it", e.address), err)
	case trusted && err != nil && (strings.Contains(err.Error(), "unable to authenticate") || strings.Contains(err.Error(), "ssh: disconnect")):
		return &hypervisor.ConnectError{
			Reason: hypervisor.ReasonLoginRefused,
			Message: fmt.Sprintf("The SSH server on %s does not accept the key for account %s; add its public key to the account's "+
				"authorized_keys, and check that sshd lets the account in", e.address, e.user),
			Err: err,
		}
	default:
		return unreachable(fmt.Sprintf("No SSH server answers at %s, or it broke off; check sshd on the host", e.address), err)
	}
}
