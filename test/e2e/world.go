// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e is the whole product at work: a real control plane with Cluster API, a real libvirt host, our three programs
// with the rights that their manifests give them, and a guest that boots.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/finos/caplv/test/apiserver"
	"github.com/finos/caplv/test/controlplane"
	"github.com/finos/caplv/test/stand"
	"github.com/finos/caplv/test/stand/sandbox"
)

const (
	// apiServerName is the host of the control plane's endpoint in the sample, and apiServerPort its port.
	apiServerName = "api.spot.labdroid.net"
	apiServerPort = 6443

	// baseImage is the image that the sample asks for. Ours stands in for it.
	baseImage = "rhcos-qemu.x86_64.qcow2"
)

// components are our programs, and the folders and service accounts that they are deployed with.
var components = []struct{ program, manifests, namespace string }{
	{"caplv", "infrastructure", "caplv-system"},
	{"ignition-bootstrap", "bootstrap", "ignition-bootstrap-system"},
	{"scheduler", "scheduler", "fivespot-system"},
}

// World is the product and all that it works with. It lives in a sandbox, and ends with it.
type World struct {
	Host         *stand.Libvirt
	ControlPlane *controlplane.ControlPlane
	// Client has all rights.
	Client client.Client
	// Programs are ours, by name.
	Programs map[string]*Program
	// Dir holds logs.
	Dir string

	root string // of the repository
}

// Start brings the world up. Call it inside a sandbox.
func Start(ctx context.Context, progress *Progress) (_ *World, err error) {
	w := &World{Programs: map[string]*Program{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop(context.WithoutCancel(ctx)))
		}
	}()
	ctrl.SetLogger(logr.Discard()) // clients of ours log through it; what they have to say is in their errors
	if w.root, err = repository(); err != nil {
		return nil, err
	}
	state, err := sandbox.StateDir()
	if err != nil {
		return nil, err
	}
	w.Dir = filepath.Join(state, "programs")
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		text string
		do   func(context.Context) error
	}{
		{"libvirt host up", w.startHost},
		{"guest image in the pool", w.addImage},
		{"control plane up", w.startControlPlane},
		{"Cluster API up", func(ctx context.Context) error { return w.ControlPlane.InstallCAPI(ctx) }},
		{"our manifests applied", w.applyManifests},
		{"our three programs up", w.startPrograms},
	} {
		if err := progress.Step(step.text, func() error { return step.do(ctx) }); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Root is the repository's folder.
func (w *World) Root() string { return w.root }

// Stop ends what Start began. What is forgotten ends with the sandbox.
func (w *World) Stop(ctx context.Context) error {
	var errs []error
	for _, p := range w.Programs {
		errs = append(errs, p.Kill())
	}
	if w.ControlPlane != nil {
		errs = append(errs, w.ControlPlane.Stop())
	}
	if w.Host != nil {
		errs = append(errs, w.Host.Stop(ctx))
	}
	return errors.Join(errs...)
}

func (w *World) startHost(ctx context.Context) (err error) {
	w.Host, err = stand.StartLibvirt(ctx, stand.Options{})
	return err
}

// addImage puts the guest's image into the pool under the name that the sample asks for.
func (w *World) addImage(ctx context.Context) error {
	image, err := filepath.EvalSymlinks(filepath.Join(w.root, ".cache", "guest", "guest.qcow2"))
	if err != nil {
		return fmt.Errorf("make guest-image first: %w", err)
	}
	named := filepath.Join(w.Dir, baseImage)
	if err := os.Symlink(image, named); err != nil {
		return err
	}
	_, err = w.Host.AddImage(ctx, named)
	return err
}

// startControlPlane serves where the sample says that the API server is.
func (w *World) startControlPlane(ctx context.Context) (err error) {
	hosts, err := os.OpenFile("/etc/hosts", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(hosts, "%s %s\n", stand.BridgeAddress, apiServerName)
	if err := errors.Join(err, hosts.Close()); err != nil {
		return err
	}
	w.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		BindAddress: "0.0.0.0", Port: apiServerPort, Hosts: []string{apiServerName},
	})
	if err != nil {
		return err
	}
	scheme, err := apiserver.Scheme()
	if err != nil {
		return err
	}
	w.Client, err = client.New(w.ControlPlane.Config(), client.Options{Scheme: scheme})
	return err
}

func (w *World) startPrograms(ctx context.Context) error {
	for _, c := range components {
		account := controlplane.ServiceAccount(c.namespace, c.program+"-manager")
		kubeconfig, err := w.ControlPlane.KubeconfigFor(account)
		if err != nil {
			return err
		}
		p, err := newProgram(c.program, filepath.Join(w.root, "bin"), kubeconfig, w.Dir)
		if err != nil {
			return err
		}
		w.Programs[c.program] = p
	}
	webhook, err := w.prepareWebhook(w.Programs["scheduler"])
	if err != nil {
		return err
	}
	for _, p := range w.Programs {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return w.Client.Create(ctx, webhook)
}

// prepareWebhook has the scheduler serve its admission webhook, and returns what registers it.
func (w *World) prepareWebhook(scheduler *Program) (*unstructured.Unstructured, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, text, _ := strings.Cut(address, ":")
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(w.root, "manifests", "scheduler-webhook", "webhook.yaml"))
	if err != nil {
		return nil, err
	}
	objects, err := decode(manifest)
	if err != nil {
		return nil, err
	}
	certificate, err := w.ControlPlane.ServeWebhooks("scheduler-webhook", port, objects)
	if err != nil {
		return nil, err
	}
	scheduler.flags = []string{"--admission-webhook", "--webhook-port", text, "--webhook-cert-dir", certificate}
	return objects[0], nil
}

// repository is the folder of go.mod, from here or from a folder below it.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("run this inside the repository")
}
