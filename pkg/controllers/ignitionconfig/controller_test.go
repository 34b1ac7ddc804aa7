// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionconfig_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/ignitionconfig"
	"github.com/finos/caplv/pkg/ignitionmerge"
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
		machine   *clusterv1.Machine
		now       *clocktesting.FakePassiveClock
		recorder  *events.FakeRecorder
		announced []string
		wake      time.Duration
	)

	BeforeEach(func(ctx SpecContext) {
		now = clocktesting.NewFakePassiveClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
		recorder, announced = events.NewFakeRecorder(100), nil
		namespace = builder.Namespace(ctx, k8s)
		cluster = builder.Cluster(namespace)
		Expect(k8s.Create(ctx, cluster)).To(Succeed())
		cluster.Status.Initialization.InfrastructureProvisioned = new(true)
		Expect(k8s.Status().Update(ctx, cluster)).To(Succeed())
		machine = builder.Machine(namespace, "worker-1")
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
		c := ignitionconfig.New(k8s, k8s, recorder, now)
		for range 2 { // Paused is written first, in a round of its own
			result, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(config)})
			Expect(err).NotTo(HaveOccurred())
			wake = result.RequeueAfter
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
		Expect(reason()).To(Equal(bootstrapv1.SourceNotFoundReason))
		Expect(conditions.GetMessage(config, clusterv1.ReadyCondition)).To(ContainSubstring("worker-ignition"))
		source(ctx, sharedConfig)
		reconcile(ctx)
		Expect(conditions.IsTrue(config, clusterv1.ReadyCondition)).To(BeTrue())
	})

	It("says what is wrong with its source, and goes on once it is mended", func(ctx SpecContext) {
		s := source(ctx, `{"ignition":{"version":"2.2.0"},"token":"`+marker+`"}`)
		reconcile(ctx)
		Expect(reason()).To(Equal(bootstrapv1.SourceInvalidReason))
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
		Expect(reason()).To(Equal(bootstrapv1.SourceKeyMissingReason))
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

	change := func(ctx context.Context, s *corev1.Secret, value string) {
		GinkgoHelper()
		s.Data["value"] = []byte(value)
		Expect(k8s.Update(ctx, s)).To(Succeed())
	}

	made := func(ctx context.Context) {
		GinkgoHelper()
		machine.Status.Initialization.InfrastructureProvisioned = new(true)
		Expect(k8s.Status().Update(ctx, machine)).To(Succeed())
	}

	set := func(ctx context.Context, spec bootstrapv1.IgnitionConfigSpec) {
		GinkgoHelper()
		config.Spec = spec
		Expect(k8s.Update(ctx, config)).To(Succeed())
	}

	It("makes the copy anew when the source changes before the machine was made", func(ctx SpecContext) {
		s := source(ctx, sharedConfig)
		reconcile(ctx)
		change(ctx, s, `{"ignition":{"version":"3.4.0"}}`)
		reconcile(ctx)
		Expect(string(data(ctx).Data["value"])).To(Equal(`{"ignition":{"version":"3.4.0"}}`))
		Expect(config.Status.SpecVersion).To(Equal("3.4.0"))
		Expect(conditions.IsTrue(config, bootstrapv1.UpToDateCondition)).To(BeTrue())
		Expect(announced).To(ContainElement(ContainSubstring("DataSecretUpdated")))
	})

	It("keeps the copy when the source becomes invalid before the machine was made, and says so", func(ctx SpecContext) {
		s := source(ctx, sharedConfig)
		reconcile(ctx)
		change(ctx, s, "no config")
		reconcile(ctx)
		Expect(conditions.IsTrue(config, clusterv1.ReadyCondition)).To(BeTrue())
		Expect(conditions.GetReason(config, bootstrapv1.UpToDateCondition)).To(Equal(bootstrapv1.SourceInvalidReason))
		Expect(string(data(ctx).Data["value"])).To(ContainSubstring(marker))
	})

	It("leaves the copy alone once the machine was made, and says that the source changed", func(ctx SpecContext) {
		s := source(ctx, sharedConfig)
		reconcile(ctx)
		made(ctx)
		reconcile(ctx)
		Expect(conditions.IsTrue(config, bootstrapv1.UpToDateCondition)).To(BeTrue())
		before := data(ctx).ResourceVersion

		change(ctx, s, `{"ignition":{"version":"3.4.0"}}`)
		reconcile(ctx)
		Expect(data(ctx).ResourceVersion).To(Equal(before))
		Expect(conditions.GetReason(config, bootstrapv1.UpToDateCondition)).To(Equal(bootstrapv1.SourceChangedReason))

		Expect(k8s.Delete(ctx, s)).To(Succeed())
		reconcile(ctx)
		Expect(conditions.GetMessage(config, bootstrapv1.UpToDateCondition)).To(ContainSubstring("Secret worker-ignition does not exist"))
		Expect(conditions.IsTrue(config, clusterv1.ReadyCondition)).To(BeTrue())
	})

	It("writes nothing when nothing changed", func(ctx SpecContext) {
		source(ctx, sharedConfig)
		reconcile(ctx)
		before, secret := config.ResourceVersion, data(ctx).ResourceVersion
		reconcile(ctx)
		Expect(config.ResourceVersion).To(Equal(before))
		Expect(data(ctx).ResourceVersion).To(Equal(secret))
	})

	It("takes another key of the source", func(ctx SpecContext) {
		Expect(k8s.Create(ctx, builder.Secret(namespace, "other", "worker.ign", sharedConfig))).To(Succeed())
		set(ctx, bootstrapv1.IgnitionConfigSpec{SecretRef: bootstrapv1.KeyReference{Name: "other", Key: "worker.ign"}})
		reconcile(ctx)
		Expect(string(data(ctx).Data["value"])).To(ContainSubstring(marker))
	})

	It("takes a config that stands in it", func(ctx SpecContext) {
		set(ctx, bootstrapv1.IgnitionConfigSpec{Ignition: `{"ignition":{"version":"3.1.0"}}`})
		reconcile(ctx)
		Expect(config.Status.SpecVersion).To(Equal("3.1.0"))
		set(ctx, bootstrapv1.IgnitionConfigSpec{Butane: "variant: fcos\nversion: 1.1.0\nstorge: {}\n"})
		reconcile(ctx)
		Expect(conditions.GetMessage(config, bootstrapv1.UpToDateCondition)).To(ContainSubstring("$.storge (line 3): there is no such key"))
	})

	It("merges several sources in order, with files that Butane embeds", func(ctx SpecContext) {
		source(ctx, sharedConfig)
		Expect(k8s.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "site"},
			Data:       map[string]string{"chrony.conf": "pool ntp.example.com\n", "butane": "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: /etc/chrony.conf\n    contents: {local: etc/chrony.conf}\n"},
		})).To(Succeed())
		set(ctx, bootstrapv1.IgnitionConfigSpec{
			Sources: []bootstrapv1.Source{
				{SecretRef: bootstrapv1.KeyReference{Name: "worker-ignition"}},
				{ConfigMapRef: bootstrapv1.KeyReference{Name: "site", Key: "butane"}},
				{Ignition: `{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/token","contents":{"source":"data:,last"}}]}}`},
			},
			Files: []bootstrapv1.LocalFile{{Path: "etc/chrony.conf", ConfigMapRef: bootstrapv1.KeyReference{Name: "site", Key: "chrony.conf"}}},
		})
		reconcile(ctx)
		Expect(conditions.GetMessage(config, clusterv1.ReadyCondition)).To(BeEmpty())
		Expect(config.Status.SpecVersion).To(Equal("3.4.0"))
		effective, err := ignitionmerge.Effective(data(ctx).Data["value"])
		Expect(err).NotTo(HaveOccurred())
		Expect(string(effective)).To(And(
			ContainSubstring("pool%20ntp.example.com"), ContainSubstring("data:,last"), Not(ContainSubstring(marker))))
	})

	It("says of a config that is too large for a Secret how large it is", func(ctx SpecContext) {
		random := rand.New(rand.NewPCG(1, 2))
		var sources []bootstrapv1.Source
		for i := range 16 {
			noise := make([]byte, 60_000)
			for i := range noise {
				noise[i] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[random.IntN(64)]
			}
			sources = append(sources, bootstrapv1.Source{Ignition: fmt.Sprintf(
				`{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/%d","contents":{"source":"data:,%s"}}]}}`, i, noise)})
		}
		set(ctx, bootstrapv1.IgnitionConfigSpec{Sources: sources})
		reconcile(ctx)
		Expect(reason()).To(Equal(bootstrapv1.DataTooLargeReason))
	})

	It("takes in a copy that lost its owner", func(ctx SpecContext) {
		source(ctx, sharedConfig)
		reconcile(ctx)
		orphan := data(ctx)
		orphan.OwnerReferences[0].UID = "of-another-cluster"
		Expect(k8s.Update(ctx, orphan)).To(Succeed())
		reconcile(ctx)
		Expect(metav1.IsControlledBy(data(ctx), config)).To(BeTrue())
		orphan = data(ctx)
		orphan.OwnerReferences = nil
		Expect(k8s.Update(ctx, orphan)).To(Succeed())
		reconcile(ctx)
		Expect(metav1.IsControlledBy(data(ctx), config)).To(BeTrue())
	})

	Describe("with credentials", func() {
		const noon = 1772452800 // 2026-03-02 12:00 UTC
		token := func(at int64) string {
			claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, at))
			kubeconfig := base64.StdEncoding.EncodeToString([]byte("users: [{user: {token: eyJhbGciOiJSUzI1NiJ9." + claims + "." + marker + "}}]"))
			return `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubeconfig","contents":{"source":"data:;base64,` + kubeconfig + `"}}]}}`
		}

		It("warns once a token has expired, and no longer when it was replaced", func(ctx SpecContext) {
			s := source(ctx, token(noon+600))
			reconcile(ctx)
			Expect(conditions.IsTrue(config, bootstrapv1.CredentialsValidCondition)).To(BeTrue())
			Expect(config.Status.Expires.Unix()).To(BeEquivalentTo(noon + 600))
			Expect(wake).To(Equal(10 * time.Minute))

			now.SetTime(now.Now().Add(wake))
			reconcile(ctx)
			Expect(conditions.GetReason(config, bootstrapv1.CredentialsValidCondition)).To(Equal(bootstrapv1.CredentialsExpiredReason))
			message := conditions.GetMessage(config, bootstrapv1.CredentialsValidCondition)
			Expect(message).To(And(ContainSubstring("/etc/kubernetes/kubeconfig"), ContainSubstring("2026-03-02T12:10:00Z"), Not(ContainSubstring(marker))))
			Expect(conditions.IsTrue(config, clusterv1.ReadyCondition)).To(BeTrue())

			change(ctx, s, token(noon+7200))
			reconcile(ctx)
			Expect(conditions.IsTrue(config, bootstrapv1.CredentialsValidCondition)).To(BeTrue())
		})

		It("does not mind once the machine was made", func(ctx SpecContext) {
			source(ctx, token(noon-600))
			reconcile(ctx)
			Expect(conditions.IsFalse(config, bootstrapv1.CredentialsValidCondition)).To(BeTrue())
			made(ctx)
			reconcile(ctx)
			Expect(conditions.IsTrue(config, bootstrapv1.CredentialsValidCondition)).To(BeTrue())
		})

		It("asks the cluster for the end of a bootstrap token, and the source for what nobody else knows", func(ctx SpecContext) {
			id := strings.ToLower(fmt.Sprintf("%06x", rand.Uint32()&0xffffff))
			bootstrap := builder.Secret(metav1.NamespaceSystem, "bootstrap-token-"+id, "expiration", "2026-03-02T11:00:00Z")
			Expect(k8s.Create(ctx, bootstrap)).To(Succeed())
			s := source(ctx, `{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"name":"join.service","contents":"[Service]\nExecStart=kubeadm join --token `+id+`.0123456789abcdef\n"}]}}`)
			reconcile(ctx)
			Expect(conditions.GetMessage(config, bootstrapv1.CredentialsValidCondition)).To(ContainSubstring("The token in join.service expired"))

			Expect(k8s.Delete(ctx, bootstrap)).To(Succeed())
			s.Annotations = map[string]string{bootstrapv1.ExpiresAnnotation: "2026-03-02T11:30:00Z"}
			Expect(k8s.Update(ctx, s)).To(Succeed())
			reconcile(ctx)
			Expect(conditions.GetMessage(config, bootstrapv1.CredentialsValidCondition)).To(ContainSubstring("What Secret worker-ignition holds expired at 2026-03-02T11:30:00Z"))

			s.Annotations[bootstrapv1.ExpiresAnnotation] = "tomorrow"
			Expect(k8s.Update(ctx, s)).To(Succeed())
			reconcile(ctx)
			Expect(conditions.GetReason(config, bootstrapv1.UpToDateCondition)).To(Equal(bootstrapv1.SourceInvalidReason))
		})
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
