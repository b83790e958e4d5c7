// Package reproducible has random numbers and arithmetic whose results are the same on every machine, so that a seed gives the same traffic
// and the same simulation everywhere.
//
// Random numbers are from PCG-DXSM of math/rand/v2, whose sequence is part of Go's compatibility promise. Logarithm and exponential are
// implemented here, because the functions of package math use assembly or fused multiply-add on some architectures, so that their last bit
// differs between machines.
package reproducible
