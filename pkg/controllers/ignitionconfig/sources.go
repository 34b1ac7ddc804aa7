// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionconfig

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/ignitionmerge"
	"github.com/finos/caplv/pkg/steps"
)

// source is a config, or a file that one embeds, as it was read.
type source struct {
	name    string // for people
	text    []byte
	path    string    // of a file
	expires time.Time // zero when its object does not say
}

// sources are all that a data Secret is made from.
type sources struct {
	configs, files []source
}

// String names the sources for people.
func (all *sources) String() string {
	var names []string
	for _, s := range all.configs {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// sourcesOf are the configs that a spec names, in order.
func sourcesOf(spec bootstrapv1.IgnitionConfigSpec) []bootstrapv1.Source {
	if len(spec.Sources) > 0 {
		return spec.Sources
	}
	return []bootstrapv1.Source{{SecretRef: spec.SecretRef, Ignition: spec.Ignition, Butane: spec.Butane}}
}

// refers says whether a spec names a Secret or ConfigMap.
func refers(spec bootstrapv1.IgnitionConfigSpec, configMap bool, name string) bool {
	ref := func(secret, other bootstrapv1.KeyReference) bool {
		if configMap {
			return other.Name == name
		}
		return secret.Name == name
	}
	return slices.ContainsFunc(sourcesOf(spec), func(s bootstrapv1.Source) bool { return ref(s.SecretRef, s.ConfigMapRef) }) ||
		slices.ContainsFunc(spec.Files, func(f bootstrapv1.LocalFile) bool { return ref(f.SecretRef, f.ConfigMapRef) })
}

// readSources reads all that the data Secret is made from.
func (c *Controller) readSources(ctx context.Context, s *scope) (*sources, error) {
	all := &sources{}
	for i, from := range sourcesOf(s.Spec) {
		place := "spec"
		if len(s.Spec.Sources) > 0 {
			place = fmt.Sprintf("spec.sources[%d]", i)
		}
		var read source
		var err error
		switch {
		case from.Ignition != "":
			read = source{name: place + ".ignition", text: []byte(from.Ignition)}
		case from.Butane != "":
			read = source{name: place + ".butane", text: []byte(from.Butane)}
		default:
			read, err = c.readKey(ctx, s, from.SecretRef, from.ConfigMapRef)
		}
		if err != nil {
			return nil, err
		}
		all.configs = append(all.configs, read)
	}
	for _, f := range s.Spec.Files {
		read, err := c.readKey(ctx, s, f.SecretRef, f.ConfigMapRef)
		if err != nil {
			return nil, err
		}
		read.path = f.Path
		all.files = append(all.files, read)
	}
	return all, nil
}

// readKey reads a key of a Secret or a ConfigMap.
func (c *Controller) readKey(ctx context.Context, s *scope, secretRef, configMapRef bootstrapv1.KeyReference) (source, error) {
	secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
	kind, ref, object := "Secret", secretRef, client.Object(secret)
	if configMapRef.Name != "" {
		kind, ref, object = "ConfigMap", configMapRef, configMap
	}
	key := cmp.Or(ref.Key, bootstrapv1.SecretValueKey)
	err := c.secrets.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return source{}, &steps.NotYet{
			Reason:  bootstrapv1.SourceNotFoundReason,
			Message: fmt.Sprintf("%s %s does not exist; create it with key %q", kind, ref.Name, key),
		}
	}
	if err != nil {
		return source{}, fmt.Errorf("reading %s %s: %w", kind, ref.Name, err)
	}
	value, found := secret.Data[key]
	if text, ok := configMap.Data[key]; ok {
		value, found = []byte(text), true
	} else if binary, ok := configMap.BinaryData[key]; ok {
		value, found = binary, true
	}
	if !found {
		return source{}, &steps.NotYet{
			Reason:  bootstrapv1.SourceKeyMissingReason,
			Message: fmt.Sprintf("%s %s has no key %q; put the config there", kind, ref.Name, key),
		}
	}
	read := source{name: fmt.Sprintf("%s %s", kind, ref.Name), text: value}
	if at := object.GetAnnotations()[bootstrapv1.ExpiresAnnotation]; at != "" {
		if read.expires, err = time.Parse(time.RFC3339, at); err != nil {
			return source{}, &steps.NotYet{
				Reason:  bootstrapv1.SourceInvalidReason,
				Message: fmt.Sprintf("Annotation %s of %s is no time such as 2026-01-31T12:00:00Z", bootstrapv1.ExpiresAnnotation, read.name),
			}
		}
	}
	return read, nil
}

// hash differs when any of the sources does.
func (all *sources) hash() string {
	sum := sha256.New()
	for _, s := range slices.Concat(all.configs, all.files) {
		part := sha256.Sum256(s.text)
		sum.Write(fmt.Appendf(nil, "%s %x\n", s.path, part))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// render makes one config of the sources.
func (all *sources) render() (ignitionmerge.Result, error) {
	dir, err := all.writeFiles()
	if err != nil {
		return ignitionmerge.Result{}, err
	}
	if dir != "" {
		defer os.RemoveAll(dir) //nolint:errcheck // it lies in the memory of this container
	}
	var configs []ignitionmerge.Result
	for _, s := range all.configs {
		config, err := ignitionmerge.Normalize(s.text, dir)
		if err != nil {
			return ignitionmerge.Result{}, invalid(s.name, err)
		}
		for i := range config.Warnings {
			config.Warnings[i].Message = s.name + ": " + config.Warnings[i].Message
		}
		configs = append(configs, config)
	}
	joined, err := ignitionmerge.Join(configs...)
	if err != nil {
		return ignitionmerge.Result{}, invalid("The sources, merged", err)
	}
	if len(joined.Config) > maxData {
		return ignitionmerge.Result{}, &steps.NotYet{
			Reason: bootstrapv1.DataTooLargeReason,
			Message: fmt.Sprintf("The config has %d bytes, compressed as far as its spec allows, and a Secret holds %d; "+
				"take something out of it, or let the machine fetch it", len(joined.Config), maxData),
		}
	}
	return joined, nil
}

// maxData leaves some space for the format beside the config.
const maxData = corev1.MaxSecretSize - 1<<10

// writeFiles puts what Butane may embed into a folder that nobody else can read. There is none when nothing is to be put there.
func (all *sources) writeFiles() (dir string, err error) {
	if len(all.files) == 0 {
		return "", nil
	}
	if dir, err = os.MkdirTemp("", "butane"); err != nil {
		return "", fmt.Errorf("making a folder for the files of Butane configs: %w", err)
	}
	for _, f := range all.files {
		to := filepath.Join(dir, filepath.FromSlash(f.path))
		err := os.MkdirAll(filepath.Dir(to), 0o700)
		if err == nil {
			err = os.WriteFile(to, f.text, 0o600)
		}
		if err != nil {
			return "", errors.Join(fmt.Errorf("writing file %s of Butane configs: %w", f.path, err), os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// invalid says where a source goes wrong. Errors of ignitionmerge never quote the config.
func invalid(name string, err error) error {
	found, ok := errors.AsType[*ignitionmerge.Error](err)
	if !ok {
		return fmt.Errorf("reading the config in %s: %w", name, err)
	}
	return &steps.NotYet{
		Reason:  bootstrapv1.SourceInvalidReason,
		Message: fmt.Sprintf("%s: %s: %s", name, found.Reason, found.Error()),
	}
}
