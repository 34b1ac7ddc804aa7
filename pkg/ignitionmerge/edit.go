// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"path"
	"slices"
	"strings"
)

const systemdDir = "/etc/systemd/system"

// own is all that is one machine's own.
type own struct {
	files []File // sorted by path
	units []Unit // sorted by name
}

// put makes what is the machine's own that of the config, whatever the config has in its place.
func (d *document) put(o own) error {
	d.visit(func(l *layer) { l.strip(o) })
	if err := d.checkPaths(o.files); err != nil {
		return err
	}
	if err := d.write(); err != nil {
		return err
	}
	if d.isOpaque() {
		return d.putLast(o)
	}
	storage := d.root.object("storage")
	files := slices.Clone(storage.list("files"))
	for _, f := range o.files {
		files = append(files, f.entry(false))
	}
	storage.set("files", value(files))
	d.root.set("storage", storage)
	putUnits(d.root, o.units)
	return nil
}

// strip takes away what stands in the places of what is the machine's own.
func (l *layer) strip(o own) {
	storage := l.root.get("storage")
	for _, kind := range nodeKinds() {
		entries := storage.list(kind)
		kept := slices.DeleteFunc(slices.Clone(entries), func(e *node) bool { return o.has(path.Clean(e.text("path"))) })
		if len(kept) < len(entries) {
			storage.set(kind, value(kept))
			l.root.set("storage", storage)
			l.changed = true
		}
	}
	systemd := l.root.get("systemd")
	units := systemd.list("units")
	kept := slices.DeleteFunc(slices.Clone(units), func(u *node) bool {
		stripped := o.stripUnit(u)
		l.changed = l.changed || stripped
		return stripped && u.onlyKeys("name")
	})
	if len(kept) < len(units) {
		systemd.set("units", value(kept))
		l.root.set("systemd", systemd)
	}
}

// has says whether one of the machine's own files is at a path.
func (o own) has(at string) bool {
	_, found := slices.BinarySearchFunc(o.files, at, func(f File, at string) int { return strings.Compare(f.Path, at) })
	return found
}

// stripUnit takes from a unit what is the machine's own, and says whether there was any. Ignition writes units after files, so
// that a unit of the config would win over a file of ours at the same path.
func (o own) stripUnit(u *node) bool {
	name := u.text("name")
	mine := Unit{}
	if i := slices.IndexFunc(o.units, func(m Unit) bool { return m.Name == name }); i >= 0 {
		mine = o.units[i]
	}
	keys := len(u.members)
	if mine.Contents != "" || o.has(path.Join(systemdDir, name)) {
		u.set("contents", nil)
	}
	if mine.Enabled != nil {
		u.set("enabled", nil)
	}
	if mine.Mask != nil {
		u.set("mask", nil)
	}
	dropIns := u.list("dropins")
	kept := slices.DeleteFunc(slices.Clone(dropIns), func(x *node) bool {
		file := x.text("name")
		return mine.hasDropIn(file) || o.has(path.Join(systemdDir, name+".d", file))
	})
	if len(kept) < len(dropIns) {
		u.set("dropins", value(kept))
		return true
	}
	return len(u.members) < keys
}

func (u Unit) hasDropIn(name string) bool {
	return slices.ContainsFunc(u.DropIns, func(x DropIn) bool { return x.Name == name })
}

// putUnits adds to the units of a config what is the machine's own of them.
func putUnits(root *node, units []Unit) {
	if len(units) == 0 {
		return
	}
	systemd := root.object("systemd")
	all := slices.Clone(systemd.list("units"))
	for _, mine := range units {
		i := slices.IndexFunc(all, func(u *node) bool { return u.text("name") == mine.Name })
		if i < 0 {
			i = len(all)
			all = append(all, value([]member{{"name", value(mine.Name)}}))
		}
		mine.addTo(all[i])
	}
	systemd.set("units", value(all))
}

func (u Unit) addTo(n *node) {
	if u.Enabled != nil {
		n.set("enabled", boolean(*u.Enabled))
	}
	if u.Mask != nil {
		n.set("mask", boolean(*u.Mask))
	}
	if u.Contents != "" {
		n.set("contents", value(u.Contents))
	}
	dropIns := slices.Clone(n.list("dropins"))
	for _, x := range u.DropIns {
		dropIns = append(dropIns, value([]member{{"name", value(x.Name)}, {"contents", value(x.Contents)}}))
	}
	n.set("dropins", value(dropIns))
}

// putLast makes what is the machine's own the last of what is merged, for a config that the guest fetches would win over what
// stands in this one. Ignition merges field by field, and would leave compression, hash, owner and more of a fetched file with
// ours: so a link takes its place first. An entry of another kind removes the one before it as a whole (config/merge, rule f).
func (d *document) putLast(o own) error {
	if d.replaced {
		text, err := wrap(d.root.render(), d.version)
		if err != nil {
			return err
		}
		inner := resource(dataURL(text))
		d.layer = &layer{root: parent(d.version, inner), version: d.version, children: []child{{inner, d.layer}}}
	}
	if len(o.files) == 0 && len(o.units) == 0 {
		return nil
	}
	var links, files []*node
	for _, f := range o.files {
		links = append(links, value([]member{{"path", value(f.Path)}, {"target", value("/dev/null")}}))
		files = append(files, f.entry(true))
	}
	first := overlay(d.version, "links", links)
	last := overlay(d.version, "files", files)
	putUnits(last, o.units)
	entries := slices.Clone(d.root.list("ignition", "config", "merge"))
	if len(links) > 0 {
		entries = append(entries, resource(dataURL(first.render())))
	}
	d.setMerge(append(entries, resource(dataURL(last.render()))))
	return nil
}

func overlay(version, kind string, entries []*node) *node {
	root := value([]member{{"ignition", value([]member{{"version", value(version)}})}})
	if len(entries) > 0 {
		root.set("storage", value([]member{{kind, value(entries)}}))
	}
	return root
}

// entry is complete: nothing of another entry could stay beside it.
func (f File) entry(uncompressed bool) *node {
	contents := resource(dataURL(f.Contents))
	if uncompressed {
		contents.set("compression", value(""))
	}
	e := value([]member{{"path", value(f.Path)}})
	for _, owner := range []struct{ key, name string }{{"user", f.User}, {"group", f.Group}} {
		if owner.name != "" {
			e.set(owner.key, value([]member{{"name", value(owner.name)}}))
		}
	}
	e.set("contents", contents)
	e.set("mode", value(f.mode()))
	e.set("overwrite", boolean(true))
	return e
}

func boolean(b bool) *node {
	if b {
		return &node{kind: 't', raw: []byte("true")}
	}
	return &node{kind: 'f', raw: []byte("false")}
}
