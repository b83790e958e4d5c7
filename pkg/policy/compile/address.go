package compile

import (
	"errors"
	"net"
	"net/url"
	"path"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
)

// mountedPath rejects a path that is not absolute. A relative path would depend on the working directory of the process.
func (c *platformCompiler) mountedPath(file string, p *decode.Path) {
	if file != "" && (!path.IsAbs(file) || path.Clean(file) != file) {
		c.Reject(p, "is not the path of a mounted file", "an absolute path such as /etc/gpuscaler/secrets/redis/password")
	}
}

func checkURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Hostname() == "":
		return errors.New("is not an http or https URL")
	case u.User != nil:
		return errors.New("contains credentials: use http.basic_auth with a password_file")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return errors.New("contains more than a host and a path")
	}
	return nil
}

func checkHostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || strings.Trim(port, "0123456789") != "" || len(port) > 5 {
		return errors.New("is not host:port")
	}
	return nil
}
