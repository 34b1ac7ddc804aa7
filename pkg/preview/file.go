// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/timetable"
)

const kind = "ScheduledMachine"

// documents are what a file has of what counts here.
type documents struct {
	machines []*schedulingv1.ScheduledMachine
	unknown  []string // fields that a ScheduledMachine does not have
	maps     []*corev1.ConfigMap
}

func (c *Command) readFile(o options) (*schedulingv1.ScheduledMachine, timetable.Calendar, []string, error) {
	in := c.In
	if o.file != "-" {
		f, err := os.Open(o.file)
		if err != nil {
			return nil, nil, nil, err
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	found, err := readDocuments(in)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading %s: %w", o.file, err)
	}
	m, err := found.choose(o.name)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", o.file, err)
	}
	var warnings []string
	for _, field := range found.unknown {
		warnings = append(warnings, field+": there is no such field; it does nothing")
	}
	calendar := func(name, key string) ([]byte, error) {
		for _, cm := range found.maps {
			if cm.Name == name {
				if text, ok := cm.Data[key]; ok {
					return []byte(text), nil
				}
			}
		}
		warnings = append(warnings, fmt.Sprintf("key %s of ConfigMap %s is not in the file: its days are not left out", key, name))
		return timetable.NoCalendars(name, key)
	}
	if _, err := timetable.Read(m, calendar, c.Clock.Now()); err == nil { // once, for the warnings
		warnings = slices.Compact(warnings)
	}
	return m, calendar, warnings, nil
}

func readDocuments(in io.Reader) (*documents, error) {
	found := &documents{}
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(in)); ; {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return nil, err
		}
		if err := found.add(text); err != nil {
			return nil, err
		}
	}
}

func (d *documents) add(text []byte) error {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(text, &meta); err != nil {
		return err
	}
	switch meta.Kind {
	case "List":
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		for _, item := range list.Items {
			if err := d.add(item); err != nil {
				return err
			}
		}
	case "ConfigMap":
		cm := &corev1.ConfigMap{}
		if err := json.Unmarshal(text, cm); err != nil {
			return err
		}
		d.maps = append(d.maps, cm)
	case kind:
		m := &schedulingv1.ScheduledMachine{}
		strict, err := kjson.UnmarshalStrict(text, m)
		if err != nil {
			return &refusal{err}
		}
		for _, problem := range strict {
			d.unknown = append(d.unknown, problem.Error())
		}
		d.machines = append(d.machines, m)
	}
	return nil
}

// choose is the one ScheduledMachine of a file, or the one with a name.
func (d *documents) choose(name string) (*schedulingv1.ScheduledMachine, error) {
	if name == "" && len(d.machines) == 1 {
		return d.machines[0], nil
	}
	for _, m := range d.machines {
		if m.Name == name && name != "" {
			return m, nil
		}
	}
	if name == "" {
		return nil, fmt.Errorf("there are %d of kind %s: name one", len(d.machines), kind)
	}
	return nil, fmt.Errorf("there is no %s %s", kind, name)
}
