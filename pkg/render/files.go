// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"github.com/coreos/ignition/v2/config/v3_7_experimental/types"
	"github.com/vincent-petithory/dataurl"

	"github.com/finos/caplv/pkg/ignitionmerge"
)

// part is something that Ignition makes on a machine.
type part struct {
	kind, path, mode, owner string
	contents                string
	source                  string // when the guest fetches the contents
}

func (p part) name() string { return p.kind + " " + p.path }

// text is the part as people read it.
func (p part) text() string {
	if p.kind == "config" {
		return p.contents
	}
	head := strings.Trim(p.mode+" "+p.owner, " -")
	if p.source != "" {
		return head + "\nfetched from " + p.source + "\n"
	}
	return head + "\n" + p.contents
}

// partsOf takes a config to pieces, by name.
func partsOf(config []byte) (map[string]part, error) {
	effective, err := ignitionmerge.Effective(config)
	if err != nil {
		return nil, err
	}
	var c types.Config
	if err := json.Unmarshal(effective, &c); err != nil {
		return nil, err
	}
	parts := map[string]part{}
	add := func(p part) { parts[p.name()] = p }
	for _, f := range c.Storage.Files {
		p := part{kind: "file", path: f.Path, mode: mode(f.Mode, 0o644), owner: owner(f.Node)}
		for _, r := range append([]types.Resource{f.Contents}, f.Append...) {
			p.add(r)
		}
		add(p)
	}
	for _, d := range c.Storage.Directories {
		add(part{kind: "directory", path: d.Path, mode: mode(d.Mode, 0o755), owner: owner(d.Node)})
	}
	for _, l := range c.Storage.Links {
		add(part{kind: "link", path: l.Path, mode: "-", owner: owner(l.Node), contents: "to " + deref(l.Target) + "\n"})
	}
	for _, u := range c.Systemd.Units {
		var state []string
		if u.Enabled != nil {
			state = append(state, fmt.Sprintf("enabled=%t", *u.Enabled))
		}
		if u.Mask != nil {
			state = append(state, fmt.Sprintf("mask=%t", *u.Mask))
		}
		add(part{kind: "unit", path: u.Name, mode: cmp.Or(strings.Join(state, ","), "-"), owner: "-", contents: deref(u.Contents)})
		for _, x := range u.Dropins {
			add(part{kind: "drop-in", path: u.Name + ".d/" + x.Name, mode: "-", owner: "-", contents: deref(x.Contents)})
		}
	}
	c.Storage.Files, c.Storage.Directories, c.Storage.Links, c.Systemd.Units = nil, nil, nil, nil
	rest, err := json.MarshalIndent(c, "", "  ")
	add(part{kind: "config", path: "besides files and units", contents: string(rest) + "\n"})
	return parts, err
}

// add appends what a resource holds.
func (p *part) add(r types.Resource) {
	if r.Source == nil {
		return
	}
	if !strings.HasPrefix(*r.Source, "data:") {
		p.source = *r.Source
		return
	}
	u, err := dataurl.DecodeString(*r.Source)
	if err != nil {
		return // Ignition's library let it pass, so this does not happen
	}
	content := u.Data
	if deref(r.Compression) == "gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
			const most = 8 << 20
			content, _ = io.ReadAll(io.LimitReader(z, most))
		}
	}
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		content = fmt.Appendf(nil, "%d bytes that are no text, sha256 %x\n", len(content), sha256.Sum256(content))
	}
	p.contents += string(content)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func mode(m *int, otherwise int) string {
	if m != nil {
		otherwise = *m
	}
	return fmt.Sprintf("%04o", otherwise)
}

func owner(n types.Node) string {
	return nameOf(n.User.ID, n.User.Name) + ":" + nameOf(n.Group.ID, n.Group.Name)
}

func nameOf(id *int, name *string) string {
	if id != nil {
		return fmt.Sprint(*id)
	}
	return cmp.Or(deref(name), "root")
}

// printFiles lists what Ignition makes, and whose it is.
func (c command) printFiles(o outcome) error {
	before, after, err := o.parts()
	if err != nil {
		return err
	}
	rows := []string{"KIND\tPATH\tMODE\tOWNER\tBYTES\tFROM\n"}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		p := after[name]
		from := "base"
		if p != before[name] {
			from = "machine"
		}
		size := fmt.Sprint(len(p.contents))
		if p.source != "" {
			from, size = p.source, "?"
		}
		if p.kind != "config" {
			rows = append(rows, strings.Join([]string{p.kind, p.path, p.mode, p.owner, size, from}, "\t")+"\n")
		}
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 3, ' ', 0)
	if _, err := io.WriteString(w, strings.Join(rows, "")); err != nil {
		return err
	}
	return w.Flush()
}

// printDiff shows what is different from the base, in the form of diff -u.
func (c command) printDiff(o outcome) error {
	before, after, err := o.parts()
	if err != nil {
		return err
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, found := before[name]
		oldName, oldText := "base: "+name, old.text()
		if !found {
			oldName, oldText = "/dev/null", ""
		}
		mine, found := after[name]
		newName, newText := "machine: "+name, mine.text()
		if !found {
			newName, newText = "/dev/null", ""
		}
		if _, err := io.WriteString(c.stdout, udiff.Unified(oldName, newName, oldText, newText)); err != nil {
			return err
		}
	}
	return nil
}

func (o outcome) parts() (before, after map[string]part, err error) {
	if before, err = partsOf(o.base.Config); err != nil {
		return nil, nil, err
	}
	after, err = partsOf(o.merged.Config)
	return before, after, err
}
