package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// controlPlaneFaults are failures of the control plane.
var controlPlaneFaults = []fault{
	{name: "apiserver-frozen", what: "The API server is suspended.", inject: component("kube-apiserver", suspend)},
	{name: "apiserver-restarted", what: "The API server ends after SIGTERM and is started again at once.",
		inject: component("kube-apiserver", restartAfterTerm)},
	{name: "apiserver-killed", what: "The API server is killed and is started again at once.", inject: component("kube-apiserver", restart)},
	{name: "apiserver-down", what: "The API server is killed and is started again at the end of the fault.",
		inject: component("kube-apiserver", killUntilRepair)},
	{name: "etcd-latency", what: "Each packet between the API server and etcd takes 300 ms.",
		inject: network(etcdLink, delayed(300*time.Millisecond))},
	{name: "etcd-frozen", what: "The process of etcd is suspended.", inject: component("etcd", suspend)},
	{name: "etcd-killed", what: "etcd is killed and is started again at once.", inject: component("etcd", restart)},
	{name: "etcd-dropped", what: "Packets between the API server and etcd are dropped.", inject: network(etcdLink, (*faults.TCP).Drop)},
	{name: "controllers-killed", what: "The controller manager with the HPA controller is killed and is started again at once.",
		inject: component("kube-controller-manager", restart)},
	{name: "controllers-frozen", what: "The controller manager with the HPA controller is suspended.",
		inject: component("kube-controller-manager", suspend)},
}

// networkFaults are failures of the network between the adapter and the API server. The faults named api-* affect the adapter's requests to
// the API server, and the faults named path-* affect the API server's requests to the adapter.
var networkFaults = []fault{
	{name: "api-dropped-leader", what: "Packets between the serving process and the API server are dropped; the sources are reachable.",
		inject: leaderAPI((*faults.TCP).Drop), hold: 25 * time.Second},
	{name: "api-refused-leader", what: "Connections of the serving process to the API server are refused; the sources are reachable.",
		inject: leaderAPI((*faults.TCP).Refuse), hold: 25 * time.Second},
	{name: "api-dropped-all", what: "Packets between all processes of the adapter and the API server are dropped.",
		inject: everyAPI((*faults.TCP).Drop), hold: 25 * time.Second},
	{name: "api-slow", what: "Each packet between all processes of the adapter and the API server takes 2 s.",
		inject: everyAPI(delayed(2 * time.Second)), hold: 30 * time.Second},
	{name: "api-resets", what: "All connections of the adapter to the API server are reset every two seconds.",
		inject: resetAPIs},
	{name: "path-refused", what: "Connections of the API server to the adapter are refused.", inject: network(pathLink, (*faults.TCP).Refuse)},
	{name: "path-dropped", what: "Packets between the API server and the adapter are dropped.", inject: network(pathLink, (*faults.TCP).Drop)},
	{name: "path-slow", what: "Each packet between the API server and the adapter takes 700 ms.",
		inject: network(pathLink, delayed(700*time.Millisecond))},
}

// registrationFaults are failures of the adapter's registration, certificate and permissions.
var registrationFaults = []fault{
	{name: "certificate-expired", what: "The adapter's serving certificate expires, and is renewed at the end of the fault.",
		inject: expireCertificate},
	{name: "registration-taken", what: "Another server's release replaces the APIService, and is uninstalled at the end of the fault.",
		inject: takeRegistration},
	{name: "registration-deleted", what: "The APIService is deleted; the adapter or its release creates it again.",
		inject: deleteRegistration},
	{name: "permissions-revoked", what: "The ClusterRoleBinding of the adapter is deleted, and is created again at the end of the fault.",
		inject: revokePermissions},
}

func etcdLink(l *lab.Lab) *faults.TCP { return l.Etcd }
func pathLink(l *lab.Lab) *faults.TCP { return l.Path }

// action does something to a process p, for example suspends it. It returns the function that undoes the action, or nil if there is nothing
// to undo, as after a restart.
type action func(l *lab.Lab, p *stack.Process) (repair, error)

// component applies an action to the control plane's process with the given name, for example etcd.
func component(name string, act action) inject {
	return func(_ context.Context, l *lab.Lab) (repair, error) {
		p := l.Stack.Process(name)
		if p == nil {
			return nil, fmt.Errorf("no process %s", name)
		}
		return act(l, p)
	}
}

func suspend(_ *lab.Lab, p *stack.Process) (repair, error) {
	return func(context.Context) error { return p.Signal(syscall.SIGCONT) }, p.Signal(syscall.SIGSTOP)
}

func restart(l *lab.Lab, p *stack.Process) (repair, error) {
	_, err := l.Stack.Restart(p.Name)
	return nil, err
}

func restartAfterTerm(l *lab.Lab, p *stack.Process) (repair, error) {
	return nil, errors.Join(lab.Terminate(p), second(l.Stack.Restart(p.Name)))
}

