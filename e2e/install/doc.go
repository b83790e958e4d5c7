// Package install tests the Helm chart as users install it. Helm installs the chart in each of its modes on a real API server, in
// namespaces that enforce the Pod Security level restricted. The tests check that:
//   - gpuscaler's pods run without privileges and with a read-only root file system
//   - the admission policies allow exactly the intended writes
//   - no object is left after an uninstallation
package install
