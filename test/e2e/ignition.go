// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/base64"
	"encoding/json"
)

// Marker is planted in what is secret, so that a test can look for it where it must not be.
const Marker = "s3cr3t-marker-7f3a"

// proofPath is a file that a unit of the config writes in the guest once the network is up.
const proofPath = "/run/proof"

// WorkerIgnition is a shared config as a cluster hands it to its workers: a token, a hostname that is the same for all, and a
// kubelet's unit, in place of a kubelet, that writes down the provider ID that it was given.
func WorkerIgnition() ([]byte, error) {
	type object = map[string]any
	data := func(text string) object {
		return object{"source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(text))}
	}
	return json.Marshal(object{
		"ignition": object{"version": "3.2.0"},
		"storage": object{"files": []object{
			{"path": "/etc/kubernetes/kubeconfig", "mode": 0o600, "overwrite": true, "contents": data("token: " + Marker + "\n")},
			{"path": "/etc/hostname", "mode": 0o644, "overwrite": true, "contents": data("shared-by-all\n")},
		}},
		"systemd": object{"units": []object{{
			"name":    "kubelet.service",
			"enabled": true,
			"contents": `[Unit]
Description=Stands in for a kubelet
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'echo "--provider-id=${KUBELET_PROVIDERID}" >` + proofPath + `'

[Install]
WantedBy=multi-user.target
`,
		}}},
	})
}
