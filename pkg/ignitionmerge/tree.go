// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// node is a JSON value that remembers how it was written: the order of its keys, the digits of its numbers, what no spec
// knows. What is not edited is written back as it was read.
type node struct {
	kind    jsontext.Kind
	raw     []byte   // of what is neither an object nor a list
	short   []byte   // what the library is given in its place; nil: what it is
	members []member // of an object
	items   []*node  // of a list
	offset  int      // of its end in the text it was read from; 0 for what is the machine's own
}

type member struct {
	key   string
	value *node
}

// parseTree reads one JSON value and nothing else. Go's decoder, which Ignition uses, takes bytes that are not UTF-8, and keys
// that are there twice.
func parseTree(text []byte) (*node, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	root, err := readNode(d, text)
	if err == nil {
		if _, err = d.ReadToken(); errors.Is(err, io.EOF) {
			return root, nil
		}
	}
	offset := int(d.InputOffset())
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = int(syntax.ByteOffset)
	}
	return nil, &Error{Finding: Finding{
		Reason: ReasonInvalidJSON, Line: lineOf(text, offset),
		Message: fmt.Sprintf("it is not valid JSON; the error is at column %d", columnOf(text, offset)),
	}}
}

func readNode(d *jsontext.Decoder, text []byte) (*node, error) {
	n := &node{kind: d.PeekKind()}
	switch n.kind {
	case '{', '[':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
	default:
		raw, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		n.offset = int(d.InputOffset())
		n.raw = text[n.offset-len(raw) : n.offset : n.offset]
		return n, nil
	}
	n.offset = int(d.InputOffset())
	for d.PeekKind() != n.kind+2 { // } follows { by two, as ] follows [
		var key string
		if n.kind == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key = token.String()
		}
		value, err := readNode(d, text)
		if err != nil {
			return nil, err
		}
		if n.kind == '{' {
			n.members = append(n.members, member{key, value})
		} else {
			n.items = append(n.items, value)
		}
	}
	_, err := d.ReadToken()
	return n, err
}

// lineOf counts lines from 1.
func lineOf(text []byte, offset int) int {
	return bytes.Count(text[:min(offset, len(text))], []byte("\n")) + 1
}

// columnOf counts bytes from 1.
func columnOf(text []byte, offset int) int {
	before := text[:min(offset, len(text))]
	return len(before) - bytes.LastIndexByte(before, '\n')
}

// render writes the value without white space.
func (n *node) render() []byte { return n.appendTo(make([]byte, 0, n.size()), false) }

// size is about how long the value is when it is written.
func (n *node) size() int {
	size := len(n.raw) + 2
	for _, m := range n.members {
		size += len(m.key) + len(`"":,`) + m.value.size()
	}
	for _, item := range n.items {
		size += len(`,`) + item.size()
	}
	return size
}

// appendTo appends the value, or what the library is given in its place.
func (n *node) appendTo(out []byte, short bool) []byte {
	if short && n.short != nil {
		return append(out, n.short...)
	}
	switch n.kind {
	case '{':
		out = append(out, '{')
		for i, m := range n.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendString(out, m.key), ':')
			out = m.value.appendTo(out, short)
		}
		return append(out, '}')
	case '[':
		out = append(out, '[')
		for i, item := range n.items {
			if i > 0 {
				out = append(out, ',')
			}
			out = item.appendTo(out, short)
		}
		return append(out, ']')
	}
	return append(out, n.raw...)
}

// appendString writes a string as JSON. Bytes that are not UTF-8 become what Go's decoder reads them as.
func appendString(out []byte, s string) []byte {
	out, _ = jsontext.AppendQuote(out, s)
	return out
}

// value makes a node of strings, numbers, booleans, lists and ordered objects.
func value(v any) *node {
	switch v := v.(type) {
	case *node:
		return v
	case string:
		return &node{kind: '"', raw: appendString(nil, v)}
	case []*node:
		return &node{kind: '[', items: v}
	case []member:
		return &node{kind: '{', members: v}
	default:
		return &node{kind: '0', raw: fmt.Append(nil, v)}
	}
}

// get returns what stands at a place below an object, or nil.
func (n *node) get(keys ...string) *node {
	for _, key := range keys {
		if n == nil {
			return nil
		}
		i := n.index(key)
		if i < 0 {
			return nil
		}
		n = n.members[i].value
	}
	return n
}

func (n *node) index(key string) int {
	return slices.IndexFunc(n.members, func(m member) bool { return m.key == key })
}

// list returns the items of the list at a place below an object, or none.
func (n *node) list(keys ...string) []*node {
	if n = n.get(keys...); n == nil {
		return nil
	}
	return n.items
}

// text returns the string at a place below an object, or nothing.
func (n *node) text(keys ...string) string {
	return n.get(keys...).str()
}

// str returns a string, or nothing when it is something else.
func (n *node) str() (s string) {
	if n == nil || n.kind != '"' {
		return ""
	}
	plain := n.raw[1 : len(n.raw)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		return string(plain)
	}
	if err := json.Unmarshal(n.raw, &s); err != nil {
		return ""
	}
	return s
}

// isTrue says whether true stands at a place below an object.
func (n *node) isTrue(keys ...string) bool {
	n = n.get(keys...)
	return n != nil && n.kind == 't'
}

// set puts a value under a key, in the place of what was there. An empty list or object, or nil, takes the key away.
func (n *node) set(key string, v *node) {
	i := n.index(key)
	switch {
	case v == nil || v.isEmpty():
		if i >= 0 {
			n.members = slices.Delete(n.members, i, i+1)
		}
	case i >= 0:
		n.members[i].value = v
	default:
		n.members = append(n.members, member{key, v})
	}
}

// object returns the object under a key, and makes it when it is not there.
func (n *node) object(key string) *node {
	found := n.get(key)
	if found == nil || found.kind != '{' {
		found = &node{kind: '{'}
		if i := n.index(key); i >= 0 {
			n.members[i].value = found
		} else {
			n.members = append(n.members, member{key, found})
		}
	}
	return found
}

func (n *node) isEmpty() bool {
	return n.kind == '{' && len(n.members) == 0 || n.kind == '[' && len(n.items) == 0
}

// onlyKeys says whether an object says nothing but what stands under these keys.
func (n *node) onlyKeys(keys ...string) bool {
	return n != nil && n.kind == '{' && !slices.ContainsFunc(n.members, func(m member) bool {
		return !slices.Contains(keys, m.key) && !m.value.isEmpty() && m.value.kind != 'n'
	})
}

// isTwisted says whether an object of the tree has a key twice, or one that is a known key in another case: Go's decoder takes
// both, and who edits by key would see only a part.
func (n *node) isTwisted(known map[string]string) bool {
	seen := make(map[string]bool, len(n.members))
	for _, m := range n.members {
		folded := fold(m.key)
		if spelled, ok := known[folded]; seen[folded] || ok && spelled != m.key {
			return true
		}
		seen[folded] = true
		if m.value.isTwisted(known) {
			return true
		}
	}
	return slices.ContainsFunc(n.items, func(item *node) bool { return item.isTwisted(known) })
}

// fold makes keys equal that Go's decoder takes for equal: by way of upper case, because of letters such as a long s.
func fold(key string) string { return strings.ToLower(strings.ToUpper(key)) }

// walk calls visit for each object of the tree.
func (n *node) walk(visit func(object *node)) {
	if n.kind == '{' {
		visit(n)
	}
	for _, m := range n.members {
		m.value.walk(visit)
	}
	for _, item := range n.items {
		item.walk(visit)
	}
}
