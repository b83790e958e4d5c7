// Package store loads policies, the PlatformConfig and price books from files, from ConfigMaps of teams and from annotations of objects. It
// keeps the last valid version of each document.
//
// Store.Load reads all files again, Store.SetConfigMap reads a ConfigMap of a team, and Store.SetObject reads the annotations of one
// object. A document without problems is put in force: the engine uses it for its decisions. A document with problems is refused, and its
// last valid version stays in force. If it has no valid version, its workload has no policy. All documents in force form one immutable
// snapshot, which the engine reads without a lock. After changes of ConfigMaps and objects, Store.Publish replaces the snapshot. For
// `gpuscaler validate`, the function Validate checks files without a Store.
package store
