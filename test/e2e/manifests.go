// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kubectl runs kubectl with all rights, and returns what it printed.
func (w *World) Kubectl(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, w.ControlPlane.Kubectl(), append([]string{"--kubeconfig", w.ControlPlane.Kubeconfig, "--cache-dir", w.Dir}, args...)...)
	cmd.Stdin, cmd.Dir = stdin, w.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", args[0], err, stderr.String())
	}
	return string(out), nil
}

// applyManifests installs our components as users do, but for the Deployments: no Node is there to run them.
func (w *World) applyManifests(ctx context.Context) error {
	for _, c := range components {
		rendered, err := w.Kubectl(ctx, nil, "kustomize", filepath.Join("manifests", c.manifests))
		if err != nil {
			return err
		}
		objects, err := decode([]byte(rendered))
		if err != nil {
			return err
		}
		var wanted bytes.Buffer
		for _, o := range objects {
			if o.GetKind() == "Deployment" {
				continue
			}
			text, err := o.MarshalJSON()
			if err != nil {
				return err
			}
			wanted.Write(text)
		}
		if _, err := w.Kubectl(ctx, &wanted, "apply", "--server-side", "-f", "-"); err != nil {
			return err
		}
	}
	_, err := w.Kubectl(ctx, nil, "wait", "--for=condition=Established", "crd",
		"-l", "clusterctl.cluster.x-k8s.io", "--timeout=30s")
	return err
}

// Sample reads the objects of a file in manifests/samples.
func (w *World) Sample(name string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(filepath.Join(w.root, "manifests", "samples", name))
	if err != nil {
		return nil, err
	}
	return decode(text)
}

// Adapt changes in a sample what cannot be the same on every machine: the host key of a host that was just made, and where
// the machine's distribution keeps its firmware.
func (w *World) Adapt(o *unstructured.Unstructured) error {
	if o.GetKind() != "LibvirtHost" {
		return nil
	}
	firmware, variables, err := firmware()
	if err != nil {
		return err
	}
	return errors.Join(
		unstructured.SetNestedField(o.Object, w.Host.HostKeyFingerprint, "spec", "hostKeyFingerprint"),
		unstructured.SetNestedField(o.Object, firmware, "spec", "firmwarePath"),
		unstructured.SetNestedField(o.Object, variables, "spec", "nvramTemplatePath"),
	)
}

// firmware finds the UEFI firmware and its template of variables. Newer distributions have only the 4M builds.
func firmware() (code, variables string, err error) {
	for _, suffix := range []string{"", "_4M"} {
		code, variables = "/usr/share/OVMF/OVMF_CODE"+suffix+".fd", "/usr/share/OVMF/OVMF_VARS"+suffix+".fd"
		if _, err = os.Stat(code); err == nil {
			return code, variables, nil
		}
	}
	return "", "", err
}

// CreateSecrets creates the two Secrets that the sample needs.
func (w *World) CreateSecrets(ctx context.Context, namespace string, ignition []byte) error {
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "laptop-ssh-key"},
		Type:       corev1.SecretTypeSSHAuth,
		Data:       map[string][]byte{corev1.SSHAuthPrivateKey: w.Host.ClientKey},
	}
	worker := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker-ignition"},
		Data:       map[string][]byte{"value": ignition},
	}
	for _, s := range []*corev1.Secret{key, worker} {
		if err := client.IgnoreAlreadyExists(w.Client.Create(ctx, s)); err != nil {
			return err
		}
	}
	return nil
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := d.Decode(o); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}
