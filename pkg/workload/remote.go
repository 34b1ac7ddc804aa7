// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// Remote is a [Source] that knows the management cluster, and those to which a kubeconfig leads.
type Remote struct {
	// Clusters are the connections that a kubeconfig leads to.
	Clusters clustercache.ClusterCache

	static  Static
	secrets client.Reader
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// NewRemote makes a source for a manager.
func NewRemote(ctx context.Context, mgr ctrl.Manager, watchFilter string, options controller.Options) (*Remote, error) {
	own, err := client.New(mgr.GetConfig(), client.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
	})
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	r := &Remote{static: Static{New(own, clientset)}, secrets: mgr.GetAPIReader()}
	r.Clusters, err = clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient:     mgr.GetAPIReader(),
		WatchFilterValue: watchFilter,
		ClusterFilter:    func(cluster *clusterv1.Cluster) bool { return !SelfManaged(cluster) },
		Client:           clustercache.ClientOptions{UserAgent: mgr.GetConfig().UserAgent},
	}, options)
	return r, err
}

// Connect returns the workload cluster of a Cluster.
func (r *Remote) Connect(ctx context.Context, cluster *clusterv1.Cluster) (*Cluster, error) {
	if SelfManaged(cluster) {
		return r.static.Connect(ctx, cluster)
	}
	key := client.ObjectKeyFromObject(cluster)
	c, err := r.Clusters.GetUncachedClient(ctx, key)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return nil, r.whyNotConnected(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	return &Cluster{client: c, clientset: func() (kubernetes.Interface, error) {
		config, err := r.Clusters.GetRESTConfig(ctx, key)
		if errors.Is(err, clustercache.ErrClusterNotConnected) {
			return nil, ErrUnreachable
		}
		if err != nil {
			return nil, err
		}
		return kubernetes.NewForConfig(config)
	}}, nil
}

// whyNotConnected tells a cluster that does not answer from one that nothing leads to.
func (r *Remote) whyNotConnected(ctx context.Context, cluster client.ObjectKey) error {
	kubeconfig := &metav1.PartialObjectMetadata{}
	kubeconfig.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	switch err := r.secrets.Get(ctx, key, kubeconfig); {
	case err == nil:
		return ErrUnreachable
	case client.IgnoreNotFound(err) == nil:
		return ErrUnknown
	default:
		return err
	}
}
