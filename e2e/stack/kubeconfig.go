package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenLifetime is the lifetime of the tokens in seconds. It is longer than any test run.
const tokenLifetime = int64(24 * 3600)

// UserKubeconfig writes a kubeconfig with a client certificate for a user and its groups, and returns its path.
func (s *Stack) UserKubeconfig(user string, groups ...string) (string, error) {
	cert, key, err := s.CA.Issue(Identity{User: user, Groups: groups})
	if err != nil {
		return "", err
	}
	return s.writeKubeconfig(user, &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of an existing ServiceAccount, and returns its path. It requests the token as a
// kubelet does (TokenRequest). The kubeconfig's default namespace is the ServiceAccount's namespace.
func (s *Stack) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	lifetime := tokenLifetime
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := s.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return s.writeKubeconfig("system:serviceaccount:"+namespace+":"+name, &clientcmdapi.AuthInfo{Token: request.Status.Token})
}

func (s *Stack) writeKubeconfig(user string, auth *clientcmdapi.AuthInfo) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: s.server, CertificateAuthorityData: s.CA.PEM}
	config.AuthInfos[user] = auth
	at := &clientcmdapi.Context{Cluster: "e2e", AuthInfo: user}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		at.Namespace, _, _ = strings.Cut(account, ":")
	}
	config.Contexts["e2e"] = at
	config.CurrentContext = "e2e"
	path := filepath.Join(s.Dir, "kubeconfigs", strings.NewReplacer(":", "-", "/", "-").Replace(user))
	return path, clientcmd.WriteToFile(*config, path)
}

// ensure creates an object unless it exists.
func (s *Stack) ensure(ctx context.Context, object client.Object) error {
	return client.IgnoreAlreadyExists(s.Client.Create(ctx, object))
}
