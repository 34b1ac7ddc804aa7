// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command scheduler creates and deletes Cluster API Machines in time windows.
package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/scheduledmachine"
	"github.com/finos/caplv/pkg/manager"
)

func main() {
	manager.Main(manager.Program{
		Name:    "scheduler",
		Schemes: []func(*runtime.Scheme) error{schedulingv1.AddToScheme},
		Setup:   setup,
	})
}

func setup(ctx context.Context, mgr ctrl.Manager, options manager.Options) error {
	c := scheduledmachine.New(mgr.GetClient(), mgr.GetEventRecorder("scheduledmachine"), clock.RealClock{})
	return c.SetupWithManager(ctx, mgr, options.WatchFilter, options.Controller())
}
