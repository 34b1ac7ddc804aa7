// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/vcontext/report"
)

const (
	// longSource is the length from which the library is given a data URL of the same kind in the place of one that is known to
	// be valid: it takes time for each character.
	longSource = 96

	// maxFindings is how many errors and warnings of a library are passed on.
	maxFindings = 20

	// maxEntries is how many files, links, directories and units a config may have: the library takes a tenth of a millisecond for
	// each.
	maxEntries = 20_000

	// maxLinkChecks bounds what the library takes for comparing each link with each other entry.
	maxLinkChecks = 20_000_000
)

// parse checks a config with the library of its own version, whose errors have the given reason.
func parse(text []byte, root *node, reason string) (checked *node, version string, warnings []Finding, err error) {
	// A controller has to survive every config: its libraries are not ours.
	defer func() {
		if recover() != nil {
			err = newError(Finding{Reason: reason, Message: "Ignition's own library cannot cope with it"})
		}
	}()
	short := shorten(text, root)
	v, _, err := util.GetConfigVersion(short)
	if err != nil {
		return nil, "", nil, newError(Finding{
			Reason: ReasonUnsupportedVersion, Path: "$.ignition.version",
			Message: "it has to be a version such as 3.2.0, in quotation marks",
		})
	}
	version = v.String()
	s, ok := specs()[version]
	if !ok {
		return nil, "", nil, unsupported(version, v.Major)
	}
	if err := checkSize(root); err != nil {
		return nil, "", nil, err
	}
	r, err := s.check(short)
	if err != nil {
		return nil, "", nil, reportError(r, reason)
	}
	if hasNUL(root) {
		return nil, "", nil, newError(Finding{Reason: reason, Message: "it has a NUL character"})
	}
	if root.isTwisted(s.keys) {
		canonical, err := s.canonical(text)
		if err != nil {
			return nil, "", nil, err
		}
		if root, err = parseTree(canonical); err != nil {
			return nil, "", nil, err
		}
	}
	return root, version, reportWarnings(r), nil
}

func unsupported(version string, major int64) error {
	message := "specs 3.0.0 to 3.6.0 and " + experimentalVersion + " are supported, and this is " + version
	if major < 3 {
		message += "; a Machine Config Server gives a newer one when it is asked with the header " +
			"\"Accept: application/vnd.coreos.ignition+json;version=3.2.0\"; for Flatcar, use Butane with variant: flatcar"
	}
	return newError(Finding{Reason: ReasonUnsupportedVersion, Path: "$.ignition.version", Message: message})
}

// shorten replaces long data URLs by short ones that are as valid, equal ones by equal ones. Lines stay where they are, because
// JSON has no line breaks in strings.
func shorten(text []byte, root *node) []byte {
	out := make([]byte, 0, len(text)/4)
	end := 0
	numbers := map[string]int{}
	root.walk(func(object *node) {
		for _, m := range object.members {
			n := m.value
			if len(n.raw) < longSource || fold(m.key) != "source" || bytes.IndexByte(n.raw, '\\') >= 0 {
				continue
			}
			source := n.str()
			header, _, ok := splitDataURL(source)
			if !ok {
				continue
			}
			number, known := numbers[source]
			if !known {
				number = len(numbers)
				numbers[source] = number
			}
			n.short = fmt.Appendf(nil, `"%s,%08d"`, header, number)
			out = append(out, text[end:n.offset-len(n.raw)]...)
			out = append(out, n.short...)
			end = n.offset
		}
	})
	return append(out, text[end:]...)
}

// checkSize refuses what the library would take minutes for.
func checkSize(root *node) error {
	links := len(root.list("storage", "links"))
	entries := links + len(root.list("storage", "files")) + len(root.list("storage", "directories"))
	if entries+len(root.list("systemd", "units")) > maxEntries {
		return invalid(ReasonTooLarge, "it has more than %d files, links, directories and units", maxEntries)
	}
	if links*entries > maxLinkChecks {
		return newError(Finding{
			Reason: ReasonTooLarge, Path: "$.storage.links",
			Message: fmt.Sprintf("%d links among %d entries are more than can be checked", links, entries),
		})
	}
	return nil
}

// hasNUL says whether a string has a character that no path and no unit can have.
func hasNUL(root *node) bool {
	if bytes.Contains(root.raw, []byte(`\u0000`)) {
		return strings.IndexByte(root.str(), 0) >= 0
	}
	for _, m := range root.members {
		if strings.IndexByte(m.key, 0) >= 0 || hasNUL(m.value) {
			return true
		}
	}
	return slices.ContainsFunc(root.items, hasNUL)
}

// reportError passes a library's errors on.
func reportError(r report.Report, reason string) error {
	var findings []Finding
	for _, e := range r.Entries {
		if e.Kind.IsFatal() && len(findings) < maxFindings {
			findings = append(findings, finding(e, reason, "it has a value of the wrong type"))
		}
	}
	if len(findings) == 0 {
		findings = []Finding{{Reason: reason, Message: "it cannot be read"}}
	}
	return newError(findings...)
}

func reportWarnings(r report.Report) []Finding {
	var warnings []Finding
	for _, e := range r.Entries {
		if !e.Kind.IsFatal() && len(warnings) < maxFindings {
			warnings = append(warnings, finding(e, ReasonLibraryWarnings, "look at this value"))
		}
	}
	return warnings
}

// finding is an entry of a library's report. Errors of decoders quote values, and are replaced.
func finding(e report.Entry, reason, instead string) Finding {
	f := Finding{Reason: reason, Path: e.Context.String(), Message: e.Message}
	if quotes(e.Message) {
		f.Message = instead
	}
	if e.Marker.StartP != nil {
		f.Line = int(e.Marker.StartP.Line)
	}
	return f
}

// quotes says whether a message may hold a value of the config.
func quotes(message string) bool {
	for _, mark := range []string{"json:", "yaml:", "unmarshal", "cannot", "parse", "`", "\""} {
		if strings.Contains(message, mark) {
			return true
		}
	}
	return false
}
