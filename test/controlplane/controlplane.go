// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane starts a real Kubernetes control plane on loopback, and Cluster API's core provider in it, for
// suites and for people. Everything is built from the modules that hack/controlplane/go.mod pins; nothing is downloaded
// but Go modules, and no container is run.
//
// [Build] needs Go and, once, a module proxy. [Start] and [ControlPlane.InstallCAPI] need neither, so they also run in a
// network namespace that has only a loopback device.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	loopback       = "127.0.0.1"
	serviceNetwork = "10.96.0.0/24"
)

// Options change how a control plane is started. The zero value is good for a suite.
type Options struct {
	// Binaries are the programs to run. When nil, Find finds them.
	Binaries *Binaries
	// Dir takes certificates, data and logs, and stays; started again in it, a control plane has its objects again. When
	// empty, a temporary folder is made, and removed by Stop.
	Dir string
	// BindAddress is where the API server listens. When empty, 127.0.0.1; 0.0.0.0 also lets guests in.
	BindAddress string
	// Port of the API server. When 0, a free one.
	Port int
	// Hosts are further names and addresses for the API server's certificate. It always has 127.0.0.1, localhost,
	// 192.168.122.1 (libvirt's default network), BindAddress, and the kubernetes Service.
	Hosts []string
	// Progress is told what is ready, and after how long. When nil, nobody is.
	Progress io.Writer
}

// ControlPlane is a running control plane. Its fields are not to be changed.
type ControlPlane struct {
	// Dir has certificates, data, kubeconfigs and one log per process.
	Dir string
	// Port is where the API server listens.
	Port int
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string

	options    Options
	binaries   *Binaries
	ca         *authority
	admin      *rest.Config
	supervisor *supervisor
	// controllers is kube-controller-manager.
	controllers *process
	began       time.Time
	stopOnce    sync.Once
	stopErr     error
}

// Start returns a control plane that is ready: its API server answers and its controllers work. ctx limits the start
// only; what runs is stopped by Stop, or when this process ends, however it ends. After an error nothing is left running.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	c, err := prepare(options)
	if err != nil {
		return nil, err
	}
	if err := c.run(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func prepare(options Options) (_ *ControlPlane, err error) {
	c := &ControlPlane{options: options, binaries: options.Binaries, began: time.Now()}
	if c.binaries == nil {
		if c.binaries, err = Find(); err != nil {
			return nil, err
		}
	}
	if c.options.BindAddress == "" {
		c.options.BindAddress = loopback
	}
	if c.ca, err = newAuthority(); err != nil {
		return nil, err
	}
	if options.Dir == "" {
		c.Dir, err = os.MkdirTemp("", "caplv-controlplane-")
	} else if err = os.MkdirAll(options.Dir, 0o700); err == nil {
		c.Dir, err = filepath.Abs(options.Dir)
	}
	c.supervisor = newSupervisor(c.Dir)
	return c, err
}

func (c *ControlPlane) run(ctx context.Context) error {
	var ports reservation
	defer ports.release()
	etcd, err := ports.port(loopback, 0)
	if err != nil {
		return err
	}
	if c.Port, err = ports.port(c.options.BindAddress, c.options.Port); err != nil {
		return fmt.Errorf("the API server's port: %w", err)
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	ports.release()
	if err := c.startEtcd(ctx, etcd); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, etcd); err != nil {
		return err
	}
	return c.startControllerManager(ctx)
}

// writeFiles stores the keys, certificates and the kubeconfig that the processes read.
func (c *ControlPlane) writeFiles() error {
	hosts := append([]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", loopback,
		"192.168.122.1", "10.96.0.1", c.options.BindAddress}, c.options.Hosts...)
	server, err := c.ca.server("kube-apiserver", hosts)
	if err != nil {
		return err
	}
	tokens, err := c.ca.server("service-account-tokens", nil)
	if err != nil {
		return err
	}
	if err := errors.Join(
		c.ca.write(c.Dir, "ca.crt", "ca.key"),
		server.write(c.Dir, "apiserver.crt", "apiserver.key"),
		tokens.write(c.Dir, "sa.crt", "sa.key"),
	); err != nil {
		return err
	}
	admin := Identity{User: "admin", Groups: []string{"system:masters"}}
	if c.admin, err = c.ConfigFor(admin); err != nil {
		return err
	}
	c.Kubeconfig, err = c.KubeconfigFor(admin)
	return err
}

func (c *ControlPlane) startEtcd(ctx context.Context, port int) error {
	url := fmt.Sprintf("http://%s:%d", loopback, port)
	p, err := c.start("etcd",
		"--data-dir=etcd", "--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls=http://127.0.0.1:0", // there are no peers, so an election need not wait for any
		"--heartbeat-interval=10", "--election-timeout=100", "--unsafe-no-fsync")
	if err != nil {
		return err
	}
	return c.ready(ctx, p, func(ctx context.Context) error { return probe(ctx, http.DefaultClient, url+"/health") })
}

