// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command ignition-bootstrap is a Cluster API bootstrap provider: it turns Ignition and Butane configs into bootstrap data.
package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/ignitionconfig"
	"github.com/finos/caplv/pkg/manager"
)

func main() {
	manager.Main(manager.Program{
		Name:    "ignition-bootstrap",
		Schemes: []func(*runtime.Scheme) error{bootstrapv1.AddToScheme},
		Setup:   setup,
	})
}

func setup(ctx context.Context, mgr ctrl.Manager, options manager.Options) error {
	c := ignitionconfig.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("ignitionconfig"))
	return c.SetupWithManager(ctx, mgr, options.WatchFilter, options.Controller())
}
