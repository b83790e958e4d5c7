package scaling

// ReasonsOf returns the list of reasons that All gave; those beyond MaxReasons are left out.
func ReasonsOf(list []Reason) (r Reasons) {
	r.n = uint8(copy(r.list[:], list))
	return r
}
