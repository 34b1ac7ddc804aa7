// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"slices"

	"github.com/digitalocean/go-libvirt"
)

// says tells whether libvirt answered with one of these error numbers (virErrorNumber in its virterror.h). Its words may be
// in the language of the host.
func says(err error, codes ...libvirt.ErrorNumber) bool {
	answer, ok := errors.AsType[libvirt.Error](err)
	return ok && slices.Contains(codes, libvirt.ErrorNumber(answer.Code)) //nolint:gosec // G115: a small number
}

// answered tells libvirt's own answer, after which the connection is fine, from an error of the connection.
func answered(err error) bool {
	_, ok := errors.AsType[libvirt.Error](err)
	return ok || errors.Is(err, libvirt.ErrUnsupported)
}

// unsupported says whether a daemon does not know a call, or one of its flags: which of the codes depends on its age.
func unsupported(err error) bool {
	return errors.Is(err, libvirt.ErrUnsupported) ||
		says(err, libvirt.ErrNoSupport, libvirt.ErrInvalidArg, libvirt.ErrArgumentUnsupported, libvirt.ErrOperationUnsupported)
}
