// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

// file is one of the machine's own.
type file struct {
	path    string
	mode    int
	content string
}

// put makes the files those of the config, whatever it had in their places.
func (d *document) put(own []file) error {
	slices.SortFunc(own, func(a, b file) int { return strings.Compare(a.path, b.path) })
	storage := d.object("storage")
	for _, kind := range []string{"files", "links", "directories"} {
		kept, err := withoutOwn(list(storage, kind), own)
		if err != nil {
			return err
		}
		set(storage, kind, kept)
	}
	d.dropUnitDropIn(own)
	if len(list(d.tree, "ignition", "config", "merge")) > 0 {
		return d.putLast(own)
	}
	files := list(storage, "files")
	for _, f := range own {
		files = append(files, f.entry(false))
	}
	set(storage, "files", files)
	if len(storage) == 0 {
		delete(d.tree, "storage")
	}
	return nil
}

// withoutOwn leaves out the entries that are in the places of our files. What lies below one of them is in the way.
func withoutOwn(entries []any, own []file) ([]any, error) {
	var kept []any
	for _, e := range entries {
		where := path.Clean(text(e, "path"))
		ours := slices.ContainsFunc(own, func(f file) bool { return f.path == where })
		below := slices.ContainsFunc(own, func(f file) bool { return strings.HasPrefix(where, f.path+"/") })
		if below {
			return nil, &Error{
				Reason: ReasonPathConflict, Path: "$.storage",
				Message: "it has an entry below a path that has to be a file: " + path.Dir(where),
			}
		}
		if !ours {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

// putLast adds the files as the last of the configs that are merged: there they win over what is fetched, which would win
// over the config itself. They say that they are not compressed, because a fetched file of the same path may be.
func (d *document) putLast(own []file) error {
	var files []any
	for _, f := range own {
		files = append(files, f.entry(true))
	}
	overlay, err := render(map[string]any{
		"ignition": map[string]any{"version": d.version},
		"storage":  map[string]any{"files": files},
	})
	if err != nil {
		return err
	}
	config := d.object("ignition", "config")
	last := map[string]any{"source": dataURL(overlay)}
	others := slices.DeleteFunc(list(config, "merge"), func(e any) bool { return text(e, "source") == last["source"] })
	config["merge"] = append(others, last)
	return nil
}

// entry is complete: nothing of another entry could stay beside it.
func (f file) entry(uncompressed bool) map[string]any {
	contents := map[string]any{"source": dataURL([]byte(f.content))}
	if uncompressed {
		contents["compression"] = ""
	}
	return map[string]any{"path": f.path, "mode": f.mode, "overwrite": true, "contents": contents}
}

func dataURL(content []byte) string {
	return "data:;base64," + base64.StdEncoding.EncodeToString(content)
}

func (d *document) render() ([]byte, error) { return render(d.tree) }

// render writes keys in order, so that the same tree is always the same text.
func render(tree map[string]any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(tree)
	return bytes.TrimSpace(out.Bytes()), err
}

// object returns the object at a place of the document, and makes it when it is not there.
func (d *document) object(keys ...string) map[string]any {
	at := d.tree
	for _, key := range keys {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	return at
}

// object returns the object at a place of a tree, or nil.
func object(tree map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		tree, _ = tree[key].(map[string]any)
	}
	return tree
}

// list returns the list at a place of a tree, or nil.
func list(tree map[string]any, keys ...string) []any {
	last := len(keys) - 1
	entries, _ := object(tree, keys[:last]...)[keys[last]].([]any)
	return entries
}

// set puts a list into an object, and nothing when it is empty.
func set(o map[string]any, key string, entries []any) {
	if len(entries) == 0 {
		delete(o, key)
		return
	}
	o[key] = entries
}

// text returns a string of an object, or nothing.
func text(o any, key string) string {
	m, _ := o.(map[string]any)
	s, _ := m[key].(string)
	return s
}

// content reads what a file of the config holds, when it stands in the config itself.
func content(entry any) string {
	m, _ := entry.(map[string]any)
	contents, _ := m["contents"].(map[string]any)
	url, err := dataurl.DecodeString(text(contents, "source"))
	if err != nil {
		return ""
	}
	if text(contents, "compression") != "gzip" {
		return string(url.Data)
	}
	plain, err := gunzip(url.Data)
	if err != nil {
		return ""
	}
	return string(plain)
}
