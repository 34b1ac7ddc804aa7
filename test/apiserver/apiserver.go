// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver gives a suite a real kube-apiserver that knows our kinds and Cluster API's, and nothing that acts on
// them: the suite calls its controller by itself.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/test/controlplane"
)

// Server is a running kube-apiserver.
type Server struct {
	// Config lets in with all rights.
	Config *rest.Config
	// Client has all rights and caches nothing.
	Client client.Client

	environment *envtest.Environment
}

// Start returns a server that serves our kinds and Cluster API's.
func Start(ctx context.Context) (*Server, error) {
	binaries, err := controlplane.Build(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	root, err := moduleDir(ctx, "github.com/finos/caplv")
	if err != nil {
		return nil, err
	}
	capi, err := moduleDir(ctx, "sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	s := &Server{environment: &envtest.Environment{
		BinaryAssetsDirectory: filepath.Dir(binaries.Path("kube-apiserver")),
		ErrorIfCRDPathMissing: true,
		CRDDirectoryPaths: []string{
			filepath.Join(root, "manifests", "infrastructure", "crd"),
			filepath.Join(root, "manifests", "bootstrap", "crd"),
			filepath.Join(root, "manifests", "scheduler", "crd"),
			filepath.Join(capi, "core", "config", "crd", "bases"),
		},
	}}
	if s.Config, err = s.environment.Start(); err != nil {
		return nil, err
	}
	scheme, err := Scheme()
	if err == nil {
		s.Client, err = client.New(s.Config, client.Options{Scheme: scheme})
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop ends the server.
func (s *Server) Stop() error { return s.environment.Stop() }

// Scheme knows Kubernetes' own kinds, Cluster API's and ours.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme,
		infrav1.AddToScheme, bootstrapv1.AddToScheme, schedulingv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

func moduleDir(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("finding module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
