// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/domain"
	"github.com/finos/caplv/pkg/ignitionmerge"
	"github.com/finos/caplv/pkg/steps"
)

const (
	// bootstrapDataKey is where Cluster API's contract has the bootstrap data in its Secret.
	bootstrapDataKey = "value"

	// firstInterface is what a guest calls the card on PCI bus 1, slot 0 of a q35 board, where pkg/domain pins it.
	firstInterface = "enp1s0"
)

// prepareIgnition waits for the bootstrap data, and merges what is the machine's own into a copy of it. The same data gives
// the same config each time.
func (c *Controller) prepareIgnition(ctx context.Context, s *scope) error {
	if s.cluster == nil || !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return &steps.NotYet{
			Reason:  infrav1.WaitingForClusterReason,
			Message: fmt.Sprintf("Waiting for the infrastructure of Cluster %s", s.machine.Spec.ClusterName),
		}
	}
	data, err := c.bootstrapData(ctx, s)
	if err != nil {
		return err
	}
	merged, err := ignitionmerge.Merge(data, s.overlay())
	if invalid, ok := errors.AsType[*ignitionmerge.Error](err); ok {
		return &steps.NotYet{
			Reason:  infrav1.InvalidBootstrapDataReason,
			Message: fmt.Sprintf("No machine can boot from the bootstrap data: %s: %s", invalid.Reason, invalid.Error()),
			After:   retryInterval,
		}
	}
	if err != nil {
		return fmt.Errorf("merging the machine's own files into its bootstrap data: %w", err)
	}
	s.ignition, s.warnings = merged.Config, merged.Warnings
	return nil
}

func (c *Controller) bootstrapData(ctx context.Context, s *scope) ([]byte, error) {
	name := ptr.Deref(s.machine.Spec.Bootstrap.DataSecretName, "")
	waiting := &steps.NotYet{
		Reason:  infrav1.WaitingForBootstrapDataReason,
		Message: "Waiting for the bootstrap provider to make the bootstrap data",
	}
	if name == "" {
		return nil, waiting
	}
	secret := &corev1.Secret{}
	err := c.secrets.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		waiting.Message = fmt.Sprintf("Waiting for Secret %s with the bootstrap data", name)
		waiting.After = retryInterval
		return nil, waiting
	}
	if err != nil {
		return nil, fmt.Errorf("reading the bootstrap data: %w", err)
	}
	data, ok := secret.Data[bootstrapDataKey]
	if !ok {
		waiting.Message = fmt.Sprintf("Secret %s has no key %q with the bootstrap data", name, bootstrapDataKey)
		waiting.After = retryInterval
		return nil, waiting
	}
	return data, nil
}

// overlay is what makes this machine differ from all others that share its bootstrap data.
func (s *scope) overlay() ignitionmerge.Overlay {
	nic := ignitionmerge.NIC{
		Interface:     firstInterface,
		MAC:           domain.MAC(s.uuid, 0),
		Addresses:     s.Spec.Network.Addresses,
		Nameservers:   s.Spec.Network.Nameservers,
		SearchDomains: s.Spec.Network.SearchDomains,
	}
	if s.Spec.Network.Gateway != "" {
		nic.Gateways = []string{s.Spec.Network.Gateway}
	}
	return ignitionmerge.Overlay{
		Hostname:   s.hostname(),
		ProviderID: s.Spec.ProviderID,
		NICs:       []ignitionmerge.NIC{nic},
	}
}

func (s *scope) hostname() string {
	if s.Spec.Hostname != "" {
		return s.Spec.Hostname
	}
	if s.machine != nil {
		return s.machine.Name
	}
	return s.Name
}
