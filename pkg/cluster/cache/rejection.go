package cache

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// maxForeignText is the maximum length of a text from an admission webhook or a tenant, in bytes before escaping.
const maxForeignText = 400

// shortened returns at most maxForeignText bytes of a text, followed by "..." if the text is longer, and escapes characters that cannot be
// displayed.
func shortened(text string) string {
	if len(text) > maxForeignText {
		text = strings.ToValidUTF8(text[:maxForeignText], "") + "..."
	}
	return printable.Clean(text)
}

// Kinds of admission checks that reject pods. "admission" is for every check other than quotas and LimitRanges.
const (
	rejectedByQuota      = "ResourceQuota"
	rejectedByLimitRange = "LimitRange"
	rejectedByAdmission  = "admission"
)

// deploymentRejection returns why the API server rejects new pods of a Deployment.
func deploymentRejection(d *appsv1.Deployment) engine.Rejection {
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return parseRejection(c.Message)
		}
	}
	return engine.Rejection{}
}

// objectRejection returns why the API server rejects new pods of an object that is not a Deployment. It reads the condition
// ReplicaFailure, which a ReplicaSet or a Rollout has in its status.
func objectRejection(u *unstructured.Unstructured) engine.Rejection {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		c, ok := item.(map[string]any)
		if !ok || c["type"] != string(appsv1.DeploymentReplicaFailure) || c["status"] != string(corev1.ConditionTrue) {
			continue
		}
		message, _ := c["message"].(string)
		return parseRejection(message)
	}
	return engine.Rejection{}
}

// parseRejection returns the admission check that rejected a pod, from the message of the condition ReplicaFailure:
//
//	pods "chat-5d8f-x2x4z" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: ..., limited: ...
//	pods "chat-5d8f-x2x4z" is forbidden: maximum cpu usage per Container is 2, but limit is 4
//	admission webhook "pods.example.com" denied the request: ...
//
// It returns the zero value for every other message, such as a timeout, because the next attempt can succeed. The returned text omits the
// pod's name, which is different in each attempt.
func parseRejection(message string) engine.Rejection {
	_, text, forbidden := strings.Cut(message, " is forbidden: ")
	if !forbidden {
		if !strings.HasPrefix(message, "admission webhook ") || !strings.Contains(message, " denied the request") {
			return engine.Rejection{}
		}
		text = message
	}
	r := engine.Rejection{Kind: rejectedByAdmission, Text: shortened(text)}
	for _, quota := range []string{"exceeded quota: ", "failed quota: "} {
		if rest, found := strings.CutPrefix(text, quota); found {
			r.Kind = rejectedByQuota
			r.Name = shortened(rest[:strings.IndexAny(rest+",", ",: ")])
		}
	}
	switch {
	case strings.HasPrefix(text, "insufficient quota to match these scopes"): // no quota permits pods of this PriorityClass
		r.Kind = rejectedByQuota
	case isLimitRangeText(text):
		r.Kind = rejectedByLimitRange
	}
	return r
}

// parseFailedCreate returns the admission check that rejected a pod, from the message of an Event of the StatefulSet controller:
//
//	create Pod chat-3 in StatefulSet chat failed error: pods "chat-3" is forbidden: exceeded quota: gpus, requested: ...
func parseFailedCreate(message string) engine.Rejection {
	if _, text, found := strings.Cut(message, " failed error: "); found {
		return parseRejection(text)
	}
	return engine.Rejection{}
}

// isLimitRangeText reports whether a message is from the LimitRanger admission plugin: "maximum cpu usage per Container is 2, ...",
// "minimum memory usage per Pod is 1Gi, ...", "cpu max limit to request ratio per Container is 2, ...", or a list of these in brackets.
// The message does not contain the name of the LimitRange.
func isLimitRangeText(text string) bool {
	text = strings.TrimPrefix(text, "[")
	if !strings.Contains(text, " per Container is ") && !strings.Contains(text, " per Pod is ") {
		return false
	}
	ratio := strings.Contains(text, " max limit to request ratio ")
	return ratio || strings.HasPrefix(text, "maximum ") || strings.HasPrefix(text, "minimum ")
}
