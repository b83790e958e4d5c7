package adapters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	deployment "github.com/gpuscaler/gpuscaler/e2e/workload"
)

// definition is a YAML file that describes an external metrics adapter. Its command and its environment may contain these variables:
//   - $(KUBECONFIG): a kubeconfig of an administrator
//   - $(PROMETHEUS) and $(REDIS): the addresses of the data sources
//   - $(PORT): the port at which the adapter must serve HTTPS
//   - $(CERTIFICATE), $(KEY) and $(CA): the files of its serving certificate
//   - $(NAMESPACE): the namespace of the workloads
type definition struct {
	Name string `json:"name"` // name of the adapter in the table of results, and of its CSV file with results
	// Command is the path of the adapter's program, followed by its arguments. Empty: the adapter runs at Address.
	Command []string `json:"command,omitempty"`
	Env     []string `json:"env,omitempty"`
	// Address is the host:port of a running adapter. Empty: Command starts the adapter.
	Address string `json:"address,omitempty"`
	// Workloads contains the metric of each workload that the adapter scales. If it is empty, the adapter scales only the workloads whose load
	// the gateway measures. Their metric is gateway_waiting with the label app.
	Workloads map[string]metricOf `json:"workloads,omitempty"`
}

type metricOf struct {
	Metric string            `json:"metric"`
	Labels map[string]string `json:"labels,omitempty"`
	// Divisor is the number by which the adapter divides the load before it serves the value; 0 means 1. A replica serves a load of 10, so
	// with the divisor 10 the adapter serves a number of replicas.
	Divisor float64 `json:"divisor,omitempty"`
}

// adapterProcess is the name of the adapter's process.
const adapterProcess = "adapter"

// definedTarget is an adapter that a definition describes.
type definedTarget struct {
	definition
	lab *lab.Lab
	api *faults.TCP
	// waitFor is the time within which the adapter must be available through the API server.
	waitFor time.Duration
}

func parseDefinition(content []byte) (lab.Target, error) {
	var d definition
	if err := yaml.UnmarshalStrict(content, &d); err != nil {
		return nil, fmt.Errorf("definition of a target: %w", err)
	}
	return newDefinition(d)
}

func newDefinition(d definition) (*definedTarget, error) {
	if d.Name == "" || strings.ContainsAny(d.Name, "/. ") {
		return nil, fmt.Errorf("definition of a target: name %q: use a name without dots, slashes and spaces", d.Name)
	}
	if (len(d.Command) == 0) == (d.Address == "") {
		return nil, fmt.Errorf("definition of %s: set either command or address", d.Name)
	}
	if len(d.Workloads) == 0 {
		d.Workloads = map[string]metricOf{}
		for _, w := range lab.Workloads {
			if w.Origin == lab.Gateway {
				d.Workloads[w.Name] = metricOf{Metric: lab.Series, Labels: map[string]string{"app": w.Name}}
			}
		}
	}
	for name := range d.Workloads {
		if !slices.ContainsFunc(lab.Workloads, func(w lab.Workload) bool { return w.Name == name }) {
			return nil, fmt.Errorf("definition of %s: no workload %q", d.Name, name)
		}
	}
	return &definedTarget{definition: d, waitFor: 10 * time.Minute}, nil
}

func (d *definedTarget) Name() string { return d.definition.Name }

func (d *definedTarget) Version(context.Context) (string, error) { return "", nil }

func (d *definedTarget) Metric(w lab.Workload) (lab.Metric, bool) {
	m, ok := d.Workloads[w.Name]
	correct := float64(w.Waiting)
	if m.Divisor != 0 {
		correct /= m.Divisor
	}
	return lab.Metric{Name: m.Metric, Selector: labels.Set(m.Labels).String(), Correct: correct}, ok
}

