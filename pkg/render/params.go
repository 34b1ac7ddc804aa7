// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/domain"
	"github.com/finos/caplv/pkg/ignitionmerge"
	"github.com/finos/caplv/pkg/overlay"
)

// reasonInvalidParameters is that of parameters which cannot be read.
const reasonInvalidParameters = "InvalidParameters"

// unknownUUID stands for that of a domain which nobody has made yet.
const unknownUUID = "00000000-0000-0000-0000-000000000000"

// parameters are what is one machine's own, in the plain form.
type parameters struct {
	Hostname   string
	ProviderID string
	Networks   []ignitionmerge.NIC
	Files      []file
	Units      []ignitionmerge.Unit
}

type file struct {
	Path     string
	Mode     string // octal
	User     string
	Group    string
	Contents string
}

// parseParams reads parameters of either form.
func parseParams(text []byte) (ignitionmerge.Overlay, []string, error) {
	machine, err := findMachine(text)
	if err != nil {
		return ignitionmerge.Overlay{}, nil, invalid(err)
	}
	if machine != nil {
		return ofMachine(machine)
	}
	var p parameters
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		return ignitionmerge.Overlay{}, nil, invalid(err)
	}
	own := ignitionmerge.Overlay{Hostname: p.Hostname, ProviderID: p.ProviderID, NICs: p.Networks, Units: p.Units}
	for _, f := range p.Files {
		mode, err := strconv.ParseInt("0"+f.Mode, 8, 32)
		if err != nil {
			return ignitionmerge.Overlay{}, nil, invalid(fmt.Errorf("the mode of %s has octal digits: %w", f.Path, err))
		}
		own.Files = append(own.Files, ignitionmerge.File{
			Path: f.Path, Mode: int(mode), User: f.User, Group: f.Group, Contents: []byte(f.Contents),
		})
	}
	return own, nil, nil
}

func invalid(err error) error {
	return &ignitionmerge.Error{Finding: ignitionmerge.Finding{Reason: reasonInvalidParameters, Message: err.Error()}}
}

// findMachine returns the first LibvirtMachine of a manifest, or nil when it is none.
func findMachine(text []byte) (*infrav1.LibvirtMachine, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	manifest := false
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		manifest = manifest || kind.Kind != ""
		if kind.Kind == "LibvirtMachine" && kind.GroupVersionKind().Group == infrav1.GroupVersion.Group {
			machine := &infrav1.LibvirtMachine{}
			return machine, yaml.UnmarshalStrict(document, machine)
		}
	}
	if manifest {
		return nil, errors.New("the manifest has no LibvirtMachine")
	}
	return nil, nil //nolint:nilnil // it has the plain form
}

// ofMachine does what the controller does, and says what it had to make up.
func ofMachine(m *infrav1.LibvirtMachine) (ignitionmerge.Overlay, []string, error) {
	var notes []string
	machine := overlay.Machine{
		Spec: m.Spec, Hostname: m.Spec.Hostname,
		Secret: func(ref infrav1.SecretKeyReference) ([]byte, error) {
			notes = append(notes, fmt.Sprintf("what is in key %s of Secret %s is not known here", ref.Key, ref.Name))
			return fmt.Appendf(nil, "<key %s of Secret %s>\n", ref.Key, ref.Name), nil
		},
	}
	if machine.Hostname == "" {
		machine.Hostname = m.Name
	}
	var err error
	if m.Spec.ProviderID == "" {
		if machine.UUID, err = domain.UUID(string(m.UID)); err != nil {
			machine.UUID = unknownUUID
			notes = append(notes, "the provider ID and the hardware address are only known once the LibvirtMachine was created")
		}
		machine.Spec.ProviderID = domain.ProviderID(m.Spec.HostRef.Name, machine.UUID)
	} else if _, machine.UUID, err = domain.ParseProviderID(m.Spec.ProviderID); err != nil {
		return ignitionmerge.Overlay{}, nil, invalid(err)
	}
	own, err := overlay.Of(machine)
	if err != nil {
		return ignitionmerge.Overlay{}, nil, invalid(err)
	}
	return own, notes, nil
}
