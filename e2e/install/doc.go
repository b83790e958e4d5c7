// Package install shows the Helm chart as people use it: Helm itself installs
// each mode on a real API server whose namespaces enforce Pod Security
// restricted; gpuscaler's own pods run from it as a user without rights on a
// read-only root; its admission policies let in what they should and nothing
// else; an uninstall leaves nothing behind.
package install
