package agreement

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/deployment"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/hpa"
)

// namespace contains the workloads of the stories.
const namespace = "stories"

// missing is the value of a target that gpuscaler does not serve.
const missing = -1

// scaled is a Deployment with an HPA that reads gpuscaler's target.
type scaled interface {
	// Target sets the served target.
	Target(replicas int) error
	// Scale writes spec.replicas, as kubectl scale does.
	Scale(replicas int32) error
	Replace(replicas int32) error
	DeletePod() error
	DeleteHPA() error
	CreateHPA() error
	// Settled waits until the HPA has synced several times, and returns spec.replicas and the number of pods.
	Settled() (replicas, pods int32, err error)
}

// playScaling runs the steps of a story about an HPA. It returns one line for each step, with the result.
func playScaling(d scaled, steps []string) (string, error) {
	var lines []string
	for _, step := range steps {
		if step == "settled" {
			replicas, pods, err := d.Settled()
			if err != nil {
				return "", err
			}
			lines = append(lines, fmt.Sprintf("settled: %d replicas, %d pods", replicas, pods))
			continue
		}
		if err := scalingStep(d, step); err != nil {
			return "", fmt.Errorf("%s: %w", step, err)
		}
		lines = append(lines, step)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

func scalingStep(d scaled, step string) error {
	switch step {
	case "the target is missing":
		return d.Target(missing)
	case "a pod is deleted":
		return d.DeletePod()
	case "the HPA is deleted":
		return d.DeleteHPA()
	case "the HPA is created":
		return d.CreateHPA()
	}
	for words, run := range map[string]func(n int) error{
		"the target becomes":                         d.Target,
		"kubectl scales to":                          func(n int) error { return d.Scale(int32(n)) },
		"the Deployment is deleted and created with": func(n int) error { return d.Replace(int32(n)) },
	} {
		if rest, ok := arguments(step, words); ok {
			n, err := strconv.Atoi(rest)
			if err != nil {
				return err
			}
			return run(n)
		}
	}
	return fmt.Errorf("unknown step")
}

// modelScaled is a Deployment in the models of the API server and the controllers.
type modelScaled struct {
	name        string
	now         time.Time
	api         *apiserver.Server
	deployments *deployment.Controller
	autoscaler  *hpa.Autoscaler
	target      int
}

func newModelScaled(name string, replicas int32) *modelScaled {
	m := &modelScaled{name: name, now: time.Now(), target: missing}
	m.api = apiserver.New(func() time.Time { return m.now })
	m.deployments = deployment.New(m.api, namespace)
	m.deployments.Create(name, replicas, &corev1.PodSpec{})
	_ = m.CreateHPA() // ignored, because the model returns no error
	return m
}

// Target implements the interface scaled.
func (m *modelScaled) Target(replicas int) error {
	m.target = replicas
	return nil
}

// Scale implements the interface scaled.
func (m *modelScaled) Scale(replicas int32) error {
	m.deployments.Scale(m.name, replicas)
	return nil
}

// Replace implements the interface scaled.
func (m *modelScaled) Replace(replicas int32) error {
	m.deployments.Replace(m.name, replicas)
	return nil
}

// DeletePod implements the interface scaled.
func (m *modelScaled) DeletePod() error {
	m.api.Remove(apiserver.KindPod, namespace+"/"+m.deployments.PodsOf(m.name)[0].Name)
	return nil
}

// DeleteHPA implements the interface scaled.
func (m *modelScaled) DeleteHPA() error {
	m.autoscaler = nil
	return nil
}

// CreateHPA implements the interface scaled.
func (m *modelScaled) CreateHPA() error {
	m.autoscaler = hpa.New(target(m.name), m.now)
	return nil
}

// target describes the Deployment that the HPA of a story scales.
func target(name string) *hpa.Target { return &hpa.Target{Namespace: namespace, Name: name, Min: 2} }

// Settled implements the interface scaled.
func (m *modelScaled) Settled() (replicas, pods int32, err error) {
	for second := range 60 {
		m.now = m.now.Add(time.Second)
		m.deployments.Run()
		if before, exists := m.deployments.Replicas(m.name); exists && m.autoscaler != nil && second%int(hpa.SyncPeriod/time.Second) == 0 {
			if after := m.autoscaler.Sync(m.now, before, int32(m.target), m.target != missing); after != before {
				m.deployments.Scale(m.name, after)
			}
		}
	}
	replicas, _ = m.deployments.Replicas(m.name)
	return replicas, int32(len(m.deployments.PodsOf(m.name))), nil
}
