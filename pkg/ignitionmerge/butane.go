// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"regexp"
	"strings"

	butane "github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
)

// translate turns Butane into Ignition. It embeds no files but those below dir, and none when dir is empty. What it does not
// know is an error: a mistyped key would be left out of every machine in silence.
func translate(text []byte, dir string) (ignition []byte, warnings []Finding, err error) {
	defer func() {
		if recover() != nil {
			err = newError(Finding{Reason: ReasonInvalidButane, Message: "Butane's own library cannot cope with it"})
		}
	}()
	second := regexp.MustCompile(`(?m)^---\s*$`).FindIndex(bytes.TrimPrefix(text, []byte("---")))
	if second != nil {
		return nil, nil, newError(Finding{
			Reason: ReasonInvalidButane, Line: lineOf(text, second[0]),
			Message: "it has several YAML documents, of which Butane reads the first",
		})
	}
	options := common.TranslateBytesOptions{Raw: true} // else variant openshift gives a MachineConfig
	options.FilesDir = dir
	ignition, r, err := butane.TranslateBytes(text, options)
	if err != nil || r.IsFatal() {
		return nil, nil, reportError(r, ReasonInvalidButane)
	}
	var unknown []Finding
	for _, e := range r.Entries {
		if strings.HasPrefix(strings.ToLower(e.Message), "unused key") {
			f := finding(e, ReasonInvalidButane, "")
			f.Message = "there is no such key"
			unknown = append(unknown, f)
		}
	}
	if len(unknown) > 0 {
		return nil, nil, newError(unknown...)
	}
	return ignition, reportWarnings(r), nil
}

// isButane looks for the key that every Butane config has at its top.
func isButane(text []byte) bool {
	return regexp.MustCompile(`(?m)^["']?variant["']?\s*:`).Match(text)
}
