// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command caplv is a Cluster API infrastructure provider for libvirt hosts.
package main

import (
	"context"
	"net"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/libvirtcluster"
	"github.com/finos/caplv/pkg/controllers/libvirthost"
	"github.com/finos/caplv/pkg/controllers/libvirtmachine"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
	"github.com/finos/caplv/pkg/manager"
)

func main() {
	manager.Main(manager.Program{
		Name:    "caplv",
		Schemes: []func(*runtime.Scheme) error{infrav1.AddToScheme},
		Setup:   setup,
	})
}

// reconciler is a controller that can be added to a manager.
type reconciler interface {
	SetupWithManager(ctx context.Context, mgr ctrl.Manager, watchFilter string, options controller.Options) error
}

func setup(ctx context.Context, mgr ctrl.Manager, options manager.Options) error {
	hosts := rpc.New(clock.RealClock{}, rpc.Options{})
	for _, r := range []reconciler{
		libvirthost.New(mgr.GetClient(), mgr.GetAPIReader(), hosts, mgr.GetEventRecorder("libvirthost")),
		libvirtcluster.New(mgr.GetClient(), (&net.Dialer{}).DialContext),
		libvirtmachine.New(mgr.GetClient(), mgr.GetAPIReader(), hosts, mgr.GetEventRecorder("libvirtmachine")),
	} {
		if err := r.SetupWithManager(ctx, mgr, options.WatchFilter, options.Controller()); err != nil {
			return err
		}
	}
	return nil
}
