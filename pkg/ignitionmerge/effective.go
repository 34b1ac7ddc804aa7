// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"fmt"

	"github.com/clarketm/json"
	newest "github.com/coreos/ignition/v2/config/v3_7_experimental"
	"github.com/coreos/ignition/v2/config/v3_7_experimental/types"
	"github.com/coreos/vcontext/validate"
)

// Effective returns what a guest's Ignition makes of a config: what stands in data URLs is merged into it, as
// internal/exec/config_fetcher.go of Ignition does. What has to be fetched stays as it is. It is written in the keys of the newest
// spec, with the version of the config.
func Effective(config []byte) ([]byte, error) {
	d, err := read(config, "")
	if err != nil {
		return nil, err
	}
	merged, err := d.effective()
	if err != nil {
		return nil, err
	}
	merged.Ignition.Version = d.version
	return json.Marshal(merged)
}

// checkMerged validates what a guest will validate when it has merged a config of several layers.
func checkMerged(text []byte, reason string) error {
	root, err := parseTree(text)
	if err != nil {
		return err
	}
	l, err := (&reader{left: maxUnpacked}).read(text, root, "", 0)
	if err != nil {
		return err
	}
	merged, err := l.effective()
	if err != nil {
		return err
	}
	if r := validate.Validate(merged, "json"); r.IsFatal() {
		return reportError(r, reason)
	}
	return nil
}

func (l *layer) effective() (types.Config, error) {
	merged, _, err := newest.ParseCompatibleVersion(l.root.render())
	if err != nil {
		return types.Config{}, fmt.Errorf("reading the config again: %w", err)
	}
	var remote []types.Resource
	if !l.replaced {
		for i, c := range l.children {
			if c.layer == nil {
				remote = append(remote, merged.Ignition.Config.Merge[i])
			}
		}
	}
	merged.Ignition.Config.Merge = nil
	for _, c := range l.children {
		if c.layer == nil {
			continue
		}
		inner, err := c.layer.effective()
		if err != nil {
			return types.Config{}, err
		}
		merged = newest.Merge(merged, inner)
	}
	merged.Ignition.Config.Merge = append(remote, merged.Ignition.Config.Merge...)
	return merged, nil
}
