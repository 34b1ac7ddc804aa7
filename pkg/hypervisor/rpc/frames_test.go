// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

// stream is a connection that only reads.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func packet(length uint32, payload int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, length), make([]byte, payload)...)
}

func TestWholePacketsPass(t *testing.T) {
	sent := bytes.Join([][]byte{packet(28, 24), packet(1000, 996), packet(29, 25)}, nil)
	for name, reader := range map[string]io.Reader{
		"at once":      bytes.NewReader(sent),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(sent)),
		"in halves":    iotest.HalfReader(bytes.NewReader(sent)),
	} {
		var end error
		got, err := io.ReadAll(&frames{Conn: stream{Reader: reader}, end: func(err error) { end = err }})
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%s: got %d bytes and %v, want all %d", name, len(got), err, len(sent))
		}
		if end == nil {
			t.Errorf("%s: the end was not noticed", name)
		}
	}
}

func TestImpossiblePacketsEndTheConnection(t *testing.T) {
	for _, length := range []uint32{0, 4, 27, 32<<20 + 5, 1 << 31, 1<<32 - 1} {
		var end error
		sent := append(packet(28, 24), packet(length, 100)...)
		f := &frames{Conn: stream{Reader: iotest.OneByteReader(bytes.NewReader(sent))}, end: func(err error) { end = err }}
		if got, err := io.ReadAll(f); err == nil || end == nil || len(got) > 28+4 {
			t.Errorf("a packet of %d bytes passed: %d bytes read, %v", length, len(got), err)
		}
	}
}
