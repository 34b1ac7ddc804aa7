// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"encoding/base64"
	"errors"
)

// document is a shared config that is being worked on.
type document struct {
	*layer
	warnings []Finding
}

// read unpacks, recognizes and checks a shared config. Butane may embed files below dir.
func read(shared []byte, dir string) (*document, error) {
	text, err := unpack(shared)
	if err != nil {
		return nil, err
	}
	ignition, root, warnings, err := open(text, dir)
	if err != nil {
		return nil, err
	}
	if err := isIgnition(root); err != nil {
		return nil, err
	}
	r := &reader{left: maxUnpacked, translated: &ignition[0] != &text[0], warnings: warnings}
	outer, err := r.read(ignition, root, "", 0)
	if err != nil {
		return nil, err
	}
	d := &document{layer: outer.unwrapped(), warnings: r.warnings}
	if d.version == experimentalVersion {
		d.warn(Finding{
			Reason: ReasonExperimentalVersion, Path: "$.ignition.version", Line: d.line(d.root.get("ignition", "version")),
			Message: "only an image with this very Ignition can read it: use a stable version",
		})
	}
	return d, nil
}

func (d *document) warn(f Finding) { d.warnings = append(d.warnings, f) }

// unpack takes off gzip, a byte order mark and white space at the end. Lines stay where they are.
func unpack(text []byte) ([]byte, error) {
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		var err error
		if text, err = gunzip(text, maxUnpacked); err != nil {
			if errors.Is(err, errTooLarge) {
				return nil, tooLarge()
			}
			return nil, newError(Finding{Reason: ReasonInvalidIgnition, Message: "it begins like gzip, and cannot be unpacked"})
		}
		if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
			return nil, newError(Finding{Reason: ReasonDoubleEncoded, Message: "it is gzipped twice; once is enough"})
		}
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(text) > maxUnpacked {
		return nil, tooLarge()
	}
	return bytes.TrimRight(text, " \t\r\n"), nil
}

func tooLarge() error {
	return newError(Finding{Reason: ReasonTooLarge, Message: errTooLarge.Error()})
}

// open parses Ignition JSON, or what Butane translates to it, and says of other files what they are.
func open(text []byte, dir string) (ignition []byte, root *node, warnings []Finding, err error) {
	start := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case len(start) == 0:
		return nil, nil, nil, notIgnition("it is empty")
	case bytes.HasPrefix(start, []byte("{")):
		if root, err = parseTree(text); err != nil {
			return nil, nil, nil, err
		}
		if root.get("variant") == nil {
			return text, root, nil, nil
		}
	case isButane(text):
	case bytes.HasPrefix(start, []byte("#cloud-config")):
		return nil, nil, nil, notIgnition("it is a cloud-config; an Ignition config is needed")
	case bytes.HasPrefix(start, []byte("#!")):
		return nil, nil, nil, notIgnition("it is a script; an Ignition config is needed")
	case isEncoded(start):
		return nil, nil, nil, newError(Finding{
			Reason: ReasonDoubleEncoded, Message: "it is base64 of a config; put the config itself into the Secret",
		})
	case bytes.HasPrefix(start, []byte{0xff, 0xfe}) || bytes.HasPrefix(start, []byte{0xfe, 0xff}):
		return nil, nil, nil, notIgnition("it is UTF-16; save it as UTF-8")
	default:
		return nil, nil, nil, notIgnition("it is neither Ignition JSON nor Butane")
	}
	if ignition, warnings, err = translate(text, dir); err != nil {
		return nil, nil, nil, err
	}
	root, err = parseTree(ignition)
	return ignition, root, warnings, err
}

func notIgnition(message string) error {
	return newError(Finding{Reason: ReasonNotIgnition, Message: message})
}

// isIgnition looks at the keys at the top, in any case.
func isIgnition(root *node) error {
	found := false
	for _, m := range root.members {
		switch fold(m.key) {
		case "ignition":
			found = true
		case "kind":
			return notIgnition("it is a Kubernetes object; of a MachineConfig, spec.config is needed")
		}
	}
	if !found {
		return notIgnition("it has no object \"ignition\" with a version")
	}
	return nil
}

// isEncoded says whether the text is base64 of something that we would have recognized.
func isEncoded(text []byte) bool {
	plain, err := base64.StdEncoding.DecodeString(string(text))
	return err == nil && (bytes.HasPrefix(plain, []byte{0x1f, 0x8b}) || bytes.HasPrefix(bytes.TrimSpace(plain), []byte("{")) || isButane(plain))
}

// checkContents unpacks what is compressed, and compares what has a hash: a guest that finds it wrong never boots.
func (d *document) checkContents() error {
	left := maxUnpacked
	var err error
	d.visit(func(l *layer) {
		for i, f := range l.root.list("storage", "files") {
			if err == nil {
				err = l.checkFile(f, i, &left)
			}
		}
	})
	return err
}
