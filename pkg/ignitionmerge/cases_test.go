// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	files := effectiveFiles(t, result.Config)
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
		ok = fmt.Sprint(files[subject]["mode"]) == want
	case "unit":
		ok = slices.ContainsFunc(list(decode(t, result.Config), "systemd", "units"), func(u any) bool { return text(u, "name") == rest })
	case "dropin", "no-dropin":
		ok = hasDropIn(t, result.Config, subject, want) == (verb == "dropin")
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

func clean(file map[string]any) bool {
	contents, _ := file["contents"].(map[string]any)
	return onlyKeys(file, "path", "mode", "overwrite", "contents") && onlyKeys(contents, "source") && file["overwrite"] == true
}

func decode(t *testing.T, config []byte) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(config, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// effectiveFiles are the files by path; those of merged configs win.
func effectiveFiles(t *testing.T, config []byte) map[string]map[string]any {
	t.Helper()
	tree := decode(t, config)
	files := map[string]map[string]any{}
	for _, f := range list(tree, "storage", "files") {
		files[text(f, "path")] = f.(map[string]any)
	}
	for _, m := range list(tree, "ignition", "config", "merge") {
		url, err := dataurl.DecodeString(text(m, "source"))
		if err != nil {
			continue // it is somewhere else
		}
		inner := url.Data
		if text(m, "compression") == "gzip" {
			if inner, err = gunzip(inner); err != nil {
				t.Fatal(err)
			}
		}
		maps.Copy(files, effectiveFiles(t, inner))
	}
	return files
}

func hasDropIn(t *testing.T, config []byte, unit, name string) bool {
	t.Helper()
	for _, u := range list(decode(t, config), "systemd", "units") {
		if text(u, "name") == unit {
			return slices.ContainsFunc(list(u.(map[string]any), "dropins"), func(x any) bool { return text(x, "name") == name })
		}
	}
	return false
}

// largeConfig has 400 files of so many lines each: 43 lines make 1.5 MiB, as a large cluster's config has.
func largeConfig(tb testing.TB, lines int) []byte {
	tb.Helper()
	var files []any
	for i := range 400 {
		var content strings.Builder
		for l := range lines {
			fmt.Fprintf(&content, "line %03d of file %03d: some text with = and spaces and \"quotes\"\n", l, i)
		}
		files = append(files, map[string]any{
			"path": fmt.Sprintf("/etc/example/f%03d", i), "mode": 420, "overwrite": true,
			"contents": map[string]any{"source": "data:," + dataurl.EscapeString(content.String())},
		})
	}
	config, err := render(map[string]any{
		"ignition": map[string]any{"version": "3.2.0"}, "storage": map[string]any{"files": files},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return config
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
