// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
)

// hasCode says whether libvirt answered with one of these error numbers (virErrorNumber in virterror.h).
func hasCode(err error, codes ...libvirt.ErrorNumber) bool {
	answer, ok := errors.AsType[libvirt.Error](err)
	if !ok {
		return false
	}
	for _, code := range codes {
		if answer.Code == uint32(code) {
			return true
		}
	}
	return false
}

// answered says whether an error is libvirt's own answer, so that the connection is fine.
func answered(err error) bool {
	_, ok := errors.AsType[libvirt.Error](err)
	return ok || errors.Is(err, libvirt.ErrUnsupported)
}

// unsupported says whether a daemon does not know a call, or one of its flags: which of the codes depends on its age.
func unsupported(err error) bool {
	return errors.Is(err, libvirt.ErrUnsupported) ||
		hasCode(err, libvirt.ErrNoSupport, libvirt.ErrInvalidArg, libvirt.ErrArgumentUnsupported, libvirt.ErrOperationUnsupported)
}

func isNoDomain(err error) bool { return hasCode(err, libvirt.ErrNoDomain) }

func isNoVolume(err error) bool { return hasCode(err, libvirt.ErrNoStorageVol) }

func isNoPool(err error) bool { return hasCode(err, libvirt.ErrNoStoragePool) }

func isVolumeExists(err error) bool { return hasCode(err, libvirt.ErrStorageVolExist) }

// isInvalidState says that what was asked makes no sense in the state that the object is in, for example to destroy a
// domain that is off.
func isInvalidState(err error) bool { return hasCode(err, libvirt.ErrOperationInvalid) }

// isClash is what defining a domain gives when its name or UUID belongs to another one. It has other meanings too.
func isClash(err error) bool { return hasCode(err, libvirt.ErrOperationFailed) }

// isBusy is a pool's answer while volumes are built in it. Libvirt has no code for that.
func isBusy(err error) bool { return hasCode(err, libvirt.ErrInternalError, libvirt.ErrOperationInvalid, libvirt.ErrResourceBusy) }

// describe puts libvirt's number beside its words, which may be in the host's language.
func describe(err error) error {
	answer, ok := errors.AsType[libvirt.Error](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w (libvirt code %d)", err, answer.Code)
}
