// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"compress/gzip"

	"github.com/vincent-petithory/dataurl"
)

// wrapThreshold is the size in bytes from which a config is wrapped. A guest reads it from QEMU in a time that grows with the
// square of its size (coreos/ignition#1259): 1.2 MiB take half a minute where the processor is emulated.
const wrapThreshold = 256 << 10

// wrap puts a large config, compressed, into a small one that merges it. The guest sees no difference.
func wrap(text []byte, version string) ([]byte, error) {
	if len(text) <= wrapThreshold || version == "3.0.0" { // which knows no compression here
		return text, nil
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	wrapped, err := render(map[string]any{"ignition": map[string]any{
		"version": version,
		"config": map[string]any{"merge": []any{
			map[string]any{"source": dataURL(packed.Bytes()), "compression": "gzip"},
		}},
	}})
	if err != nil || len(wrapped) >= len(text) {
		return text, err
	}
	return wrapped, nil
}

// unwrap returns the config inside a wrapper: a config that does nothing but merge one other that stands in it.
func unwrap(tree map[string]any) (inner []byte, ok bool) {
	ignition := object(tree, "ignition")
	config := object(ignition, "config")
	merge := list(config, "merge")
	if len(merge) != 1 || !onlyKeys(tree, "ignition") || !onlyKeys(ignition, "version", "config") || !onlyKeys(config, "merge") {
		return nil, false
	}
	entry, _ := merge[0].(map[string]any)
	if !onlyKeys(entry, "source", "compression") {
		return nil, false
	}
	url, err := dataurl.DecodeString(text(entry, "source"))
	if err != nil {
		return nil, false
	}
	if text(entry, "compression") != "gzip" {
		return url.Data, true
	}
	inner, err = gunzip(url.Data)
	return inner, err == nil
}

// onlyKeys says whether an object says nothing but what stands under these keys.
func onlyKeys(o map[string]any, keys ...string) bool {
	for key, value := range o {
		known := false
		for _, k := range keys {
			known = known || k == key
		}
		if nothing, isObject := value.(map[string]any); !known && (!isObject || len(nothing) > 0) {
			return false
		}
	}
	return true
}
