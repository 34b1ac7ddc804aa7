// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	capiNamespace = "capi-system"
	// capiRole is filled by kube-controller-manager, from all roles that ask to be aggregated into it.
	capiRole = "capi-aggregated-manager-role"
)

// InstallCAPI applies Cluster API's core provider and runs its manager with the rights of its own service account. It
// returns once CRDs are served and conversion and admission webhooks answer. Further flags go to the manager, for example
// "--feature-gates=ClusterTopology=true".
func (c *ControlPlane) InstallCAPI(ctx context.Context, flags ...string) error {
	var ports reservation
	defer ports.release()
	webhooks, err := ports.port("", 0) // the manager listens on all addresses
	if err != nil {
		return err
	}
	health, err := ports.port(loopback, 0)
	if err != nil {
		return err
	}
	objects, err := readManifests(c.binaries.Path(manifests))
	if err != nil {
		return fmt.Errorf("the manifests of Cluster API: %w", err)
	}
	certificate, err := c.ServeWebhooks("capi-webhook", webhooks, objects)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, objects); err != nil {
		return err
	}
	ports.release()
	return c.startCAPI(ctx, health, append(flags, fmt.Sprintf("--webhook-port=%d", webhooks), "--webhook-cert-dir="+certificate))
}

// ServeWebhooks points the webhooks in objects, of CRDs and of admission, at a port of loopback, and returns the folder with the
// certificate for who serves them there.
func (c *ControlPlane) ServeWebhooks(name string, port int, objects []*unstructured.Unstructured) (certDir string, err error) {
	cert, err := c.ca.server(name, []string{loopback})
	if err != nil {
		return "", err
	}
	for _, o := range objects {
		pointAt(o.Object, fmt.Sprintf("https://%s:%d", loopback, port), c.ca.cert)
	}
	certDir = filepath.Join(c.Dir, name)
	return certDir, cert.write(certDir, "tls.crt", "tls.key")
}

func (c *ControlPlane) startCAPI(ctx context.Context, health int, flags []string) error {
	kubeconfig, err := c.KubeconfigFor(ServiceAccount(capiNamespace, "capi-manager"))
	if err != nil {
		return err
	}
	p, err := c.start("capi-core", append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--diagnostics-address=0", "--insecure-diagnostics",
		fmt.Sprintf("--health-addr=%s:%d", loopback, health)}, flags...)...)
	if err != nil {
		return err
	}
	cluster, err := c.client()
	if err != nil {
		return err
	}
	return c.ready(ctx, p, func(ctx context.Context) error {
		if err := probe(ctx, http.DefaultClient, fmt.Sprintf("http://%s:%d/readyz", loopback, health)); err != nil {
			return err
		}
		return webhooksAnswer(ctx, cluster)
	})
}

// webhooksAnswer tries to create a Cluster that both its webhooks must see: the old version is converted, and a Cluster
// without any reference is refused.
func webhooksAnswer(ctx context.Context, c client.Client) error {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("cluster.x-k8s.io/v1beta1")
	o.SetKind("Cluster")
	o.SetNamespace("default")
	o.SetName("probe")
	err := c.Create(ctx, o, client.DryRunAll)
	if err == nil {
		return errors.New("no webhook refuses a Cluster without references")
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// apply creates or updates all objects, the Namespace first, and waits until what they define is in force.
func (c *ControlPlane) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	cluster, err := c.client()
	if err != nil {
		return err
	}
	if err := put(ctx, cluster, objects[0]); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, o := range objects[1:] {
		group.Go(func() error { return put(groupCtx, cluster, o) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.controllers.await(ctx, func(ctx context.Context) error { return inForce(ctx, cluster, objects) })
}

func put(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("controlplane"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// inForce is nil once every CRD is served and the manager's role is filled.
func inForce(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) error {
	role := &rbacv1.ClusterRole{}
	if err := c.Get(ctx, client.ObjectKey{Name: capiRole}, role); err != nil {
		return err
	}
	if len(role.Rules) == 0 {
		return fmt.Errorf("ClusterRole %s is not filled", role.Name)
	}
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), crd); err != nil {
			return err
		}
		if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			return fmt.Errorf("CRD %s is not established", crd.Name)
		}
	}
	return nil
}

// readManifests decodes the objects of a file that need neither Nodes nor cert-manager, the Namespace first.
func readManifests(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		switch o.GetKind() {
		case "Deployment", "Service", "Certificate", "Issuer":
		case "Namespace":
			objects = slices.Insert(objects, 0, o)
		default:
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// pointAt replaces the Service of all webhooks in a value, of CRDs and of admission, by a URL with the same path.
func pointAt(value any, url string, ca []byte) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			pointAt(item, url, ca)
		}
	case map[string]any:
		if path, found, _ := unstructured.NestedString(value, "clientConfig", "service", "path"); found {
			value["clientConfig"] = map[string]any{"url": url + path, "caBundle": base64.StdEncoding.EncodeToString(ca)}
			return
		}
		for _, item := range value {
			pointAt(item, url, ca)
		}
	}
}
