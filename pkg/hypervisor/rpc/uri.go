// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/digitalocean/go-libvirt"

	"github.com/finos/caplv/pkg/hypervisor"
)

const allowedURIs = "write qemu+ssh://USER@HOST[:PORT]/system, qemu+ssh://USER@HOST[:PORT]/session?socket=/PATH, " +
	"qemu+unix:///system or test+unix:///default"

// endpoint is what a URI says.
type endpoint struct {
	// user and address (host:port) are those of SSH, empty for a socket on this machine.
	user, address string
	// sockets are where libvirt may listen, the likeliest first.
	sockets []string
	driver  libvirt.ConnectURI
}

func (e endpoint) overSSH() bool { return e.address != "" }

// String names the place in messages.
func (e endpoint) String() string {
	if e.overSSH() {
		return e.address
	}
	return strings.Join(e.sockets, " or ")
}

// parseURI reads a URI as libvirt writes it. Other transports, parameters and passwords are refused.
func parseURI(uri string) (endpoint, error) {
	u, err := url.Parse(uri)
	if err != nil { // its text quotes the URI, which may hold a password
		return endpoint{}, invalidURI("The URI cannot be read", errors.New("malformed URI"))
	}
	socket, err := socketOf(u)
	if err != nil {
		return endpoint{}, err
	}
	var e endpoint
	switch u.Scheme + ":" + u.Path {
	case "qemu+ssh:/system", "qemu+unix:/system":
		e.driver = libvirt.QEMUSystem
	case "qemu+ssh:/session", "qemu+unix:/session":
		e.driver = libvirt.QEMUSession
		if socket == "" {
			return endpoint{}, invalidURI("A session daemon's socket is in its user's folder; add ?socket=/run/user/UID/libvirt/libvirt-sock", nil)
		}
	case "test+unix:/default":
		e.driver = libvirt.TestDefault
	default:
		return endpoint{}, invalidURI(fmt.Sprintf("Scheme %q with path %q is not supported", u.Scheme, u.Path), nil)
	}
	// A host with modular daemons may lack the socket of the one daemon for everything; QEMU's own does as well.
	e.sockets = []string{"/var/run/libvirt/libvirt-sock", "/var/run/libvirt/virtqemud-sock"}
	if socket != "" {
		e.sockets = []string{socket}
	}
	if !strings.HasSuffix(u.Scheme, "+ssh") {
		if u.Host != "" || u.User != nil {
			return endpoint{}, invalidURI("A socket on this machine has no user and no host", nil)
		}
		return e, nil
	}
	e.user, e.address, err = account(u)
	return e, err
}

// socketOf reads the one parameter that we know, and refuses what a URI has besides.
func socketOf(u *url.URL) (string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" || u.Opaque != "" {
		return "", invalidURI("The URI cannot be read", errors.New("malformed query, or a fragment"))
	}
	for name, values := range query {
		if name != "socket" || len(values) != 1 {
			return "", invalidURI(fmt.Sprintf("Parameter %q is not supported, or is given twice", name), nil)
		}
	}
	socket := query.Get("socket")
	if query.Has("socket") && (!path.IsAbs(socket) || path.Clean(socket) != socket) {
		return "", invalidURI("Parameter socket is no absolute path", nil)
	}
	return socket, nil
}

func account(u *url.URL) (user, address string, err error) {
	if _, has := u.User.Password(); has {
		return "", "", invalidURI("The URI has a password; take it out, we log in with a key", nil)
	}
	if u.User.Username() == "" {
		return "", "", invalidURI("The URI does not name the account to log in as", nil)
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = "22"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 || host == "" {
		return "", "", invalidURI("The URI has no host, or a port that is none", nil)
	}
	return u.User.Username(), net.JoinHostPort(host, port), nil
}

func invalidURI(what string, cause error) error {
	return &hypervisor.ConnectError{Reason: hypervisor.ReasonInvalidURI, Message: what + "; " + allowedURIs, Err: cause}
}
