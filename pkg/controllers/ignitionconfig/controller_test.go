// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionconfig_test

import (
	"context"
	"encoding/json"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/ignitionconfig"
	"github.com/finos/caplv/test/apiserver"
	"github.com/finos/caplv/test/builder"
)

const (
	marker       = "s3cr3t-marker"
	sharedConfig = `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/token","contents":{"source":"data:,` + marker + `"}}]}}`
)

var k8s client.Client

func TestIgnitionConfig(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "IgnitionConfig")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	server, err := apiserver.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = server.Client
	DeferCleanup(server.Stop)
})

var _ = Describe("An IgnitionConfig", func() {
	var (
		namespace string
		cluster   *clusterv1.Cluster
		config    *bootstrapv1.IgnitionConfig
		recorder  *events.FakeRecorder
		announced []string
	)

	BeforeEach(func(ctx SpecContext) {
		recorder, announced = events.NewFakeRecorder(100), nil
		namespace = builder.Namespace(ctx, k8s)
		cluster = builder.Cluster(namespace)
		Expect(k8s.Create(ctx, cluster)).To(Succeed())
		cluster.Status.Initialization.InfrastructureProvisioned = new(true)
		Expect(k8s.Status().Update(ctx, cluster)).To(Succeed())
		machine := builder.Machine(namespace, "worker-1")
		Expect(k8s.Create(ctx, machine)).To(Succeed())
		config = builder.IgnitionConfig(machine)
		Expect(k8s.Create(ctx, config)).To(Succeed())
	})

	source := func(ctx context.Context, value string) *corev1.Secret {
		GinkgoHelper()
		s := builder.Secret(namespace, "worker-ignition", "value", value)
		Expect(k8s.Create(ctx, s)).To(Succeed())
		return s
	}

	reconcile := func(ctx context.Context) {
		GinkgoHelper()
		c := ignitionconfig.New(k8s, k8s, recorder)
		for range 2 { // Paused is written first, in a round of its own
			_, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(config)})
			Expect(err).NotTo(HaveOccurred())
		}
		for len(recorder.Events) > 0 {
			announced = append(announced, <-recorder.Events)
		}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(config), config)).To(Succeed())
	}

	data := func(ctx context.Context) *corev1.Secret {
		GinkgoHelper()
		s := &corev1.Secret{}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(config), s)).To(Succeed())
		return s
	}

	reason := func() string { return conditions.GetReason(config, clusterv1.ReadyCondition) }

	It("makes a copy of the shared config, as Cluster API's contract wants it", func(ctx SpecContext) {
		source(ctx, sharedConfig)
		reconcile(ctx)
		Expect(config.Status.DataSecretName).To(Equal("worker-1"))
		Expect(config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
		Expect(config.Status.SpecVersion).To(Equal("3.2.0"))
		Expect(conditions.IsTrue(config, clusterv1.ReadyCondition)).To(BeTrue())
		s := data(ctx)
		Expect(s.Type).To(BeEquivalentTo(clusterv1.ClusterSecretType))
		Expect(s.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "spot"))
		Expect(metav1.IsControlledBy(s, config)).To(BeTrue())
		Expect(string(s.Data["format"])).To(Equal("ignition"))
		Expect(string(s.Data["value"])).To(ContainSubstring(marker))
	})

	It("turns Butane into Ignition", func(ctx SpecContext) {
		source(ctx, "variant: fcos\nversion: 1.4.0\n")
		reconcile(ctx)
		Expect(config.Status.SpecVersion).To(Equal("3.3.0"))
		Expect(json.Valid(data(ctx).Data["value"])).To(BeTrue())
	})

	It("waits for its source, and goes on once it is there", func(ctx SpecContext) {
		reconcile(ctx)
		Expect(reason()).To(Equal(bootstrapv1.SourceSecretNotFoundReason))
		Expect(conditions.GetMessage(config, clusterv1.ReadyCondition)).To(ContainSubstring("worker-ignition"))
		source(ctx, sharedConfig)
		reconcile(ctx)
		Expect(conditions.IsTrue(config, clusterv1.ReadyCondition)).To(BeTrue())
	})

	It("says what is wrong with its source, and goes on once it is mended", func(ctx SpecContext) {
		s := source(ctx, `{"ignition":{"version":"2.2.0"},"token":"`+marker+`"}`)
		reconcile(ctx)
		Expect(reason()).To(Equal(bootstrapv1.SourceSecretInvalidReason))
		Expect(conditions.GetMessage(config, clusterv1.ReadyCondition)).To(And(
			ContainSubstring("UnsupportedVersion"), Not(ContainSubstring(marker))))
		s.Data["value"] = []byte(sharedConfig)
		Expect(k8s.Update(ctx, s)).To(Succeed())
		reconcile(ctx)
		Expect(conditions.IsTrue(config, clusterv1.ReadyCondition)).To(BeTrue())
	})

	It("names the key that its source lacks", func(ctx SpecContext) {
		Expect(k8s.Create(ctx, builder.Secret(namespace, "worker-ignition", "ignition", sharedConfig))).To(Succeed())
		reconcile(ctx)
		Expect(reason()).To(Equal(bootstrapv1.SourceSecretKeyMissingReason))
	})

	It("waits for the Cluster's infrastructure, so that the copy is fresh", func(ctx SpecContext) {
		cluster.Status.Initialization.InfrastructureProvisioned = new(false)
		Expect(k8s.Status().Update(ctx, cluster)).To(Succeed())
		source(ctx, sharedConfig)
		reconcile(ctx)
		Expect(reason()).To(Equal(bootstrapv1.WaitingForClusterInfrastructureReason))
	})

	It("waits for a Machine to own it", func(ctx SpecContext) {
		config.OwnerReferences = nil
		Expect(k8s.Update(ctx, config)).To(Succeed())
		source(ctx, sharedConfig)
		reconcile(ctx)
		Expect(reason()).To(Equal(bootstrapv1.WaitingForOwnerReason))
	})

	It("leaves the copy alone when the source changes later", func(ctx SpecContext) {
		s := source(ctx, sharedConfig)
		reconcile(ctx)
		before := data(ctx).ResourceVersion
		s.Data["value"] = []byte(`{"ignition":{"version":"3.4.0"}}`)
		Expect(k8s.Update(ctx, s)).To(Succeed())
		reconcile(ctx)
		Expect(data(ctx).ResourceVersion).To(Equal(before))
	})

	It("finds the copy again when it died before it could say so", func(ctx SpecContext) {
		source(ctx, sharedConfig)
		reconcile(ctx)
		config.Status = bootstrapv1.IgnitionConfigStatus{}
		Expect(k8s.Status().Update(ctx, config)).To(Succeed())
		before := data(ctx).UID
		reconcile(ctx)
		Expect(config.Status.DataSecretName).To(Equal("worker-1"))
		Expect(data(ctx).UID).To(Equal(before))
	})

	It("does not touch a Secret of its name that is not its own", func(ctx SpecContext) {
		source(ctx, sharedConfig)
		Expect(k8s.Create(ctx, builder.Secret(namespace, config.Name, "value", "somebody else's"))).To(Succeed())
		reconcile(ctx)
		Expect(reason()).To(Equal(bootstrapv1.DataSecretTakenReason))
		Expect(string(data(ctx).Data["value"])).To(Equal("somebody else's"))
	})

	It("holds still while its Cluster is paused", func(ctx SpecContext) {
		cluster.Spec.Paused = new(true)
		Expect(k8s.Update(ctx, cluster)).To(Succeed())
		source(ctx, sharedConfig)
		reconcile(ctx)
		Expect(apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(config), &corev1.Secret{}))).To(BeTrue())
	})

	It("shows no secret to anybody", func(ctx SpecContext) {
		source(ctx, sharedConfig)
		reconcile(ctx)
		shown, err := json.Marshal(config)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(shown)).NotTo(ContainSubstring(marker))
		Expect(announced).NotTo(BeEmpty())
		Expect(announced).NotTo(ContainElement(ContainSubstring(marker)))
	})
})
