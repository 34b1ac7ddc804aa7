// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vincent-petithory/dataurl"
)

// different lists the cases that this library judges otherwise than the file says, and why.
func different() map[string]string {
	return map[string]string{
		"spec-3.6-stable": "ok", // Ignition 2.26 made 3.6.0 stable
	}
}

func TestCases(t *testing.T) {
	folders, err := os.ReadDir("testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			c := readCase(t, f.Name())
			result, err := Merge(c.input, c.overlay)
			c.judge(t, result, err)
			if err == nil {
				for _, check := range c.checks {
					c.check(t, result, check)
				}
			}
		})
	}
}

type mergeCase struct {
	input           []byte
	overlay         Overlay
	verdict, reason string
	checks          []string
}

func readCase(t *testing.T, name string) mergeCase {
	t.Helper()
	c := mergeCase{input: readInput(t, name), overlay: readOverlay(t, name)}
	text, err := os.ReadFile(filepath.Join("testdata/cases", name, "expect"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch key, value, _ := strings.Cut(line, ": "); {
		case strings.HasPrefix(line, "#"):
		case key == "verdict":
			c.verdict = value
		case key == "reason":
			c.reason = value
		default:
			c.checks = append(c.checks, line)
		}
	}
	if verdict, ok := different()[name]; ok {
		c.verdict, c.reason = verdict, ""
	}
	return c
}

func readInput(t *testing.T, name string) []byte {
	t.Helper()
	if name == "large-1.5-mib" {
		return largeConfig(t, 43)
	}
	found, err := filepath.Glob(filepath.Join("testdata/cases", name, "input.*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("inputs are %v, %v", found, err)
	}
	input, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return input
}

func readOverlay(t *testing.T, name string) Overlay {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/cases", name, "params.json"))
	if err != nil {
		t.Fatal(err)
	}
	var params struct {
		Hostname, ProviderID string
		Networks             []NIC
	}
	if err := json.Unmarshal(text, &params); err != nil {
		t.Fatal(err)
	}
	return Overlay{Hostname: params.Hostname, ProviderID: params.ProviderID, NICs: params.Networks}
}

func (c mergeCase) judge(t *testing.T, result Result, err error) {
	t.Helper()
	var refused *Error
	var reasons []string
	for _, w := range result.Warnings {
		reasons = append(reasons, w.Reason)
	}
	switch {
	case err != nil && !errors.As(err, &refused):
		t.Fatalf("the error has no reason: %v", err)
	case c.verdict == "error" && (err == nil || refused.Reason != c.reason):
		t.Fatalf("got %v (%+v), want an error with reason %s", err, refused, c.reason)
	case c.verdict != "error" && err != nil:
		t.Fatalf("got %s: %v, want %s", refused.Reason, err, c.verdict)
	case c.verdict == "warn" && !slices.Contains(reasons, c.reason):
		t.Errorf("warnings are %v, want %s", reasons, c.reason)
	case c.verdict == "ok" && len(reasons) > 0:
		t.Errorf("warnings are %v, want none", result.Warnings)
	}
}

// check looks at the config as a guest ends up with it: data URLs followed.
func (c mergeCase) check(t *testing.T, result Result, line string) {
	t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	subject, want, _ := strings.Cut(rest, " ")
	tree := effective(t, result.Config)
	files := filesOf(tree)
	held := content(files[subject])
	ok := false
	switch verb {
	case "version":
		ok = result.Version == rest && strings.Contains(string(result.Config), `"version":"`+rest+`"`)
	case "text":
		ok = strings.Contains(string(result.Config), rest)
	case "not-text":
		ok = !strings.Contains(string(result.Config), rest)
	case "file":
		ok = held == unescape(t, strings.TrimPrefix(want, "== "))
	case "file-has":
		ok = strings.Contains(held, want)
	case "file-hasnot":
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(want) + `\b`)
		ok = files[subject] != nil && !word.MatchString(held)
	case "file-clean":
		ok = clean(files[subject])
	case "absent":
		ok = files[subject] == nil
	case "once":
		ok = files[subject] != nil // Ignition refuses what is there twice
	case "mode":
		ok = string(files[subject].get("mode").raw) == want
	case "unit":
		ok = slices.ContainsFunc(tree.list("systemd", "units"), func(u *node) bool { return u.text("name") == rest })
	case "dropin", "no-dropin":
		ok = hasDropIn(tree, subject, want) == (verb == "dropin")
	default:
		t.Fatalf("unknown check %q", line)
	}
	if !ok {
		t.Errorf("%s\n%s", line, held)
	}
}

func unescape(t *testing.T, text string) string {
	t.Helper()
	plain, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func clean(file *node) bool {
	return file.onlyKeys("path", "mode", "overwrite", "contents") && file.get("contents").onlyKeys("source") && file.isTrue("overwrite")
}

func tree(tb testing.TB, text []byte) *node {
	tb.Helper()
	root, err := parseTree(text)
	if err != nil {
		tb.Fatal(err)
	}
	return root
}

// effective is the config as a guest ends up with it.
func effective(tb testing.TB, config []byte) *node {
	tb.Helper()
	text, err := Effective(config)
	if err != nil {
		tb.Fatal(err)
	}
	return tree(tb, text)
}

// filesOf are the files by path.
func filesOf(root *node) map[string]*node {
	files := map[string]*node{}
	for _, f := range root.list("storage", "files") {
		files[f.text("path")] = f
	}
	return files
}

// rendered are the files by path, as text.
func rendered(root *node) map[string]string {
	files := map[string]string{}
	for at, f := range filesOf(root) {
		files[at] = string(f.render())
	}
	return files
}

func hasDropIn(root *node, unit, name string) bool {
	return slices.ContainsFunc(root.list("systemd", "units"), func(u *node) bool {
		return u.text("name") == unit &&
			slices.ContainsFunc(u.list("dropins"), func(x *node) bool { return x.text("name") == name })
	})
}

// largeConfig has 400 files of so many lines each: 43 lines make 1.5 MiB, as a large cluster's config has.
func largeConfig(tb testing.TB, lines int) []byte {
	tb.Helper()
	var files []*node
	for i := range 400 {
		var content strings.Builder
		for l := range lines {
			fmt.Fprintf(&content, "line %03d of file %03d: some text with = and spaces and \"quotes\"\n", l, i)
		}
		files = append(files, value([]member{
			{"path", value(fmt.Sprintf("/etc/example/f%03d", i))},
			{"mode", value(0o644)},
			{"overwrite", boolean(true)},
			{"contents", resource("data:," + dataurl.EscapeString(content.String()))},
		}))
	}
	return overlay("3.2.0", "files", files).render()
}

func zip(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return packed.Bytes()
}
