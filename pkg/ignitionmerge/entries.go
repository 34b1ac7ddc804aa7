// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"fmt"
	"path"
	"strings"
)

// nodeKinds are the lists of a config's storage that share one name space of paths.
func nodeKinds() []string { return []string{"files", "links", "directories"} }

// entry is something that a config puts at a path.
type entry struct {
	kind  string // files, links or directories
	layer *layer // nil when it is the machine's own
	index int    // in the list of its kind
}

func (e entry) isOwn() bool { return e.layer == nil }

// where the entry stands in the user's document. It takes time, and is asked for when something is wrong.
func (e entry) where() Finding {
	if e.isOwn() {
		return Finding{}
	}
	return e.layer.at(e.layer.root.list("storage", e.kind)[e.index], "$.storage.%s.%d", e.kind, e.index)
}

// checkPaths refuses what lies below a file, and what is the machine's own below a link: a guest stops there, and its library
// does not tell.
func (d *document) checkPaths(own []File) error {
	entries := map[string]entry{}
	for _, f := range own {
		entries[f.Path] = entry{kind: "files"}
	}
	d.visit(func(l *layer) {
		for _, kind := range nodeKinds() {
			for i, e := range l.root.list("storage", kind) {
				entries[path.Clean(e.text("path"))] = entry{kind, l, i}
			}
		}
	})
	for at, e := range entries {
		if len(at) > maxPath {
			return newError(e.where().with(ReasonInvalidIgnition, "a path of %d bytes is longer than Linux takes", len(at)))
		}
	}
	return firstConflict(entries)
}

// firstConflict is the same one each time.
func firstConflict(entries map[string]entry) error {
	var worst string
	var found error
	for at, e := range entries {
		for above := path.Dir(at); len(above) > 1; above = path.Dir(above) {
			a, ok := entries[above]
			if !ok || a.kind == "directories" || worst != "" && worst < at {
				continue
			}
			reason, where := ReasonInvalidIgnition, e
			if a.isOwn() || e.isOwn() {
				reason = ReasonPathConflict
			}
			if e.isOwn() {
				where = a
			}
			worst = at
			found = newError(where.where().with(reason, "%s cannot be made: it lies below %s, which is a %s%s",
				at, above, strings.TrimSuffix(a.kind, "s"), map[bool]string{true: " of the machine's own"}[a.isOwn()]))
		}
	}
	return found
}

// at says where an entry stands in the user's document.
func (l *layer) at(n *node, format string, args ...any) Finding {
	return l.inside(Finding{Path: fmt.Sprintf(format, args...), Line: l.line(n)})
}

// with completes a place with what is to be said of it.
func (f Finding) with(reason, format string, args ...any) Finding {
	f.Reason, f.Message = reason, fmt.Sprintf(format, args...)
	return f
}

// checkFile unpacks what is compressed, and compares what has a hash, as long as both stand in the config.
func (l *layer) checkFile(f *node, i int, left *int) error {
	resources := append(f.list("append"), f.get("contents"))
	for _, r := range resources {
		if r == nil || r.text("compression") != "gzip" && r.text("verification", "hash") == "" || !strings.HasPrefix(r.text("source"), "data:") {
			continue
		}
		text, err := contents(r, *left)
		if err != nil {
			return newError(l.at(f, "$.storage.files.%d", i).with(ReasonInvalidContents,
				"a guest would not boot with this file: %s", err))
		}
		*left -= len(text)
	}
	return nil
}

// content reads what a file of the config holds, as far as it stands in the config itself.
func content(f *node) string {
	text, err := contents(f.get("contents"), maxUnpacked)
	if err != nil {
		return ""
	}
	return string(text)
}