func (d *definedTarget) Start(ctx context.Context, l *lab.Lab) error {
	d.lab = l
	address, ca, err := d.Address, []byte(nil), error(nil)
	if len(d.Command) > 0 {
		ca = l.Stack.CA.PEM
		if address, err = d.run(ctx); err != nil {
			return err
		}
	} else {
		fmt.Printf("waiting %s for %s at %s: Prometheus %s, Redis %s, KUBECONFIG=%s\n", d.waitFor, d.Name(), d.Address, l.SourceURL(),
			l.Redis.Address, l.Stack.Kubeconfig)
	}
	if err := l.Through(ctx, address, types.NamespacedName{Namespace: "default", Name: "adapter"}, ca); err != nil {
		return err
	}
	go l.RefreshRegistration(ctx)
	for _, w := range lab.Workloads {
		if m, ok := d.Metric(w); ok {
			if err := l.Stack.Client.Create(ctx, d.hpa(w, m)); err != nil {
				return err
			}
		}
	}
	return stack.Poll(ctx, d.waitFor, func(ctx context.Context) error {
		return l.Stack.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1")
	})
}

// run starts the adapter and returns its address.
func (d *definedTarget) run(ctx context.Context) (string, error) {
	l := d.lab
	port, err := l.Stack.Port()
	if err != nil {
		return "", err
	}
	certs := filepath.Join(l.Stack.Dir, "certificates", "adapter")
	certify := func(notAfter time.Time) error {
		return l.Certify(certs, stack.Identity{User: "adapter", DNS: []string{"adapter.default.svc"}, NotAfter: notAfter})
	}
	if err := errors.Join(os.MkdirAll(certs, 0o755), os.WriteFile(certs+"/ca.crt", l.Stack.CA.PEM, 0o600), certify(time.Time{})); err != nil {
		return "", err
	}
	p, kubeconfig, err := l.Routed(ctx, l.Stack.Kubeconfig, filepath.Join(l.Stack.Dir, "kubeconfigs", "adapter"))
	if err != nil {
		return "", err
	}
	d.api = p
	expand := strings.NewReplacer("$(KUBECONFIG)", kubeconfig, "$(PROMETHEUS)", l.SourceURL(), "$(REDIS)", l.Redis.Address,
		"$(PORT)", strconv.Itoa(port), "$(CERTIFICATE)", certs+"/tls.crt", "$(KEY)", certs+"/tls.key", "$(CA)", certs+"/ca.crt",
		"$(NAMESPACE)", lab.Namespace)
	var words, env []string
	for _, word := range d.Command {
		words = append(words, expand.Replace(word))
	}
	for _, one := range d.Env {
		env = append(env, expand.Replace(one))
	}
	if _, err := l.Stack.Run(stack.Command{Name: adapterProcess, Path: words[0], Args: words[1:], Env: env}); err != nil {
		return "", err
	}
	go l.Supervise(ctx, adapterProcess)
	l.Parts = d.parts(certify)
	return "127.0.0.1:" + strconv.Itoa(port), nil
}

func (d *definedTarget) parts(certify func(time.Time) error) lab.Parts {
	process := func(context.Context) (*stack.Process, error) { return d.lab.Stack.Process(adapterProcess), nil }
	end := func(context.Context) error { return lab.Terminate(d.lab.Stack.Process(adapterProcess)) }
	return lab.Parts{
		Serving: process, Drain: end, Rollout: end, Certificate: certify,
		All: func(context.Context) ([]*stack.Process, error) {
			return []*stack.Process{d.lab.Stack.Process(adapterProcess)}, nil
		},
		Lose:     func(context.Context) error { d.lab.Stack.Process(adapterProcess).Kill(); return nil },
		API:      func(context.Context) (*faults.TCP, error) { return d.api, nil },
		EveryAPI: func() []*faults.TCP { return []*faults.TCP{d.api} },
		Logs:     []string{filepath.Join(d.lab.Stack.Dir, "logs", adapterProcess+".log")},
	}
}

// hpa returns the HPA of a workload. Its stabilization window for scale-downs is as long as in gpuscaler's policies.
func (d *definedTarget) hpa(w lab.Workload, m lab.Metric) *autoscalingv2.HorizontalPodAutoscaler {
	h := deployment.HPA(lab.Namespace, w.Name, 12)
	window := int32(scaleDownSeconds)
	h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = &window
	each := *resource.NewMilliQuantity(int64(1000*m.Correct*lab.PerReplica/float64(w.Waiting)), resource.DecimalSI)
	h.Spec.Metrics[0].External = &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: m.Name,
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(d.Workloads[w.Name].Labels)}},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &each},
	}
	return h
}