func (c *ControlPlane) startAPIServer(ctx context.Context, etcd int) error {
	p, err := c.start("kube-apiserver",
		fmt.Sprintf("--etcd-servers=http://%s:%d", loopback, etcd),
		"--bind-address="+c.options.BindAddress, fmt.Sprintf("--secure-port=%d", c.Port),
		// Without it the address of the default route is looked up, and a namespace with only a loopback has none.
		"--advertise-address="+loopback, "--endpoint-reconciler-type=none",
		"--tls-cert-file=apiserver.crt", "--tls-private-key-file=apiserver.key", "--client-ca-file=ca.crt",
		"--cert-dir=.", "--service-cluster-ip-range="+serviceNetwork,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth", "--allow-privileged", "--profiling=false")
	if err != nil {
		return err
	}
	admin, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return err
	}
	return c.ready(ctx, p, func(ctx context.Context) error { return probe(ctx, admin, c.admin.Host+"/readyz") })
}

// startControllerManager waits for something that only its controllers make.
func (c *ControlPlane) startControllerManager(ctx context.Context) (err error) {
	c.controllers, err = c.start("kube-controller-manager",
		"--kubeconfig="+c.Kubeconfig, "--controllers=*,bootstrapsigner,tokencleaner", "--leader-elect=false", "--secure-port=0",
		"--cluster-signing-cert-file=ca.crt", "--cluster-signing-key-file=ca.key", "--root-ca-file=ca.crt",
		"--service-account-private-key-file=sa.key", "--kube-api-qps=200", "--kube-api-burst=400",
		"--flex-volume-plugin-dir=flexvolume", // the default is made on the host, in /usr/libexec
		"--profiling=false")
	if err != nil {
		return err
	}
	cluster, err := c.client()
	if err != nil {
		return err
	}
	return c.ready(ctx, c.controllers, func(ctx context.Context) error {
		return cluster.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, &corev1.ServiceAccount{})
	})
}

func (c *ControlPlane) start(name string, args ...string) (*process, error) {
	return c.supervisor.start(name, c.binaries.Path(name), args...)
}

// ready waits for a process and tells how long the control plane runs by then.
func (c *ControlPlane) ready(ctx context.Context, p *process, check func(context.Context) error) error {
	if err := p.await(ctx, check); err != nil {
		return err
	}
	tell(c.options.Progress, "%-24s ready after %.1f s", p.name, time.Since(c.began).Seconds())
	return nil
}

// Wait returns nil when ctx ends, and an error when a process ends before that by itself.
func (c *ControlPlane) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case p := <-c.supervisor.ended:
		return p.failure()
	}
}

// Stop stops all processes, the last one first, and removes what Start made. It returns once they are gone; later calls
// return the same.
func (c *ControlPlane) Stop() error {
	c.stopOnce.Do(func() {
		c.stopErr = c.supervisor.stop()
		if c.options.Dir == "" {
			c.stopErr = errors.Join(c.stopErr, os.RemoveAll(c.Dir))
		}
	})
	return c.stopErr
}

// Kubectl is the path of a kubectl of the API server's version. It writes to the home folder, unless KUBECACHEDIR is set.
func (c *ControlPlane) Kubectl() string { return c.binaries.Path("kubectl") }

// Config is the administrator's, without a limit on requests.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

func (c *ControlPlane) client() (client.Client, error) {
	known := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(known), apiextensionsv1.AddToScheme(known)); err != nil {
		return nil, err
	}
	return client.New(c.Config(), client.Options{Scheme: known})
}

// Identity is who sends a request.
type Identity struct {
	User   string
	Groups []string
}

// ServiceAccount is the identity that a Pod with this service account has.
func ServiceAccount(namespace, name string) Identity {
	return Identity{
		User:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}
}

// ConfigFor authenticates as the identity; it has the rights that RBAC gives it.
func (c *ControlPlane) ConfigFor(who Identity) (*rest.Config, error) {
	cert, err := c.ca.client(who)
	if err != nil {
		return nil, err
	}
	host := c.options.BindAddress
	if net.ParseIP(host).IsUnspecified() {
		host = loopback
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, fmt.Sprint(c.Port)),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.cert, CertData: cert.cert, KeyData: cert.key},
		QPS:             -1,
	}, nil
}

// KubeconfigFor writes a kubeconfig that authenticates as the identity, and returns its path.
func (c *ControlPlane) KubeconfigFor(who Identity) (string, error) {
	config, err := c.ConfigFor(who)
	if err != nil {
		return "", err
	}
	k := clientcmdapi.NewConfig()
	k.Clusters["caplv"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos[who.User] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	k.Contexts["caplv"] = &clientcmdapi.Context{Cluster: "caplv", AuthInfo: who.User}
	k.CurrentContext = "caplv"
	path := filepath.Join(c.Dir, "kubeconfigs", strings.NewReplacer(":", "-", "/", "-").Replace(who.User))
	return path, clientcmd.WriteToFile(*k, path)
}

// probe asks an HTTP endpoint for status 200.
func probe(ctx context.Context, c *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
