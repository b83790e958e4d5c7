// Package install tests the Helm chart as users install it: Helm installs each mode on a real API server whose namespaces enforce Pod
// Security restricted; gpuscaler's pods run without privileges on a read-only root; the admission policies allow exactly the intended
// writes; and an uninstallation leaves nothing behind.
package install
