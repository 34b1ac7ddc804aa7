// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// wrapThreshold is the size in bytes from which a config is wrapped. A guest reads it from QEMU in a time that grows with the
// square of its size (coreos/ignition#1259).
const wrapThreshold = 64 << 10

// level of compression: the best one saves 4 % more, and takes ten times as long.
const level = 6

var (
	errNotPlain = errors.New("it cannot be read")
	errNotGzip  = errors.New("it is said to be gzipped, and cannot be unpacked")
	errTooLarge = fmt.Errorf("it unpacks to more than %d MiB", maxUnpacked>>20)
)

// wrap puts a large config, compressed, into a small one that merges it. The guest sees no difference.
func wrap(text []byte, version string) ([]byte, error) {
	if len(text) <= wrapThreshold || version == "3.0.0" { // which knows no compression here
		return text, nil
	}
	packed, err := compress(text)
	if err != nil {
		return nil, err
	}
	wrapped := parent(version, resource(dataURL(packed), member{"compression", value("gzip")})).render()
	if len(wrapped) >= len(text) {
		return text, nil
	}
	return wrapped, nil
}

// parent is a config that does nothing but merge others.
func parent(version string, merge ...*node) *node {
	return value([]member{{"ignition", value([]member{
		{"version", value(version)},
		{"config", value([]member{{"merge", value(merge)}})},
	})}})
}

func resource(source string, more ...member) *node {
	return value(append([]member{{"source", value(source)}}, more...))
}

// unwrapped takes off configs of the kind that wrap makes: they do nothing but merge one other that stands in them.
func (l *layer) unwrapped() *layer {
	for len(l.children) == 1 && l.children[0].layer != nil && l.root.onlyKeys("ignition") &&
		l.root.get("ignition").onlyKeys("version", "config") &&
		l.root.get("ignition", "config").onlyKeys("merge") && l.children[0].layer.version == l.version {
		l = l.children[0].layer
	}
	return l
}

func compress(text []byte) ([]byte, error) {
	packed := bytes.NewBuffer(make([]byte, 0, len(text)/2))
	w, err := gzip.NewWriterLevel(packed, level)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return packed.Bytes(), err
}

func gunzip(text []byte, limit int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, errNotGzip
	}
	unpacked, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, errNotGzip
	case len(unpacked) > limit:
		return nil, errTooLarge
	}
	return unpacked, nil
}
