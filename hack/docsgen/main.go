// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command docsgen writes a page of the reference from the comments in the source: conditions or ignition.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// page is one of the reference.
type page struct {
	header  string
	sources string // a pattern
	groups  string // what the comments above its groups of constants begin with
}

var pages = map[string]page{
	"conditions": {conditions, "apis/*/v1alpha1/*_types.go", "Conditions of "},
	"ignition":   {ignition, "pkg/ignitionmerge/reasons.go", "Reasons of "},
}

const ignition = `# Reasons about Ignition configs

What is found in a shared config, or in what is a machine's own, when both are merged: by ` + "`ignition-bootstrap render`" + `, in the
message of a condition, or as the reason of an event. An error means that no machine is made. With a warning it boots all the same.
[Ignition configs](../ignition.md) tells the rules.

This page is generated from the source of ` + "`pkg/ignitionmerge`" + `.
`

const conditions = `# Conditions and reasons

What each kind says of itself, and what to do about it. ` + "`kubectl describe`" + ` shows the conditions of an object with their
messages, which name the host, pool, image or field that a reason is about. The condition ` + "`Ready`" + ` sums up the others: its
reason is that of the first one that is not true. ` + "`Done`" + ` is the reason of a condition that is true, and ` + "`Fault`" + ` that of an
error that nobody foresaw; it is tried again, and the message and the controller's log tell more.

This page is generated from the API's source.
`

func main() {
	if err := run(os.Stdout, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, "docsgen:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, name string) error {
	p, ok := pages[name]
	if !ok {
		return fmt.Errorf("there is no page %q", name)
	}
	files, err := filepath.Glob(p.sources)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(out, p.header); err != nil {
		return err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, declaration := range parsed.Decls {
			if err := p.writeGroup(out, declaration); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeGroup writes the constants that stand under a comment such as "Conditions of a LibvirtHost." or "Reasons of errors.".
func (p page) writeGroup(out io.Writer, declaration ast.Decl) error {
	group, ok := declaration.(*ast.GenDecl)
	if !ok || group.Tok != token.CONST || !strings.HasPrefix(group.Doc.Text(), p.groups) {
		return nil
	}
	title := strings.TrimPrefix(oneLine(group.Doc.Text()), p.groups)
	title = strings.TrimPrefix(strings.TrimPrefix(title, "a "), "an ")
	title, _, _ = strings.Cut(strings.TrimSuffix(title, "."), ",")
	title = strings.ToUpper(title[:1]) + title[1:]
	if _, err := fmt.Fprintf(out, "\n## %s\n\n| condition or reason | |\n|---|---|\n", title); err != nil {
		return err
	}
	for _, spec := range group.Specs {
		constant, ok := spec.(*ast.ValueSpec)
		if !ok || len(constant.Values) != 1 {
			continue
		}
		literal, ok := constant.Values[0].(*ast.BasicLit)
		if !ok {
			continue
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, row(constant.Names[0].Name, value, oneLine(constant.Doc.Text()))); err != nil {
			return err
		}
	}
	return nil
}

func row(name, value, comment string) string {
	text := strings.TrimLeft(strings.TrimPrefix(comment, name), ": ")
	text = strings.ToUpper(text[:1]) + text[1:]
	if strings.HasSuffix(name, "Condition") {
		return fmt.Sprintf("| **%s** | %s |", value, text)
	}
	return fmt.Sprintf("| `%s` | %s |", value, text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
