// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirthost

import (
	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/hypervisor"
)

const (
	// freeMemoryStepMiB is the granularity of status.freeMemoryMB. Without it each look would be a write.
	freeMemoryStepMiB = 256

	bytesPerGiB = 1 << 30
)

// show writes into the status what the host is and has.
func show(h *infrav1.LibvirtHost, info hypervisor.Info) {
	s := &h.Status
	s.Hostname = info.Hostname
	s.Architecture = info.Architecture
	s.LibvirtVersion, s.HypervisorVersion = info.LibvirtVersion, info.HypervisorVersion
	s.Capacity = infrav1.HostResources{VCPUs: info.VCPUs, MemoryMB: info.MemoryMiB}
	s.FreeMemoryMB = new(info.FreeMemoryMiB / freeMemoryStepMiB * freeMemoryStepMiB)
	s.VirtType = infrav1.VirtTypeQEMU
	if info.KVM {
		s.VirtType = infrav1.VirtTypeKVM
	}
	s.Pools = nil
	for _, pool := range info.Pools {
		s.Pools = append(s.Pools, poolStatus(pool))
	}
}

func poolStatus(pool hypervisor.Pool) infrav1.StoragePoolStatus {
	if !pool.Active {
		return infrav1.StoragePoolStatus{Name: pool.Name, State: infrav1.StoragePoolInactive}
	}
	return infrav1.StoragePoolStatus{
		Name:        pool.Name,
		State:       infrav1.StoragePoolActive,
		CapacityGB:  new(pool.CapacityBytes / bytesPerGiB),
		AvailableGB: new(pool.AvailableBytes / bytesPerGiB),
	}
}
