// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-fivespot is a plugin of kubectl for ScheduledMachines.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/preview"
	"github.com/finos/caplv/pkg/timetable"
)

const usage = `kubectl fivespot looks at ScheduledMachines.

Commands:
  preview   Show when a ScheduledMachine is on in the next two weeks
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) == 0 || args[0] != "preview" {
		_, _ = fmt.Fprint(os.Stderr, usage)
		if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
			return 0
		}
		_, _ = fmt.Fprintf(os.Stderr, "\nError: there is no command %q\n", args[0])
		return 1
	}
	c := &cluster{}
	command := &preview.Command{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Clock: clock.RealClock{}, Cluster: c.find}
	return command.Run(ctx, args[1:], c.flags)
}

// cluster is the one that kubectl would talk to.
type cluster struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

func (c *cluster) flags(fs *pflag.FlagSet) {
	c.rules = clientcmd.NewDefaultClientConfigLoadingRules()
	fs.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "Kubeconfig file of the cluster.")
	fs.StringVar(&c.overrides.CurrentContext, "context", "", "Context of the kubeconfig file.")
}

func (c *cluster) find(ctx context.Context, namespace, name string) (*schedulingv1.ScheduledMachine, timetable.Calendar, error) {
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.overrides)
	if namespace == "" {
		var err error
		if namespace, _, err = config.Namespace(); err != nil {
			return nil, nil, err
		}
	}
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, schedulingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, nil, err
		}
	}
	k8s, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, err
	}
	m := &schedulingv1.ScheduledMachine{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, m); err != nil {
		return nil, nil, err
	}
	return m, timetable.ConfigMaps(ctx, k8s, namespace), nil
}
