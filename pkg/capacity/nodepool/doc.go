// Package nodepool describes the fields of a NodePool that gpuscaler may override: the path of each field, the format of its values, the
// consent that its owner must give, and what the API server shows of it.
package nodepool
