// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"regexp"
)

const (
	// maxUnpacked bounds what a compressed config may unpack to. Secrets hold 1 MiB, and rendered configs a few.
	maxUnpacked = 8 << 20

	// maxWrappers is how many wrappers around a config are taken off.
	maxWrappers = 4
)

// document is a config that is being worked on.
type document struct {
	version  string
	tree     map[string]any
	warnings []Warning
}

// read unpacks, recognizes and checks a shared config.
func read(shared []byte) (*document, error) {
	text, err := unpack(shared)
	if err != nil {
		return nil, err
	}
	var warnings []Warning
	if isButane(text) {
		if text, warnings, err = translate(text); err != nil {
			return nil, err
		}
	}
	if err := recognize(text); err != nil {
		return nil, err
	}
	d, err := open(text)
	if err != nil {
		return nil, err
	}
	d.warnings = append(warnings, d.warnings...)
	if object(d.tree, "ignition", "config", "replace")["source"] != nil {
		return nil, &Error{
			Reason: ReasonReplacesConfig, Path: "$.ignition.config.replace",
			Message: "it would replace all that is added here; use ignition.config.merge instead",
		}
	}
	return d, nil
}

// open parses a config, and takes off wrappers of our own kind.
func open(text []byte) (*document, error) {
	var d *document
	for range maxWrappers {
		canonical, warnings, err := parse(text, ReasonInvalidIgnition)
		if err != nil {
			return nil, err
		}
		d = &document{warnings: warnings}
		decoder := json.NewDecoder(bytes.NewReader(canonical))
		decoder.UseNumber()
		if err := decoder.Decode(&d.tree); err != nil {
			return nil, err
		}
		d.version, _ = object(d.tree, "ignition")["version"].(string)
		inner, ok := unwrap(d.tree)
		if !ok {
			return d, nil
		}
		text = inner
	}
	return d, nil
}

// unpack takes off gzip and a byte order mark.
func unpack(text []byte) ([]byte, error) {
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		var err error
		if text, err = gunzip(text); err != nil {
			return nil, err
		}
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(text) > maxUnpacked {
		return nil, tooLarge()
	}
	return bytes.TrimSpace(text), nil
}

func gunzip(text []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, &Error{Reason: ReasonInvalidIgnition, Message: "it is gzipped, and cannot be unpacked"}
	}
	unpacked, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err != nil {
		return nil, &Error{Reason: ReasonInvalidIgnition, Message: "it is gzipped, and cannot be unpacked"}
	}
	if len(unpacked) > maxUnpacked {
		return nil, tooLarge()
	}
	return unpacked, nil
}

func tooLarge() error {
	return &Error{Reason: ReasonTooLarge, Message: "it unpacks to more than 8 MiB"}
}

// recognize says what a file is that is not Ignition JSON.
func recognize(text []byte) error {
	switch {
	case len(text) == 0:
		return &Error{Reason: ReasonNotIgnition, Message: "it is empty"}
	case bytes.HasPrefix(text, []byte("#cloud-config")):
		return &Error{Reason: ReasonNotIgnition, Message: "it is a cloud-config; an Ignition config is needed"}
	case bytes.HasPrefix(text, []byte("#!")):
		return &Error{Reason: ReasonNotIgnition, Message: "it is a script; an Ignition config is needed"}
	case encoded(text):
		return &Error{Reason: ReasonDoubleEncoded, Message: "it is base64 of a config; put the config itself into the Secret"}
	case text[0] != '{':
		return &Error{Reason: ReasonNotIgnition, Message: "it is neither Ignition JSON nor Butane"}
	}
	var head struct {
		Kind     string
		Ignition json.RawMessage
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(text, &head); errors.As(err, &syntax) {
		return &Error{Reason: ReasonInvalidJSON, Message: "it is not valid JSON; the error is at " + position(text, syntax.Offset)}
	}
	if head.Kind != "" {
		return &Error{Reason: ReasonNotIgnition, Message: "it is a Kubernetes object; of a MachineConfig, spec.config is needed"}
	}
	if head.Ignition == nil {
		return &Error{Reason: ReasonNotIgnition, Message: "it has no object \"ignition\" with a version"}
	}
	return nil
}

// encoded says whether the text is base64 of something that we would have recognized.
func encoded(text []byte) bool {
	plain, err := base64.StdEncoding.DecodeString(string(text))
	return err == nil && (bytes.HasPrefix(plain, []byte{0x1f, 0x8b}) || bytes.HasPrefix(bytes.TrimSpace(plain), []byte("{")))
}

// isButane looks for the key that every Butane config has at its top.
func isButane(text []byte) bool {
	if !bytes.HasPrefix(text, []byte("{")) {
		return regexp.MustCompile(`(?m)^["']?variant["']?\s*:`).Match(text)
	}
	var head struct{ Variant string }
	return json.Unmarshal(text, &head) == nil && head.Variant != ""
}
