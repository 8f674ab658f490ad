package api

import "errors"

// Refused tells what Identify's error says about the caller's credential: the
// status and the words for the caller. False means that err is nil or no
// verdict on the caller.
func Refused(err error) (status int, message string, ok bool) {
	var p *problem
	if !errors.As(err, &p) {
		return 0, "", false
	}
	return p.status, p.message, true
}