func second[T any](_ T, err error) error { return err }

func killUntilRepair(l *lab.Lab, p *stack.Process) (repair, error) {
	p.Kill()
	return func(context.Context) error { return second(l.Stack.Restart(p.Name)) }, nil
}

// leaderAPI applies breakIt to the connections from the serving process to the API server.
func leaderAPI(breakIt func(*faults.TCP)) inject {
	return func(ctx context.Context, l *lab.Lab) (repair, error) {
		if l.Parts.API == nil {
			return nil, errNotStarted
		}
		p, err := l.Parts.API(ctx)
		if err != nil {
			return nil, err
		}
		return network(func(*lab.Lab) *faults.TCP { return p }, breakIt)(ctx, l)
	}
}

// errNotStarted is returned for a fault that needs the adapter's processes or certificate, if the adapter runs outside the lab.
const errNotStarted = lab.NotApplicable("this command did not start the adapter")

func everyAPI(breakIt func(*faults.TCP)) inject {
	return func(_ context.Context, l *lab.Lab) (repair, error) {
		if l.Parts.EveryAPI == nil {
			return nil, errNotStarted
		}
		broken := l.Parts.EveryAPI()
		for _, p := range broken {
			breakIt(p)
		}
		return func(context.Context) (err error) {
			for _, p := range broken {
				err = errors.Join(err, p.Repair())
			}
			return err
		}, nil
	}
}

func resetAPIs(ctx context.Context, l *lab.Lab) (repair, error) {
	if l.Parts.EveryAPI == nil {
		return nil, errNotStarted
	}
	return repeatedly(2*time.Second, func(l *lab.Lab) {
		for _, p := range l.Parts.EveryAPI() {
			p.Reset()
		}
	})(ctx, l)
}

// expireCertificate replaces the adapter's serving certificate with an expired certificate. It also resets the API server's connections to
// the adapter every two seconds, because the API server checks the certificate only when it opens a connection.
func expireCertificate(_ context.Context, l *lab.Lab) (repair, error) {
	if l.Parts.Certificate == nil {
		return nil, errNotStarted
	}
	if err := l.Parts.Certificate(time.Now().Add(-time.Second)); err != nil {
		return nil, err
	}
	repeat := repeatedly(2*time.Second, func(l *lab.Lab) { l.Path.Reset() })
	end, err := repeat(context.Background(), l)
	return func(ctx context.Context) error { return errors.Join(end(ctx), l.Parts.Certificate(time.Time{})) }, err
}

func takeRegistration(ctx context.Context, l *lab.Lab) (repair, error) {
	restore, err := savedRegistration(ctx, l)
	if err != nil {
		return nil, err
	}
	taken := `{"spec":{"service":{"namespace":"other","name":"other-adapter","port":443},"caBundle":null,"insecureSkipTLSVerify":true}}`
	if err := l.Stack.Client.Patch(ctx, lab.Registration(), client.RawPatch(types.MergePatchType, []byte(taken)),
		client.FieldOwner("helm")); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := l.Stack.Client.Delete(ctx, lab.Registration()); err != nil {
			return err
		}
		return restore(ctx)
	}, nil
}

func deleteRegistration(ctx context.Context, l *lab.Lab) (repair, error) {
	restore, err := savedRegistration(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := l.Stack.Client.Delete(ctx, lab.Registration()); err != nil {
		return nil, err
	}
	return restore, nil
}

// savedRegistration reads the adapter's APIService and returns a function that creates it again, as a release of the adapter would in a
// real cluster. For an adapter that creates its own APIService, the returned function does nothing.
func savedRegistration(ctx context.Context, l *lab.Lab) (repair, error) {
	var saved apiregistrationv1.APIService
	if err := l.Stack.Client.Get(ctx, client.ObjectKey{Name: lab.Registration().Name}, &saved); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if l.Parts.Registers {
			return nil
		}
		saved.ObjectMeta = metav1.ObjectMeta{Name: saved.Name}
		err := l.Stack.Client.Create(ctx, &saved)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}, nil
}

func revokePermissions(ctx context.Context, l *lab.Lab) (repair, error) {
	if len(l.Parts.Permissions) == 0 {
		return nil, lab.NotApplicable("it runs as an administrator here")
	}
	var saved []client.Object
	for _, binding := range l.Parts.Permissions {
		if err := l.Stack.Client.Get(ctx, client.ObjectKeyFromObject(binding), binding); err != nil {
			return nil, err
		}
		copied, ok := binding.DeepCopyObject().(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no object", binding)
		}
		copied.SetResourceVersion("")
		copied.SetUID("")
		saved = append(saved, copied)
		if err := l.Stack.Client.Delete(ctx, binding); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) (err error) {
		for _, binding := range saved {
			err = errors.Join(err, l.Stack.Client.Create(ctx, binding))
		}
		return err
	}, nil
}
