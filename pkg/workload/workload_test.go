// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/workload"
)

// answering is a Cluster whose API server gives one answer to everything. Code 0: nobody listens.
func answering(t *testing.T, code int, answer any) *workload.Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	if code == 0 {
		server.Close()
	}
	config := &rest.Config{Host: server.URL}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return workload.New(c, clientset)
}

func TestOnlySilenceIsUnreachable(t *testing.T) {
	refusal := func(reason metav1.StatusReason, code int32) metav1.Status {
		return metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: code,
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", ResourceVersion: "1"}}
	for name, c := range map[string]struct {
		code        int
		answer      metav1.Status
		unreachable bool
		kept        func(error) bool // that the cause can still be told
	}{
		"no answer":         {0, metav1.Status{}, true, func(error) bool { return true }},
		"a proxy before it": {503, refusal(metav1.StatusReasonServiceUnavailable, 503), true, apierrors.IsServiceUnavailable},
		"a refusal":         {403, refusal(metav1.StatusReasonForbidden, 403), false, apierrors.IsForbidden},
		"a conflict":        {409, refusal(metav1.StatusReasonConflict, 409), false, apierrors.IsConflict},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := answering(t, c.code, c.answer)
			_, byName := cluster.NodeByName(t.Context(), "worker")
			_, pods := cluster.Pods(t.Context(), node)
			_, changed := cluster.ChangeNode(t.Context(), node.DeepCopy(), func(n *corev1.Node) bool {
				n.Spec.Unschedulable = true
				return true
			})
			for call, err := range map[string]error{
				"NodeByName": byName, "Pods": pods, "ChangeNode": changed, "DeleteNode": cluster.DeleteNode(t.Context(), node),
			} {
				if err == nil || errors.Is(err, workload.ErrUnreachable) != c.unreachable || !c.kept(err) {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
}

func TestANodeIsFoundByItsProviderID(t *testing.T) {
	nodes := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	for name, id := range map[string]string{"worker": "libvirt:///other", "renamed": "libvirt:///mine"} {
		nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}})
	}
	// It answers with a list to a Get as well, which reads as a Node without a provider ID.
	cluster := answering(t, 200, nodes)
	for id, want := range map[string]string{"libvirt:///mine": "renamed", "libvirt:///nobody": "", "": ""} {
		node, err := cluster.NodeByProviderID(t.Context(), id, "worker")
		if err != nil {
			t.Fatal(err)
		}
		if name := ptrName(node); name != want {
			t.Errorf("%q is Node %q, want %q", id, name, want)
		}
	}
}

func ptrName(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	return node.Name
}

func TestAManagementClusterIsNotGuessed(t *testing.T) {
	management := answering(t, 200, nil)
	source := workload.Static{Management: management}
	for value, want := range map[string]error{"true": nil, "": workload.ErrUnknown, "false": workload.ErrUnknown, "True": workload.ErrUnknown} {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{schedulingv1.SelfManagedAnnotation: value}}}
		found, err := source.Connect(t.Context(), cluster)
		if !errors.Is(err, want) || (err == nil) != (found == management) {
			t.Errorf("%q: %v, %v", value, found, err)
		}
	}
}
