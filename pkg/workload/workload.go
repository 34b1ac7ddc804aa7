// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload leads to the Nodes and pods of a Cluster: to those of the management cluster for a Cluster that says that it
// describes the management cluster, and otherwise to where the Secret <cluster>-kubeconfig leads.
package workload

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
)

var (
	// ErrUnknown says that nobody told where the Nodes of a Cluster are.
	ErrUnknown = errors.New("create the Secret <cluster>-kubeconfig, or annotate the Cluster with " +
		schedulingv1.SelfManagedAnnotation + "=true")
	// ErrUnreachable says that the workload cluster does not answer.
	ErrUnreachable = errors.New("the workload cluster does not answer")
)

// Cluster is a workload cluster that we can talk to. It caches nothing.
type Cluster struct {
	client    client.Client
	clientset func() (kubernetes.Interface, error) // only a drain needs it
}

// New makes a Cluster of two clients of the same API server.
func New(c client.Client, clientset kubernetes.Interface) *Cluster {
	return &Cluster{client: c, clientset: func() (kubernetes.Interface, error) { return clientset, nil }}
}

// Source finds workload clusters.
type Source interface {
	// Connect returns the workload cluster of a Cluster. The error is [ErrUnknown] when there is nothing that leads to it, and
	// [ErrUnreachable] while it does not answer.
	Connect(ctx context.Context, cluster *clusterv1.Cluster) (*Cluster, error)
}

// SelfManaged says whether a Cluster describes the management cluster.
func SelfManaged(cluster *clusterv1.Cluster) bool {
	return cluster.Annotations[schedulingv1.SelfManagedAnnotation] == "true"
}

// Static is a [Source] that knows nothing but the management cluster.
type Static struct{ Management *Cluster }

// Connect returns the management cluster for a Cluster that describes it.
func (s Static) Connect(_ context.Context, cluster *clusterv1.Cluster) (*Cluster, error) {
	if !SelfManaged(cluster) {
		return nil, ErrUnknown
	}
	return s.Management, nil
}

// unreachable marks an error as [ErrUnreachable] when there was no answer, or only one of something before the API server.
func unreachable(err error) error {
	_, noAnswer := errors.AsType[*url.Error](err)
	if noAnswer || errors.Is(err, context.DeadlineExceeded) || apierrors.IsServiceUnavailable(err) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}
