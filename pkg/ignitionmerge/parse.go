// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/clarketm/json"
	butane "github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	"github.com/coreos/ignition/v2/config/util"
	v30 "github.com/coreos/ignition/v2/config/v3_0"
	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	v36 "github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/vcontext/report"
)

// parser parses a config of one spec version, and writes it back in the spelling of the spec. Ignition takes keys in any
// case, and a generic edit would not see them.
type parser func(text []byte) (canonical []byte, r report.Report, err error)

func parserFor(version string) (parser, bool) {
	p, ok := map[string]parser{
		"3.0.0": typed(v30.Parse),
		"3.1.0": typed(v31.Parse),
		"3.2.0": typed(v32.Parse),
		"3.3.0": typed(v33.Parse),
		"3.4.0": typed(v34.Parse),
		"3.5.0": typed(v35.Parse),
		"3.6.0": typed(v36.Parse),
	}[version]
	return p, ok
}

func typed[T any](parse func([]byte) (T, report.Report, error)) parser {
	return func(text []byte) ([]byte, report.Report, error) {
		config, r, err := parse(text)
		if err != nil {
			return nil, r, err
		}
		canonical, err := json.Marshal(config)
		return canonical, r, err
	}
}

// parse checks a config with the library of its own version. An error of that library has the given reason.
func parse(text []byte, reason string) (canonical []byte, warnings []Warning, err error) {
	// A controller has to survive every config: its libraries are not ours.
	defer func() {
		if recover() != nil {
			err = &Error{Reason: reason, Message: "Ignition's own library cannot cope with it"}
		}
	}()
	version, _, err := util.GetConfigVersion(text)
	if err != nil {
		return nil, nil, &Error{
			Reason: ReasonUnsupportedVersion, Path: "$.ignition.version",
			Message: "it has to be a version such as 3.2.0, in quotation marks",
		}
	}
	p, ok := parserFor(version.String())
	if !ok {
		return nil, nil, unsupported(version.Major)
	}
	canonical, r, err := p(text)
	if err != nil || r.IsFatal() {
		return nil, nil, firstError(r, reason)
	}
	if bytes.Contains(canonical, []byte(`\u0000`)) {
		return nil, nil, &Error{Reason: reason, Message: "it has a NUL character"}
	}
	return canonical, libraryWarnings(r), nil
}

func unsupported(major int64) error {
	message := "specs 3.0.0 to 3.6.0 are supported"
	if major < 3 {
		message += "; a Machine Config Server gives a newer one when it is asked with the header " +
			"\"Accept: application/vnd.coreos.ignition+json;version=3.2.0\""
	}
	return &Error{Reason: ReasonUnsupportedVersion, Path: "$.ignition.version", Message: message}
}

// translate turns Butane into Ignition. It embeds no files, and what it does not know is an error: a mistyped key would be
// left out of every machine in silence.
func translate(text []byte) (ignition []byte, warnings []Warning, err error) {
	defer func() {
		if recover() != nil {
			err = &Error{Reason: ReasonInvalidButane, Message: "Butane's own library cannot cope with it"}
		}
	}()
	if regexp.MustCompile(`(?m)^---\s*$`).Match(bytes.TrimPrefix(text, []byte("---"))) {
		return nil, nil, &Error{Reason: ReasonInvalidButane, Message: "it has several YAML documents, of which Butane reads the first"}
	}
	ignition, r, err := butane.TranslateBytes(text, common.TranslateBytesOptions{Raw: true})
	if err != nil || r.IsFatal() {
		return nil, nil, firstError(r, ReasonInvalidButane)
	}
	for _, e := range r.Entries {
		if strings.HasPrefix(strings.ToLower(e.Message), "unused key") {
			return nil, nil, &Error{Reason: ReasonInvalidButane, Path: e.Context.String(), Message: "there is no such key"}
		}
	}
	return ignition, libraryWarnings(r), nil
}

// firstError picks the first error of a report. Errors of decoders quote values, and are not passed on.
func firstError(r report.Report, reason string) error {
	for _, e := range r.Entries {
		if !e.Kind.IsFatal() {
			continue
		}
		found := &Error{Reason: reason, Path: e.Context.String(), Message: e.Message}
		if quotes(e.Message) {
			found.Message = "it has a value of the wrong type"
		}
		if e.Marker.StartP != nil {
			found.Message += fmt.Sprintf(" (line %d)", e.Marker.StartP.Line)
		}
		return found
	}
	return &Error{Reason: reason, Message: "it cannot be read"}
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

func libraryWarnings(r report.Report) []Warning {
	var warnings []Warning
	for _, e := range r.Entries {
		message := e.Message
		if quotes(message) {
			message = "look at this value"
		}
		warnings = append(warnings, Warning{Reason: ReasonLibraryWarnings, Path: e.Context.String(), Message: message})
	}
	return warnings
}

// position puts an offset into words.
func position(text []byte, offset int64) string {
	before := text[:min(int(offset), len(text))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Sprintf("line %d, column %d", line, column)
}
