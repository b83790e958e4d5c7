// Package store loads policies, the PlatformConfig and price books from files, from ConfigMaps of teams and from annotations of objects,
// and keeps the last valid version of each document.
//
// Store.Load reads all files again, Store.SetConfigMap a ConfigMap of a team, and Store.SetObject the annotations of one object. A document
// without problems is put in force. A document with problems is refused, and its last valid version stays in force; if it has none, its
// workload has no policy. All documents in force are one immutable snapshot, which the engine reads without a lock; Store.Publish replaces
// it after changes of ConfigMaps and objects. Validate checks files without a Store, for `gpuscaler validate`.
package store
