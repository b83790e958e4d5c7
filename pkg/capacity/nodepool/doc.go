// Package nodepool describes the fields of a NodePool that gpuscaler may override: the path of each field, the format of its values, the
// consent that the owner of the NodePool must give, and the observed state of the field.
package nodepool
