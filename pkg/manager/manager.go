// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager is what the three programs share: flags, logs, probes, metrics, leader election, and caches that hold neither
// Secrets nor ConfigMaps.
package manager

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Program is one of the three programs.
type Program struct {
	// Name of the program, as it appears in logs and in the lease of the leader.
	Name string
	// Schemes add the kinds that the program works with, besides Kubernetes' own and Cluster API's.
	Schemes []func(*runtime.Scheme) error
	// Flags adds the program's own flags; nil when there are none.
	Flags func(*pflag.FlagSet)
	// Setup adds the program's controllers to the manager.
	Setup func(ctx context.Context, mgr ctrl.Manager, options Options) error
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Main runs the program until it is told to stop, and exits with 1 when it fails.
func Main(p Program) {
	if err := p.run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		klog.ErrorS(err, "Stopped", "program", p.Name)
		klog.Flush()
		os.Exit(1)
	}
}

func (p Program) run(ctx context.Context, args []string) error {
	options, err := parse(p, args)
	if err != nil {
		return err
	}
	if err := logsv1.ValidateAndApply(options.logs, nil); err != nil {
		return fmt.Errorf("setting up logs: %w", err)
	}
	ctrl.SetLogger(klog.Background())
	ctx = ctrl.LoggerInto(ctx, ctrl.Log)

	mgr, err := p.manager(options)
	if err != nil {
		return err
	}
	if err := p.Setup(ctx, mgr, options); err != nil {
		return fmt.Errorf("setting up controllers: %w", err)
	}
	klog.InfoS("Starting", "program", p.Name)
	return mgr.Start(ctx)
}

func (p Program) manager(options Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range append(p.Schemes, clientgoscheme.AddToScheme, clusterv1.AddToScheme) {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	config.UserAgent = p.Name
	tlsOptions, metrics, err := flags.GetManagerOptions(options.diagnostics)
	if err != nil {
		return nil, fmt.Errorf("setting up metrics: %w", err)
	}
	options.webhook.TLSOpts = tlsOptions
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       *metrics,
		HealthProbeBindAddress:        options.healthAddress,
		WebhookServer:                 webhook.NewServer(options.webhook),
		LeaderElection:                options.leaderElect,
		LeaderElectionID:              p.Name + ".leader-election",
		LeaderElectionReleaseOnCancel: true,
		Cache:                         cacheOptions(options),
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	if err := requireClusterAPI(mgr); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

func cacheOptions(options Options) cache.Options {
	o := cache.Options{SyncPeriod: &options.syncPeriod}
	if options.namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{options.namespace: {}}
	}
	return o
}

// requireClusterAPI says in plain words that Cluster API is missing or too old, before a watch fails without end.
func requireClusterAPI(mgr ctrl.Manager) error {
	kind := clusterv1.GroupVersion.WithKind("Machine")
	_, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the API server does not serve %s: install Cluster API 1.11 or newer first", kind)
	}
	return err
}
