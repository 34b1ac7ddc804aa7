// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command ignition-bootstrap is a Cluster API bootstrap provider: it turns Ignition and Butane configs into bootstrap data.
// Its command render shows, without a cluster, what a machine would boot with.
package main

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/ignitionconfig"
	"github.com/finos/caplv/pkg/manager"
	"github.com/finos/caplv/pkg/render"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "render" {
		os.Exit(render.Run(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	manager.Main(manager.Program{
		Name:    "ignition-bootstrap",
		Schemes: []func(*runtime.Scheme) error{bootstrapv1.AddToScheme},
		Setup:   setup,
	})
}

func setup(ctx context.Context, mgr ctrl.Manager, options manager.Options) error {
	c := ignitionconfig.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("ignitionconfig"), clock.RealClock{})
	return c.SetupWithManager(ctx, mgr, options.WatchFilter, options.Controller())
}
