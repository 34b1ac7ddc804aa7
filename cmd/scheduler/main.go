// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command scheduler creates and deletes Cluster API Machines in time windows.
package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/containment"
	"github.com/finos/caplv/pkg/controllers/scheduledmachine"
	"github.com/finos/caplv/pkg/manager"
	"github.com/finos/caplv/pkg/webhooks"
	"github.com/finos/caplv/pkg/workload"
)

func main() {
	var s scheduler
	manager.Main(manager.Program{
		Name:    "scheduler",
		Schemes: []func(*runtime.Scheme) error{schedulingv1.AddToScheme},
		Flags:   s.flags,
		Setup:   s.setup,
	})
}

type scheduler struct {
	allowedKinds []string
	webhook      bool
}

func (s *scheduler) flags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&s.allowedKinds, "allowed-kinds", containment.DefaultKinds,
		"Kinds that infrastructureSpec and bootstrapSpec may have, each as Kind.group. *.group is every kind of a group.")
	fs.BoolVar(&s.webhook, "admission-webhook", false,
		"Serve the validating webhook of ScheduledMachines. The flags --webhook-* say where.")
}

func (s *scheduler) setup(ctx context.Context, mgr ctrl.Manager, options manager.Options) error {
	rules, err := containment.Parse(s.allowedKinds)
	if err != nil {
		return fmt.Errorf("reading --allowed-kinds: %w", err)
	}
	remote, err := workload.NewRemote(ctx, mgr, options.WatchFilter, options.Controller())
	if err != nil {
		return err
	}
	if s.webhook {
		w := &webhooks.ScheduledMachine{Client: mgr.GetClient(), Rules: rules, Clock: clock.RealClock{}}
		if err := w.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	c := scheduledmachine.New(mgr.GetClient(), remote, rules, mgr.GetEventRecorder("scheduledmachine"), clock.RealClock{})
	return c.SetupWithManager(ctx, mgr, remote, options.WatchFilter, options.Controller())
}
