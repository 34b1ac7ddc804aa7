// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// maxDepth is how deep configs may stand in data URLs of each other.
	maxDepth = 8

	// maxLayers is how many configs may stand in one.
	maxLayers = 256

	// maxUnpacked bounds in bytes what all configs that stand in one another may unpack to. Secrets hold 1 MiB, and rendered
	// configs a few.
	maxUnpacked = 8 << 20
)

// layer is a config, with the configs that it merges. A guest's Ignition takes them in this order: the config, then its children,
// each over what was there.
type layer struct {
	root     *node
	text     []byte // that root was read from; nil when it is not the user's own
	path     string // of this config in the user's document; empty for the document itself
	version  string
	children []child
	replaced bool // by a config that has to be fetched: nothing of this one stays
	changed  bool
}

// child is a config that another one merges.
type child struct {
	entry *node  // of ignition.config.merge
	layer *layer // nil when it has to be fetched
}

// reader reads a config and all that stand in it.
type reader struct {
	left       int  // bytes that may still be unpacked
	layers     int  // that were read
	translated bool // from Butane
	warnings   []Finding
}

func (r *reader) read(text []byte, root *node, path string, depth int) (*layer, error) {
	checked, version, warnings, err := parse(text, root, ReasonInvalidIgnition)
	if err != nil {
		return nil, within(path, err)
	}
	l := &layer{root: checked, path: path, version: version}
	if checked == root && !r.translated {
		l.text = text
	}
	for _, w := range warnings {
		r.warnings = append(r.warnings, l.inside(w))
	}
	if replace := checked.get("ignition", "config", "replace"); replace.get("source") != nil && replace.get("source").kind == '"' {
		inner, err := r.resource(l, replace, "$.ignition.config.replace", depth)
		if err != nil || inner != nil {
			return inner, err
		}
		l.replaced = true
		return l, nil
	}
	for i, entry := range checked.list("ignition", "config", "merge") {
		inner, err := r.resource(l, entry, fmt.Sprintf("$.ignition.config.merge.%d", i), depth)
		if err != nil {
			return nil, err
		}
		l.children = append(l.children, child{entry, inner})
	}
	return l, nil
}

// resource reads the config that stands in a data URL, or gives nil when the guest has to fetch it.
func (r *reader) resource(l *layer, entry *node, path string, depth int) (*layer, error) {
	if !strings.HasPrefix(entry.text("source"), "data:") {
		return nil, nil //nolint:nilnil // it stands elsewhere, which is no error
	}
	if r.layers++; depth >= maxDepth || r.layers >= maxLayers {
		return nil, newError(Finding{Reason: ReasonTooLarge, Path: path, Message: "too many configs stand in one another, or too deeply"})
	}
	text, err := contents(entry, r.left)
	if err != nil {
		return nil, newError(l.inside(Finding{Reason: ReasonInvalidContents, Path: path, Line: l.line(entry), Message: err.Error()}))
	}
	r.left -= len(text)
	root, err := parseTree(text)
	if err != nil {
		return nil, within(l.inside(Finding{Path: path}).Path, err)
	}
	return r.read(text, root, l.inside(Finding{Path: path}).Path, depth+1)
}

// inside completes a finding that was made in this layer: its line is one of the user's document only in the outermost.
func (l *layer) inside(f Finding) Finding {
	if l.path != "" {
		f.Path, f.Line = strings.TrimSuffix(l.path+" > "+f.Path, " > "), 0
	}
	return f
}

// within completes errors that were made inside a config.
func within(path string, err error) error {
	e, ok := err.(*Error) //nolint:errorlint // our own, as it was made
	if !ok || path == "" {
		return err
	}
	var findings []Finding
	for _, f := range e.Findings() {
		findings = append(findings, (&layer{path: path}).inside(f))
	}
	return newError(findings...)
}

// line of a value, or of the first value in it. Zero: unknown.
func (l *layer) line(n *node) int {
	for n != nil && n.offset == 0 && len(n.members) > 0 {
		n = n.members[0].value
	}
	if n == nil || n.offset == 0 || l.text == nil {
		return 0
	}
	return lineOf(l.text, n.offset)
}

// visit calls f for this layer and all that stand in it, in the order in which they are merged. Of a config that another one
// replaces nothing counts.
func (l *layer) visit(f func(*layer)) {
	if l.replaced {
		return
	}
	f(l)
	for _, c := range l.children {
		if c.layer != nil {
			c.layer.visit(f)
		}
	}
}

// isOpaque says whether a guest fetches some of the config.
func (l *layer) isOpaque() bool {
	opaque := l.replaced
	for _, c := range l.children {
		opaque = opaque || c.layer == nil || c.layer.isOpaque()
	}
	return opaque
}

// write puts what was changed in the layers within back into this one's data URLs. A layer in which nothing is left is left out.
func (l *layer) write() error {
	var entries []*node
	for _, c := range l.children {
		if c.layer != nil {
			if err := c.layer.write(); err != nil {
				return err
			}
			if c.layer.changed {
				l.changed = true
				if c.layer.root.onlyKeys("ignition") && c.layer.root.get("ignition").onlyKeys("version") {
					continue
				}
				if err := c.fill(); err != nil {
					return err
				}
			}
		}
		entries = append(entries, c.entry)
	}
	if l.changed && len(l.children) > 0 {
		l.setMerge(entries)
	}
	return nil
}

func (l *layer) setMerge(entries []*node) {
	config := l.root.object("ignition").object("config")
	config.set("merge", value(entries))
	l.root.object("ignition").set("config", config)
}

// fill puts the child's config into the entry that it was read from, in the same way.
func (c child) fill() error {
	text := c.layer.root.render()
	if hash := c.entry.text("verification", "hash"); hash != "" {
		function, _, _ := strings.Cut(hash, "-")
		c.entry.object("verification").set("hash", value(function+"-"+sum(function, text)))
	}
	if c.entry.text("compression") == "gzip" {
		var err error
		if text, err = compress(text); err != nil {
			return err
		}
	}
	c.entry.set("source", value(dataURL(text)))
	return nil
}

// contents returns what stands in the data URL of a resource, unpacked and checked. The error does not quote it.
func contents(resource *node, limit int) ([]byte, error) {
	text, ok := decodeDataURL(resource.text("source"))
	if !ok {
		return nil, errNotPlain
	}
	if resource.text("compression") == "gzip" {
		var err error
		if text, err = gunzip(text, limit); err != nil {
			return nil, err
		}
	}
	if len(text) > limit {
		return nil, errTooLarge
	}
	function, hash, hashed := strings.Cut(resource.text("verification", "hash"), "-")
	if hashed && sum(function, text) != strings.ToLower(hash) {
		return nil, fmt.Errorf("its %s is not the one under verification", function)
	}
	return text, nil
}

// sum is what Ignition compares with a hash. Of functions that no spec knows the library has told already.
func sum(function string, text []byte) string {
	switch function {
	case "sha256":
		s := sha256.Sum256(text)
		return hex.EncodeToString(s[:])
	default:
		s := sha512.Sum512(text)
		return hex.EncodeToString(s[:])
	}
}
