// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"encoding/binary"
	"fmt"
	"net"
)

const (
	lengthSize = 4
	headerSize = 28 // VIR_NET_MESSAGE_LEN_MAX and the header that follows, in libvirt's virnetprotocol.x
	maxMessage = 32<<20 + lengthSize
)

// watchedConn tells when nothing more comes from a connection, and lets no message pass whose length go-libvirt would
// panic on or take gigabytes for.
type watchedConn struct {
	net.Conn
	lost func(error)

	length  []byte // of the next message, as far as it was read
	pending int    // bytes of the current message that are still to come
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if checked := c.check(p[:n]); checked != nil {
		c.lost(checked)
		return 0, checked
	}
	if err != nil {
		c.lost(err)
	}
	return n, err
}

func (c *watchedConn) check(p []byte) error {
	for len(p) > 0 {
		if c.pending > 0 {
			n := min(c.pending, len(p))
			c.pending -= n
			p = p[n:]
			continue
		}
		n := min(lengthSize-len(c.length), len(p))
		c.length = append(c.length, p[:n]...)
		p = p[n:]
		if len(c.length) < lengthSize {
			return nil
		}
		size := binary.BigEndian.Uint32(c.length)
		if size < headerSize || size > maxMessage {
			return fmt.Errorf("a message of %d bytes: that is not libvirt", size)
		}
		c.pending, c.length = int(size)-lengthSize, c.length[:0]
	}
	return nil
}
