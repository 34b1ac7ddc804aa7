// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"reflect"
	"strings"
	"sync"

	"github.com/clarketm/json"
	v30 "github.com/coreos/ignition/v2/config/v3_0"
	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	v36 "github.com/coreos/ignition/v2/config/v3_6"
	v37 "github.com/coreos/ignition/v2/config/v3_7_experimental"
	"github.com/coreos/vcontext/report"
)

// experimentalVersion is one that the next release of Ignition refuses: only the image it was written for can read it.
const experimentalVersion = "3.7.0-experimental"

// spec is one version of the Ignition spec.
type spec struct {
	// check parses and validates a config.
	check func(text []byte) (report.Report, error)
	// canonical writes a config in the spelling of the spec. What the spec does not know is lost.
	canonical func(text []byte) ([]byte, error)
	// keys are those of all objects of the spec, by their folded form.
	keys map[string]string
}

// specs are the versions that the library knows. A guest refuses what is newer than its own Ignition, so each config is read,
// checked and written in its own version.
var specs = sync.OnceValue(func() map[string]spec {
	return map[string]spec{
		"3.0.0":             specOf(v30.Parse),
		"3.1.0":             specOf(v31.Parse),
		"3.2.0":             specOf(v32.Parse),
		"3.3.0":             specOf(v33.Parse),
		"3.4.0":             specOf(v34.Parse),
		"3.5.0":             specOf(v35.Parse),
		"3.6.0":             specOf(v36.Parse),
		experimentalVersion: specOf(v37.Parse),
	}
})

func specOf[T any](parse func([]byte) (T, report.Report, error)) spec {
	keys := map[string]string{}
	gatherKeys(reflect.TypeFor[T](), keys)
	return spec{
		check: func(text []byte) (report.Report, error) {
			_, r, err := parse(text)
			return r, err
		},
		canonical: func(text []byte) ([]byte, error) {
			config, _, err := parse(text)
			if err != nil {
				return nil, err
			}
			return json.Marshal(config)
		},
		keys: keys,
	}
}

// gatherKeys collects the keys of a type's JSON.
func gatherKeys(t reflect.Type, keys map[string]string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		gatherKeys(t.Elem(), keys)
	case reflect.Struct:
		for field := range t.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				keys[fold(name)] = name
			}
			gatherKeys(field.Type, keys)
		}
	}
}
