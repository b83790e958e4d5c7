package engine

// Rejection is the reason why the API server creates no further pods of a scale target. The zero value means that pods are not rejected.
type Rejection struct {
	Kind string `json:"kind"`           // "ResourceQuota", "LimitRange", or "admission" for every other admission check
	Name string `json:"name,omitempty"` // name of the ResourceQuota; the API server does not return the name of a LimitRange
	Text string `json:"text"`           // error text of the API server
}

// By returns the object that rejects the pods, such as "ResourceQuota gpus".
func (r Rejection) By() string {
	if r.Kind == "LimitRange" {
		return "a LimitRange"
	}
	if r.Name == "" {
		return r.Kind
	}
	return r.Kind + " " + r.Name
}

// NextStep returns what the user should do, with the command that shows the object that rejects the pods.
func (r Rejection) NextStep(namespace string) string {
	kubectl := "kubectl -n " + namespace
	switch {
	case r.Kind == "ResourceQuota" && r.Name != "":
		return "raise the quota or lower maxReplicas: " + kubectl + " describe resourcequota " + r.Name
	case r.Kind == "ResourceQuota":
		return "raise the quota or lower maxReplicas: " + kubectl + " describe resourcequota"
	case r.Kind == "LimitRange":
		return "change the pod template or the LimitRange: " + kubectl + " describe limitrange"
	}
	return "change the pod template or the admission policy: " + kubectl + " get events --field-selector reason=FailedCreate"
}
