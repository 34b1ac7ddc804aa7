// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

const (
	// A packet is its own length and a header, 28 bytes, and up to VIR_NET_MESSAGE_MAX in all (libvirt's virnetprotocol.x).
	minFrame = 28
	maxFrame = 32<<20 + 4
)

// frames lets through whole libvirt packets of possible lengths. go-libvirt panics at a length that is too small, and
// allocates whatever is asked for: a host that lies must not take us down. It also notices the end of the connection.
type frames struct {
	net.Conn
	end    func(reason error)
	length [4]byte // of the next packet, as far as it was read
	have   int
	left   uint32 // of the packet that is being read
}

func (f *frames) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if wrong := f.follow(p[:n]); wrong != nil {
		n, err = 0, wrong
	}
	if err != nil {
		f.end(err)
	}
	return n, err
}

// follow keeps track of where packets begin.
func (f *frames) follow(p []byte) error {
	for len(p) > 0 {
		if f.left > 0 {
			skip := min(len(p), int(f.left))
			f.left -= uint32(skip) //nolint:gosec // G115: at most left
			p = p[skip:]
			continue
		}
		taken := copy(f.length[f.have:], p)
		f.have += taken
		p = p[taken:]
		if f.have < len(f.length) {
			return nil
		}
		length := binary.BigEndian.Uint32(f.length[:])
		if length < minFrame || length > maxFrame {
			return fmt.Errorf("the peer does not speak libvirt's protocol: a packet of %d bytes", length)
		}
		f.have, f.left = 0, length-uint32(len(f.length))
	}
	return nil
}

func (f *frames) Write(p []byte) (int, error) {
	n, err := f.Conn.Write(p)
	if err != nil {
		f.end(err)
	}
	return n, err
}

func (f *frames) Close() error {
	f.end(io.ErrClosedPipe)
	return f.Conn.Close()
}
