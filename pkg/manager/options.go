// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"flag"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Options are the flags that the three programs share.
type Options struct {
	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that objects must have; empty for all objects.
	WatchFilter string
	// Concurrency is how many objects of one kind are worked on at the same time.
	Concurrency int

	namespace     string
	healthAddress string
	leaderElect   bool
	syncPeriod    time.Duration
	webhook       webhook.Options
	diagnostics   flags.ManagerOptions
	logs          *logs.Options
}

// Controller are the options of each controller.
func (o Options) Controller() controller.Options {
	return controller.Options{MaxConcurrentReconciles: o.Concurrency}
}

func parse(p Program, args []string) (Options, error) {
	o := Options{logs: logs.NewOptions()}
	fs := pflag.NewFlagSet(p.Name, pflag.ContinueOnError)
	fs.SortFlags = false
	fs.StringVar(&o.namespace, "namespace", "",
		"Namespace to watch. All namespaces when empty.")
	fs.StringVar(&o.WatchFilter, "watch-filter", "",
		"Value of the label cluster.x-k8s.io/watch-filter that objects must have to be worked on. All objects when empty.")
	fs.IntVar(&o.Concurrency, "concurrency", 10,
		"How many objects of one kind are worked on at the same time.")
	fs.BoolVar(&o.leaderElect, "leader-elect", false,
		"Let only one of several replicas work at a time.")
	fs.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute,
		"How often every object is looked at, even when nothing changed.")
	fs.StringVar(&o.healthAddress, "health-addr", ":9440",
		"Address of the probes /healthz and /readyz.")
	fs.IntVar(&o.webhook.Port, "webhook-port", 9443,
		"Port of admission webhooks, where the program serves any.")
	fs.StringVar(&o.webhook.CertDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs",
		"Folder with the certificate tls.crt and the key tls.key of admission webhooks.")
	if p.Flags != nil {
		p.Flags(fs)
	}
	flags.AddManagerOptions(fs, &o.diagnostics)
	logsv1.AddFlags(o.logs, fs)
	fs.AddGoFlagSet(flag.CommandLine) // --kubeconfig
	return o, fs.Parse(args)
}
