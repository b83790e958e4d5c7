package apiserver

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is a write of a stored object: a server-side apply, a JSON patch or a replacement. ../agreement sends the same requests to
// kube-apiserver.
type Request struct {
	Apply   *unstructured.Unstructured // the body of a server-side apply; nil if the request is not an apply
	Patch   []byte                     // a JSON patch; nil if the request is not a patch
	Replace *unstructured.Unstructured // the body of an update; nil if the request is not an update
	Manager string
	Force   bool // the force option of a server-side apply
}

var (
	errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	errUID      = errors.New("the UID in the precondition differs from the UID of the object")
)

// Resource returns the group and the resource of a kind of object, for errors.
func Resource(kind schema.GroupVersionKind) schema.GroupResource {
	return schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind) + "s"}
}

// Result returns the object that the request stores instead of live, or the error that the API server returns. The object live must
// exist.
func (r *Request) Result(m *FieldManagers, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	conflict := func(err error) error {
		return apierrors.NewConflict(Resource(live.GroupVersionKind()), live.GetName(), err)
	}
	switch {
	case r.Apply != nil:
		if version := r.Apply.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
			return nil, conflict(errModified)
		}
		if uid := r.Apply.GetUID(); uid != "" && uid != live.GetUID() {
			return nil, conflict(errUID)
		}
		return m.Apply(live, r.Apply, r.Manager, r.Force)
	case r.Patch != nil:
		next, err := Patch(live, r.Patch)
		if err != nil { // an operation failed; the API server reports this even if the object was also modified
			return nil, apierrors.NewInvalid(live.GroupVersionKind().GroupKind(), live.GetName(), nil)
		}
		return r.replace(m, live, next, conflict)
	}
	return r.replace(m, live, r.Replace, conflict)
}

func (r *Request) replace(m *FieldManagers, live, next *unstructured.Unstructured, conflict func(error) error) (*unstructured.Unstructured,
	error) {
	if next.GetResourceVersion() != live.GetResourceVersion() {
		return nil, conflict(errModified)
	}
	return m.Update(live, next, r.Manager), nil
}

// Missing returns the error of the request if the object does not exist. A patch or an update fails with "not found". A server-side apply
// would create the object: an apply with a UID fails with a conflict, and an apply without a UID is invalid, because gpuscaler's applies
// lack required fields.
func (r *Request) Missing(kind schema.GroupVersionKind, name string) error {
	switch {
	case r.Apply == nil:
		return apierrors.NewNotFound(Resource(kind), name)
	case r.Apply.GetUID() != "":
		return apierrors.NewConflict(Resource(kind), name, errUID)
	}
	return apierrors.NewInvalid(kind.GroupKind(), name, nil)
}

// Client sends requests for the objects of one cluster-scoped kind. It has the methods of dynamic.ResourceInterface that gpuscaler and the
// stories of ../agreement need.
type Client struct {
	Server *Server
	Kind   schema.GroupVersionKind
}

// Create stores a new object. It returns an AlreadyExists error if an object with the same name exists.
func (c *Client) Create(u *unstructured.Unstructured, o metav1.CreateOptions) (*unstructured.Unstructured, error) {
	if c.Server.Get(c.Kind.Kind, u.GetName()) != nil {
		return nil, apierrors.NewAlreadyExists(Resource(c.Kind), u.GetName())
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(c.Kind)
	created := c.Server.Managed.Update(empty, u.DeepCopy(), o.FieldManager)
	c.Server.Put(c.Kind.Kind, created)
	return created.DeepCopy(), nil
}

// Get returns the object with the given name, or a NotFound error.
func (c *Client) Get(name string) (*unstructured.Unstructured, error) {
	live, is := c.Server.Get(c.Kind.Kind, name).(*unstructured.Unstructured)
	if !is {
		return nil, apierrors.NewNotFound(Resource(c.Kind), name)
	}
	return live.DeepCopy(), nil
}

// Send executes a request for the object with the given name. It returns the stored object, or the error of the API server.
func (c *Client) Send(name string, r *Request) (*unstructured.Unstructured, error) {
	live, err := c.Get(name)
	if err != nil {
		return nil, r.Missing(c.Kind, name)
	}
	next, err := r.Result(c.Server.Managed, live)
	if err != nil {
		return nil, err
	}
	return c.Server.Store(c.Kind.Kind, live, next).DeepCopy(), nil
}

// Delete deletes the object with the given name. It returns a NotFound error if the object does not exist.
func (c *Client) Delete(name string) error {
	if _, err := c.Get(name); err != nil {
		return err
	}
	c.Server.Remove(c.Kind.Kind, name)
	return nil
}
