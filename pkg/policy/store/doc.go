// Package store loads policies, the PlatformConfig and price books from files, from ConfigMaps of teams and from annotations of objects. It
// keeps the last valid version of each document.
//
// Store.Load reads all files again, Store.SetConfigMap reads a ConfigMap of a team, and Store.SetObject reads the annotations of one
// object. A document with problems is refused, and its last valid version stays in force. If it has no valid version, its workload has no
// policy. All documents in force form one immutable snapshot, which the engine reads without a lock. After changes of ConfigMaps and
// objects, Store.Publish replaces the snapshot. For `gpuscaler validate`, the function Validate checks files without a Store.
//
// # Terms
//
//   - document: one YAML document of a file or ConfigMap, such as a ScalingPolicy or the PlatformConfig
//   - object: a ScaledObject or an HPA whose annotations define a policy
//   - in force: the engine uses this version of a document for its decisions
//   - hold: all policies have mode hold, because the PlatformConfig sets mode: hold or cannot be read
//   - version: the first digits of the hash of a document's text, such as 3f1c
package store
