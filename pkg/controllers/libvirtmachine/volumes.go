// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/domain"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/steps"
)

// defaultPool is what an unset spec.rootDisk.storagePool means.
const defaultPool = "default"

// files are the machine's own on its host.
type files struct{ root, ignition hypervisor.Volume }

func (s *scope) pool() string {
	if s.Spec.RootDisk.StoragePool != "" {
		return s.Spec.RootDisk.StoragePool
	}
	return defaultPool
}

// ensureVolumes looks for the root disk and the Ignition config, and makes what is missing.
func (c *Controller) ensureVolumes(ctx context.Context, s *scope) (err error) {
	if s.files.root, err = c.ensureRootDisk(ctx, s); err != nil {
		return err
	}
	s.files.ignition, err = s.conn.UploadVolume(ctx, s.pool(), domain.IgnitionVolume(s.uuid), s.ignition)
	return s.hostError("uploading the Ignition config", err)
}

// ensureRootDisk makes the root disk as an overlay on the base image, which is shared and only read.
func (c *Controller) ensureRootDisk(ctx context.Context, s *scope) (hypervisor.Volume, error) {
	name := domain.RootVolume(s.uuid)
	root, err := s.conn.Volume(ctx, s.pool(), name)
	if err == nil {
		return root, nil
	}
	if !errors.Is(err, hypervisor.ErrNotFound) {
		return root, s.hostError("looking for the root disk", err)
	}
	image := s.Spec.RootDisk.BaseImage
	base, err := s.conn.Volume(ctx, s.pool(), image)
	if errors.Is(err, hypervisor.ErrNotFound) {
		return root, &steps.NotYet{
			Reason: infrav1.BaseImageNotFoundReason,
			Message: fmt.Sprintf("Pool %s on host %s has no volume %s; put the image there",
				s.pool(), s.Spec.HostRef.Name, image),
			After: retryInterval,
		}
	}
	if err != nil {
		return root, s.hostError("looking for the base image", err)
	}
	ctrl.LoggerFrom(ctx).Info("Creating root disk", "pool", s.pool(), "volume", name, "baseImage", image)
	var size int64
	if s.Spec.RootDisk.Size != nil {
		size = s.Spec.RootDisk.Size.Value()
	}
	root, err = s.conn.CreateOverlay(ctx, s.pool(), name, size, base)
	return root, s.hostError("creating the root disk", err)
}
