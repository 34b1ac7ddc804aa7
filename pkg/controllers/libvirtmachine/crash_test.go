// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine_test

import (
	"errors"
	"fmt"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/finos/caplv/pkg/domain"
)

var errCrash = errors.New("the controller died here")

// failNth fails the n-th call of a verb.
func failNth(verb string, n int32) func(string) error {
	var calls atomic.Int32
	return func(call string) error {
		if call == verb && calls.Add(1) == n {
			return errCrash
		}
		return nil
	}
}

// crashes are the host's verbs that change something, each cut off before it had an effect, and after.
var _ = Describe("A controller that dies in the middle", func() {
	for _, verb := range []string{"Volume", "CreateOverlay", "UploadVolume", "Domain", "DefineDomain", "StartDomain"} {
		for _, when := range []string{"before", "after"} {
			It(fmt.Sprintf("makes one machine when it died %s %s", when, verb), func(ctx SpecContext) {
				w := newWorld(ctx)
				if when == "before" {
					w.host.Fail(failNth(verb, 1))
				} else {
					w.host.FailAfter(failNth(verb, 1))
				}
				failed := false
				for range 5 {
					_, err := w.reconcile(ctx)
					failed = failed || err != nil
				}
				Expect(failed).To(BeTrue(), "nothing died")
				w.settle(ctx)
				Expect(w.own()).To(ConsistOf(
					domain.Name(w.namespace, w.target.Name),
					"default/"+domain.RootVolume(w.uuid()), "default/"+domain.IgnitionVolume(w.uuid()),
				))
				Expect(w.target.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
			})
		}
	}

	for _, verb := range []string{"Domain", "DestroyDomain", "UndefineDomain", "ListVolumes", "DeleteVolume"} {
		for _, when := range []string{"before", "after"} {
			It(fmt.Sprintf("leaves nothing when it died %s %s", when, verb), func(ctx SpecContext) {
				w := newWorld(ctx)
				w.settle(ctx)
				w.delete(ctx)
				if when == "before" {
					w.host.Fail(failNth(verb, 1))
				} else {
					w.host.FailAfter(failNth(verb, 1))
				}
				_, err := w.reconcile(ctx)
				Expect(err).To(MatchError(errCrash))
				w.settle(ctx)
				Expect(w.gone(ctx)).To(BeTrue())
				Expect(w.own()).To(BeEmpty())
			})
		}
	}
})
