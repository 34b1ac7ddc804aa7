// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtcluster_test

import (
	"context"
	"errors"
	"net"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/libvirtcluster"
	"github.com/finos/caplv/test/apiserver"
	"github.com/finos/caplv/test/builder"
)

var (
	server *apiserver.Server
	k8s    client.Client
)

func TestLibvirtCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "LibvirtCluster")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	server, err = apiserver.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = server.Client
	DeferCleanup(server.Stop)
})

// answering and silent are what dialing an endpoint may give.
func answering(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	return near, far.Close()
}

func silent(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

func reconcile(ctx context.Context, lc *infrav1.LibvirtCluster, dial libvirtcluster.Dial) ctrl.Result {
	GinkgoHelper()
	c := libvirtcluster.New(k8s, dial)
	var result ctrl.Result
	for range 3 { // finalizer and Paused are written first, each in a round of its own
		var err error
		result, err = c.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(lc)})
		Expect(err).NotTo(HaveOccurred())
	}
	err := k8s.Get(ctx, client.ObjectKeyFromObject(lc), lc)
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	return result
}

var _ = Describe("A LibvirtCluster", func() {
	var (
		namespace string
		cluster   *clusterv1.Cluster
	)

	BeforeEach(func(ctx SpecContext) {
		namespace = builder.Namespace(ctx, k8s)
		cluster = builder.Cluster(namespace)
		Expect(k8s.Create(ctx, cluster)).To(Succeed())
	})

	owned := func(ctx context.Context, change ...func(*infrav1.LibvirtCluster)) *infrav1.LibvirtCluster {
		GinkgoHelper()
		lc := builder.LibvirtCluster(cluster, change...)
		Expect(k8s.Create(ctx, lc)).To(Succeed())
		return lc
	}

	It("is provisioned though nothing answers at its endpoint yet", func(ctx SpecContext) {
		lc := owned(ctx)
		result := reconcile(ctx, lc, silent)
		Expect(lc.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
		Expect(conditions.IsTrue(lc, clusterv1.ReadyCondition)).To(BeTrue())
		Expect(conditions.GetReason(lc, infrav1.EndpointReachableCondition)).To(Equal(infrav1.EndpointUnreachableReason))
		Expect(result.RequeueAfter).NotTo(BeZero(), "nobody would look again")

		reconcile(ctx, lc, answering)
		Expect(conditions.IsTrue(lc, infrav1.EndpointReachableCondition)).To(BeTrue())
	})

	It("takes the endpoint that the user set on the Cluster", func(ctx SpecContext) {
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
		Expect(k8s.Update(ctx, cluster)).To(Succeed())
		lc := owned(ctx, func(lc *infrav1.LibvirtCluster) { lc.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} })
		reconcile(ctx, lc, answering)
		Expect(lc.Spec.ControlPlaneEndpoint).To(Equal(cluster.Spec.ControlPlaneEndpoint))
		Expect(lc.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	})

	It("says that it has no endpoint", func(ctx SpecContext) {
		lc := owned(ctx, func(lc *infrav1.LibvirtCluster) { lc.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} })
		reconcile(ctx, lc, answering)
		Expect(lc.Status.Initialization.Provisioned).To(BeNil())
		Expect(conditions.GetReason(lc, clusterv1.ReadyCondition)).To(Equal(infrav1.EndpointNotSetReason))
	})

	It("waits for its machines before it goes", func(ctx SpecContext) {
		lc := owned(ctx)
		reconcile(ctx, lc, answering)
		machine := builder.LibvirtMachine(namespace, func(m *infrav1.LibvirtMachine) {
			m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
		})
		Expect(k8s.Create(ctx, machine)).To(Succeed())

		Expect(k8s.Delete(ctx, lc)).To(Succeed())
		reconcile(ctx, lc, answering)
		Expect(conditions.GetReason(lc, infrav1.DeletingCondition)).To(Equal(infrav1.WaitingForMachinesReason))

		Expect(k8s.Delete(ctx, machine)).To(Succeed())
		reconcile(ctx, lc, answering)
		Expect(apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(lc), lc))).To(BeTrue())
	})

	It("goes though its Cluster is gone", func(ctx SpecContext) {
		lc := owned(ctx)
		reconcile(ctx, lc, answering)
		Expect(k8s.Delete(ctx, cluster)).To(Succeed())
		Expect(k8s.Delete(ctx, lc)).To(Succeed())
		reconcile(ctx, lc, answering)
		Expect(apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(lc), lc))).To(BeTrue())
	})

	It("holds still while its Cluster is paused", func(ctx SpecContext) {
		cluster.Spec.Paused = new(true)
		Expect(k8s.Update(ctx, cluster)).To(Succeed())
		lc := owned(ctx)
		reconcile(ctx, lc, answering)
		Expect(conditions.IsTrue(lc, clusterv1.PausedCondition)).To(BeTrue())
		Expect(lc.Status.Initialization.Provisioned).To(BeNil())
	})

	It("writes nothing when nothing changes", func(ctx SpecContext) {
		lc := owned(ctx)
		reconcile(ctx, lc, answering)
		before := lc.ResourceVersion
		reconcile(ctx, lc, answering)
		Expect(lc.ResourceVersion).To(Equal(before))
	})
})
